"""Helpers of the model tests: tensors by published name, and the check that every published file must pass."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from unseen.backbones import load_backbone
from unseen.backbones.sources.cog import cog_models

IMAGES = torch.rand(2, 3, 65, 65, generator=torch.Generator().manual_seed(5))


class Store(dict[str, Tensor]):
    """Random tensors by published name, made at first use."""

    def __init__(self) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(7)

    def weight(self, name: str, *shape: int, fan: int | None = None) -> Tensor:
        if name not in self:
            fan = fan or int(np.prod(shape[1:]))
            self[name] = torch.randn(shape, generator=self._generator) * (2 / fan) ** 0.5
        return self[name]

    def vector(self, name: str, length: int, low: float = -0.1, high: float = 0.1) -> Tensor:
        if name not in self:
            self[name] = low + (high - low) * torch.rand(length, generator=self._generator)
        return self[name]

    def norm(self, maps: Tensor, name: str, suffixes: tuple[str, ...] = (".weight", ".bias")) -> Tensor:
        scale, offset = (name + s for s in suffixes)
        width = maps.shape[1]
        return functional.batch_norm(
            maps,
            self.vector(f"{name}.running_mean", width),
            self.vector(f"{name}.running_var", width, 0.5, 1.5),
            self.vector(scale, width, 0.5, 1.0),
            self.vector(offset, width),
            eps=1e-5,
        )


def pad_at_end(maps: Tensor, kernel: int, stride: int, value: float = 0.0) -> Tensor:
    """TensorFlow's SAME: as much as a whole number of strides needs, the odd one at the end."""
    total = [max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in maps.shape[2:]]
    down, right = total
    return functional.pad(maps, (right // 2, right - right // 2, down // 2, down - down // 2), value=value)


#: (maps, stage, block, part, width, kernel, stride) -> normalised maps; a part is "stem", "shortcut", 1, 2 or 3.
Unit = Callable[[Tensor, int, int, str | int, int, int, int], Tensor]


def resnet(images: Tensor, unit: Unit, pool: Callable[[Tensor], Tensor], blocks: tuple[int, ...]) -> Tensor:
    """A bottleneck ResNet (stride on the 3x3), each layer asked of `unit` in the order in which code makes them."""
    maps = pool(unit(images, 0, 0, "stem", 64, 7, 2).relu())
    for stage, count in enumerate(blocks, start=1):
        width = 32 * 2**stage
        for block in range(count):
            stride = 2 if stage > 1 and block == 0 else 1
            shortcut = unit(maps, stage, block, "shortcut", 4 * width, 1, stride) if block == 0 else maps
            inner = unit(maps, stage, block, 1, width, 1, 1).relu()
            inner = unit(inner, stage, block, 2, width, 3, stride).relu()
            maps = (unit(inner, stage, block, 3, 4 * width, 1, 1) + shortcut).relu()
    return maps.mean(dim=(2, 3))


def torch_resnet(store: Store, blocks: tuple[int, ...] = (3, 4, 6, 3)) -> Tensor:
    """ResNet under the names of torchvision."""

    def unit(maps: Tensor, stage: int, block: int, part: str | int, width: int, kernel: int, stride: int) -> Tensor:
        where = "" if part == "stem" else f"layer{stage}.{block}."
        conv, norm = ("downsample.0", "downsample.1") if part == "shortcut" else ("conv1", "bn1")
        if isinstance(part, int):
            conv, norm = f"conv{part}", f"bn{part}"
        weight = store.weight(f"{where}{conv}.weight", width, maps.shape[1], kernel, kernel)
        return store.norm(functional.conv2d(maps, weight, stride=stride, padding=kernel // 2), where + norm)

    features = resnet(IMAGES, unit, lambda maps: functional.max_pool2d(maps, 3, 2, 1), blocks)
    store.weight("fc.weight", 1000, 2048)
    store.vector("fc.bias", 1000)
    return features


@pytest.fixture(scope="session")
def references() -> SimpleNamespace:
    """What a reference network is written with; `images` have an odd size, where ways of padding differ."""
    return SimpleNamespace(Store=Store, resnet=resnet, pad_at_end=pad_at_end, images=IMAGES)


@pytest.fixture(scope="session")
def torchvision_resnet() -> Callable[..., tuple[dict[str, Tensor], Tensor]]:
    """`torchvision_resnet(blocks)`: a ResNet's tensors under torchvision's names, and its features of `images`."""

    def make(blocks: tuple[int, ...] = (3, 4, 6, 3)) -> tuple[dict[str, Tensor], Tensor]:
        store = Store()
        with torch.inference_mode():
            features = torch_resnet(store, blocks)
        return dict(store), features

    return make


@pytest.fixture(scope="session")
def resnet50(torchvision_resnet: Callable[..., tuple[dict[str, Tensor], Tensor]]) -> tuple[dict[str, Tensor], Tensor]:
    return torchvision_resnet()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that does not outlive its test: the files are large."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.fixture(scope="session")
def check_published() -> Callable[..., None]:
    """`check_published(name, path, expected, images)`: the file loads, and gives the reference's features."""
    return _check


def _check(name: str, path: Path, expected: Tensor, images: Tensor) -> None:
    backbone = load_backbone(f"cog:{name}?weights={path}")
    with torch.inference_mode():
        features, logits = backbone.forward(backbone.module, images)
    assert (logits is not None) == (cog_models()[name].head and name != "d-clip")
    assert not backbone.module.training
    scale = float(expected.abs().max())
    assert scale > 1e-3, "the reference is degenerate"
    torch.testing.assert_close(features / scale, expected / scale, rtol=1e-4, atol=2e-5)
    assert features.shape[1] == backbone.card.feature_dim
    # Table 1 counts everything but the layer that gives class logits.
    classes = {} if name == "d-clip" else {k: p for k, p in backbone.module.named_parameters() if len(p) == 1000}
    total = sum(parameter.numel() for parameter in backbone.module.parameters())
    auxiliary = sum(p.numel() for k, p in classes.items() if k.startswith("AuxLogits"))
    assert total - sum(p.numel() for p in classes.values()) + auxiliary == backbone.card.parameters
