"""TransRate against determinants written out."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.ranking import transrate


def naive_rate(rows: np.ndarray, epsilon: float) -> float:
    images, dimensions = rows.shape
    matrix = np.eye(dimensions)
    for row in rows:
        for i in range(dimensions):
            for j in range(dimensions):
                matrix[i, j] += row[i] * row[j] / (images * epsilon)
    return 0.5 * np.log(np.linalg.det(matrix))


def naive_transrate(features: np.ndarray, labels: np.ndarray, epsilon: float, *, balanced: bool) -> float:
    rows = features - features.mean(axis=0)
    names = sorted(set(labels.tolist()))
    total = naive_rate(rows, epsilon)
    for name in names:
        share = 1 / len(names) if balanced else float(np.mean(labels == name))
        total -= share * naive_rate(rows[labels == name], epsilon)
    return total


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("epsilon", [1e-4, 1e-2])
def test_determinants_give_the_same(small: tuple, epsilon: float, balanced: bool) -> None:
    expected = naive_transrate(*small, epsilon, balanced=balanced)
    assert transrate(*small, epsilon=epsilon, balanced=balanced) == pytest.approx(expected, abs=1e-6)


def test_more_dimensions_than_images() -> None:
    features = np.random.default_rng(0).normal(size=(12, 20))
    labels = np.repeat([0, 1, 2], 4)
    expected = naive_transrate(features, labels, 1e-4, balanced=True)
    assert transrate(features, labels) == pytest.approx(expected, abs=1e-6)
