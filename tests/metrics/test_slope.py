"""The slope against scipy, and its interval against what is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import linregress

from unseen.core.errors import DataError
from unseen.metrics.slope import fit_line


def test_the_line_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, 80)
    y = 0.2 + 0.5 * x + rng.normal(0, 0.1, 80)
    line, expected = fit_line(x, y), linregress(x, y)
    assert line.slope.value == pytest.approx(expected.slope, abs=1e-12)
    assert line.intercept == pytest.approx(expected.intercept, abs=1e-12)
    assert line.r_squared == pytest.approx(expected.rvalue**2, abs=1e-12)
    # The bootstrap interval is about as wide as the normal one.
    assert (line.slope.high - line.slope.low) / (2 * 1.96 * expected.stderr) == pytest.approx(1, abs=0.25)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    hits = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = rng.uniform(0, 1, 60)
        line = fit_line(x, 0.3 * x + rng.normal(0, 0.2, 60), resamples=400)
        hits += line.slope.low <= 0.3 <= line.slope.high
    assert 86 <= hits <= 100


def test_no_trend_gives_an_interval_over_zero() -> None:
    rng = np.random.default_rng(1)
    line = fit_line(rng.uniform(0, 1, 200), rng.normal(0, 1, 200))
    assert line.slope.low < 0 < line.slope.high


@pytest.mark.parametrize(
    ("x", "y"), [([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [1, 2]), ([[1, 2]] * 3, [[1, 2]] * 3)]
)
def test_too_little_to_draw_a_line(x: list[float], y: list[float]) -> None:
    with pytest.raises(DataError):
        fit_line(x, y)


def test_the_same_points_give_the_same_interval() -> None:
    x, y = np.arange(9), np.arange(9) % 4
    assert fit_line(x, y) == fit_line(x, y, seed=0) != fit_line(x, y, seed=1)
