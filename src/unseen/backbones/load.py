"""Load a backbone by its name, from built-in sources and plug-ins.

A source is one file with a `BackboneSource`, and one line below; an installed package adds its own in the entry point
group `unseen.backbones`. A function that returns a module or a `Backbone` is a source too.
"""

from __future__ import annotations

import inspect
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from unseen.backbones.backbone import FEATURES, Backbone
from unseen.backbones.backbone import LOGITS as LOGITS
from unseen.backbones.backbone import POOLED as POOLED
from unseen.backbones.backbone import RuntimeName as RuntimeName
from unseen.backbones.forwards import classifier_forward, find_classifier, output_forward
from unseen.backbones.model_files import folder_digest
from unseen.core.errors import BackboneError, CheckpointError, UnknownNameError, UsageError
from unseen.core.identity import digest
from unseen.core.names import Name
from unseen.core.records import ModelCard, Preprocessing
from unseen.core.registry import Catalogue, ObjectRegistry, Source, load_object
from unseen.core.run_record import LoadedModel

if TYPE_CHECKING:
    from torch import Tensor, nn

#: Source of the architectures of `random:` and `file:` that are named without a scheme.
DEFAULT_ARCHITECTURES = "timm"


class BackboneSource(Source[ModelCard]):
    """All models of one scheme."""

    @abstractmethod
    def load(self, name: ModelName) -> Backbone:
        """Build the model, in evaluation mode, on the CPU; its card's id is the requested name."""

    @abstractmethod
    def revision(self, name: ModelName) -> str:
        """Return a short text that changes whenever the weights behind the name may have changed."""

    def check(self, name: ModelName) -> None:
        """Raise the errors of `load` for a wrong name, as far as they are known without loading weights."""

    def repository(self, name: ModelName) -> str:
        """Return the repository of the Hugging Face hub whose weights `load` downloads; "" if there is none."""
        return ""

    def build(self, name: ModelName, classes: int | None = None) -> Backbone:
        """Build the architecture without its weights, for `random:` and `file:`.

        Args:
            name: of the architecture, with options of the preprocessing only.
            classes: of the class head; 0 leaves it out, None is as published. Initial weights are drawn from torch's
                global generator, which the caller seeds.
        """
        raise NotImplementedError

    @property
    def builds(self) -> bool:
        """Return whether the source has architectures without weights."""
        return type(self).build is not BackboneSource.build


def _scheme_of_path(head: str, base: Path) -> str:
    """Return the scheme of a plain path, by its suffix or by the files in the folder."""
    path = base / Path(head).expanduser()
    if (path / "open_clip_config.json").is_file():
        return "open_clip"
    if (path / "config.json").is_file():
        return "transformers"
    return "onnx" if path.suffix.lower() == ".onnx" else "file"


BACKBONES: Catalogue[BackboneSource, ModelCard] = Catalogue(
    "model",
    "unseen.backbones",
    base=BackboneSource,
    adapt=lambda scheme, function: _FunctionSource(scheme, function),
    card=ModelCard,
    scheme_of_path=_scheme_of_path,
)
for _scheme, _target in {
    "packaged": "sources.packaged:PackagedSource",
    "timm": "sources.timm:TimmSource",
    "random": "load:RandomSource",
    "torchvision": "sources.torchvision:TorchvisionSource",
    "file": "sources.file:FileSource",
    "onnx": "sources.onnx:OnnxSource",
    "hf": "sources.hf:HfSource",
    "transformers": "sources.hf:TransformersSource",
    "open_clip": "sources.open_clip:OpenClipSource",
    "torchhub": "sources.torchhub:TorchHubSource",
    "object": "load:ObjectSource",
    "cog": "sources.cog:CogSource",
    "xlsa17": "sources.xlsa17:PublishedSource",
    "features": "sources.xlsa17:GivenSource",
}.items():
    BACKBONES.add(_scheme, f"unseen.backbones.{_target}")


def register_backbone(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a model, or as a family of models.

    The function returns a `torch.nn.Module` (the linear layer that ends it is taken for its class head, and images
    reach it by ImageNet's usual preprocessing) or a `Backbone`. With no argument it is the model `name`; with one it
    is the family `name:VARIANT`. An installed package does the same with an entry point in the group
    `unseen.backbones`.
    """
    return BACKBONES.register(name)


def load_backbone(name: str | Path) -> Backbone:
    """Build the model of a name or a plain path, in evaluation mode, on the CPU.

    Weights that are random, such as those that a partial checkpoint does not fill, are the same every time; torch's
    global generator is not changed.
    """
    source, parsed = _find(name)
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return source.load(parsed)


def build_backbone(text: str, name: ModelName, classes: int | None = None) -> Backbone:
    """Build the architecture `text`, "scheme:NAME" or a timm name, with random weights.

    Args:
        name: the model that it is for, whose options of the preprocessing it takes.
        classes: of the class head; 0 leaves it out, None is as published.
    """
    source, wanted = architecture(text, name)
    return source.build(wanted, classes)


def architecture(text: str, name: ModelName) -> tuple[BackboneSource, ModelName]:
    """Return the source and the name of the architecture `text` for the model `name`."""
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


def _find(name: str | Path) -> tuple[BackboneSource, ModelName]:
    """Return the source and the parts of a name; "dino.pth" becomes the name that the command line makes of it."""
    text = str(name)
    plain = isinstance(name, str | Path) and BACKBONES.add_scheme(text) != text
    parsed = ModelName.parse(resolve_model(text, Path()) if plain else name)
    return _source(parsed), parsed


def resolve_model(name: str, base: Path) -> str:
    """Return a model name with absolute paths; a plain path is a checkpoint. Relative paths start at `base`."""
    return BACKBONES.resolve(name, base)


def expand_models(text: str) -> list[str]:
    """Return the models that match a pattern such as `timm:*dino*`; any other name unchanged.

    Raises:
        UsageError: the source cannot list its models, or no model matches.
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
        raise UnknownNameError("pattern of models", text, known, hint=hint)
    return [f"{one}{mark}{query}" for one in found]


def check_backbone(name: str | Path) -> None:
    """Raise the errors of `load_backbone` for a wrong name or file, without loading weights."""
    source, parsed = _find(name)
    source.check(parsed)


def hub_repository(name: str | Path) -> str:
    """Return the repository of the Hugging Face hub whose weights `load_backbone` downloads; "" if there is none."""
    source, parsed = _find(name)
    return source.repository(parsed)


def backbone_revision(name: str | Path) -> str:
    """Return a word that changes whenever the weights or the code behind `name` may have changed. Loads no model."""
    source, parsed = _find(name)
    return source.revision(parsed)


def model_cards(source: str | None = None) -> Iterator[ModelCard]:
    """Yield the cards of the listed sources and patterns of names that are not listed, or all cards of one source."""
    return BACKBONES.cards(source)


def _source(name: ModelName) -> BackboneSource:
    if name.scheme not in BACKBONES:
        text = f"{name.scheme}:{name.rest}" if name.rest else name.scheme
        listed = [card.id for card in model_cards() if card.group != "pattern"]
        known = [*listed, *(f"{scheme}:{name.rest}" for scheme in BACKBONES)]
        known += [
            f"{DEFAULT_ARCHITECTURES}:{each}" for each in load_object("unseen.backbones.sources.timm:architectures")()
        ]
        hint = f"Sources: {', '.join(BACKBONES)}."
        raise UnknownNameError("model", text, known, hint=hint)
    return BACKBONES.get(name.scheme)


class RandomSource(BackboneSource):
    """Any architecture that a source builds, with random weights."""

    pattern, hint = "random:ARCH", "any architecture of timm, or random:torchvision:NAME, with random weights"

    def cards(self) -> Iterator[ModelCard]:
        yield ModelCard(
            id="random:tf_efficientnet_lite0",
            name="EfficientNet-Lite0, random weights",
            group="reference",
            architecture="tf_efficientnet_lite0",
            notes="from-scratch reference",
        )

    def check(self, name: ModelName) -> None:
        _seed(name)
        architecture(name.rest, name)

    def load(self, name: ModelName) -> Backbone:
        import torch

        source, wanted = architecture(name.rest, name)
        torch.manual_seed(_seed(name))  # of the generator that `load_backbone` restores
        built = source.build(wanted)
        listed = {card.id: card.name for card in self.cards()}  # one name, listed or loaded
        label = listed.get(str(name), f"{wanted.rest}, random weights")
        card = replace(built.card, id=str(name), name=label, group="reference")
        return replace(built, card=card)

    def revision(self, name: ModelName) -> str:
        source, wanted = architecture(name.rest, name)
        # The release of torch draws the weights; its build ("+cpu") does not change them.
        return f"{source.revision(wanted)} torch {version('torch').partition('+')[0]}"


def _seed(name: ModelName) -> int:
    name.check_options("seed")
    text = name.options.get("seed", "0")
    if not text.isdecimal():
        raise UsageError(f"{name}: seed={text} is not a whole number.")
    return int(text)


#: Models of this process, by id.
OBJECTS: ObjectRegistry[Backbone] = ObjectRegistry("model object")


class ObjectSource(BackboneSource):
    """Models that are registered in this process."""

    listed = False

    def cards(self) -> Iterator[ModelCard]:
        return iter([backbone.card for backbone in OBJECTS.objects.values()])

    def load(self, name: ModelName) -> Backbone:
        return OBJECTS.get(str(name))

    def check(self, name: ModelName) -> None:
        self.load(name)

    def revision(self, name: ModelName) -> str:
        return self.load(name).weights


class _FunctionSource(BackboneSource):
    """A function that returns a module or a backbone: one model, or a family of them."""

    def __init__(self, scheme: str, function: Callable[..., object]) -> None:
        self.scheme, self.function = scheme, function

    def cards(self) -> Iterator[ModelCard]:
        yield BACKBONES.function_card(self.scheme, self.function)

    def load(self, name: ModelName) -> Backbone:
        from torch import nn

        name.check_options()
        built = self.function(*([name.rest] if name.rest else []))
        if isinstance(built, nn.Module):
            built = wrap_module(str(name), built, preprocessing=name.adjust(Preprocessing(resize=256)))
        if not isinstance(built, Backbone):
            raise BackboneError(
                f"the function behind {name.scheme!r} returned {type(built).__name__}; a Module or Backbone is needed"
            )
        code_digest = load_object("unseen.backbones.objects:code_digest")  # imports torch
        return replace(built, code=built.code or code_digest(built.module))

    def revision(self, name: ModelName) -> str:
        """Return a digest of the function's code and of the files of the package that defines it."""
        try:
            own = digest(inspect.getsource(self.function))
        except (OSError, TypeError):
            own = f"{self.function.__module__}:{self.function.__qualname__}"
        package = _package_of(self.function)
        return own if package is None else digest([own, folder_digest(package)])


def _package_of(function: Callable[..., object]) -> Path | None:
    """Return the folder of the top-level package that defines a function; None if no package does."""
    name = getattr(function, "__module__", None) or ""
    top = sys.modules.get(name.partition(".")[0])
    file = getattr(top, "__file__", None)
    return Path(file).parent if file and Path(file).name == "__init__.py" else None


def wrap_module(
    name: str, module: nn.Module, *, preprocessing: Preprocessing | None = None, blank: Tensor | None = None
) -> Backbone:
    """Wrap a torch module; its last linear layer is the class head if its output is the module's output.

    Args:
        preprocessing: of its images; ImageNet's usual one by default.
        blank: an input, if it has another shape than the preprocessing gives.
    """
    import torch

    chosen = preprocessing or Preprocessing(resize=256)
    module = module.eval()
    blank = torch.zeros(1, 3, chosen.size, chosen.size) if blank is None else blank
    classifier = find_classifier(module, blank)
    return Backbone(
        card=ModelCard(id=name, name=name, group="plug-in", architecture=type(module).__name__),
        module=module,
        forward=classifier_forward(classifier) if classifier else output_forward,
        preprocessing=chosen,
        loaded=LoadedModel(
            architecture=type(module).__name__, layer=FEATURES if classifier else "the output of the module"
        ),
    )


#: Options that every model takes: they change how images reach it.
PREPROCESSING_OPTIONS = ("size", "resize", "mode", "interpolation")


class ModelName(Name):
    """The parts of a model's name, with options of the preprocessing."""

    def file(self, kind: str, suffixes: str) -> Path:
        """Return the path of a file that the name is of; raise `CheckpointError` if there is none."""
        path = Path(self.rest).expanduser()
        if not path.is_file():
            raise CheckpointError(f"no {kind} at {path}. Give the path of {suffixes} file.")
        return path

    def check_options(self, *allowed: str) -> None:
        """Refuse an option that the source does not know."""
        known = (*allowed, *PREPROCESSING_OPTIONS)
        for option in self.options:
            if option not in known:
                raise UnknownNameError(f"option of {self.scheme}:{self.rest}", option, known)

    def adjust(self, preprocessing: Preprocessing) -> Preprocessing:
        """Return the preprocessing with this name's size, resize, mode and interpolation."""
        changes: dict[str, str | int] = {}
        for option in PREPROCESSING_OPTIONS:
            if (value := self.options.get(option)) is None:
                continue
            if known := get_args(get_type_hints(Preprocessing)[option]):
                if value not in known:
                    raise UnknownNameError(option, value, known)
                changes[option] = value
            elif not value.isdigit() or int(value) == 0:
                raise UsageError(f"option {option}={value} is not a number of pixels")
            else:
                changes[option] = int(value)
        if "size" in changes and "resize" not in changes:
            # Keep the share of the image that the crop shows.
            changes["resize"] = round(preprocessing.resize * int(changes["size"]) / preprocessing.size)
        adjusted = Preprocessing.from_dict({**preprocessing.to_dict(), **changes})
        if adjusted.resize < adjusted.size:
            raise UsageError(f"resize={adjusted.resize} is smaller than the crop, size={adjusted.size}")
        return adjusted
