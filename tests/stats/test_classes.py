"""Inference over classes: intervals, paired tests and the number of classes that a test needs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from unseen.stats import Candidate, class_interval, decide, needed_classes
from unseen.zeroshot.outcomes import power_statement


@pytest.mark.parametrize(("mean", "spread"), [(0.1, 5.0), (0.3, 5.0), (0.5, 2.0), (0.5, 0.3), (0.8, 5.0)])
def test_the_interval_covers_the_mean_over_all_classes(mean: float, spread: float) -> None:
    """Ten classes out of a population, 400 times; the limits of 90 and 97 % are wider by 2.5 standard errors."""
    rng = np.random.default_rng(0)
    population = rng.beta(mean * spread, (1 - mean) * spread, 2000)
    found = [population.mean() in class_interval(rng.choice(population, 10)) for _ in range(400)]
    assert 0.875 <= np.mean(found) <= 0.99


def test_the_interval_of_classes_that_are_all_right_or_all_wrong_is_that_of_a_share() -> None:
    """Four of ten classes right: close to the Clopper-Pearson interval, which is the wider one."""
    found = class_interval([1.0] * 4 + [0.0] * 6)
    exact = scipy.stats.binomtest(4, 10).proportion_ci()
    assert exact.low <= found.low <= found.value <= found.high <= exact.high
    assert class_interval([1.0] * 10).low < 0.85
    assert class_interval([0.5, 0.5, 0.5]).high > 0.6, "equal accuracies of three classes are no certainty"
    assert not class_interval([0.5]).known


def test_candidates_over_classes_are_compared_by_the_paired_t_test() -> None:
    rng = np.random.default_rng(1)
    a = rng.uniform(0.2, 0.9, 12)
    b = a - 0.05 + 0.04 * rng.normal(size=12)
    found = decide({"a": Candidate(a, over_classes=True), "b": Candidate(np.clip(b, 0, 1), over_classes=True)})
    reference = scipy.stats.ttest_rel(a, np.clip(b, 0, 1))
    pair = found.pairs["a", "b"]
    assert pair.p == pytest.approx(reference.pvalue, rel=1e-6)
    assert (pair.low, pair.high) == pytest.approx(tuple(reference.confidence_interval(0.95)), rel=1e-6)
    assert found.intervals["a"] == class_interval(a)
    assert sum(found.best_share.values()) == pytest.approx(1)


def test_equal_candidates_differ_in_one_of_twenty_cases() -> None:
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(400):
        a, b = np.clip(rng.normal(0.5, 0.2, (2, 10)), 0, 1)
        pairs = decide({"a": Candidate(a, over_classes=True), "b": Candidate(b, over_classes=True)}).pairs
        wrong += pairs["a", "b"].significant
    assert wrong / 400 < 0.08


def test_needed_classes_have_the_power() -> None:
    """Simulated tests of the stated number of classes find the difference in about 80 %."""
    rng = np.random.default_rng(3)
    observed = rng.normal(0.05, 0.1, 10)
    count = needed_classes(observed)
    assert count is not None
    mean, deviation = observed.mean(), observed.std(ddof=1)
    found = [scipy.stats.ttest_1samp(rng.normal(mean, deviation, count), 0).pvalue < 0.05 for _ in range(1000)]
    assert 0.75 <= np.mean(found) <= 0.87
    assert needed_classes([0.1, -0.1]) is None and needed_classes([0.1]) is None
    assert needed_classes([0.3, 0.3001, 0.2999]) == 2


def test_the_statement_on_power_names_the_number_of_classes() -> None:
    rng = np.random.default_rng(4)
    base = rng.uniform(0.2, 0.8, 10)
    per_class = {"ALE": base, "SAE": base - 0.02 + 0.1 * rng.normal(size=10), "DAP": base / 4}
    decision = decide({name: Candidate(values, over_classes=True) for name, values in per_class.items()})
    statement = power_statement(per_class, decision)
    first, second = decision.order[:2]
    count = needed_classes(per_class[first] - per_class[second])
    assert count is not None and count > 10
    assert statement == f"10 unseen classes cannot separate {first} and {second}; about {count:,} would (80 % power)"
    far = {"ALE": base, "DAP": base / 4}
    decision = decide({name: Candidate(values, over_classes=True) for name, values in far.items()})
    assert power_statement(far, decision) == "10 unseen classes separate ALE from DAP"
