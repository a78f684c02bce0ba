"""Intervals of regression: the slope of a line over few concepts, and R^2 of predicted numbers.

Papers:     MacKinnon & White, "Some heteroskedasticity-consistent covariance matrix estimators with improved finite
            sample properties", Journal of Econometrics 1985 [M] (HC3);
            Long & Ervin, "Using heteroscedasticity consistent standard errors in the linear regression model", The
            American Statistician 2000 (HC3 with t quantiles)
Shapes:     x, y (n,); y, predictions (n,)
Implements: the least-squares slope with HC3 errors [M] and Student's t with n - 2 degrees of freedom; R^2 on the scale
            log(1 - R^2), with the jackknife variance over images and Student's t
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.stats.interval import FloatArray, Interval, check_level, no_interval
from unseen.stats.means import t_interval
from unseen.stats.quantiles import t_quantile
from unseen.stats.resampling import jackknife_error

#: Below this number of images the interval of R^2 does not keep its level (bench/coverage.py).
FEWEST_R_SQUARED = 10
#: Degrees of freedom per image: squared errors have heavier tails than normal values.
_FREEDOM = 0.6


def slope_interval(x: npt.ArrayLike, y: npt.ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the least-squares slope of y over x, with its interval and p-value over other points (concepts)."""
    xs, ys = _two(x, y)
    n, away = len(xs), xs - xs.mean()
    spread = float(away @ away)
    if n < 3 or spread == 0:
        raise DataError(f"a slope needs three points or more that differ in x; found {n} points.")
    slope = float(away @ (ys - ys.mean())) / spread
    residual = ys - ys.mean() - slope * away
    leverage = 1 / n + away**2 / spread
    room = np.maximum(1 - leverage, 1e-12)
    error = math.sqrt(float(((away * residual / room) ** 2).sum())) / spread  # HC3
    return t_interval(slope, error, n - 2, n=n, level=level, method="t with HC3 errors")


def r_squared_interval(y: npt.ArrayLike, predictions: npt.ArrayLike, *, level: float = 0.95) -> Interval:
    """Return R^2 of fixed predictions with its confidence interval over test images."""
    truth, found = _two(y, predictions)
    n, away = len(truth), truth - truth.mean()
    wrong, whole = (truth - found) ** 2, away**2
    if whole.sum() == 0:
        return no_interval(math.nan, "all values are equal, so R^2 is not defined", level=check_level(level), n=n)
    ratio = float(wrong.sum() / whole.sum())
    value = 1 - ratio
    if n < FEWEST_R_SQUARED:
        reason = f"R^2 needs {FEWEST_R_SQUARED} test images or more for an interval that covers its level"
        return no_interval(value, reason, level=check_level(level), n=n)
    if np.count_nonzero(wrong) < 2 or np.count_nonzero(whole) < 2:
        reason = "fewer than two predictions are wrong, or fewer than two values differ from their mean"
        return no_interval(value, reason, level=check_level(level), n=n)
    without = np.log((wrong.sum() - wrong) / (whole.sum() - whole * n / (n - 1)))  # leaving one image out
    half = t_quantile((1 + check_level(level)) / 2, _FREEDOM * n) * jackknife_error(without)
    low, high = 1 - ratio * math.exp(half), 1 - ratio * math.exp(-half)
    return Interval(value, low, high, level, n, "jackknife of log(1 - R^2)")


def _two(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    first, second = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if first.ndim != 1 or first.shape != second.shape or not len(first):
        raise DataError(f"two lists of equal length are needed; found shapes {first.shape} and {second.shape}.")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise DataError("values that are not finite were found. Remove these points.")
    return first, second
