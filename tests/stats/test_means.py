"""Intervals of accuracy, per-class accuracy and means, against sums over the binomial distribution and naive loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from scipy.optimize import brentq
from scipy.stats import binom, ttest_1samp

from unseen.core.errors import DataError
from unseen.stats import accuracy_interval, mean_interval, per_class_interval
from unseen.stats.interval import beta_cdf, t_p, t_quantile

outcomes = st.lists(st.booleans(), min_size=1, max_size=60)
levels = st.tuples(st.floats(0.5, 0.99), st.floats(0.5, 0.99)).map(sorted)


def mid_p(right: int, count: int, level: float) -> tuple[float, float]:
    """The limits by solving sums of binomial probabilities."""
    tail = (1 - level) / 2

    def above(p: float) -> float:
        return binom.sf(right, count, p) + binom.pmf(right, count, p) / 2 - tail

    def below(p: float) -> float:
        return binom.cdf(right - 1, count, p) + binom.pmf(right, count, p) / 2 - tail

    low = 0.0 if right == 0 else brentq(above, 1e-12, 1 - 1e-12, xtol=1e-13)
    high = 1.0 if right == count else brentq(below, 1e-12, 1 - 1e-12, xtol=1e-13)
    return low, high


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize(("right", "count"), [(0, 1), (1, 1), (0, 10), (3, 10), (10, 10), (29, 30), (480, 500)])
def test_the_interval_of_one_seed_is_mid_p(right: int, count: int, level: float) -> None:
    found = accuracy_interval(np.arange(count) < right, level=level)
    assert (found.low, found.high) == pytest.approx(mid_p(right, count, level), abs=1e-9)
    assert (found.value, found.n, found.level, found.method) == (right / count, count, level, "mid-P")


def test_ten_of_ten_is_not_certain() -> None:
    found = accuracy_interval(np.ones(10))
    assert found.low == pytest.approx(0.05 ** (1 / 10))
    assert (found.value, found.high) == (1.0, 1.0)


def test_equal_seeds_are_one_seed_and_different_ones_narrow_the_interval() -> None:
    rng = np.random.default_rng(0)
    row = rng.random(60) < 0.7
    single = accuracy_interval(row)
    equal = accuracy_interval(np.stack([row] * 5))
    assert (equal.low, equal.high) == (single.low, single.high)
    independent = rng.random((5, 60)) < 0.7
    several = accuracy_interval(independent)
    widths = several.high - several.low, accuracy_interval(independent[0]).high - accuracy_interval(independent[0]).low
    pooled = accuracy_interval(independent.ravel())
    assert pooled.high - pooled.low < widths[0] < widths[1]
    assert several.value == pytest.approx(independent.mean())
    assert several.method == "mid-P with effective sample size"


@given(outcomes, levels)
def test_properties_of_accuracy_intervals(right: list[bool], pair: list[float]) -> None:
    values = np.array(right, float)
    narrow, wide = (accuracy_interval(values, level=level) for level in pair)
    assert 0 <= wide.low <= narrow.low <= narrow.value <= narrow.high <= wide.high <= 1
    again = accuracy_interval(values[::-1], level=pair[0])
    assert (again.low, again.high) == (narrow.low, narrow.high)
    mirrored = accuracy_interval(1 - values, level=pair[0])
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((narrow.low, narrow.high), abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=40), st.permutations(range(5)))
def test_per_class_intervals_do_not_depend_on_order_and_names(pairs: list[tuple[int, bool]], names: list[int]) -> None:
    labels, right = np.array(pairs).T
    found = per_class_interval(right, labels)
    order = np.random.default_rng(0).permutation(len(labels))
    again = per_class_interval(right[order], np.array(names)[labels[order]])
    assert (again.value, again.low, again.high) == pytest.approx((found.value, found.low, found.high), abs=1e-9)
    naive = np.mean([right[labels == c].mean() for c in np.unique(labels)])
    assert found.value == pytest.approx(naive)
    assert 0 <= found.low <= found.value <= found.high <= 1
    wider = per_class_interval(right, labels, level=0.99)
    assert wider.low <= found.low and found.high <= wider.high


def test_the_effective_size_is_that_of_a_naive_loop() -> None:
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1, 2, 3], [2, 5, 9, 1])
    right = rng.random((3, 17)) < 0.6
    values = right.mean(0)
    classes = [values[labels == c] for c in range(4)]
    mean = np.mean([c.mean() for c in classes])
    overall = np.mean([((c - mean) ** 2).mean() for c in classes])
    variance = 0.0
    for c in classes:
        within = (((c - c.mean()) ** 2).sum() + 0.5 * overall) / (len(c) - 0.5)
        variance += within / len(c) / 16
    size = 16 / sum(1 / len(c) for c in classes)
    errors = size * mean * (1 - mean)
    excess = size / (4 * sum(1 / len(c) for c in classes) / sum(1 / len(c) ** 2 for c in classes))
    ratio = (errors * variance * size / (mean * (1 - mean)) + 2 * excess) / (errors + 2)
    effective = size / ratio

    def distribution(p: float) -> float:
        from scipy.stats import beta

        x = mean * effective
        return float(beta.cdf(p, x, effective - x + 1) + beta.cdf(p, x + 1, effective - x)) / 2

    found = per_class_interval(right, labels)
    assert found.low == pytest.approx(brentq(lambda p: distribution(p) - 0.025, 0, 1, xtol=1e-13), abs=1e-9)
    assert found.high == pytest.approx(brentq(lambda p: distribution(p) - 0.975, 0, 1, xtol=1e-13), abs=1e-9)


def test_one_class_is_plain_accuracy_and_two_of_two_has_a_width() -> None:
    right = np.arange(40) < 30
    plain, single = accuracy_interval(right), per_class_interval(right, np.zeros(40))
    assert (single.value, single.low, single.high) == pytest.approx((plain.value, plain.low, plain.high), abs=1e-9)
    few = per_class_interval([1, 1, 1, 1], ["a", "a", "b", "b"])
    assert few.value == 1 and few.low < 0.6


def test_means_without_bounds_are_students() -> None:
    values = np.random.default_rng(2).normal(3, 2, 12)
    found = mean_interval(values)
    expected = ttest_1samp(values, 0)
    bounds = expected.confidence_interval()
    assert (found.low, found.high) == pytest.approx((bounds.low, bounds.high))
    assert found.p == pytest.approx(expected.pvalue)
    assert found.significant == (expected.pvalue < 0.05)
    alone = mean_interval([3.0])
    assert math.isnan(alone.low) and alone.value == 3 and "two values" in alone.reason and not alone.known
    assert mean_interval([2.0, 2.0]).p == 0 and mean_interval([0.0, 0.0]).p == 1


@pytest.mark.parametrize(
    ("correct", "match"),
    [([], "not be empty"), ([[[1]]], "shape"), ([0.5, math.nan], "not finite"), ([0, 2], "between 0")],
)
def test_wrong_outcomes_are_refused(correct: list[float], match: str) -> None:
    with pytest.raises(DataError, match=match):
        accuracy_interval(correct)


def test_wrong_levels_and_labels_are_refused() -> None:
    for level in (0.0, 1.0, 95):
        with pytest.raises(DataError, match="confidence level"):
            accuracy_interval([1, 0], level=level)
    with pytest.raises(DataError, match="one entry per image"):
        per_class_interval([1, 0], [1])


@given(st.floats(0.1, 3000), st.floats(0.1, 3000), st.floats(0.001, 0.999))
def test_the_beta_distribution_is_that_of_scipy(a: float, b: float, level: float) -> None:
    x = float(special.betaincinv(a, b, level))
    assert beta_cdf(a, b, x) == pytest.approx(special.betainc(a, b, x), rel=1e-9)
    assert (beta_cdf(a, b, -0.1), beta_cdf(a, b, 1.1)) == (0.0, 1.0)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(0.6, 3000))
def test_students_distribution_is_that_of_scipy(probability: float, freedom: float) -> None:
    expected = float(special.stdtrit(freedom, probability))
    assert t_quantile(probability, freedom) == pytest.approx(expected, rel=1e-7, abs=1e-7)
    p = 2 * float(special.stdtr(freedom, -abs(expected)))
    assert t_p(expected, 1.0, freedom) == pytest.approx(p, rel=1e-9)
