"""Confidence intervals and differences: the records that every function of `unseen.stats` returns, and their parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import AnyArray, FloatArray, IntArray
from unseen.core.errors import DataError

#: The confidence level of all outputs.
LEVEL = 0.95


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
    level: float = LEVEL
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


def no_interval(value: float, reason: str, *, level: float = LEVEL, n: int = 0) -> Interval:
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


def same_length(*lists: ArrayLike, least: int = 1) -> list[AnyArray]:
    """Return one-dimensional arrays of the same length, with at least `least` entries each."""
    arrays = [np.asarray(each) for each in lists]
    shapes = {each.shape for each in arrays}
    if len(shapes) > 1 or arrays[0].ndim != 1 or len(arrays[0]) < least:
        raise DataError(
            f"lists of equal length are needed, with one entry per image, class or method and at least {least}; found "
            f"the shapes {', '.join(str(each.shape) for each in arrays)}. Check that all are of the same images."
        )
    return arrays


def finite_lists(*lists: ArrayLike, least: int = 1) -> list[FloatArray]:
    """Return one-dimensional arrays of the same length, of finite numbers."""
    found = [each.astype(np.float64) for each in same_length(*lists, least=least)]
    if not np.isfinite(found).all():
        raise DataError("values that are not finite were found. Leave out what has no value.")
    return found


def full_table(values: ArrayLike, least: tuple[int, int] = (1, 1)) -> FloatArray:
    """Return a table of finite numbers with at least `least` rows and columns."""
    table = np.asarray(values, np.float64)
    if table.ndim != 2 or (np.array(table.shape) < least).any() or not np.isfinite(table).all():
        raise DataError(
            f"a table without gaps is needed, of at least {least[0]} rows and {least[1]} columns of finite numbers; "
            f"found the shape {table.shape} with {np.count_nonzero(~np.isfinite(table))} gaps."
        )
    return table


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


#: Sum of the parameters of a beta distribution from which scipy is faster, although its import takes 0.2 CPU s.
_LARGE = 2000.0


def beta_cdf(a: float, b: float, x: float) -> float:
    """Return the distribution function of Beta(a, b) at x, which need not lie within 0 and 1."""
    if not 0.0 < x < 1.0:
        return float(x >= 1.0)
    if a + b > _LARGE:
        from scipy.special import betainc

        return float(betainc(a, b, x))
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast below this point
        return 1.0 - _beta_fraction(b, a, 1.0 - x)
    return _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the distribution function of Beta(a, b) by the continued fraction of DLMF 8.17.22 (Lentz's method)."""
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, 1000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1.0 / (1.0 + term * d), 1.0 + term / c
            found *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return beta_density(a, b, x) * x * (1.0 - x) * found / a


def solve(excess: Callable[[float], tuple[float, float]], found: float) -> float:
    """Return the zero of an increasing function from 0 to 1 by Newton's method within a bracket.

    Args:
        excess: returns the value and the slope.
        found: the first guess.
    """
    low, high = 0.0, 1.0
    for _ in range(200):
        value, slope = excess(found)
        low, high = (found, high) if value < 0 else (low, found)
        nearer = found - value / slope if slope > 0 else math.nan
        if not low < nearer < high:
            nearer = (low + high) / 2
        if abs(nearer - found) <= 1e-14 * nearer:
            return nearer
        found = nearer
    return found


def beta_density(a: float, b: float, x: float) -> float:
    """Return the density of Beta(a, b) at x between 0 and 1."""
    constant = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(constant + (a - 1) * math.log(max(x, 1e-300)) + (b - 1) * math.log1p(-min(x, 1 - 1e-16)))


@lru_cache(maxsize=4096)
def t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution, which is normal with infinite degrees of freedom."""
    if math.isinf(freedom):
        return normal_quantile(probability)
    # t^2 / (freedom + t^2) has the distribution Beta(1/2, freedom / 2). Solve for the smaller of it and its complement.
    tail, half = 2 * min(probability, 1 - probability), freedom / 2
    near = 1 - tail < beta_cdf(0.5, half, 0.5)
    a, b, wanted = (0.5, half, 1 - tail) if near else (half, 0.5, tail)
    share = solve(lambda x: (beta_cdf(a, b, x) - wanted, beta_density(a, b, x)), a / (a + b)) if tail < 1 else 0.0
    ratio = share / (1 - share) if near else (1 - share) / share
    return math.copysign(math.sqrt(freedom * ratio), probability - 0.5)


def t_p(value: float, error: float, freedom: float) -> float:
    """Return the two-sided p-value of a value with a standard error; infinite degrees of freedom are normal."""
    if error <= 0:
        return float(value == 0)
    if math.isinf(freedom):
        return math.erfc(abs(value / error) / math.sqrt(2))
    return beta_cdf(freedom / 2, 0.5, freedom / (freedom + (value / error) ** 2))
