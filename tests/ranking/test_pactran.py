"""PACTran against the bound written out, and minimised by another method."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from unseen.ranking import pactran
from unseen.ranking.scores.linear import converge


def naive_pactran(features: np.ndarray, labels: np.ndarray, factor: float, variance: float) -> float:
    images, dimensions = features.shape
    classes = len(set(labels.tolist()))
    rows = features - features.mean(axis=0)

    def probabilities(theta: np.ndarray) -> np.ndarray:
        weights, bias = theta[: dimensions * classes].reshape(dimensions, classes), theta[dimensions * classes :]
        scores = np.array([[row @ weights[:, c] + bias[c] for c in range(classes)] for row in rows])
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        return exponentials / exponentials.sum(axis=1, keepdims=True)

    def loss(theta: np.ndarray) -> float:
        found = probabilities(theta)
        entropy = -sum(np.log(found[i, y]) for i, y in enumerate(labels)) / images
        return entropy + 0.5 * np.sum(theta[: dimensions * classes] ** 2) / (factor * images)

    best = minimize(loss, np.zeros((dimensions + 1) * classes), method="BFGS", options={"gtol": 1e-7})
    trace = 0.0
    for row, p in zip(rows, probabilities(best.x), strict=True):
        for c in range(classes):
            trace += p[c] * (1 - p[c])
            for k in range(dimensions):
                trace += row[k] ** 2 * p[c] * (1 - p[c])
    trace += dimensions * classes / (factor * images)
    size = dimensions * classes
    inner = np.log(trace * factor * images / size + 1e-10)
    return -(best.fun + 0.5 * size / (factor * images) * variance / dimensions * inner)


@pytest.mark.filterwarnings("ignore:Desired error not necessarily achieved")
@pytest.mark.parametrize(("factor", "variance"), [(1.0, 10.0), (0.1, 1.0)])
def test_the_bound_written_out(small: tuple, factor: float, variance: float) -> None:
    features, labels = small[0][:40], small[1][:40]
    expected = naive_pactran(features, labels, factor, variance)
    assert pactran(features, labels, factor=factor, variance=variance) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("dimensions", [11, 12, 13, 23, 24, 30])
def test_more_dimensions_than_images_give_what_all_of_them_give(dimensions: int) -> None:
    """Whether it is solved in the span of the rows or not, against a minimum over all dimensions."""
    features = np.random.default_rng(0).normal(size=(12, dimensions)) + 0.5
    labels = np.repeat([0, 1, 2], 4)
    rows = features - features.mean(axis=0)

    def loss(flat: np.ndarray) -> float:
        theta = flat.reshape(dimensions + 1, 3)
        scores = log_softmax(rows @ theta[:-1] + theta[-1], axis=1)
        return -scores[np.arange(12), labels].mean() + (theta[:-1] ** 2).sum() / 24

    best = minimize(loss, np.zeros(3 * (dimensions + 1)), options={"gtol": 1e-6})
    theta = best.x.reshape(dimensions + 1, 3)
    chances = np.exp(rows @ theta[:-1] + theta[-1])
    chances /= chances.sum(axis=1, keepdims=True)
    curvature = (chances * (1 - chances)).sum(axis=1)
    trace = ((1 + (rows**2).sum(axis=1)) * curvature).sum() + dimensions * 3 / 12
    bound = best.fun + 0.5 * 3 * 10 / 12 * np.log(trace * 12 / (dimensions * 3))
    assert pactran(features, labels) == pytest.approx(-bound, abs=1e-5)
    assert pactran(features.astype(np.float32), labels) == pytest.approx(-bound, abs=1e-3)


def test_two_classes_have_the_minimum_of_two_vectors_of_weights(small: tuple) -> None:
    features, labels = small[0], small[1] % 2

    def loss(flat: np.ndarray) -> float:
        theta = flat.reshape(-1, 2)
        scores = log_softmax(features @ theta[:-1] + theta[-1], axis=1)
        return -scores[np.arange(len(labels)), labels].mean() + 0.05 * (theta[:-1] ** 2).sum()

    theta, found = converge(features, labels, 2, penalty=0.1, tol=1e-7)
    best = minimize(loss, np.zeros(2 * (features.shape[1] + 1)), options={"gtol": 1e-6})
    assert found == pytest.approx(best.fun, abs=1e-7) and loss(theta.ravel()) == pytest.approx(best.fun, abs=1e-7)
