"""LEEP and NCE against loops over their equations, and NCE against scikit-learn's mutual information."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from unseen.core.errors import DataError
from unseen.ranking import leep, nce


def naive_leep(theta: np.ndarray, labels: np.ndarray) -> float:
    images, sources = theta.shape
    joint: dict[tuple[int, int], float] = {}
    for z in range(sources):
        for y in set(labels.tolist()):
            joint[y, z] = sum(theta[j, z] for j in range(images) if labels[j] == y) / images  # Eq. (5)
    total = 0.0
    for row, y in zip(theta, labels, strict=True):
        expected = 0.0
        for z in range(sources):
            marginal = sum(joint[k, z] for k in set(labels.tolist()))
            if marginal > 0:
                expected += joint[y, z] / marginal * row[z]  # Eq. (4)
        total += math.log(expected)
    return total / images


def test_loops_over_the_equations_give_the_same(small: tuple, head: Callable[..., np.ndarray]) -> None:
    features, labels = small
    theta = head(features)
    assert leep(theta, labels) == pytest.approx(naive_leep(theta, labels), abs=1e-6)


def test_a_source_class_without_mass_changes_nothing(small: tuple, head: Callable[..., np.ndarray]) -> None:
    features, labels = small
    theta = head(features)
    padded = np.concatenate([theta, np.zeros((len(theta), 2))], axis=1)
    assert leep(padded, labels) == leep(theta, labels)


def test_a_head_that_names_the_class_is_perfect_and_a_blind_one_knows_the_shares() -> None:
    labels = np.repeat([0, 1, 2], [10, 20, 30])
    assert leep(np.eye(3)[labels], labels) == pytest.approx(0.0, abs=1e-12)
    shares = np.array([10, 20, 30]) / 60
    assert leep(np.full((60, 4), 0.25), labels) == pytest.approx(float(shares @ np.log(shares)), abs=1e-12)


@pytest.mark.parametrize(
    ("theta", "message"),
    [
        (np.full((6, 3), 0.5), "sum to 1"),
        (np.array([[1.5, -0.5]] * 6), "not negative"),
        (np.full((6,), 1.0), "shape"),
        (np.full((6, 2), np.nan), "finite"),
    ],
)
def test_what_is_not_a_probability_is_refused(theta: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        leep(theta, [0, 1, 0, 1, 0, 1])


def naive_nce(source: np.ndarray, labels: np.ndarray) -> float:
    total = 0.0
    for y in set(labels.tolist()):
        for z in set(source.tolist()):
            both = sum(1 for a, b in zip(labels, source, strict=True) if a == y and b == z) / len(labels)
            alone = sum(1 for b in source if b == z) / len(labels)
            if both > 0:
                total += both * math.log(both / alone)
    return total


def test_loops_and_mutual_information_agree(small: tuple, head: Callable[..., np.ndarray]) -> None:
    features, labels = small
    theta = head(features)
    source = theta.argmax(axis=1)
    entropy = -sum(p * math.log(p) for p in np.bincount(labels) / len(labels))
    assert nce(theta, labels) == pytest.approx(naive_nce(source, labels), abs=1e-9)
    assert nce(theta, labels) == pytest.approx(mutual_info_score(source, labels) - entropy, abs=1e-9)


def test_source_labels_may_be_names() -> None:
    labels = [0, 0, 1, 1, 2, 2]
    assert nce(["cat", "cat", "dog", "dog", "owl", "owl"], labels) == 0.0
    assert nce(["x"] * 6, labels) == pytest.approx(-math.log(3))


def test_other_shapes_are_refused() -> None:
    with pytest.raises(DataError, match="source labels"):
        nce(np.zeros((2, 2, 2)), [0, 1])
