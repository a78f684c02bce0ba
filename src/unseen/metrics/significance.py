"""How sure is an accuracy, and is one model better than another on the same images?

Papers:     Efron & Tibshirani, "An Introduction to the Bootstrap", 1993 (percentile interval)
            McNemar, "Note on the sampling error of the difference between correlated proportions", 1947;
            the exact form is the binomial test on the discordant pairs
            Wilson, "Probable inference, the law of succession, and statistical inference", 1927
Shapes:     correct (n,) one value per test image, 1 where it was right (booleans, or means over seeds in [0, 1])
Differs:    resampling draws multinomial counts over the distinct values instead of n indices per draw: the same
            distribution, and the cost no longer grows with the number of images
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.metrics.accuracy import paired
from unseen.stats import Interval as Interval
from unseen.stats import holm as holm
from unseen.stats import welch_difference

RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """Paired comparison of two models on the same images: mean(first) - mean(second).

    Attributes:
        p_value: two-sided bootstrap p-value, from the share of resamples on the other side of zero.
    """

    difference: Interval
    p_value: float


def bootstrap_interval(
    correct: npt.ArrayLike, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval of the mean of `correct` over images."""
    values = np.asarray(correct, dtype=np.float64)
    paired(values, values)
    means = _resampled_means(values, resamples, seed)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values.mean()), float(low), float(high), level)


def wilson_interval(share: float, count: int, *, level: float = 0.95) -> Interval:
    """Wilson's interval of a share of `count` images; never beyond 0 and 1, and not of no width where all are right.

    For the mean over seeds of how often each image was right it is on the safe side: such values vary less.
    """
    if count < 1:
        raise DataError("an interval of a share needs at least one image.")
    from scipy.stats import norm

    z = float(norm.ppf((1 + level) / 2))
    scale = 1 + z * z / count
    middle = (share + z * z / (2 * count)) / scale
    half = z / scale * float(np.sqrt(max(share * (1 - share), 0.0) / count + z * z / (4 * count * count)))
    return Interval(share, min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half)), level)


def welch_comparison(first: npt.ArrayLike, second: npt.ArrayLike, *, level: float = 0.95) -> Comparison:
    """Return the difference of the means of two independent samples, by Welch's t: mean(first) - mean(second)."""
    counts = len(np.asarray(first)), len(np.asarray(second))
    if min(counts) < 2:
        raise DataError(f"two means are compared from two values or more each; found {counts[0]} and {counts[1]}.")
    found = welch_difference(first, second, level=level)
    return Comparison(Interval(found.value, found.low, found.high, level), found.p)


def paired_bootstrap(
    first: npt.ArrayLike, second: npt.ArrayLike, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Comparison:
    """Bootstrap of the difference of two means over the same images.

    Args:
        first: per image, how right the first model was.
        second: the same images, the second model.
        level: of the interval.
        resamples: how many.
        seed: of the resampling.
    """
    left, right = paired(first, second)
    differences = left.astype(np.float64) - right.astype(np.float64)
    means = _resampled_means(differences, resamples, seed)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    # One is added on both sides so that a p-value is never 0, which no finite number of resamples can show.
    tail = min(np.count_nonzero(means <= 0), np.count_nonzero(means >= 0))
    p_value = min(1.0, 2 * (tail + 1) / (resamples + 1))
    return Comparison(Interval(float(differences.mean()), float(low), float(high), level), p_value)


def mcnemar(first: npt.ArrayLike, second: npt.ArrayLike) -> McNemar:
    """Exact McNemar test: do two models err on different numbers of the same images?"""
    left, right = paired(first, second)
    for values in (left, right):
        if not np.isin(values, (0, 1)).all():
            raise DataError(
                "McNemar's test counts images, so it takes right (1) or wrong (0) per image; other values were found. "
                "Compare single runs, or use paired_bootstrap for means over seeds."
            )
    from scipy.stats import binomtest

    only_first = int(np.count_nonzero((left == 1) & (right == 0)))
    only_second = int(np.count_nonzero((left == 0) & (right == 1)))
    discordant = only_first + only_second
    p_value = float(binomtest(only_first, discordant).pvalue) if discordant else 1.0
    return McNemar(only_first, only_second, p_value)


def _resampled_means(values: npt.NDArray[np.float64], resamples: int, seed: int) -> npt.NDArray[np.float64]:
    """Means of `resamples` draws of len(values) with replacement."""
    distinct, counts = np.unique(values, return_counts=True)
    generator = np.random.default_rng(seed)
    if len(distinct) > 256:  # the counts would be wider than they are worth: draw images
        draws = (generator.integers(len(values), size=len(values)) for _ in range(resamples))
        return np.fromiter((values[draw].mean() for draw in draws), dtype=np.float64, count=resamples)
    drawn = generator.multinomial(len(values), counts / len(values), size=resamples)
    return np.asarray(drawn @ distinct / len(values), dtype=np.float64)
