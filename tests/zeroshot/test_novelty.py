"""Local outlier factors and label propagation against their papers' formulas, one point at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unseen.zeroshot.ale_tran import laplacian, propagate
from unseen.zeroshot.cmt_star import LocalOutliers


def loop(train: np.ndarray, new: np.ndarray, k: int) -> np.ndarray:
    """Return PLOF of Kriegel et al. 2009; neighbours of new points are training points."""

    def neighbours(point: np.ndarray, own: int | None) -> tuple[list[int], float]:
        distances = [math.dist(point, other) if i != own else math.inf for i, other in enumerate(train)]
        found = sorted(range(len(train)), key=distances.__getitem__)[:k]
        return found, math.sqrt(sum(distances[i] ** 2 for i in found) / k)

    around = [neighbours(point, i) for i, point in enumerate(train)]

    def factor(found: list[int], distance: float) -> float:
        return distance / (sum(around[i][1] for i in found) / k) - 1

    return np.array([factor(*neighbours(point, None)) for point in new])


def test_local_outlier_factors_are_those_of_the_paper() -> None:
    rng = np.random.default_rng(0)
    train, new = rng.normal(size=(40, 3)), 2 * rng.normal(size=(15, 3))
    wanted = loop(train, new, 6)
    assert 0 < (wanted < 0).sum() < len(new)
    np.testing.assert_allclose(LocalOutliers(train, 6).measure(new), wanted, atol=1e-10)


def test_where_there_are_fewer_images_than_neighbours_all_others_are() -> None:
    train = np.random.default_rng(0).normal(size=(7, 2))
    many, most = LocalOutliers(train, 20), LocalOutliers(train, 6)
    np.testing.assert_allclose(many.measure(3 * train), most.measure(3 * train))
    np.testing.assert_allclose(many.measure(3 * train), loop(train, 3 * train, 6), atol=1e-10)


def test_the_graph_is_that_of_its_equation() -> None:
    """GBU Eq. (19) by loops: weights of the k nearest, either way, scaled by the roots of the degrees."""
    points, k, sigma = np.random.default_rng(1).normal(size=(12, 3)), 3, 0.7
    near = np.linalg.norm(points[:, None] - points[None], axis=2)
    M = np.zeros((12, 12))
    for i in range(12):
        for j in np.argsort(near[i])[1 : k + 1]:
            M[i, j] = M[j, i] = np.exp(-near[i, j] / (2 * sigma**2))
    degree = M.sum(1)
    np.testing.assert_allclose(laplacian(points, k, sigma).toarray(), M / np.sqrt(np.outer(degree, degree)))


@pytest.mark.parametrize("neighbours", [1, 2, 50])
def test_few_neighbours_and_more_than_there_are(neighbours: int) -> None:
    rng = np.random.default_rng(2)
    points, first = rng.normal(size=(20, 4)), rng.normal(size=(20, 3))
    L = laplacian(points, min(neighbours, 19)).toarray()
    wanted = np.linalg.solve(np.eye(20) - 0.6 * L, first)  # Eq. (20)
    np.testing.assert_allclose(propagate(points, first, [(neighbours, 0.6)])[0], wanted, atol=1e-5)


def test_an_image_alone_keeps_its_scores() -> None:
    points, first = np.ones((1, 4)), np.array([[0.2, 0.5, 0.1]])
    for found in propagate(points, first, [(10, 0.9), (1, 0.5)]):
        np.testing.assert_array_equal(found, first)
