"""Differences of two candidates, against closed forms, scipy and naive loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, ttest_ind, ttest_rel

from unseen.core.errors import DataError
from unseen.stats import (
    Interval,
    accuracy_interval,
    holm,
    paired_difference,
    unpaired_difference,
    welch_difference,
)

rows = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=50)


def bonett_price(only_first: int, only_second: int, count: int, level: float) -> tuple[float, float, float]:
    """The published formula of counts: limits and the p-value of the same statistic."""
    first, second = (only_first + 1) / (count + 2), (only_second + 1) / (count + 2)
    error = math.sqrt((first + second - (first - second) ** 2) / (count + 2))
    half = norm.ppf((1 + level) / 2) * error
    return first - second - half, first - second + half, 2 * norm.sf(abs(first - second) / error)


@given(rows, st.sampled_from([0.8, 0.95]))
def test_outcomes_of_one_seed_give_the_published_interval(pairs: list[tuple[bool, bool]], level: float) -> None:
    a, b = np.array(pairs).T
    found = paired_difference(a, b, level=level)
    low, high, p = bonett_price(int((a & ~b).sum()), int((~a & b).sum()), len(a), level)
    value = a.mean() - b.mean()
    assert (found.low, found.high) == pytest.approx((max(min(low, value), -1), min(max(high, value), 1)))
    assert found.p == pytest.approx(p)
    assert (found.p < 1 - level) == (0.0 not in found), "test and interval agree"
    assert found.significant == (found.p < 1 - level)
    assert (found.value, found.n, found.paired) == (pytest.approx(value), len(a), True)


@given(rows)
def test_the_order_of_images_does_not_matter_and_that_of_models_changes_the_sign(
    pairs: list[tuple[bool, bool]],
) -> None:
    a, b = np.array(pairs).T
    found, other, again = paired_difference(a, b), paired_difference(b, a), paired_difference(a[::-1], b[::-1])
    assert (other.value, other.low, other.high) == pytest.approx((-found.value, -found.high, -found.low))
    assert other.p == pytest.approx(found.p)
    assert (again.low, again.high, again.p) == pytest.approx((found.low, found.high, found.p))
    wide = paired_difference(a, b, level=0.99)
    assert wide.low <= found.low <= found.high <= wide.high
    reverse = found.reversed()
    assert (reverse.value, reverse.low, reverse.high, reverse.p) == pytest.approx(
        (other.value, other.low, other.high, other.p)
    )


def test_models_that_never_disagree_are_equal_but_not_certainly() -> None:
    found = paired_difference(np.ones(20), np.ones(20))
    assert found.value == 0 and found.p == 1 and found.low < -0.02 and found.high > 0.02


def test_seeds_are_averaged_per_image() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((5, 200)) < 0.8, rng.random((3, 200)) < 0.7
    found = paired_difference(a, b)
    d = a.mean(0) - b.mean(0)
    added = ((d**2).sum() + 1) / ((d != 0).sum() + 1)
    extended = np.concatenate([d, [math.sqrt(added), -math.sqrt(added)]])
    half = norm.ppf(0.975) * extended.std() / math.sqrt(202)
    assert (found.low, found.high) == pytest.approx((extended.mean() - half, extended.mean() + half))


def test_scores_without_bounds_are_compared_by_the_paired_t_test() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(1, 2, 30), rng.normal(0, 2, 30)
    found, expected = paired_difference(a, b), ttest_rel(a, b)
    bounds = expected.confidence_interval()
    assert (found.low, found.high) == pytest.approx((bounds.low, bounds.high))
    assert found.p == pytest.approx(expected.pvalue)
    alone = paired_difference([3.0], [1.0])
    assert alone.value == 2 and not alone.known and "two images" in alone.reason and not alone.significant


def test_classes_have_equal_weight() -> None:
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1, 2], [10, 30, 60])
    a, b = rng.random(100) < 0.8, rng.random(100) < 0.6
    found = paired_difference(a, b, labels=labels)
    naive = np.mean([a[labels == c].mean() - b[labels == c].mean() for c in range(3)])
    assert found.value == pytest.approx(naive)
    plain = paired_difference(a, b)
    assert found.high - found.low > plain.high - plain.low
    balanced = paired_difference(a, b, labels=np.arange(100) % 2)
    assert balanced.high - balanced.low == pytest.approx(plain.high - plain.low, rel=0.1)


def test_a_factor_on_the_error_widens_the_interval() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random(100) < 0.9, rng.random(100) < 0.7
    one, wide = paired_difference(a, b), paired_difference(a, b, error_scale=1.25)
    assert wide.high - wide.low == pytest.approx(1.25 * (one.high - one.low))
    assert wide.p > one.p


def test_different_images_by_square_and_add() -> None:
    a, b = Interval(0.8, 0.7, 0.86, n=100), Interval(0.6, 0.5, 0.69, n=90)
    found = unpaired_difference(a, b)
    assert found.low == pytest.approx(0.2 - math.hypot(0.1, 0.09))
    assert found.high == pytest.approx(0.2 + math.hypot(0.06, 0.1))
    assert found.p == pytest.approx(2 * norm.sf(norm.ppf(0.975) * 0.2 / math.hypot(0.1, 0.09)))
    assert (found.p < 0.05) == (0 not in found)
    other = unpaired_difference(b, a)
    assert (other.low, other.high, other.p) == pytest.approx((-found.high, -found.low, found.p))
    assert unpaired_difference(a, a).p == 1
    unknown = unpaired_difference(a, Interval(0.5, math.nan, math.nan, reason="too few"))
    assert unknown.value == pytest.approx(0.3) and unknown.reason.endswith("too few") and not unknown.significant
    with pytest.raises(DataError, match="one level"):
        unpaired_difference(a, Interval(0.5, 0.4, 0.6, 0.9))


def test_pairing_is_narrower_where_models_agree() -> None:
    rng = np.random.default_rng(4)
    b = rng.random(1000) < 0.7
    a = b ^ (rng.random(1000) < 0.05)
    paired, unpaired = paired_difference(a, b), unpaired_difference(accuracy_interval(a), accuracy_interval(b))
    assert paired.high - paired.low < 0.5 * (unpaired.high - unpaired.low)


def test_welch_against_scipy() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(0.7, 0.1, 13), rng.normal(0.6, 0.2, 40)
    found, expected = welch_difference(a, b), ttest_ind(a, b, equal_var=False)
    bounds = expected.confidence_interval()
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx((bounds.low, bounds.high))
    assert welch_difference([0.5, 0.5], [0.5, 0.5]).p == 1 and welch_difference([0.5, 0.5], [0.4, 0.4]).p == 0
    assert not welch_difference([0.5], [0.4, 0.5]).known


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_is_the_step_down_procedure(p_values: list[float]) -> None:
    found = holm(p_values)
    for level in (0.01, 0.05, 0.3):
        rejected = set()
        for step, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
            if p_values[index] * (len(p_values) - step) > level:
                break
            rejected.add(index)
        assert {i for i, p in enumerate(found) if p <= level} == rejected
    assert all(p >= q for p, q in zip(found, p_values, strict=True))


def test_different_numbers_of_images_are_refused() -> None:
    with pytest.raises(DataError, match="3 and 2 images"):
        paired_difference([1, 0, 1], [1, 0])
