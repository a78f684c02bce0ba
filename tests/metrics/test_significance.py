"""Intervals and paired tests against scipy, naive resampling and known coverage."""

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap, ttest_ind

from unseen.core.errors import DataError
from unseen.metrics import (
    bootstrap_interval,
    holm,
    mcnemar,
    over_seeds,
    paired_bootstrap,
    welch_comparison,
    wilson_interval,
)


def test_interval_equals_scipy_percentile_bootstrap():
    correct = np.random.default_rng(0).random(500) < 0.7
    mine = bootstrap_interval(correct, seed=1)
    theirs = bootstrap((correct,), np.mean, method="percentile", n_resamples=10_000, rng=2, vectorized=False)
    assert mine.value == correct.mean()
    assert mine.low == pytest.approx(theirs.confidence_interval.low, abs=0.004)
    assert mine.high == pytest.approx(theirs.confidence_interval.high, abs=0.004)
    assert mine.value in mine


def test_interval_of_many_distinct_values_equals_scipy_too():
    values = np.random.default_rng(0).random(400)
    mine = bootstrap_interval(values, resamples=4000)
    theirs = bootstrap((values,), np.mean, method="percentile", n_resamples=4000, rng=2, vectorized=False)
    assert mine.low == pytest.approx(theirs.confidence_interval.low, abs=0.004)


def test_intervals_cover_the_truth_at_their_level():
    generator = np.random.default_rng(0)
    covered = [0.8 in bootstrap_interval(generator.random(400) < 0.8, resamples=800, seed=i) for i in range(400)]
    assert 0.91 <= np.mean(covered) <= 0.98


def test_same_seed_same_interval():
    correct = np.arange(50) % 3 == 0
    assert bootstrap_interval(correct, seed=3) == bootstrap_interval(correct, seed=3)


def test_mcnemar_is_the_binomial_test_of_the_disagreements():
    first = np.array([1] * 30 + [0] * 12 + [1] * 50 + [0] * 8)
    second = np.array([0] * 30 + [1] * 12 + [1] * 50 + [0] * 8)
    found = mcnemar(first, second)
    assert (found.only_first, found.only_second) == (30, 12)
    assert found.p_value == pytest.approx(binomtest(30, 42, 0.5).pvalue)


def test_mcnemar_of_equal_models_is_one_and_refuses_means():
    assert mcnemar([1, 0, 1], [1, 0, 1]).p_value == 1.0
    with pytest.raises(DataError, match="paired_bootstrap"):
        mcnemar([0.5, 1.0], [1.0, 0.0])


def test_paired_bootstrap_sees_what_unpaired_intervals_hide():
    generator = np.random.default_rng(0)
    second = generator.random(2000) < 0.7
    first = second | (generator.random(2000) < 0.04)
    found = paired_bootstrap(first, second)
    assert 0.0 not in found.difference
    assert found.p_value < 0.001
    assert bootstrap_interval(first).low < bootstrap_interval(second).high
    opposite = paired_bootstrap(second, first)
    assert opposite.difference.value == -found.difference.value


def test_paired_bootstrap_false_alarms_stay_at_their_level():
    generator = np.random.default_rng(0)
    alarms = [
        paired_bootstrap(*(generator.random((2, 300)) < 0.6), resamples=500, seed=i).p_value < 0.05 for i in range(300)
    ]
    assert np.mean(alarms) < 0.09


def test_over_seeds():
    summary = over_seeds([0.5, 0.6, 0.7])
    assert (summary.mean, summary.std, summary.count) == (pytest.approx(0.6), pytest.approx(0.1), 3)
    assert summary.standard_error == pytest.approx(0.1 / 3**0.5)
    assert over_seeds([0.4]).std == 0.0
    with pytest.raises(DataError, match="at least one"):
        over_seeds([])


@pytest.mark.parametrize(("right", "count"), [(0, 10), (3, 10), (52, 52), (480, 500)])
def test_wilson_against_statistics_from_scipy(right: int, count: int) -> None:
    want = binomtest(right, count).proportion_ci(method="wilson")
    found = wilson_interval(right / count, count)
    assert (found.low, found.high) == pytest.approx((want.low, want.high), abs=1e-12)
    with pytest.raises(DataError):
        wilson_interval(0.5, 0)


def test_welch_against_scipy() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(0.7, 0.1, 13), rng.normal(0.6, 0.2, 40)
    want = ttest_ind(a, b, equal_var=False)
    found = welch_comparison(a, b)
    interval = want.confidence_interval()
    assert found.p_value == pytest.approx(want.pvalue)
    assert (found.difference.low, found.difference.high) == pytest.approx((interval.low, interval.high))
    same = welch_comparison([0.5, 0.5], [0.5, 0.5])
    assert same.p_value == 1.0 and 0.0 in same.difference
    with pytest.raises(DataError):
        welch_comparison([0.5], [0.5, 0.6])


def test_the_least_p_of_a_paired_bootstrap_is_that_of_its_resamples() -> None:
    found = paired_bootstrap(np.ones(20), np.zeros(20), resamples=99)
    assert found.p_value == pytest.approx(2 / 100)
    assert paired_bootstrap(np.ones(20), np.ones(20), resamples=99).p_value == 1.0


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([0.2]) == [0.2]
    assert holm([0.0, 0.001]) == pytest.approx([0.0, 0.001])
    assert holm([0.04, 0.01, 0.3, 0.3]) == pytest.approx([0.12, 0.04, 0.6, 0.6])
