"""Means over random class splits: coverage for new classes, and rates of false findings."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.stats import decide, mean_interval, resampling_scale, split_interval
from unseen.zeroshot.outcomes import class_deviations, power_statement, split_candidate, split_outcomes


def sampled_splits(rng: np.random.Generator, classes: np.ndarray, count: int, tested: int, pool: int) -> np.ndarray:
    """(count, classes) whether each class is unseen; only the first `pool` classes can be."""
    unseen = np.zeros((count, len(classes)), bool)
    for row in unseen:
        row[rng.permutation(pool)[:tested]] = True
    return unseen


@pytest.mark.parametrize(("classes", "pool", "tested", "count"), [(50, 50, 10, 20), (30, 30, 6, 20), (40, 25, 8, 10)])
def test_the_intervals_cover_the_mean_of_new_classes(classes: int, pool: int, tested: int, count: int) -> None:
    rng = np.random.default_rng(0)
    covered = {"zsl": 0, "tr": 0, "H": 0, "without correction": 0}
    truth = {"zsl": 0.5, "ts": 0.4, "tr": 2 / 3}
    ts, tr = rng.beta(2, 3, (20_000, tested)).mean(1), rng.beta(4, 2, (20_000, classes - tested)).mean(1)
    truth["H"] = float((2 * ts * tr / (ts + tr)).mean())
    repeats = 400
    for _ in range(repeats):
        own = {"zsl": rng.beta(2, 2, classes), "ts": rng.beta(2, 3, classes), "tr": rng.beta(4, 2, classes)}
        unseen = sampled_splits(rng, own["zsl"], count, tested, pool)
        values = {m: (own[m] * unseen).sum(1) / tested for m in ("zsl", "ts")}
        values["tr"] = (own["tr"] * ~unseen).sum(1) / (classes - tested)
        values["H"] = 2 * values["ts"] * values["tr"] / (values["ts"] + values["tr"])
        for metric in ("zsl", "tr", "H"):
            found = split_outcomes(metric, values, classes - tested, tested, pool)
            assert found is not None
            assert found.mean() == pytest.approx(values[metric].mean())
            interval = split_interval(found, tested, pool)
            covered[metric] += interval.low <= truth[metric] <= interval.high
        plain = mean_interval(values["zsl"])
        covered["without correction"] += plain.low <= truth["zsl"] <= plain.high
    shares = {name: number / repeats for name, number in covered.items()}
    assert all(0.92 <= shares[metric] <= 0.985 for metric in ("zsl", "tr", "H")), shares
    assert shares["without correction"] < 0.85, "splits share classes"


def test_equal_methods_are_seldom_separated_and_others_are() -> None:
    rng = np.random.default_rng(1)
    false = true = 0
    for _ in range(300):
        level = rng.beta(2, 2, 40)
        a, b = (np.clip(level + rng.normal(0, 0.1, 40), 0, 1) for _ in range(2))
        unseen = sampled_splits(rng, level, 20, 8, 40)
        candidates = {n: split_candidate((v * unseen).sum(1) / 8, 8, 40) for n, v in (("a", a), ("b", b))}
        false += decide(candidates).pairs["a", "b"].significant
        better = split_candidate((np.clip(b + 0.15, 0, 1) * unseen).sum(1) / 8, 8, 40)
        true += decide(candidates | {"b": better}).pairs["b", "a"].significant
    assert false / 300 <= 0.07
    assert true / 300 >= 0.9


def test_the_scale_is_that_of_nadeau_and_bengio() -> None:
    assert resampling_scale(10, 1, 5) == pytest.approx(np.sqrt(10 * (1 / 10 + 1 / 4)) * 2.7764 / 2.2622, rel=1e-4)
    assert resampling_scale(4, 10, 50) == pytest.approx(np.sqrt(4 * (1 / 4 + 10 / 40)))
    with pytest.raises(DataError, match="more classes than are tested"):
        resampling_scale(4, 10, 10)


def test_accuracies_without_variance_have_the_interval_of_the_pool() -> None:
    found = split_interval(np.zeros(20), 5, 30)
    assert (found.value, found.low) == (0, 0)
    assert 0.05 < found.high < 0.15
    assert not split_interval([0.5], 5, 30).known


def test_the_power_statement_counts_classes() -> None:
    rng = np.random.default_rng(2)
    level = rng.uniform(0.3, 0.7, 60)
    other = np.clip(level + 0.02 + rng.normal(0, 0.1, 60), 0, 1)
    unseen = sampled_splits(rng, level, 20, 12, 60)
    values = {name: (v * unseen).sum(1) / 12 for name, v in (("a", level), ("b", other))}
    decision = decide({name: split_candidate(v, 12, 60) for name, v in values.items()})
    far = {name: class_deviations(v, 12, 60) for name, v in values.items()}
    assert far["a"].mean() == pytest.approx(values["a"].mean())
    assert np.std(far["b"] - far["a"], ddof=1) == pytest.approx(np.std(other - level, ddof=1), rel=0.4)
    statement = power_statement(far, decision, classes=60, splits=20)
    assert statement.startswith("60 classes in 20 random splits cannot separate")
    assert "would (80 % power)" in statement
