"""Correlations with confidence intervals: Pearson's r, Spearman's rho and Kendall's tau-b.

Papers:     Fisher, "On the probable error of a coefficient of correlation deduced from a small sample", Metron 1921;
            Kendall, "The treatment of ties in ranking problems", Biometrika 1945;
            Efron & Stein, "The jackknife estimate of variance", Annals of Statistics 1981
Shapes:     x, y (n,)
Implements: Fisher's z = artanh r with the jackknife variance over points and Student's t with n - 2 degrees of freedom
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.stats.interval import FloatArray, Interval, check_level, no_interval
from unseen.stats.quantiles import t_p, t_quantile
from unseen.stats.resampling import jackknife_error

Kind = Literal["pearson", "spearman", "kendall"]

#: Below this number of points no interval keeps its level (bench/coverage.py).
FEWEST_POINTS = 10
#: With more points, Spearman's rho leaves out groups of points instead of single ones.
_MOST_POINTS, _GROUPS = 500, 200


def kendall_tau(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Return Kendall's tau-b of two lists of values of the same methods; NaN where either list is constant."""
    left, right = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if left.ndim != 1 or left.shape != right.shape or len(left) < 2:
        raise DataError(
            f"Kendall's tau compares two scores of the same methods, at least two of them; found shapes {left.shape} "
            f"and {right.shape}."
        )
    return _kendall(left, right)[0]


def correlation_interval(
    x: npt.ArrayLike, y: npt.ArrayLike, *, kind: Kind = "pearson", level: float = 0.95
) -> Interval:
    """Return a correlation with its confidence interval over other points (images, checkpoints or tasks)."""
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if xs.ndim != 1 or xs.shape != ys.shape or len(xs) < 2 or not (np.isfinite(xs).all() and np.isfinite(ys).all()):
        raise DataError(
            f"a correlation needs two lists of finite numbers of equal length; found {xs.shape}, {ys.shape}."
        )
    n = len(xs)
    if not np.ptp(xs) or not np.ptp(ys):
        return no_interval(math.nan, "one of the two lists is constant", level=check_level(level), n=n)
    value, without = {"pearson": _pearson, "spearman": _spearman, "kendall": _kendall}[kind](xs, ys)
    if n < FEWEST_POINTS:
        reason = f"a correlation needs {FEWEST_POINTS} points or more for an interval that covers its level"
        return no_interval(value, reason, level=check_level(level), n=n)
    if not np.isfinite(without).all() or np.abs(without).max() >= 1 or abs(value) >= 1:
        return no_interval(value, "the correlation is 1 or not defined without one of the points", level=level, n=n)
    error = jackknife_error(np.arctanh(without))
    half, centre = t_quantile((1 + check_level(level)) / 2, n - 2) * error, math.atanh(value)
    p = t_p(centre / error, n - 2) if error > 0 else float(value == 0)
    return Interval(value, math.tanh(centre - half), math.tanh(centre + half), level, n, "jackknife of Fisher's z", p=p)


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

    n = len(x)
    groups = np.arange(n) if n <= _MOST_POINTS else np.random.default_rng(0).permutation(n) % _GROUPS
    kept = (groups != group for group in range(groups.max() + 1))
    without = np.array([_pearson_of(rankdata(x[rows]), rankdata(y[rows])) for rows in kept])
    return _pearson_of(rankdata(x), rankdata(y)), without


def _pearson_of(x: FloatArray, y: FloatArray) -> float:
    x, y = x - x.mean(), y - y.mean()
    spread = math.sqrt((x @ x) * (y @ y))
    return float(x @ y / spread) if spread > 0 else math.nan


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
