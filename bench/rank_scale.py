"""Memory and time of the expected accuracy on 50,000 x 2,048 features of 100 classes, every image evaluated.

    python bench/rank_scale.py

Normal clouds of float32 features; one thread. The memory is the growth of the process's peak beyond the features.
"""

from __future__ import annotations

import resource
import time

import numpy as np
import torch

from tables import Table
from unseen.benchmarks.rank import expected
from unseen.probes import sampling as sampling

IMAGES, DIMENSIONS, CLASSES = 50_000, 2048, 100


def peak() -> float:
    """Gigabytes of the largest size of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    labels = rng.integers(CLASSES, size=IMAGES)
    features = np.empty((IMAGES, DIMENSIONS), np.float32)
    centres = 0.12 * rng.normal(size=(CLASSES, DIMENSIONS)).astype(np.float32)
    for i in range(0, IMAGES, 5000):
        features[i : i + 5000] = (
            rng.standard_normal((5000, DIMENSIONS), dtype=np.float32) + centres[labels[i : i + 5000]]
        )
    before, began = peak(), time.process_time()
    found = expected.cross_validated(features, labels, "class")
    seconds = time.process_time() - began
    table = Table("features", "classes", "CPU seconds", "memory beyond the features", "images evaluated")
    evaluated = f"{np.isfinite(found.outcomes).sum():,}"
    shape = f"{IMAGES:,} x {DIMENSIONS:,}"
    table.add(shape, str(CLASSES), f"{seconds:.0f}", f"{peak() - before:.2f} GB", evaluated)
    table.show()


if __name__ == "__main__":
    main()
