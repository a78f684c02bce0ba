"""Confidence intervals and differences: the records that every function of `unseen.stats` returns, and their parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import AnyArray, FloatArray, IntArray
from unseen.core.errors import DataError


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with the limits of its confidence interval.

    Attributes:
        low, high: the limits; NaN where no interval is given, and then `reason` states why.
        level: the confidence level.
        n: number of units (images, classes, concepts, tasks) behind the value; 0 if unknown.
        method: how the limits were computed.
        p: two-sided p-value of the hypothesis that the true value is 0; NaN where it was not tested.
    """

    value: float
    low: float
    high: float
    level: float = 0.95
    n: int = 0
    method: str = ""
    reason: str = ""
    p: float = math.nan

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def known(self) -> bool:
        """Whether both limits are numbers."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def significant(self) -> bool:
        """Whether the value differs from 0 at this level; False where it was not tested."""
        return self.p < 1 - self.level


@dataclass(frozen=True, slots=True)
class Difference(Interval):
    """The difference of two candidates, first minus second.

    Attributes:
        adjusted_p: p-value after Holm's correction over all pairs of a decision; equal to `p` for a single comparison.
        paired: whether both candidates were evaluated on the same images.
    """

    adjusted_p: float = math.nan
    paired: bool = False

    @property
    def significant(self) -> bool:
        """Whether the candidates differ at this level, after Holm's correction; False where this was not tested."""
        return self.adjusted_p < 1 - self.level

    def reversed(self) -> Difference:
        """Return the difference of the second and the first candidate."""
        return replace(self, value=0.0 - self.value, low=0.0 - self.high, high=0.0 - self.low)


def no_interval(value: float, reason: str, *, level: float, n: int = 0) -> Interval:
    """Return an interval without limits."""
    return Interval(value, math.nan, math.nan, check_level(level), n, "none", reason)


def check_level(level: float) -> float:
    """Return `level` if it is a confidence level."""
    if not 0 < level < 1:
        raise DataError(f"a confidence level lies between 0 and 1, such as 0.95; found {level}.")
    return level


def per_image(outcomes: ArrayLike, *, what: str = "outcomes") -> FloatArray:
    """Return one value per image: outcomes of shape (n,), or the mean over seeds of outcomes of shape (seeds, n)."""
    values = np.asarray(outcomes, dtype=np.float64)
    if values.ndim not in (1, 2) or not values.size:
        raise DataError(f"{what} must have shape (images,) or (seeds, images) and not be empty; found {values.shape}.")
    if not np.isfinite(values).all():
        raise DataError(f"{what} contain values that are not finite. Remove these images for all candidates.")
    return values if values.ndim == 1 else np.asarray(values.mean(axis=0))


def groups_of(labels: ArrayLike, n: int) -> tuple[IntArray, IntArray]:
    """Return the group number of each image and the size of each group."""
    names: AnyArray = np.asarray(labels)
    if names.shape != (n,):
        raise DataError(f"labels must have one entry per image: ({n},), found {names.shape}.")
    _, index, counts = np.unique(names, return_inverse=True, return_counts=True)
    return index.astype(np.int64), counts.astype(np.int64)


_NORMAL = NormalDist()


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return _NORMAL.inv_cdf(probability)


@lru_cache(maxsize=4096)
def t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution, which is normal with infinite degrees of freedom."""
    if math.isinf(freedom):
        return normal_quantile(probability)
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def t_p(value: float, error: float, freedom: float) -> float:
    """Return the two-sided p-value of a value with a standard error; infinite degrees of freedom are normal."""
    if error <= 0:
        return float(value == 0)
    if math.isinf(freedom):
        return math.erfc(abs(value / error) / math.sqrt(2))
    from scipy.special import stdtr

    return float(2 * stdtr(freedom, -abs(value / error)))
