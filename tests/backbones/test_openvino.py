"""OpenVINO beside ONNX Runtime: the same features in fp32, near ones in bf16, another entry of the store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from unseen.backbones import load_backbone, runtimes
from unseen.backbones.runtimes import expected_runtime, make_runtime
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UsageError
from unseen.features import Extraction

pytest.importorskip("openvino")

MODEL = "random:test_resnet?size=64"


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def test_features_of_both_precisions_and_from_several_threads() -> None:
    backbone = load_backbone(MODEL)
    pixels = backbone.example(16, seed=1).numpy()
    (exact,) = make_runtime(backbone, device="cpu")(pixels)
    full = make_runtime(backbone, device="cpu", runtime="openvino")
    half = make_runtime(backbone, device="cpu", precision="bf16")
    assert (full.name, full.precision, half.name, half.precision) == ("openvino", "fp32", "openvino", "bf16")
    assert np.allclose(full(pixels)[0], exact, atol=1e-4)
    assert cosines(half(pixels)[0], exact).min() > 0.99
    with ThreadPoolExecutor(3) as pool:
        parts = list(pool.map(lambda i: full(pixels[i : i + 4])[0], range(0, 16, 4)))
    assert np.allclose(np.concatenate(parts), exact, atol=1e-4)


def test_precision_and_runtime_are_part_of_the_key(images: Path, tmp_path: Path) -> None:
    name = f"folder:{images}"
    exact = Workbench(tmp_path).split(MODEL, name, "train")
    half = Workbench(tmp_path, how=Extraction(precision="bf16", device="cpu")).split(MODEL, name, "train")
    assert exact.features is not half.features
    assert cosines(np.asarray(half.features[:]), np.asarray(exact.features[:])).min() > 0.99
    manifests = [path.read_text() for path in (tmp_path / "features").rglob("*.json")]
    assert any('"openvino"' in text and "bf16" in text for text in manifests)
    assert any('"onnx"' in text and "bf16" not in text for text in manifests)


def test_a_graph_that_disagrees_is_run_by_torch_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = load_backbone(MODEL)
    monkeypatch.setitem(runtimes.AGREEMENT, "bf16", 1.5)
    how = {"device": "cpu", "precision": "bf16", "cache": tmp_path}
    found = make_runtime(backbone, **how)  # type: ignore[arg-type]
    assert (found.name, found.precision) == ("torch", "bf16")
    assert "disagrees with torch: cosine" in found.note
    assert expected_runtime(backbone, ("pooled",), runtime="auto", **how) == "torch"  # type: ignore[arg-type]
    assert expected_runtime(backbone, ("pooled",), runtime="auto", **{**how, "precision": "fp32"}) == "onnx"  # type: ignore[arg-type]


def test_an_unsupported_precision_is_refused() -> None:
    with pytest.raises(UsageError, match="fp32 and bf16, not fp16"):
        make_runtime(load_backbone(MODEL), device="cpu", runtime="openvino", precision="fp16")
