"""How fast one quantity falls with another: a least-squares line with a bootstrap interval over the points.

Implements: ordinary least squares; percentile bootstrap over points (cases), 2,000 resamples
Shapes:     x, y (n,)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.metrics.significance import Interval

RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Line:
    """y = intercept + slope x.

    Attributes:
        slope: with its 95 % interval.
        points: how many points it was fitted to.
        r_squared: share of the variance of y that the line explains.
    """

    slope: Interval
    intercept: float
    points: int
    r_squared: float


def fit_line(x: npt.ArrayLike, y: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Line:
    """The least-squares line through points, its slope with a bootstrap interval over the points."""
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if xs.shape != ys.shape or xs.ndim != 1 or len(xs) < 3:
        raise DataError(f"a line needs three points or more, as many x as y; found {xs.shape} and {ys.shape}.")
    if np.ptp(xs) == 0:
        raise DataError("a line needs points that differ in x.")
    slope = float(_slopes(xs[None], ys[None])[0])
    intercept = float(ys.mean() - slope * xs.mean())
    residual = ys - intercept - slope * xs
    variance = float(((ys - ys.mean()) ** 2).sum())
    drawn = np.random.default_rng(seed).integers(len(xs), size=(resamples, len(xs)))
    slopes = _slopes(xs[drawn], ys[drawn])
    low, high = np.nanquantile(slopes, [0.025, 0.975])
    explained = 1 - float((residual**2).sum()) / variance if variance > 0 else 0.0
    return Line(Interval(slope, float(low), float(high)), intercept, len(xs), explained)


def _slopes(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Least-squares slope of each row; not a number where a row's x are all one value."""
    centred = x - x.mean(1, keepdims=True)
    spread = (centred**2).sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        result: npt.NDArray[np.float64] = np.where(spread > 0, (centred * y).sum(1) / spread, np.nan)
    return result
