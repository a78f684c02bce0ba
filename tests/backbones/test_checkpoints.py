"""Checkpoint files in the layouts that training scripts leave behind, and files that must not be loaded."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from unseen.backbones import load_backbone
from unseen.backbones.sources.timm import create_timm
from unseen.core.errors import CheckpointError

ARCH = "timm:test_resnet"


@pytest.fixture(scope="module")
def network() -> nn.Module:
    torch.manual_seed(5)
    return create_timm("test_resnet", pretrained=False)


def prefixed(state: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {prefix + name: tensor for name, tensor in state.items()}


def headless(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in state.items() if not name.startswith("fc.")}


def features(name: str) -> torch.Tensor:
    backbone = load_backbone(name)
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return backbone.forward(backbone.module, images)[0]


def expected(network: nn.Module) -> torch.Tensor:
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return network.forward_head(network.forward_features(images), pre_logits=True)  # type: ignore[operator]


def layouts(state: dict[str, torch.Tensor]) -> dict[str, Any]:
    noise = {name: torch.randn_like(t.float()).to(t.dtype) for name, t in headless(state).items()}
    return {
        "plain": state,
        "state_dict": {"state_dict": state, "epoch": 3, "best": 0.5},
        "data parallel": {"model": prefixed(state, "module.")},
        "self-supervised": {"state_dict": prefixed(headless(state), "backbone.") | {"head.0.weight": torch.zeros(3)}},
        "momentum": {
            "arch": "resnet",
            "state_dict": prefixed(headless(state), "module.encoder_q.") | prefixed(noise, "module.encoder_k."),
        },
        "namespace": {"args": argparse.Namespace(lr=0.1), "teacher": prefixed(headless(state), "module.backbone.")},
    }


@pytest.mark.parametrize("layout", ["plain", "state_dict", "data parallel", "self-supervised", "momentum", "namespace"])
def test_training_layouts(layout: str, network: nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    torch.save(layouts(network.state_dict())[layout], path)
    torch.testing.assert_close(features(f"file:{path}?arch={ARCH}"), expected(network))


def test_safetensors(network: nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    save_file(network.state_dict(), path)
    torch.testing.assert_close(features(f"file:{path}?arch=test_resnet"), expected(network))


def test_a_key_can_be_chosen(network: nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    noise = {n: torch.zeros_like(t) for n, t in network.state_dict().items()}
    torch.save({"student": noise, "teacher": network.state_dict()}, path)
    torch.testing.assert_close(features(f"file:{path}?arch={ARCH}&key=teacher"), expected(network))
    assert not torch.allclose(features(f"file:{path}?arch={ARCH}&key=student"), expected(network))
    with pytest.raises(CheckpointError, match="'teacher'"):
        load_backbone(f"file:{path}?arch={ARCH}&key=model")


def test_missing_tensors_are_reported(network: nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    torch.save(prefixed(headless(network.state_dict()), "encoder_q."), path)
    backbone = load_backbone(f"file:{path}?arch={ARCH}")
    assert not backbone.has_head
    assert any("encoder_q." in note for note in backbone.notes)
    assert any("no class probabilities" in note for note in backbone.notes)


@pytest.mark.parametrize("arch", [ARCH, "torchvision:resnet18"])
def test_a_head_of_another_size_is_kept(arch: str, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    if arch == ARCH:
        tuned = create_timm("test_resnet", pretrained=False, num_classes=7)
    else:
        from torchvision.models import resnet18

        tuned = resnet18(num_classes=7)
    torch.save(tuned.state_dict(), path)
    backbone = load_backbone(f"file:{path}?arch={arch}&size=64")
    with torch.no_grad():
        assert backbone.forward(backbone.module, backbone.blank_input())[1].shape == (1, 7)  # type: ignore[union-attr]


def test_a_torchvision_checkpoint_without_head(tmp_path: Path) -> None:
    load_backbone("random:torchvision:resnet18")
    from torchvision.models import resnet18

    path = tmp_path / "weights.pth"
    torch.save({k: v for k, v in resnet18().state_dict().items() if not k.startswith("fc.")}, path)
    backbone = load_backbone(f"file:{path}?arch=torchvision:resnet18&size=64")
    assert (backbone.feature_dim, backbone.has_head) == (512, False)


def test_the_wrong_architecture_is_refused(network: nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    torch.save(network.state_dict(), path)
    with pytest.raises(CheckpointError, match=r"only in part: \d+ tensors matched|no tensor matches"):
        load_backbone(f"file:{path}?arch=timm:resnet18")


def test_a_partial_load_needs_partial_true(network: nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    state = network.state_dict()
    torch.save({name: state[name] for name in list(state)[: len(state) // 2]}, path)
    with pytest.raises(CheckpointError, match="partial=true"):
        load_backbone(f"file:{path}?arch={ARCH}")
    assert (
        load_backbone(f"file:{path}?arch={ARCH}&partial=true").feature_dim
        == load_backbone("random:test_resnet").feature_dim
    )


class Malice:
    """Unpickling this would run a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_malicious_pickle_does_not_run(legacy: bool, tmp_path: Path) -> None:
    path, proof = tmp_path / "weights.pth", tmp_path / "proof"
    content = {"state_dict": {"fc.weight": torch.zeros(2, 2)}, "x": Malice(f"touch {proof}")}
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(CheckpointError, match="not a file of plain tensors"):
        load_backbone(f"file:{path}?arch={ARCH}")
    assert not proof.exists()


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04cut short"])
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_rubbish_is_refused(content: bytes, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"weights{suffix}"
    path.write_bytes(content)
    with pytest.raises(CheckpointError):
        load_backbone(f"file:{path}?arch={ARCH}")


def test_a_missing_file_and_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        load_backbone(f"file:{tmp_path}/none.pth?arch={ARCH}")
    torch.save({"epoch": 3}, tmp_path / "no-tensors.pth")
    with pytest.raises(CheckpointError, match="no tensors"):
        load_backbone(f"file:{tmp_path}/no-tensors.pth?arch={ARCH}")
