"""kNN against a loop, and against scikit-learn without ties."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import LeaveOneOut, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from unseen.ranking import knn


def naive_knn(features: np.ndarray, labels: np.ndarray, count: int) -> float:
    right = 0
    for i, row in enumerate(features):
        near = []
        for j, other in enumerate(features):
            if i != j:
                near.append((float(row @ other / np.linalg.norm(row) / np.linalg.norm(other)), labels[j]))
        near.sort(reverse=True)
        votes: dict[int, tuple[int, float]] = {}
        for similarity, label in near[:count]:
            number, total = votes.get(label, (0, 0.0))
            votes[label] = (number + 1, total + similarity)
        right += max(votes, key=lambda name: votes[name]) == labels[i]
    return right / len(features)


@pytest.mark.parametrize("count", [1, 3, 5, 8])
def test_a_loop_gives_the_same(small: tuple, count: int) -> None:
    assert knn(*small, neighbours=count) == pytest.approx(naive_knn(*small, count), abs=1e-9)


def test_one_neighbour_is_scikit_learn_s(small: tuple) -> None:
    model = KNeighborsClassifier(1, metric="cosine")
    expected = cross_val_score(model, *small, cv=LeaveOneOut()).mean()
    assert knn(*small, neighbours=1) == pytest.approx(expected, abs=1e-9)


def test_more_neighbours_than_images_takes_all(small: tuple) -> None:
    assert knn(*small, neighbours=1000) == knn(*small, neighbours=59)
