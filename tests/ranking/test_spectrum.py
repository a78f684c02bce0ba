"""Decompositions by way of the smaller Gram matrix, against numpy's and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from unseen.ranking.spectrum import decompose, principal_components


def rows_of(images: int, dimensions: int, seed: int = 0) -> np.ndarray:
    """Rows whose variance falls slowly, so that many axes are needed."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(images, dimensions)) * np.linspace(2, 0.5, dimensions) + 1.5


@pytest.mark.parametrize(("images", "dimensions"), [(30, 7), (7, 30), (9, 9)])
@pytest.mark.parametrize("centre", [True, False])
def test_the_thin_decomposition_is_numpy_s(images: int, dimensions: int, centre: bool) -> None:
    rows = rows_of(images, dimensions)
    matrix = rows - rows.mean(axis=0) if centre else rows
    values = np.linalg.svd(matrix, compute_uv=False)
    values = values[values > 1e-6]
    found = decompose(rows, centre=centre)
    np.testing.assert_allclose(found.values, values, rtol=1e-6)
    np.testing.assert_allclose(found.left.T @ found.left, np.eye(len(values)), atol=1e-6)
    np.testing.assert_allclose(found.scores @ found.scores.T, matrix @ matrix.T, atol=1e-6)
    assert found.dimensions == dimensions


@pytest.mark.parametrize(("images", "dimensions"), [(300, 150), (150, 300), (200, 66)])
@pytest.mark.parametrize("energy", [0.3, 0.8, 0.99])
def test_axes_that_hold_an_energy_are_scikit_learn_s(images: int, dimensions: int, energy: float) -> None:
    """Whether the first axes are enough, or all of them have to be computed."""
    rows = rows_of(images, dimensions)
    reference = PCA(n_components=energy, svd_solver="full").fit_transform(rows)
    found = principal_components(rows, energy=energy)
    assert found.shape == reference.shape
    np.testing.assert_allclose(np.abs(found), np.abs(reference), atol=1e-6)


@pytest.mark.parametrize(("images", "dimensions", "count"), [(90, 80, 1), (90, 80, 70), (40, 80, 10), (90, 8, 20)])
def test_so_many_axes_are_scikit_learn_s(images: int, dimensions: int, count: int) -> None:
    rows = rows_of(images, dimensions)
    kept = min(count, dimensions)
    reference = PCA(n_components=kept, svd_solver="full").fit_transform(rows)
    found = principal_components(rows, count=count)
    assert found.shape == (images, kept)
    np.testing.assert_allclose(np.abs(found), np.abs(reference), atol=1e-6)


def test_energy_and_count_together_keep_the_fewer() -> None:
    rows = rows_of(90, 80)
    assert principal_components(rows, energy=0.9, count=3).shape == (90, 3)
    assert principal_components(rows, energy=0.05, count=70).shape[1] < 5
