"""Stand-ins of known size to measure this machine with: photographs as large as ImageNet's, and probes to time."""

from __future__ import annotations

import io
import time
from functools import cache

import numpy as np
from PIL import Image

from unseen.benchmarks.cog.cost import ProbeTiming
from unseen.data import Split
from unseen.data.decode import open_image

#: ImageNet's mean size: 500 x 375 pixels, about 110 kB.
_WIDTH, _HEIGHT = 500, 375


@cache
def imagenet_like(count: int = 32) -> Split:
    """JPEG images of ImageNet's usual size, in memory: smooth shapes with noise, so that decoding has its real cost."""
    encoded = []
    for number in range(count):
        rng = np.random.default_rng(number)
        coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8)).resize(
            (_WIDTH, _HEIGHT), Image.Resampling.BICUBIC
        )
        grain = rng.normal(0, 12, (_HEIGHT, _WIDTH, 1))
        picture = Image.fromarray(np.uint8(np.clip(np.asarray(coarse) + grain, 0, 255)))
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=92)
        encoded.append(buffer.getvalue())
    return Split(
        names=[f"sample{i}" for i in range(count)],
        labels=np.zeros(count, np.int64),
        open=lambda i: open_image(encoded[i]),
        fingerprint="samples",
    )


def time_probes() -> list[ProbeTiming]:
    """Seconds of the default probe on two small made-up problems: what the cost model is fitted to."""
    from unseen.probes import evaluate_probe

    timings = []
    for rows, dim, classes in ((1000, 256, 20), (4000, 512, 50)):
        rng = np.random.default_rng(rows)
        centres = rng.normal(size=(classes, dim)).astype(np.float32)
        labels = rng.integers(classes, size=rows)
        features = (centres[labels] * 0.3 + rng.normal(size=(rows, dim))).astype(np.float32)
        began = time.perf_counter()
        evaluate_probe(features, labels, features[:50], labels[:50], solver="logistic", seeds=(22,))
        timings.append(ProbeTiming(rows, dim, classes, time.perf_counter() - began))
    return timings


def peak_gflops(size: int = 1024, times: int = 8) -> float:
    """The best of several float32 matrix products on this machine, with the threads that probes have."""
    import torch

    left, right = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best / 1e9
