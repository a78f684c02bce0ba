"""Harmonic means and per-class means, by hand and by property."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from unseen.core.errors import DataError
from unseen.metrics import (
    harmonic_interval,
    harmonic_mean,
    mean_per_class,
    mean_per_class_accuracy,
    mean_per_class_interval,
    per_class_accuracy,
    share_interval,
)

shares = st.floats(0, 1)


def test_by_hand() -> None:
    assert harmonic_mean(0.5, 0.5) == 0.5
    assert harmonic_mean(21.8, 33.1) == pytest.approx(26.3, abs=0.05)  # ALE on SUN, Table 6 of the paper
    assert harmonic_mean(0.0, 0.0) == 0.0
    np.testing.assert_allclose(harmonic_mean(np.array([0.2, 0.0]), np.array([0.6, 1.0])), [0.3, 0.0])
    with pytest.raises(DataError, match="negative"):
        harmonic_mean(-0.1, 0.5)


@given(shares, shares)
def test_it_lies_between_and_below_the_mean(a: float, b: float) -> None:
    found = harmonic_mean(a, b)
    assert min(a, b) - 1e-12 <= found <= max(a, b) + 1e-12
    assert found <= (a + b) / 2 + 1e-12
    assert found == harmonic_mean(b, a)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60))
def test_eq_21_is_the_mean_of_the_classes(pairs: list[tuple[int, int]]) -> None:
    labels, found = np.array(pairs).T
    naive = np.mean([(found[labels == c] == c).mean() for c in np.unique(labels)])
    assert mean_per_class(labels, labels == found) == pytest.approx(naive)
    assert mean_per_class_accuracy(labels, found) == pytest.approx(naive)
    assert per_class_accuracy(labels, found).mean() == pytest.approx(naive)


def test_shapes_are_checked() -> None:
    with pytest.raises(DataError, match="equal length"):
        mean_per_class([1, 2], [True])


def test_intervals_are_those_of_drawing_images() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [20, 50, 80])
    right = rng.random(150) < 0.6
    drawn = []
    for _ in range(3000):
        rows = np.concatenate([rng.choice(np.flatnonzero(labels == c), (labels == c).sum()) for c in range(3)])
        drawn.append(mean_per_class(labels[rows], right[rows]))
    found = mean_per_class_interval(labels, right)
    assert found.value == mean_per_class(labels, right)
    np.testing.assert_allclose([found.low, found.high], np.quantile(drawn, [0.025, 0.975]), atol=0.008)
    both = harmonic_interval((labels, right), (labels[::2], right[::2]))
    assert both.low < both.value < both.high
    wanted = harmonic_mean(mean_per_class(labels, right), mean_per_class(labels[::2], right[::2]))
    assert both.value == pytest.approx(wanted)


@pytest.mark.parametrize("count", [2, 10, 150])
def test_an_interval_of_few_images_has_a_width(count: int) -> None:
    """All images right is no proof: the lower limit is that of as many images, and below 1."""
    found = mean_per_class_interval(np.arange(count) % 2, np.ones(count))
    alone = share_interval(np.ones(count))
    assert found.value == found.high == 1
    assert found.low < 1
    assert found.low == pytest.approx(alone.low, abs=0.02)


@pytest.mark.parametrize("level", [0.95, 0.6])
def test_the_interval_of_a_share_is_that_of_the_binomial(level: float) -> None:
    right = np.arange(400) < 300
    found = share_interval(right, level=level)
    assert (found.value, found.level) == (0.75, level)
    wanted = binom.ppf([(1 - level) / 2, (1 + level) / 2], 400, 0.75) / 400
    np.testing.assert_allclose([found.low, found.high], wanted, atol=0.004)
    again = mean_per_class_interval(np.zeros(400), right, level=level)
    np.testing.assert_allclose([again.low, again.high], wanted, atol=0.004)
