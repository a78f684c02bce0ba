"""Means over tasks, harmonic means and medians of seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.stats import (
    Interval,
    accuracy_interval,
    combine_intervals,
    harmonic_mean_interval,
    mean_of_intervals,
    median_outcomes,
    unpaired_difference,
)

ONE, TWO = Interval(0.6, 0.5, 0.65, n=50), Interval(0.8, 0.74, 0.9, n=30)


def test_a_mean_adds_squared_distances() -> None:
    found = mean_of_intervals([ONE, TWO])
    assert found.value == pytest.approx(0.7)
    assert found.low == pytest.approx(0.7 - math.hypot(0.1, 0.06) / 2)
    assert found.high == pytest.approx(0.7 + math.hypot(0.05, 0.1) / 2)
    assert (found.n, found.level) == (80, 0.95)
    single = mean_of_intervals([ONE])
    assert (single.low, single.high) == pytest.approx((ONE.low, ONE.high))


def test_tasks_that_share_images_err_together() -> None:
    shared = mean_of_intervals([ONE, TWO], shared=["clevr", "clevr"])
    assert (shared.low, shared.high) == pytest.approx((0.7 - 0.08, 0.7 + 0.075))
    apart = mean_of_intervals([ONE, TWO], shared=["clevr", "kitti"])
    mean = mean_of_intervals([ONE, TWO])
    assert (apart.low, apart.high) == pytest.approx((mean.low, mean.high))


def test_a_difference_is_the_combination_with_the_negative() -> None:
    negative = Interval(-0.8, -0.9, -0.74)
    found, expected = combine_intervals(sum, [ONE, negative]), unpaired_difference(ONE, TWO)
    assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))


def test_the_harmonic_mean_moves_one_accuracy_at_a_time() -> None:
    found = harmonic_mean_interval(ONE, TWO)
    value = 2 * 0.6 * 0.8 / 1.4
    assert found.value == pytest.approx(value)
    down = math.hypot(value - 2 * 0.5 * 0.8 / 1.3, value - 2 * 0.6 * 0.74 / 1.34)
    up = math.hypot(2 * 0.65 * 0.8 / 1.45 - value, 2 * 0.6 * 0.9 / 1.5 - value)
    assert (found.low, found.high) == pytest.approx((value - down, value + up))
    other = harmonic_mean_interval(TWO, ONE)
    assert (other.low, other.high) == pytest.approx((found.low, found.high))


def test_a_harmonic_mean_of_zero_has_an_upper_limit_from_the_zero() -> None:
    none = accuracy_interval(np.zeros(30))
    found = harmonic_mean_interval(none, TWO)
    assert found.value == found.low == 0
    assert found.high == pytest.approx(2 * none.high * 0.8 / (none.high + 0.8))
    both = harmonic_mean_interval(none, none)
    assert (both.value, both.low) == (0, 0)


def test_a_part_without_interval_leaves_none() -> None:
    found = mean_of_intervals([ONE, Interval(0.5, math.nan, math.nan, reason="too few images")])
    assert found.value == pytest.approx(0.55) and not found.known and "too few images" in found.reason
    with pytest.raises(DataError, match="one interval or more"):
        mean_of_intervals([])
    with pytest.raises(DataError, match="one level"):
        mean_of_intervals([ONE, Interval(0.5, 0.4, 0.6, 0.9)])
    with pytest.raises(DataError, match="name of images"):
        mean_of_intervals([ONE, TWO], shared=["a"])


@pytest.mark.parametrize("seeds", [1, 2, 3, 4, 5])
def test_median_outcomes_have_the_median_as_mean(seeds: int) -> None:
    rows = np.random.default_rng(seeds).random((seeds, 41)) < 0.6
    found = median_outcomes(rows)
    assert found.shape == (41,)
    assert found.mean() == pytest.approx(np.median(rows.mean(axis=1)))
    if seeds % 2:
        assert any((found == row).all() for row in rows)
    assert (median_outcomes([1, 0, 1]) == [1, 0, 1]).all()
