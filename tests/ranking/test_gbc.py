"""GBC against scalar loops over pairs of classes and dimensions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.decomposition import PCA

from unseen.core.errors import UnknownNameError
from unseen.ranking import gbc


def naive_gbc(features: np.ndarray, labels: np.ndarray, *, spherical: bool) -> float:
    names = sorted(set(labels.tolist()))
    dimensions = features.shape[1]
    means, variances = {}, {}
    for name in names:
        own = features[labels == name]
        means[name] = [float(np.mean(own[:, k])) for k in range(dimensions)]
        variances[name] = [float(np.var(own[:, k])) for k in range(dimensions)]
        if spherical:
            variances[name] = [sum(variances[name]) / dimensions] * dimensions
    total = 0.0
    for a in names:
        for b in names:
            if a == b:
                continue
            distance = 0.0
            for k in range(dimensions):
                shared = (variances[a][k] + variances[b][k]) / 2
                distance += (means[a][k] - means[b][k]) ** 2 / shared / 8
                distance += 0.5 * math.log(shared / math.sqrt(variances[a][k] * variances[b][k]))
            total += math.exp(-distance)
    return -total


@pytest.mark.parametrize("gaussian", ["spherical", "diagonal"])
def test_loops_give_the_same(small: tuple, gaussian: str) -> None:
    expected = naive_gbc(*small, spherical=gaussian == "spherical")
    assert gbc(*small, gaussian=gaussian, dimensions=None) == pytest.approx(expected, abs=1e-6)


def test_principal_components_come_first(small: tuple) -> None:
    features, labels = small
    reduced = PCA(n_components=3, svd_solver="full").fit_transform(features)
    assert gbc(features, labels, dimensions=3) == pytest.approx(naive_gbc(reduced, labels, spherical=True), abs=1e-6)


def test_a_class_without_variance_is_no_division_by_zero() -> None:
    features = np.array([[0.0, 0.0]] * 4 + [[1.0, 0.5], [2.0, 1.0], [3.0, -1.0], [2.0, 0.1]])
    assert -2.0 < gbc(features, [0] * 4 + [1] * 4) < 0.0


def test_an_unknown_gaussian_is_named(small: tuple) -> None:
    with pytest.raises(UnknownNameError, match="spherical"):
        gbc(*small, gaussian="spheric")  # type: ignore[arg-type]
