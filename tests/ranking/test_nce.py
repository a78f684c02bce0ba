"""NCE against a double loop, and against scikit-learn's mutual information."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from unseen.core.errors import DataError
from unseen.ranking import nce


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
