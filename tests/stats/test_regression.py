"""Slopes with HC3 errors and R^2, against matrices, scipy and naive loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import linregress, t

from unseen.core.errors import DataError
from unseen.stats import r_squared_interval, slope_interval


def test_the_slope_is_that_of_scipy_and_its_error_hc3() -> None:
    rng = np.random.default_rng(0)
    x = rng.random(25)
    y = 0.3 * x + rng.normal(size=25) * (0.1 + x)
    found = slope_interval(x, y)
    assert found.value == pytest.approx(linregress(x, y).slope)
    design = np.column_stack([np.ones(25), x])
    inverse = np.linalg.inv(design.T @ design)
    hat = np.diag(design @ inverse @ design.T)
    residual = y - design @ (inverse @ design.T @ y)
    covariance = inverse @ design.T @ np.diag((residual / (1 - hat)) ** 2) @ design @ inverse
    error = math.sqrt(covariance[1, 1])
    half = t.ppf(0.975, 23) * error
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half))
    assert found.p == pytest.approx(2 * t.sf(abs(found.value) / error, 23))
    assert found.significant == (0.0 not in found)
    moved = slope_interval(2 * x + 1, 3 * y - 5)
    assert (moved.low, moved.high, moved.p) == pytest.approx((1.5 * found.low, 1.5 * found.high, found.p))


def test_a_perfect_line_and_no_line() -> None:
    found = slope_interval([0, 1, 2, 3], [1, 3, 5, 7])
    assert found.value == pytest.approx(2) and found.high - found.low < 1e-6 and found.significant
    for x, y in (([1, 1, 1], [1, 2, 3]), ([1, 2], [1, 2]), ([1, 2, 3], [1, 2])):
        with pytest.raises(DataError):
            slope_interval(x, y)
    with pytest.raises(DataError, match="finite"):
        slope_interval([1, 2, math.nan], [1, 2, 3])


def test_r_squared_by_leaving_images_out_one_by_one() -> None:
    rng = np.random.default_rng(1)
    y = rng.normal(size=40)
    p = y + rng.normal(0, 0.7, 40)

    def ratio(rows: np.ndarray) -> float:
        return float(((y[rows] - p[rows]) ** 2).sum() / ((y[rows] - y[rows].mean()) ** 2).sum())

    found = r_squared_interval(y, p)
    assert found.value == pytest.approx(1 - ratio(np.arange(40)))
    logs = [math.log(ratio(np.delete(np.arange(40), i))) for i in range(40)]
    half = t.ppf(0.975, 24) * math.sqrt(39 / 40 * sum((v - np.mean(logs)) ** 2 for v in logs))
    assert found.low == pytest.approx(1 - ratio(np.arange(40)) * math.exp(half))
    assert found.high == pytest.approx(1 - ratio(np.arange(40)) * math.exp(-half))
    again = r_squared_interval(10 * y[::-1] + 3, 10 * p[::-1] + 3)
    assert (again.low, again.high) == pytest.approx((found.low, found.high))


def test_r_squared_without_an_interval() -> None:
    few = r_squared_interval([1, 2, 3], [1, 2, 4])
    assert few.value == 0.5 and not few.known and "10 test images" in few.reason
    constant = r_squared_interval(np.ones(20), np.ones(20))
    assert math.isnan(constant.value) and "equal" in constant.reason
    exact = r_squared_interval(np.arange(20), np.arange(20))
    assert exact.value == 1 and not exact.known and "wrong" in exact.reason


def test_constant_values_have_no_significant_slope() -> None:
    """Rounding errors of the mean must not look like a slope."""
    x = np.random.default_rng(1).uniform(size=39)
    for value in (0.1, 0.3, 1 / 3, 0.7, 1.0):
        found = slope_interval(x, np.full(39, value))
        assert found.value == pytest.approx(0.0, abs=1e-12)
        assert not found.significant
