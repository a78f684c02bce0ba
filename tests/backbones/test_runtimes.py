"""ONNX Runtime against eager torch, several layers in one pass, and what happens where the export fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unseen.backbones import load_backbone, runtimes, wrap_module
from unseen.backbones.runtimes import OnnxRuntime, TorchRuntime, make_runtime
from unseen.core.errors import BackboneError, UnknownNameError, UsageError
from unseen.core.records import Preprocessing


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, 64, 64, 3), np.uint8)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min())


@pytest.mark.parametrize(
    "name", ["random:test_efficientnet", "random:test_resnet", "random:test_convnext", "random:torchvision:resnet18"]
)
def test_onnx_agrees_with_torch(name: str, pixels: np.ndarray) -> None:
    backbone = load_backbone(f"{name}?size=64")
    onnx = make_runtime(backbone, ("pooled", "logits"), device="cpu")
    eager = make_runtime(backbone, ("pooled", "logits"), device="cpu", runtime="torch")
    assert (onnx.name, onnx.precision, onnx.note, eager.name) == ("onnx", "fp32", "", "torch")
    for mine, reference in zip(onnx(pixels), eager(pixels), strict=True):
        assert mine.dtype == np.float32
        assert cosine(mine, reference) > 0.9999


def test_a_vision_transformer_of_its_own_size(pixels: np.ndarray) -> None:
    backbone = load_backbone("random:test_vit")
    size = backbone.preprocessing.size
    images = np.random.default_rng(0).integers(0, 256, (2, size, size, 3), np.uint8)
    layers = ("pooled", "blocks.1")
    found = make_runtime(backbone, layers, device="cpu")(images)
    expected = make_runtime(backbone, layers, device="cpu", runtime="torch")(images)
    assert min(map(cosine, found, expected)) > 0.9999


def test_the_graph_normalises_as_the_preprocessing_says(pixels: np.ndarray) -> None:
    """Against the normalisation written the ordinary way, outside the graph."""
    backbone = load_backbone("random:test_resnet?size=64")
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (backbone.preprocessing.mean, backbone.preprocessing.std))
    images = (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - mean) / std
    with torch.no_grad():
        expected = backbone.forward(backbone.module, images)[0].numpy()
    np.testing.assert_allclose(make_runtime(backbone, device="cpu")(pixels)[0], expected, rtol=1e-3, atol=1e-4)


def test_named_layers_are_pooled_modules(pixels: np.ndarray) -> None:
    backbone = load_backbone("random:test_resnet?size=64")
    caught: list[Tensor] = []
    backbone.module.get_submodule("layer2").register_forward_hook(lambda *arguments: caught.append(arguments[2]))
    outputs = make_runtime(backbone, ("layer2", "pooled", "layer1"), device="cpu", runtime="torch")(pixels)
    np.testing.assert_allclose(outputs[0], caught[-1].mean((2, 3)).numpy(), rtol=1e-5)
    assert len(outputs) == 3
    with pytest.raises(UnknownNameError, match="layer3"):
        make_runtime(backbone, ("layer33",))


def test_logits_need_a_head() -> None:
    backbone = wrap_module(
        "headless", nn.Sequential(nn.Conv2d(3, 5, 3)), preprocessing=Preprocessing(size=32, resize=32)
    )
    with pytest.raises(BackboneError, match="no class head"):
        make_runtime(backbone, ("logits",))


class DataDependent(nn.Module):
    """Tracing freezes the branch that a black image takes."""

    def forward(self, images: Tensor) -> Tensor:
        pooled = images.mean((2, 3))
        return pooled if images.mean() < -1 else pooled.flip(1) + torch.tensor([[1.0, 2.0, 3.0]])


def test_a_graph_that_disagrees_is_not_used() -> None:
    backbone = wrap_module("branching", DataDependent(), preprocessing=Preprocessing(size=32, resize=32))
    runtime = make_runtime(backbone, device="cpu")
    assert isinstance(runtime, TorchRuntime)
    assert "disagrees with torch" in runtime.note


def test_the_numbers_do_not_depend_on_threads(pixels: np.ndarray) -> None:
    from unseen.backbones.runtimes import export_onnx

    graph = export_onnx(load_backbone("random:test_resnet?size=64"), ("pooled",))
    one, two = OnnxRuntime(graph, threads=1)(pixels)[0], OnnxRuntime(graph, threads=2)(pixels)[0]
    np.testing.assert_array_equal(one, two)


def test_graphs_are_kept_and_a_broken_one_is_made_again(tmp_path: Path, pixels: np.ndarray) -> None:
    backbone = load_backbone("random:test_resnet?size=64")
    first = make_runtime(backbone, device="cpu", cache=tmp_path)(pixels)[0]
    (kept,) = tmp_path.glob("*.onnx")
    content = kept.read_bytes()
    kept.write_bytes(content[: len(content) // 2])
    np.testing.assert_array_equal(make_runtime(backbone, device="cpu", cache=tmp_path)(pixels)[0], first)
    assert kept.read_bytes() == content


@pytest.mark.parametrize("name", ["random:test_vit?size=64", "random:vit_tiny_patch16_224?size=64"])
def test_a_transformer_at_another_size_is_exported(name: str, pixels: np.ndarray) -> None:
    """Position embeddings that are stretched, in every forward or at loading, are a constant of the graph."""
    backbone = load_backbone(name)
    before = backbone.module.pos_embed.clone()  # type: ignore[operator]
    runtime = make_runtime(backbone, device="cpu")
    assert isinstance(runtime, OnnxRuntime)
    plain = TorchRuntime(backbone, ("pooled",), device="cpu")(pixels)[0]
    np.testing.assert_allclose(runtime(pixels)[0], plain, atol=1e-4)
    assert torch.equal(before, backbone.module.pos_embed)  # type: ignore[arg-type]


def test_what_cannot_be_exported_is_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """torch prints the whole graph, from below Python."""

    class Odd(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            half = nn.functional.interpolate(images, scale_factor=0.5, mode="bicubic", antialias=True)
            return half.mean(dim=(2, 3))

    backbone = replace(
        load_backbone("random:test_resnet?size=64"),
        module=Odd(),
        forward=lambda module, images: (module(images), None),
    )
    runtime = make_runtime(backbone, device="cpu")
    assert isinstance(runtime, TorchRuntime) and "bicubic" in runtime.note
    assert capfd.readouterr() == ("", "")


def test_a_size_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot take images of 8 pixels"):
        load_backbone("random:vit_tiny_patch16_224?size=8")
    short = replace(
        load_backbone("random:test_resnet?size=64"), module=nn.Linear(32, 2), forward=lambda m, x: (m(x), None)
    )
    with pytest.raises(BackboneError, match=r"does not take images of shape \(3, 64, 64\)"):
        assert short.feature_dim


@pytest.mark.parametrize("argument", [{"runtime": "onxx"}, {"precision": "fp8"}])
def test_unknown_settings(argument: dict[str, str]) -> None:
    with pytest.raises(UnknownNameError):
        make_runtime(load_backbone("random:test_resnet"), **argument)  # type: ignore[arg-type]


def test_half_precision_stays_close(pixels: np.ndarray) -> None:
    """Autocast, as on an accelerator, tried on the CPU."""
    backbone = load_backbone("random:test_resnet?size=64")
    half = TorchRuntime(backbone, ("pooled",), device="cpu", precision="bf16")
    full = TorchRuntime(backbone, ("pooled",), device="cpu")
    assert cosine(half(pixels)[0], full(pixels)[0]) > 0.99


def test_a_refused_export_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that cannot be exported is not exported again each time, and its features are found at once."""
    tries = []

    def refuse(*_: object) -> bytes:
        tries.append(1)
        raise RuntimeError("no such operator")

    monkeypatch.setattr(runtimes, "export_onnx", refuse)
    backbone = load_backbone("random:test_resnet?size=64")
    options: dict[str, Any] = {"device": "cpu", "runtime": "auto", "precision": "fp32", "cache": tmp_path}
    assert runtimes.expected_runtime(backbone, ("pooled",), **options) == "onnx"
    first = runtimes.make_runtime(backbone, ("pooled",), **options)
    assert runtimes.expected_runtime(backbone, ("pooled",), **options) == "torch"
    second = runtimes.make_runtime(backbone, ("pooled",), **options)
    assert (first.name, second.name, len(tries)) == ("torch", "torch", 1)
    assert first.note == second.note
    assert "no such operator" in second.note


def test_fp32_is_computed_without_tf32() -> None:
    import torch

    torch.backends.cudnn.allow_tf32 = True
    TorchRuntime(load_backbone("random:test_vit?size=64"), ("pooled",), device="cpu")
    assert not torch.backends.cudnn.allow_tf32 and not torch.backends.cuda.matmul.allow_tf32
