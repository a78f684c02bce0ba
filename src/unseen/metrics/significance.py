"""Tests and intervals under their names of version 0.1; reports use `unseen.stats`.

Papers:     Efron & Tibshirani, "An Introduction to the Bootstrap", 1993 (percentile interval)
            McNemar, "Note on the sampling error of the difference between correlated proportions", 1947;
            the exact form is the binomial test on the discordant pairs
            Wilson, "Probable inference, the law of succession, and statistical inference", 1927
Shapes:     correct (n,) one value per test image, 1 where it was right (booleans, or means over seeds in [0, 1])
Differs:    the bootstrap samples multinomial counts of the distinct values instead of n indices: the same distribution,
            and the cost does not grow with the number of images
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.errors import DataError
from unseen.stats import Interval, accuracy_interval, bootstrap, welch_difference
from unseen.stats.interval import normal_quantile, same_length

RESAMPLES = 10_000
share_interval = accuracy_interval


@dataclass(frozen=True)
class McNemar:
    """Result of McNemar's test.

    Attributes:
        only_first: images that the first model alone got right.
        only_second: images that the second model alone got right.
        p_value: two-sided, exact; 1.0 where the models never disagree.
    """

    only_first: int
    only_second: int
    p_value: float


@dataclass(frozen=True)
class Comparison:
    """Comparison of two models: mean(first) - mean(second), with its two-sided p-value."""

    difference: Interval
    p_value: float


@dataclass(frozen=True)
class SeedSummary:
    """Mean and spread of one value over seeds.

    Attributes:
        std: sample standard deviation (n - 1 in the denominator), 0 for a single run.
        count: how many runs.
    """

    mean: float
    std: float
    count: int

    @property
    def standard_error(self) -> float:
        """Standard error of the mean."""
        return self.std / float(np.sqrt(self.count))


def over_seeds(values: Iterable[float]) -> SeedSummary:
    """Summarise one value per seed."""
    numbers = np.fromiter(values, dtype=np.float64)
    if not len(numbers):
        raise DataError("a summary over seeds needs at least one run; found none.")
    spread = float(numbers.std(ddof=1)) if len(numbers) > 1 else 0.0
    return SeedSummary(float(numbers.mean()), spread, len(numbers))


def bootstrap_interval(
    correct: ArrayLike, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Return the mean of `correct` over images with its percentile bootstrap interval."""
    values = np.asarray(correct, dtype=np.float64)
    return paired_bootstrap(values, np.zeros_like(values), level=level, resamples=resamples, seed=seed).difference


def paired_bootstrap(
    first: ArrayLike, second: ArrayLike, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Comparison:
    """Return the difference of two means over the same images, with its percentile bootstrap interval.

    Args:
        first: per image, how right the first model was.
        second: the same images, the second model.
        level: of the interval.
        resamples: how many.
        seed: of the resampling.
    """
    left, right = same_length(first, second)
    differences, n = left.astype(np.float64) - right.astype(np.float64), len(left)
    distinct, counts = np.unique(differences, return_counts=True)
    means = bootstrap(lambda w: w @ distinct / n, n, counts=counts, resamples=resamples, seed=seed)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    # One is added on both sides so that a p-value is never 0, which no finite number of resamples can show.
    tail = min(np.count_nonzero(means <= 0), np.count_nonzero(means >= 0))
    p_value = min(1.0, 2 * (tail + 1) / (resamples + 1))
    return Comparison(Interval(float(differences.mean()), float(low), float(high), level), p_value)


def wilson_interval(share: float, count: int, *, level: float = 0.95) -> Interval:
    """Return Wilson's interval of a share of `count` images: within 0 and 1, and with a width where all are right.

    For the mean over seeds of how often each image was right it is on the safe side: such values vary less.
    """
    if count < 1:
        raise DataError("an interval of a share needs at least one image.")
    z = normal_quantile((1 + level) / 2)
    scale = 1 + z * z / count
    middle = (share + z * z / (2 * count)) / scale
    half = z / scale * float(np.sqrt(max(share * (1 - share), 0.0) / count + z * z / (4 * count * count)))
    return Interval(share, min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half)), level)


def welch_comparison(first: ArrayLike, second: ArrayLike, *, level: float = 0.95) -> Comparison:
    """Return the difference of the means of two independent samples, by Welch's t: mean(first) - mean(second)."""
    found = welch_difference(first, second, level=level)
    if found.reason:
        raise DataError(f"{found.reason}; found {np.size(first)} and {np.size(second)}.")
    return Comparison(Interval(found.value, found.low, found.high, level), found.p)


def mcnemar(first: ArrayLike, second: ArrayLike) -> McNemar:
    """Return the exact McNemar test of whether two models err on different numbers of the same images."""
    from scipy.stats import binomtest

    left, right = same_length(first, second)
    if not np.isin([left, right], (0, 1)).all():
        raise DataError(
            "McNemar's test counts images, so it takes right (1) or wrong (0) per image; other values were found. "
            "Compare single runs, or use paired_bootstrap for means over seeds."
        )
    only_first, only_second = int(np.count_nonzero(left > right)), int(np.count_nonzero(left < right))
    discordant = only_first + only_second
    p_value = float(binomtest(only_first, discordant).pvalue) if discordant else 1.0
    return McNemar(only_first, only_second, p_value)
