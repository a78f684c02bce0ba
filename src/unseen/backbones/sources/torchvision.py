"""`torchvision:NAME?weights=IMAGENET1K_V1`: any classification model of torchvision, through torch's own cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from unseen.backbones.backbone import Backbone
from unseen.backbones.forwards import output_forward
from unseen.backbones.load import BackboneSource, ModelName, wrap_module
from unseen.core.errors import BackboneError, UnknownNameError
from unseen.core.extras import ensure_torchvision
from unseen.core.guard import guarded
from unseen.core.records import ModelCard, Preprocessing

if TYPE_CHECKING:
    from torch import nn


class TorchvisionSource(BackboneSource):
    """Classification models of the torchvision package."""

    pattern, hint, listed = "torchvision:NAME", "any classifier of torchvision (--source torchvision lists them)", False

    def cards(self) -> Iterator[ModelCard]:
        for name in _names():
            yield _card(name, f"torchvision:{name}")

    def load(self, name: ModelName) -> Backbone:
        self.check(name)
        weights = name.options.get("weights", "DEFAULT")
        built = torchvision_backbone(create_torchvision(name.rest, weights=weights), name)
        assert built.loaded is not None
        file = str(_published(name.rest, weights).url).rpartition("/")[2]
        return replace(built, loaded=replace(built.loaded, file=file, matched=len(built.module.state_dict())))

    def build(self, name: ModelName, classes: int | None = None) -> Backbone:
        arguments: dict[str, Any] = {"num_classes": classes} if classes else {}
        built = torchvision_backbone(create_torchvision(name.rest, **arguments), name)
        return without_classifier(built) if classes == 0 else built

    def check(self, name: ModelName) -> None:
        name.check_options("weights")
        check_torchvision(name.rest)

    def revision(self, name: ModelName) -> str:
        return f"torchvision {version('torchvision')}"


def check_torchvision(name: str) -> None:
    """Refuse an architecture that torchvision does not have."""
    names = _names()
    if name not in names:
        raise UnknownNameError("torchvision model", name, names)


def create_torchvision(name: str, *, weights: str | None = None, **arguments: object) -> nn.Module:
    """Call `torchvision.models.get_model` and raise errors of this package."""
    check_torchvision(name)
    import torch
    from torchvision import models

    if name in ("googlenet", "inception_v3") and weights is None:
        arguments = {"init_weights": True, **arguments}
    folder = f"{torch.hub.get_dir()}/checkpoints"
    advice = f"Without weights ({folder} or network), use random:torchvision:{name}, or a file with ?arch=."
    with guarded(f"torchvision:{name}", "a model", error=BackboneError, advice=advice):
        chosen = None if weights is None else _published(name, weights)
        model: nn.Module = models.get_model(name, weights=chosen, **arguments)
    return model.eval()


def torchvision_backbone(model: nn.Module, name: ModelName) -> Backbone:
    """Wrap a torchvision model: features are the input of its classifier."""
    architecture = name.rest.rpartition(":")[2]
    preprocessing = name.adjust(_preprocessing(architecture, name.options.get("weights", "DEFAULT")))
    wrapped = wrap_module(str(name), model, preprocessing=preprocessing)
    assert wrapped.loaded is not None
    return replace(
        wrapped,
        card=_card(architecture, str(name)),
        prefix_tokens=1 if architecture.startswith("vit_") else 0,
        loaded=replace(wrapped.loaded, architecture=architecture),
    )


def _card(architecture: str, name: str) -> ModelCard:
    return ModelCard(id=name, name=architecture, group="torchvision", architecture=architecture, source="torchvision")


def without_classifier(backbone: Backbone) -> Backbone:
    """Replace the last linear layer by the identity, so that the output is the features."""
    from torch import nn

    linear = [name for name, module in backbone.module.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        return backbone
    backbone.module.set_submodule(linear[-1], nn.Identity())
    return replace(backbone, forward=output_forward)  # the same features, so that the record stays true


def _preprocessing(architecture: str, weights: str) -> Preprocessing:
    """Return the evaluation transform that the weights were published with."""
    transform = _published(architecture, weights).transforms()
    return Preprocessing(
        size=int(transform.crop_size[0]),
        resize=int(transform.resize_size[0]),
        interpolation=transform.interpolation.value,
        mean=tuple(transform.mean),
        std=tuple(transform.std),
    )


def _published(architecture: str, weights: str) -> Any:
    """Return torchvision's entry for published weights."""
    from torchvision import models

    published = models.get_model_weights(architecture)
    known = [*(entry.name for entry in published), "DEFAULT"]
    if weights not in known:
        raise UnknownNameError(f"weights of torchvision:{architecture}", weights, known)
    return published[weights]


def _names() -> list[str]:
    ensure_torchvision()
    from torchvision import models

    return sorted(models.list_models(module=models))
