"""Two lists of numbers with confidence intervals: correlations, the slope of a line, R^2 of predictions.

Papers:     Fisher, "On the probable error of a coefficient of correlation deduced from a small sample", Metron 1921;
            Kendall, "The treatment of ties in ranking problems", Biometrika 1945;
            Efron & Stein, "The jackknife estimate of variance", Annals of Statistics 1981;
            MacKinnon & White, "Some heteroskedasticity-consistent covariance matrix estimators with improved finite
            sample properties", Journal of Econometrics 1985 [M] (HC3);
            Long & Ervin, "Using heteroscedasticity consistent standard errors in the linear regression model", The
            American Statistician 2000 (HC3 with t quantiles)
Shapes:     x, y (n,); y, predictions (n,)
Implements: Pearson's r, Spearman's rho and Kendall's tau-b: Fisher's z = artanh r with the jackknife variance over
            points and Student's t with n - 2 degrees of freedom. The least-squares slope with HC3 errors [M] and
            Student's t with n - 2 degrees of freedom. R^2 on the scale log(1 - R^2), with the jackknife variance over
            images and Student's t
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import BoolArray, FloatArray
from unseen.core.errors import DataError
from unseen.stats.interval import LEVEL, Interval, finite_lists, no_interval, same_length, t_p, t_quantile
from unseen.stats.means import t_interval
from unseen.stats.resampling import jackknife_error

Kind = Literal["pearson", "spearman", "kendall"]

#: Below this number of points (images) no interval of a correlation (of R^2) keeps its level (bench/coverage.py).
FEWEST_POINTS = 10
#: With more points, Spearman's rho leaves out groups of points instead of single ones.
_MOST_POINTS, _GROUPS = 500, 200
#: Degrees of freedom of R^2 per image: squared errors have heavier tails than normal values.
_FREEDOM = 0.6


def kendall_tau(first: ArrayLike, second: ArrayLike) -> float:
    """Return Kendall's tau-b of two lists of values of the same methods; NaN where either list is constant."""
    left, right = (each.astype(np.float64) for each in same_length(first, second, least=2))
    return _kendall(left, right)[0]


def correlation_interval(x: ArrayLike, y: ArrayLike, *, kind: Kind = "pearson") -> Interval:
    """Return a correlation with its confidence interval over other points (images, checkpoints or tasks)."""
    xs, ys = finite_lists(x, y, least=2)
    n = len(xs)
    if not np.ptp(xs) or not np.ptp(ys):
        return no_interval(math.nan, "one of the two lists is constant", n=n)
    value, without = {"pearson": _pearson, "spearman": _spearman, "kendall": _kendall}[kind](xs, ys)
    if n < FEWEST_POINTS:
        reason = f"a correlation needs {FEWEST_POINTS} points or more for an interval that covers its level"
        return no_interval(value, reason, n=n)
    if not np.isfinite(without).all() or np.abs(without).max() >= 1 or abs(value) >= 1:
        return no_interval(value, "the correlation is 1 or not defined without one of the points", n=n)
    error = jackknife_error(np.arctanh(without))
    half, centre = t_quantile((1 + LEVEL) / 2, n - 2) * error, math.atanh(value)
    low, high, p = math.tanh(centre - half), math.tanh(centre + half), t_p(centre, error, n - 2)
    return Interval(value, low, high, LEVEL, n, "jackknife of Fisher's z", p=p)


def slope_interval(x: ArrayLike, y: ArrayLike) -> Interval:
    """Return the least-squares slope of y over x, with its interval and p-value over other points (concepts)."""
    xs, ys = finite_lists(x, y)
    n, away = len(xs), xs - xs.mean()
    spread = float(away @ away)
    if n < 3 or spread == 0:
        raise DataError(f"a slope needs three points or more that differ in x; found {n} points.")
    slope = float(away @ (ys - ys.mean())) / spread
    residual = ys - ys.mean() - slope * away
    leverage = 1 / n + away**2 / spread
    room = np.maximum(1 - leverage, 1e-12)
    error = math.sqrt(float(((away * residual / room) ** 2).sum())) / spread  # HC3
    return t_interval(slope, error, n - 2, n=n, level=LEVEL, method="t with HC3 errors")


def r_squared_interval(y: ArrayLike, predictions: ArrayLike) -> Interval:
    """Return R^2 of fixed predictions with its confidence interval over test images."""
    truth, found = finite_lists(y, predictions)
    n = len(truth)
    wrong, whole = (truth - found) ** 2, (truth - truth.mean()) ** 2
    if whole.sum() == 0:
        return no_interval(math.nan, "all values are equal, so R^2 is not defined", n=n)
    ratio = float(wrong.sum() / whole.sum())
    value, reason = 1 - ratio, ""
    if n < FEWEST_POINTS:
        reason = f"R^2 needs {FEWEST_POINTS} test images or more for an interval that covers its level"
    elif np.count_nonzero(wrong) < 2 or np.count_nonzero(whole) < 2:
        reason = "fewer than two predictions are wrong, or fewer than two values differ from their mean"
    if reason:
        return no_interval(value, reason, n=n)
    without = np.log((wrong.sum() - wrong) / (whole.sum() - whole * n / (n - 1)))  # leaving one image out
    half = t_quantile((1 + LEVEL) / 2, _FREEDOM * n) * jackknife_error(without)
    low, high = 1 - ratio * math.exp(half), 1 - ratio * math.exp(-half)
    return Interval(value, low, high, LEVEL, n, "jackknife of log(1 - R^2)")


def _pearson(x: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
    """Return r, and r without each of the points."""
    x, y, n = x - x.mean(), y - y.mean(), len(x)
    xx, yy, xy = x @ x, y @ y, x @ y
    rest = n / (n - 1)  # sums of squares without a point: xx - rest x^2
    with np.errstate(divide="ignore", invalid="ignore"):
        without = (xy - rest * x * y) / np.sqrt((xx - rest * x * x) * (yy - rest * y * y))
        return float(xy / np.sqrt(xx * yy)), np.asarray(without)


def _spearman(x: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
    """Return rho, and rho without each of the points, or without each of 200 groups if there are many points."""
    from scipy.stats import rankdata

    def rho(rows: BoolArray) -> float:
        return _pearson(rankdata(x[rows]), rankdata(y[rows]))[0]

    n = len(x)
    groups = np.arange(n) if n <= _MOST_POINTS else np.random.default_rng(0).permutation(n) % _GROUPS
    without = np.array([rho(groups != group) for group in range(groups.max() + 1)])
    return rho(np.ones(n, bool)), without


def _kendall(x: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
    """Return tau-b, and tau-b without each of the points; NaN where only ties are left."""
    agree, untied_x, untied_y = np.zeros(len(x)), np.zeros(len(x)), np.zeros(len(x))
    for begin in range(0, len(x), 256):
        rows = slice(begin, begin + 256)
        left, right = np.sign(x[rows, None] - x), np.sign(y[rows, None] - y)
        agree[rows], untied_x[rows], untied_y[rows] = (left * right).sum(1), np.abs(left).sum(1), np.abs(right).sum(1)
    whole = agree.sum() / 2, untied_x.sum() / 2, untied_y.sum() / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        without = (whole[0] - agree) / np.sqrt((whole[1] - untied_x) * (whole[2] - untied_y))
        return float(whole[0] / np.sqrt(whole[1] * whole[2])), np.asarray(without)
