"""Checkpoints as training frameworks leave them: nestings, wrappers, averages, other image sizes, other names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from unseen.backbones import load_backbone
from unseen.backbones.checkpoints import resize_positions
from unseen.core.errors import CheckpointError
from unseen.core.extras import ensure_torchvision

ensure_torchvision()  # before anything imports timm

ARCH = "test_vit"


@pytest.fixture(scope="module")
def trained() -> nn.Module:
    torch.manual_seed(5)
    import timm

    return timm.create_model(ARCH, num_classes=7).eval()


def nested(kind: str, state: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> Any:
    """As each framework saves: the wanted weights are `state`."""
    bare = {k: v for k, v in state.items() if not k.startswith("head.")}
    return {
        "dino": {"teacher": {f"module.backbone.{k}": v for k, v in bare.items()}, "epoch": 3},
        "moco": {"state_dict": {**{f"module.encoder_q.{k}": v for k, v in state.items()}, "module.queue": torch.ones(4),
                                **{f"module.encoder_k.{k}": v for k, v in other.items()}}},
        "mae": {"model": {**bare, "decoder_embed.weight": torch.zeros(2, 2), "mask_token": torch.zeros(1, 1, 2)}},
        "byol": {"online_network_state_dict": {f"encoder.{k}": v for k, v in bare.items()},
                 "target_network_state_dict": {f"encoder.{k}": v for k, v in list(other.items())[:9]}},
        "lightning": {"state_dict": {f"model.{k}": v for k, v in state.items()}, "pytorch-lightning_version": "2.1",
                      "optimizer_states": [], "epoch": 1},
        "deepspeed": {"module": state, "dp_world_size": 8, "ds_version": "0.14"},
        "fsdp": {"model": {f"_fsdp_wrapped_module.{k.replace('blocks.', 'blocks._fsdp_wrapped_module.', 1)}": v
                           for k, v in state.items()}},
        "compiled": {f"_orig_mod.{k}": v for k, v in state.items()},
    }[kind]  # fmt: skip


@pytest.mark.parametrize("kind", ["dino", "moco", "mae", "byol", "lightning", "deepspeed", "fsdp", "compiled"])
def test_frameworks_nest_and_wrap(kind: str, trained: nn.Module, tmp_path: Path) -> None:
    state = trained.state_dict()
    other = {k: torch.zeros_like(v) for k, v in state.items()}
    torch.save(nested(kind, state, other), tmp_path / "c.pth")
    found = load_backbone(f"file:{tmp_path}/c.pth?arch=timm:{ARCH}")
    for name, value in found.module.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert found.has_head == (kind not in ("dino", "mae", "byol"))


def test_ema_true_selects_the_averaged_weights(trained: nn.Module, tmp_path: Path) -> None:
    state = trained.state_dict()
    slow = {k: v * 0.5 if v.is_floating_point() else v for k, v in state.items()}
    torch.save({"state_dict": state, "state_dict_ema": slow}, tmp_path / "c.pth")
    plain = load_backbone(f"file:{tmp_path}/c.pth?arch=timm:{ARCH}").module.state_dict()
    ema = load_backbone(f"file:{tmp_path}/c.pth?arch=timm:{ARCH}&ema=true").module.state_dict()
    name = next(iter(plain))
    assert torch.equal(plain[name], state[name]) and torch.equal(ema[name], slow[name])


def test_positions_are_resized_with_a_note(tmp_path: Path) -> None:
    import timm

    torch.manual_seed(1)
    small = timm.create_model("vit_tiny_patch16_224", img_size=96, num_classes=0)
    torch.save(small.state_dict(), tmp_path / "c.pth")
    found = load_backbone(f"file:{tmp_path}/c.pth?arch=timm:vit_tiny_patch16_224")
    assert "pos_embed (1, 37, 192) to (1, 197, 192) resized" in found.notes[0]
    # timm's own resampling of the same embeddings.
    from timm.layers import resample_abs_pos_embed

    expected = resample_abs_pos_embed(small.pos_embed, [14, 14], num_prefix_tokens=1)
    assert torch.allclose(found.module.get_parameter("pos_embed"), expected, atol=1e-5)
    assert resize_positions(torch.zeros(1, 37, 8), torch.Size([1, 197, 9])) is None
    assert resize_positions(torch.zeros(1, 40, 8), torch.Size([1, 197, 8])) is None


def test_other_names_are_offered_not_taken(trained: nn.Module, tmp_path: Path) -> None:
    state = {f"layer_{i:03d}": v for i, v in enumerate(trained.state_dict().values())}
    import timm

    seven = timm.create_model(ARCH, num_classes=1000)
    torch.save({f"w{i}": v for i, v in enumerate(seven.state_dict().values())}, tmp_path / "c.pth")
    with pytest.raises(CheckpointError, match=r"agree in order and shape\. Add rename=true"):
        load_backbone(f"file:{tmp_path}/c.pth?arch=timm:{ARCH}")
    found = load_backbone(f"file:{tmp_path}/c.pth?arch=timm:{ARCH}&rename=true")
    assert all(
        torch.equal(a, b) for a, b in zip(found.module.state_dict().values(), seven.state_dict().values(), strict=True)
    )
    assert "by order and shape" in found.notes[0]
    torch.save(state, tmp_path / "other.pth")  # a head of seven classes: not the same shapes
    with pytest.raises(CheckpointError, match="rename=true does not apply"):
        load_backbone(f"file:{tmp_path}/other.pth?arch=timm:{ARCH}&rename=true")


@pytest.mark.slow
def test_an_architecture_that_is_not_named_is_guessed(tmp_path: Path) -> None:
    import timm
    from torchvision import models

    torch.manual_seed(0)
    r34 = timm.create_model("resnet34", num_classes=5)
    torch.save({"state_dict": {f"module.{k}": v for k, v in r34.state_dict().items()}}, tmp_path / "run.pth")
    found = load_backbone(f"file:{tmp_path}/run.pth")
    assert found.notes[0].startswith("the architecture was inferred: timm:resnet34 fits")
    image = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        expected = r34.eval()(image)
        assert torch.allclose(found.forward(found.module, image)[1], expected, atol=1e-4)
    small = timm.create_model("vit_small_patch16_224", img_size=96, num_classes=0)
    torch.save(small.state_dict(), tmp_path / "vit.pth")
    assert "timm:vit_small_patch16_224" in load_backbone(f"file:{tmp_path}/vit.pth").notes[0]
    torch.save(models.mobilenet_v2(weights=None).state_dict(), tmp_path / "mobile.pth")
    assert "torchvision:mobilenet_v2" in load_backbone(f"file:{tmp_path}/mobile.pth").notes[0]
    torch.save({"strange.weight": torch.zeros(3, 3)}, tmp_path / "strange.pth")
    with pytest.raises(CheckpointError, match=r"fit no known architecture.*Name it: strange\.pth\?arch=timm:NAME"):
        load_backbone(f"file:{tmp_path}/strange.pth")
    assert np.isfinite(expected.numpy()).all()
