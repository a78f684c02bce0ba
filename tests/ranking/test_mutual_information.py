"""I_alpha: the bound against loops over its definition; the trained bound against what the information is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from unseen.core.errors import UsageError
from unseen.ranking import mutual_information
from unseen.ranking.scores.mutual_information import interpolated_bound


def naive_bound(f: np.ndarray, labels: np.ndarray, baseline: np.ndarray, shares: np.ndarray, alpha: float) -> float:
    images, classes = f.shape
    mixed = []
    for y in range(classes):
        mean = sum(math.exp(f[i, y]) for i in range(images)) / images
        mixed.append(alpha * mean + (1 - alpha) * math.exp(baseline[y]))
    joint = sum(math.log(math.exp(f[i, y]) / mixed[y]) for i, y in enumerate(labels)) / images
    independent = 0.0
    for y in range(classes):
        for i in range(images):
            independent += shares[y] / images * math.exp(f[i, y]) / mixed[y]
    return 1 + joint - independent


@pytest.mark.parametrize("alpha", [0.01, 0.5, 1.0])
def test_loops_over_the_definition(alpha: float) -> None:
    generator = np.random.default_rng(0)
    f, baseline = generator.normal(size=(20, 4)), generator.normal(size=4)
    labels, shares = generator.integers(4, size=20), np.array([0.1, 0.2, 0.3, 0.4])
    tensors = [torch.from_numpy(v) for v in (f, labels, baseline, shares)]
    expected = naive_bound(f, labels, baseline, shares, alpha)
    assert float(interpolated_bound(*tensors, alpha)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.01, 0.5])
def test_it_bounds_the_information_from_below_and_comes_close(alpha: float) -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=900)
    clear = 6 * np.eye(3)[labels] + generator.normal(size=(900, 3))
    found = mutual_information(clear, labels, alpha=alpha)
    assert 0.9 * math.log(3) < found < math.log(3) + 0.02
    assert mutual_information(generator.normal(size=(900, 3)), labels, alpha=alpha) < 0.02


def test_the_same_seed_gives_the_same_number(small: tuple) -> None:
    assert mutual_information(*small, epochs=2) == mutual_information(*small, epochs=2)
    assert mutual_information(*small, epochs=2, seed=1) != mutual_information(*small, epochs=2)
    with pytest.raises(UsageError, match="alpha"):
        mutual_information(*small, alpha=0.0)
