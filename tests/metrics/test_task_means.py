"""Means over tasks, and the sensitivity of a search."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.metrics.sensitivity import sensitivities
from unseen.metrics.task_means import group_means, task_mean


def test_mean_of_medians_with_an_interval_around_it() -> None:
    found = task_mean([[0.5, 0.6, 0.9], [0.2, 0.2, 0.2]])
    assert found.value == pytest.approx(0.4)
    assert found.low == pytest.approx(0.35)
    assert found.high == pytest.approx(0.55)
    single = task_mean([[0.3], [0.5]])
    assert (single.low, single.value, single.high) == pytest.approx((0.4, 0.4, 0.4))
    with pytest.raises(DataError, match="one run of each"):
        task_mean([[0.1], []])


def test_more_tasks_give_a_narrower_interval() -> None:
    runs = [[0.4, 0.5, 0.6]] * 20
    few, many = task_mean(runs[:2]), task_mean(runs)
    assert many.high - many.low < few.high - few.low
    assert few.value == many.value == pytest.approx(0.5)


def test_groups_and_all() -> None:
    runs = {"a": [0.2, 0.2], "b": [0.4], "c": [0.9]}
    found = group_means(runs, {"a": "x", "b": "x", "c": "y"})
    assert list(found) == ["x", "y", "all"]
    assert [i.value for i in found.values()] == pytest.approx([0.3, 0.9, 0.5])


def test_sensitivity_tells_what_matters_from_what_does_not() -> None:
    rng = np.random.default_rng(0)
    trials = []
    for _ in range(200):
        rate, flip = float(10 ** rng.uniform(-3, 0)), bool(rng.random() < 0.5)
        trials.append({"rate": rate, "flip": flip, "fixed": 1, "accuracy": 0.9 - 0.1 * abs(np.log10(rate) + 2)})
    found = sensitivities(trials)
    assert set(found) == {"rate", "flip"}
    assert found["flip"].freedom == 1.0
    assert found["flip"].good == (False, True)
    assert len(found["flip"].scores[True]) + len(found["flip"].scores[False]) == 200
    assert found["rate"].best == pytest.approx(0.01, rel=0.1)
    assert found["rate"].freedom == pytest.approx(0.4 / 3, abs=0.05)
    assert not found["rate"].scores
    with pytest.raises(DataError, match="nothing to learn"):
        sensitivities([{"rate": 1, "accuracy": float("nan")}])


def test_a_continuous_one_is_told_by_four_ranges() -> None:
    trials = [{"rate": float(2**power), "accuracy": power / 100} for power in range(17)]
    found = sensitivities(trials)["rate"]
    assert found.scores == {}
    assert found.binned == {
        "1 to 2e+01": (0.0, 0.01, 0.02, 0.03),
        "2e+01 to 3e+02": (0.04, 0.05, 0.06, 0.07),
        "3e+02 to 4e+03": (0.08, 0.09, 0.1, 0.11),
        "4e+03 to 7e+04": (0.12, 0.13, 0.14, 0.15, 0.16),
    }
    assert (found.best, found.good) == (65536.0, (16384.0, 32768.0, 65536.0))
    even = sensitivities([{"shift": float(k), "accuracy": k / 10} for k in (-4, -3, -2, -1, 0, 1, 2, 3, 4)])["shift"]
    assert list(even.binned) == ["-4 to -2", "-2 to 0", "0 to 2", "2 to 4"]
    assert [len(scores) for scores in even.binned.values()] == [2, 2, 2, 3]
