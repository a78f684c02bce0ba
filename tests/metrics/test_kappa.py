"""Quadratic kappa against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from unseen.core.errors import DataError
from unseen.metrics.accuracy import quadratic_kappa

PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=60)


@given(PAIRS)
def test_it_is_what_scikit_learn_says(pairs: list[tuple[int, int]]) -> None:
    labels, predictions = np.array(pairs).T
    if len(np.unique(np.concatenate([labels, predictions]))) == 1:
        assert quadratic_kappa(labels, predictions) == 1.0
        return
    expected = cohen_kappa_score(labels, predictions, labels=range(5), weights="quadratic")
    assert quadratic_kappa(labels, predictions) == pytest.approx(expected, abs=1e-12)


def test_near_misses_cost_less_than_far_ones() -> None:
    labels = np.repeat(np.arange(5), 20)
    near, far = labels.copy(), labels.copy()
    near[::10] = np.clip(near[::10] + 1, 0, 4)
    far[::10] = 4 - far[::10]
    assert 1.0 == quadratic_kappa(labels, labels) > quadratic_kappa(labels, near) > quadratic_kappa(labels, far)


def test_class_names_are_refused() -> None:
    with pytest.raises(DataError, match="class indices"):
        quadratic_kappa(["a", "b"], ["a", "b"])
