"""Expected accuracies and the decision on them: by hand, at the limits, and on simulated data sets."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from unseen.benchmarks.rank.scoring import SCATTER, estimates, expected_interval, spread
from unseen.stats import accuracy_interval, decide, paired_difference

BENCH = Path(__file__).parents[3] / "bench"


def test_two_candidates_by_hand() -> None:
    generator = np.random.default_rng(0)
    hits = (generator.random((2, 500)) < [[0.8], [0.6]]).astype(float)
    decision = decide(estimates({"a": hits[0], "b": hits[1]}))
    assert decision.order == ("a", "b") and decision.best == "a"
    expected = paired_difference(hits[0], hits[1], error_scale=SCATTER)
    assert decision.pairs["a", "b"].p == pytest.approx(expected.p)
    assert (decision.behind["b"].low, decision.behind["b"].high) == pytest.approx((expected.low, expected.high))
    error = SCATTER * (hits[0] - hits[1]).std() / np.sqrt(500)
    assert decision.behind["b"].high - decision.behind["b"].value == pytest.approx(1.96 * error, rel=0.05)
    value = decision.intervals["a"]
    half = 1.96 * spread(500) * np.sqrt(value.value * (1 - value.value) / 500)
    assert (value.high - value.low) / 2 == pytest.approx(half, rel=0.03)


def test_samples_have_the_error_of_differences_and_not_that_of_the_widened_interval() -> None:
    """The share of first places, against the normal distribution by hand."""
    from scipy.stats import norm

    hits = (np.random.default_rng(2).random((2, 150)) < [[0.72], [0.66]]).astype(float)
    first, second = sorted(hits, key=lambda row: -row.mean())
    found = decide(estimates({"a": first, "b": second})).best_share["b"]
    z = (first.mean() - second.mean()) / (SCATTER * (first - second).std() / np.sqrt(150))
    assert found == pytest.approx(norm.sf(z), abs=0.03)


def test_outcomes_that_are_all_right_have_an_interval_and_gaps_are_dropped() -> None:
    all_right = expected_interval(np.ones(48))
    assert all_right.high == 1.0 and 0.8 < all_right.low < accuracy_interval(np.ones(48)).low
    same = decide(estimates({"a": np.ones(30), "b": np.ones(30)}))
    assert same.possibly_best == ("a", "b")
    assert same.best_share["a"] == pytest.approx(0.5, abs=0.05)
    gaps = estimates({"a": np.array([1.0, np.nan, 0.0, 1.0]), "b": np.array([1.0, 0.0, 1.0, 0.0])})
    assert decide(gaps).intervals["a"].value == pytest.approx(2 / 3)
    assert estimates({}) == {}
    below = expected_interval(np.random.default_rng(0).normal(-0.5, 1, 400))  # R^2 may be below 0
    assert below.low < -0.5 < below.high


@pytest.mark.slow
def test_calibration_at_reduced_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """bench/rank_calibration.py in full has 200 sets per line; here 40, with the error that 40 have."""
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        from rank_calibration import World, count

        equal = count(World(5, 0.45, (0.9, 0.9), 200), 40)
        apart = count(World(10, 0.8, (0.7, 0.915), 1000), 10, fresh=False)
    finally:
        torch.set_num_threads(threads)
    assert equal.clear <= 0.10 + 2 * np.sqrt(0.1 * 0.9 / 40)
    assert equal.covered >= 0.90 - 2 * np.sqrt(0.1 * 0.9 / 80)
    assert apart.right >= 0.80 - 2 * np.sqrt(0.2 * 0.8 / 10)
    assert apart.right > equal.clear
