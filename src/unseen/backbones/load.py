"""From a model's name to a backbone, for built-in sources and for plug-ins alike.

A source is one file with a `BackboneSource`, and one line below; an installed package names its own under the entry
point group `unseen.backbones`. A function that returns a module or a `Backbone` is a source too.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from unseen.backbones.names import PREPROCESSING_OPTIONS, ModelName
from unseen.core.errors import BackboneError, UnknownNameError, UnseenError
from unseen.core.extras import extra_note
from unseen.core.identity import digest
from unseen.core.names import from_path
from unseen.core.records import ModelCard, Preprocessing
from unseen.core.registry import PluginError, Registry

if TYPE_CHECKING:
    from torch import nn

    from unseen.backbones.backbone import Backbone

#: Among a source's `paths`: what follows the scheme is a path where there is something, else a name.
IF_THERE = "?"

#: Whose architectures are meant where `random:` and `file:` are given a name without a scheme.
DEFAULT_ARCHITECTURES = "timm"


class BackboneSource(ABC):
    """All models of one scheme."""

    #: How names that are not listed are written, such as "timm:NAME", and a line on them, for `unseen ls models`.
    pattern: ClassVar[str] = ""
    hint: ClassVar[str] = ""
    #: The extra that it needs, for the same list.
    extra: ClassVar[str] = ""
    #: Whether all its cards are listed without being asked for.
    listed: ClassVar[bool] = True
    #: Parts of a name that are paths: options, and "" for what follows the scheme.
    paths: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def cards(self) -> Iterable[ModelCard]:
        """What it can load, as far as that can be listed."""

    @abstractmethod
    def load(self, name: ModelName) -> Backbone:
        """Build the model, in evaluation mode, on the CPU; its card's id is the name as it was asked for."""

    @abstractmethod
    def revision(self, name: ModelName) -> str:
        """A cheap word that changes whenever the weights behind the name may have changed."""

    def check(self, name: ModelName) -> None:  # noqa: B027 - a source that cannot tell says nothing
        """Raise what `load` would raise for a wrong name, as far as that is known without loading weights."""

    def build(self, name: ModelName, classes: int | None = None) -> Backbone:
        """The architecture without its weights: what `random:` and `file:` fill.

        Args:
            name: of the architecture, with options of the preprocessing only.
            classes: of the class head; 0 leaves it out, None is as published. Initial weights are drawn from torch's
                global generator, which the caller seeds.
        """
        raise NotImplementedError

    @property
    def builds(self) -> bool:
        """Whether it has architectures without weights."""
        return type(self).build is not BackboneSource.build


def _as_source(scheme: str, found: Any) -> BackboneSource:
    """What was registered, as a source: a source, its class, or a function that returns a model."""
    made = found() if isinstance(found, type) and issubclass(found, BackboneSource) else found
    if isinstance(made, BackboneSource):
        return made
    if callable(made) and not hasattr(made, "cards"):
        return _FunctionSource(scheme, made)
    raise TypeError(f"{made!r} is neither a BackboneSource nor a function that returns a model")


BACKBONES: Registry[BackboneSource] = Registry("model source", "unseen.backbones", make=_as_source)
BACKBONES.add("packaged", "unseen.backbones.sources.packaged:PackagedSource")
BACKBONES.add("timm", "unseen.backbones.sources.timm:TimmSource")
BACKBONES.add("random", "unseen.backbones.sources.random:RandomSource")
BACKBONES.add("torchvision", "unseen.backbones.sources.torchvision:TorchvisionSource")
BACKBONES.add("file", "unseen.backbones.sources.file:FileSource")
BACKBONES.add("onnx", "unseen.backbones.sources.onnx:OnnxSource")
BACKBONES.add("hf", "unseen.backbones.sources.hf:HfSource")
BACKBONES.add("transformers", "unseen.backbones.sources.hf:TransformersSource")
BACKBONES.add("open_clip", "unseen.backbones.sources.open_clip:OpenClipSource")
BACKBONES.add("torchhub", "unseen.backbones.sources.torchhub:TorchHubSource")
BACKBONES.add("object", "unseen.backbones.objects:ObjectSource")
BACKBONES.add("cog", "unseen.backbones.sources.cog:CogSource")
BACKBONES.add("xlsa17", "unseen.backbones.sources.xlsa17:Xlsa17Source")


def register_backbone(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a model, or as a family of models.

    The function returns a `torch.nn.Module` (the linear layer that ends it is taken for its class head, and images
    reach it by ImageNet's usual preprocessing) or a `Backbone`. With no argument it is the model `name`; with one it
    is the family `name:VARIANT`. An installed package does the same with an entry point in the group
    `unseen.backbones`.
    """
    return BACKBONES.register(name)


def load_backbone(name: str) -> Backbone:
    """Build the model that `name` stands for, in evaluation mode, on the CPU.

    Weights that are drawn, such as those that a partial checkpoint leaves open, are the same every time; torch's global
    generator is left as it was.
    """
    parsed = ModelName.parse(name)
    source = _source(parsed)
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return source.load(parsed)


def build_backbone(text: str, name: ModelName, classes: int | None = None) -> Backbone:
    """The architecture `text`, "scheme:NAME" or a timm name, with random weights.

    Args:
        name: the model that it is for, whose options of the preprocessing it takes.
        classes: of the class head; 0 leaves it out, None is as published.
    """
    source, wanted = architecture(text, name)
    return source.build(wanted, classes)


def architecture(text: str, name: ModelName) -> tuple[BackboneSource, ModelName]:
    """The source and the name of an architecture that `name` speaks of; an unknown one is refused."""
    scheme, colon, rest = text.partition(":")
    if not colon:
        scheme, rest = DEFAULT_ARCHITECTURES, text
    options = {key: value for key, value in name.options.items() if key in PREPROCESSING_OPTIONS}
    wanted = ModelName(scheme, rest, options)
    source = BACKBONES.get(scheme) if scheme in BACKBONES else None
    if source is None or not source.builds:
        known = [each for each, found in BACKBONES.entries() if isinstance(found, BackboneSource) and found.builds]
        raise UnknownNameError("architecture", text, [f"{each}:{rest}" for each in known], hint=f"For {name}.")
    source.check(wanted)
    return source, wanted


def resolve_model(name: str, base: Path) -> str:
    """The name with its paths absolute; a plain path is a checkpoint's. Relative ones are taken from `base`."""
    parsed = ModelName.parse(from_path(name, _kind_of_path(name, base), BACKBONES.__contains__, base))
    if parsed.scheme not in BACKBONES:
        return name
    paths = _source(parsed).paths
    if IF_THERE in paths and (base / Path(parsed.rest).expanduser()).exists():
        paths = ("", *paths)
    return str(parsed.resolved(base, paths))


def _kind_of_path(name: str, base: Path) -> str:
    """The scheme that a plain path is meant for, by its ending or by what lies in the folder."""
    head = name.partition("?")[0]
    path = base / Path(head).expanduser()
    if (path / "open_clip_config.json").is_file():
        return "open_clip"
    if (path / "config.json").is_file():
        return "transformers"
    return "onnx" if path.suffix.lower() == ".onnx" else "file"


def expand_models(text: str) -> list[str]:
    """The models that a pattern such as `timm:*dino*` stands for; any other name stands for itself.

    Raises:
        UsageError: the source cannot list its models, or none fits.
    """
    scheme, colon, rest = text.partition(":")
    head, mark, query = rest.partition("?")
    if not (colon and "=" in query):  # the question mark of a pattern, not of options
        head, mark, query = rest, "", ""
    if not colon or scheme not in BACKBONES or not any(sign in head for sign in "*["):
        return [text]
    known = [card.id for card in BACKBONES.get(scheme).cards() if card.id.startswith(f"{scheme}:")]
    found = [one for one in known if fnmatchcase(one, f"{scheme}:{head}")]
    if not found:
        hint = f"{scheme} lists {len(known)} models." if known else f"{scheme} cannot list its models: name them."
        raise UnknownNameError("pattern of models", text, [], hint=hint)
    return [f"{one}{mark}{query}" for one in found]


def check_backbone(name: str) -> None:
    """Raise what `load_backbone` would raise for a wrong name, as far as that is known without loading weights."""
    parsed = ModelName.parse(name)
    _source(parsed).check(parsed)


def backbone_revision(name: str) -> str:
    """A word that changes whenever the weights behind `name` may have changed. Loads no model."""
    parsed = ModelName.parse(name)
    return _source(parsed).revision(parsed)


def model_cards(source: str | None = None) -> Iterator[ModelCard]:
    """Cards of the listed sources and patterns of names that are not listed, or all cards of one source.

    A plug-in that cannot be loaded or listed has a card that says so.
    """
    if source is not None:
        yield from BACKBONES.get(source).cards()
        return
    for scheme, found in BACKBONES.entries():
        if isinstance(found, UnseenError):
            yield _broken(scheme, found)
            continue
        try:
            yield from list(found.cards()) if found.listed else ()
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            yield _broken(scheme, PluginError(BACKBONES.kind, scheme, error))
        if found.pattern:
            yield ModelCard(
                id=found.pattern, name=found.hint, group="pattern", source=scheme, notes=extra_note(found.extra)
            )


def _broken(scheme: str, error: UnseenError) -> ModelCard:
    reason = error.reason if isinstance(error, PluginError) else str(error)
    return ModelCard(id=scheme, name=scheme, group="plug-in", notes=reason)


def _source(name: ModelName) -> BackboneSource:
    if name.scheme not in BACKBONES:
        listed = [card.id for card in model_cards() if card.group != "pattern"]
        known = [*listed, *(f"{scheme}:{name.rest}" for scheme in BACKBONES)]
        text = f"{name.scheme}:{name.rest}" if name.rest else name.scheme
        raise UnknownNameError("model", text, known, hint=f"Sources: {', '.join(BACKBONES)}.")
    return BACKBONES.get(name.scheme)


class _FunctionSource(BackboneSource):
    """A function that returns a module or a backbone: one model, or a family of them."""

    def __init__(self, scheme: str, function: Callable[..., Any]) -> None:
        self.scheme, self.function = scheme, function

    def cards(self) -> Iterator[ModelCard]:
        summary = (inspect.getdoc(self.function) or "").partition("\n")[0]
        yield ModelCard(id=self.scheme, name=self.scheme, group="plug-in", notes=summary)

    def load(self, name: ModelName) -> Backbone:
        from torch import nn

        from unseen.backbones.backbone import Backbone

        name.check_options()
        built = self.function(*([name.rest] if name.rest else []))
        if isinstance(built, Backbone):
            return built
        if isinstance(built, nn.Module):
            return wrap_module(str(name), built, preprocessing=name.adjust(Preprocessing(resize=256)))
        raise BackboneError(
            f"the function behind {name.scheme!r} returned {type(built).__name__}; a Module or Backbone is needed"
        )

    def revision(self, name: ModelName) -> str:
        try:
            return digest(inspect.getsource(self.function))
        except (OSError, TypeError):
            return f"{self.function.__module__}:{self.function.__qualname__}"


def wrap_module(name: str, module: nn.Module, *, preprocessing: Preprocessing | None = None) -> Backbone:
    """A torch module as a backbone: its last linear layer is the class head if its output is the module's output."""
    import torch

    from unseen.backbones.backbone import Backbone
    from unseen.backbones.forwards import classifier_forward, find_classifier, output_forward

    chosen = preprocessing or Preprocessing(resize=256)
    module = module.eval()
    classifier = find_classifier(module, torch.zeros(1, 3, chosen.size, chosen.size))
    return Backbone(
        card=ModelCard(id=name, name=name, group="plug-in", architecture=type(module).__name__),
        module=module,
        forward=classifier_forward(classifier) if classifier else output_forward,
        preprocessing=chosen,
    )
