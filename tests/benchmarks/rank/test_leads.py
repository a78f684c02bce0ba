"""Words that are calibrated: "clear" on equal and unequal candidates, and the interval, on drawn data sets."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from unseen.benchmarks.rank.leads import SCATTER, find_leads, interval

BENCH = Path(__file__).parents[3] / "bench"


def test_two_candidates_by_hand() -> None:
    generator = np.random.default_rng(0)
    parts = (generator.random((500, 2)) < [0.8, 0.6]).astype(float)
    found = find_leads(parts)
    difference = parts[:, 0] - parts[:, 1]
    error = SCATTER * np.sqrt((difference.var() + 0.5 / 501) / 500)
    assert found.values == pytest.approx(parts.mean(axis=0))
    assert found.behind[1, 0] == pytest.approx(difference.mean())
    assert found.behind[1, 2] - found.behind[1, 0] == pytest.approx(1.96 * error, rel=0.03)
    assert found.may_be_best.tolist() == [True, False]
    assert found.clear


def test_more_candidates_need_a_greater_lead() -> None:
    """The same two, 2.1 standard errors apart, alone and among eighteen others that are as good as the second."""
    images, apart = 4000, 2.1 * SCATTER * np.sqrt(2 * 0.25 / 4000)
    generator = np.random.default_rng(3)
    parts = (generator.random((images, 20)) < 0.5).astype(float)
    parts[:, 0] += 0.5 + apart - parts[:, 0].mean()
    parts[:, 1:] += 0.5 - parts[:, 1:].mean(axis=0)
    assert find_leads(parts[:, :2]).clear
    assert not find_leads(parts).clear


def test_equals_and_certain_ones_leave_nothing_undefined() -> None:
    same = find_leads(np.ones((30, 2)))
    assert same.may_be_best.all()
    assert same.shares == pytest.approx([0.5, 0.5], abs=0.05)
    assert 0 < same.errors[0] < 0.1  # thirty images without an error are no certainty
    gaps = np.array([[1.0, 1.0], [np.nan, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert find_leads(gaps).values == pytest.approx([2 / 3, 2 / 3])
    assert interval(0.99, 0.1) == (pytest.approx(0.794), 1.0)
    assert interval(-0.5, 0.1)[0] == pytest.approx(-0.696)  # R^2 may be below 0


def test_seeds_draw_independently() -> None:
    parts = (np.random.default_rng(0).random((60, 3)) < 0.7).astype(float)
    assert find_leads(parts, seed=0).shares.tolist() == find_leads(parts, seed=0).shares.tolist()
    assert find_leads(parts, seed=0).shares.tolist() != find_leads(parts, seed=1).shares.tolist()


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
