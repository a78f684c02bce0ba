"""From a model's name to a backbone, for built-in sources and for plug-ins alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from unseen.backbones.names import ModelName
from unseen.core.errors import BackboneError, UnknownNameError
from unseen.core.names import from_path
from unseen.core.records import ModelCard, Preprocessing
from unseen.core.registry import Registry

if TYPE_CHECKING:
    from torch import nn

    from unseen.backbones.backbone import Backbone


@runtime_checkable
class BackboneSource(Protocol):
    """Loads every model of one scheme."""

    def cards(self) -> Iterator[ModelCard]:
        """What it can load, as far as that can be listed."""

    def load(self, name: ModelName) -> Backbone:
        """Build the model."""

    def revision(self, name: ModelName) -> str:
        """A cheap word that changes whenever the weights behind the name may have changed."""


#: scheme -> source class, or a plug-in's function that returns a Backbone or a torch module.
BACKBONES: Registry[Any] = Registry("model source", "unseen.backbones")
BACKBONES.add("packaged", "unseen.backbones.sources.packaged:PackagedSource")
BACKBONES.add("timm", "unseen.backbones.sources.timm:TimmSource")
BACKBONES.add("random", "unseen.backbones.sources.timm:RandomSource")
BACKBONES.add("torchvision", "unseen.backbones.sources.torchvision:TorchvisionSource")
BACKBONES.add("file", "unseen.backbones.sources.file:FileSource")
BACKBONES.add("cog", "unseen.backbones.sources.cog:CogSource")
BACKBONES.add("xlsa17", "unseen.backbones.sources.xlsa17:Xlsa17Source")

#: Sources whose cards are listed without being asked for: the others hold thousands, or need a path.
LISTED_BY_DEFAULT = ("packaged", "random", "cog")


def register_backbone(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a model, or as a family of models.

    The function returns a `torch.nn.Module` (the linear layer that ends it is taken for its class head, and images
    reach it by ImageNet's usual preprocessing) or a `Backbone`. With no argument it is the model `name`; with one it
    is the family `name:VARIANT`. An installed package does the same with an entry point in the group
    `unseen.backbones`.
    """
    return BACKBONES.register(name)


def load_backbone(name: str) -> Backbone:
    """Build the model that `name` stands for, in evaluation mode, on the CPU."""
    parsed = ModelName.parse(name)
    source = _source(parsed)
    if isinstance(source, BackboneSource):
        return source.load(parsed)
    return _from_function(source, parsed)


def resolve_model(name: str, base: Path) -> str:
    """The name with its paths absolute; a plain path is a checkpoint's. Relative ones are taken from `base`."""
    parsed = ModelName.parse(from_path(name, "file", BACKBONES.__contains__, base))
    if parsed.scheme not in BACKBONES:
        return name
    return str(parsed.resolved(base, getattr(_source(parsed), "paths", ())))


def check_backbone(name: str) -> None:
    """Raise what `load_backbone` would raise for a wrong name, as far as that is known without loading weights."""
    parsed = ModelName.parse(name)
    check = getattr(_source(parsed), "check", None)
    if check is not None:
        check(parsed)


def backbone_revision(name: str) -> str:
    """A word that changes whenever the weights behind `name` may have changed. Loads no model."""
    parsed = ModelName.parse(name)
    source = _source(parsed)
    return source.revision(parsed) if isinstance(source, BackboneSource) else _function_revision(source)


def model_cards(source: str | None = None) -> Iterator[ModelCard]:
    """Cards of the listed sources, or of one source whole."""
    if source is not None:
        yield from _cards(source)
        return
    for scheme in BACKBONES:
        if scheme in LISTED_BY_DEFAULT or not _is_builtin(scheme):
            yield from _cards(scheme)


def _cards(scheme: str) -> Iterator[ModelCard]:
    source = BACKBONES.get(scheme)
    instance = source() if isinstance(source, type) else source
    if isinstance(instance, BackboneSource):
        yield from instance.cards()
    else:
        yield ModelCard(
            id=scheme, name=scheme, group="plug-in", notes=(inspect.getdoc(source) or "").partition("\n")[0]
        )


def _is_builtin(scheme: str) -> bool:
    target = BACKBONES.get(scheme)
    return getattr(target, "__module__", "").startswith("unseen.")


def _source(name: ModelName) -> Any:
    if name.scheme not in BACKBONES:
        known = [card.id for card in model_cards()] + [f"{scheme}:{name.rest}" for scheme in BACKBONES]
        text = f"{name.scheme}:{name.rest}" if name.rest else name.scheme
        raise UnknownNameError("model", text, known, hint=f"Sources: {', '.join(BACKBONES)}.")
    source = BACKBONES.get(name.scheme)
    return source() if isinstance(source, type) else source


def _from_function(function: Callable[..., Any], name: ModelName) -> Backbone:
    from torch import nn

    from unseen.backbones.backbone import Backbone

    name.check_options()
    arguments = [name.rest] if name.rest else []
    built = function(*arguments)
    if isinstance(built, Backbone):
        return built
    if isinstance(built, nn.Module):
        return wrap_module(str(name), built, preprocessing=name.adjust(Preprocessing(resize=256)))
    raise BackboneError(
        f"the function behind {name.scheme!r} returned {type(built).__name__}; a Module or Backbone is needed"
    )


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


def _function_revision(function: Callable[..., Any]) -> str:
    from unseen.core.identity import digest

    try:
        return digest(inspect.getsource(function))
    except (OSError, TypeError):
        return f"{function.__module__}:{function.__qualname__}"
