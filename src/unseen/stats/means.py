"""Confidence intervals of means over images: accuracy, per-class accuracy, scores, and functions of several means.

Papers:     Lancaster, "Significance tests in discrete distributions", JASA 1961 (mid-P);
            Berry & Armitage, "Mid-P confidence intervals: a brief review", The Statistician 1995 [B];
            Korn & Graubard, "Confidence intervals for proportions with small expected number of positive counts
            estimated from survey data", Survey Methodology 1998 [K] (effective sample size);
            Nadeau & Bengio, "Inference for the generalization error", Machine Learning 2003 [N] (random splits);
            Zou & Donner, "Construction of confidence limits about effect measures: a general approach", Statistics in
            Medicine 2008 [Z] (MOVER)
Shapes:     correct (n,) or (seeds, n); labels (n,)
Implements: the mid-P interval of a binomial share x / n [B]: the limits are quantiles of the mixture of
            Beta(x, n - x + 1) and Beta(x + 1, n - x) in equal parts. A mean over seeds, over classes or of scores in
            [0, 1] has the interval of a share of n' = P (1 - P) / V images, with V the estimated variance of the
            mean P [K]. [Z] for a function f that increases in every argument, such as a mean over tasks or a harmonic
            mean: f is evaluated with one argument at a time at its lower (upper) limit; the squared distances to the
            value are added
Differs:    from [K]: instead of t quantiles, the ratio r = n / n' is shrunk towards that of 0/1 outcomes with the
            weight of half an error (two errors for classes of unequal sizes), and the variance within each class
            towards the variance over all images with the weight of half an image. Without this, P = 1 and classes of
            one image would have the variance 0. From [Z]: distances of arguments that share images are added before
            they are squared, since their errors may have correlation 1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import FloatArray
from unseen.core.errors import DataError
from unseen.stats.interval import (
    LEVEL,
    Interval,
    beta_cdf,
    beta_density,
    check_level,
    groups_of,
    no_interval,
    normal_quantile,
    per_image,
    solve,
    t_p,
    t_quantile,
)

#: Weight, in errors, of the assumed variance in the estimated variance of a bounded mean: with equal weights of all
#: images the assumed variance is that of 0/1 outcomes; else it is larger, and fewer errors tell about it.
_PRIOR_ERRORS, _PRIOR_ERRORS_UNEQUAL = 0.5, 2.0
#: Weight, in images, of the variance over all images in the variance within a class.
_PRIOR_IMAGES = 0.5
#: Weight, in classes, of the largest possible variance in the variance between classes.
_PRIOR_CLASSES = 0.2
_POWER = 0.8


@dataclass(frozen=True)
class Mean:
    """A mean over images with its estimated variance.

    Attributes:
        size: number of equally weighted independent images with the same variance of the mean; below the number of
            images where classes of few images have the same weight as others.
        excess: the assumed variance in units of that of `size` images: 1 for classes of one size, else that of error
            rates that are inversely proportional to the size of the class.
    """

    value: float
    variance: float
    size: float
    excess: float = 1.0


def accuracy_interval(correct: ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the accuracy with its confidence interval over test images.

    Args:
        correct: (n,) or (seeds, n) outcomes from 0 to 1 on the same test images. The value is the mean over seeds;
            the interval is for other test images and these trained models.
        level: the confidence level.
    """
    return _bounded_interval(per_image(correct, what="correct"), None, level)


def per_class_interval(correct: ArrayLike, labels: ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the mean of the per-class accuracies with its confidence interval over test images.

    Args:
        correct: (n,) or (seeds, n) outcomes from 0 to 1.
        labels: (n,) class of each image. The interval is for other images of these classes; for a claim about new
            classes give the per-class accuracies to `mean_interval`.
        level: the confidence level.
    """
    return _bounded_interval(per_image(correct, what="correct"), labels, level)


def mean_interval(values: ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the mean of independent values without bounds with its confidence interval, by Student's t.

    Args:
        values: (n,) or (seeds, n): scores of images, or accuracies of classes, concepts or tasks for a claim about
            new ones.
        level: the confidence level.
    """
    numbers = per_image(values, what="values")
    n, value = len(numbers), float(numbers.mean())
    if n < 2:
        return no_interval(value, "a t interval needs two values or more", level=level, n=n)
    return t_interval(value, float(numbers.std(ddof=1)) / math.sqrt(n), n - 1, n=n, level=level, method="Student's t")


def class_interval(accuracies: ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the mean of per-class accuracies with its confidence interval over classes, for a claim about new ones.

    The interval is that of a share of n' = n / r classes, r = variance / (P (1 - P)), as in [K]: n' is scaled by the
    squared ratio of normal and t quantiles, with (n - 1) / (1 - r) degrees of freedom, because the variance of classes
    that are all right or all wrong (r = 1) follows from P. The variance is shrunk towards P (1 - P) with the weight of
    a fifth of a class; few classes of low accuracy would otherwise have intervals that are too narrow.

    Args:
        accuracies: (n,) or (seeds, n), one per class that was sampled.
        level: the confidence level.
    """
    values = per_image(accuracies, what="accuracies of classes")
    n, value = len(values), float(values.mean())
    spread = value * (1 - value)
    if n < 2 or not (values.min() >= 0 and values.max() <= 1):
        return no_interval(value, "two classes or more with accuracies from 0 to 1 are needed", level=level, n=n)
    ratio = 1.0
    if spread > 0:
        squares = float(((values - value) ** 2).sum())
        ratio = min((squares + _PRIOR_CLASSES * spread) / (n - 1 + _PRIOR_CLASSES) / spread, 1.0)
    normal = normal_quantile((1 + check_level(level)) / 2)
    quantile = t_quantile((1 + level) / 2, (n - 1) / (1 - ratio)) if ratio < 1 else normal
    size = n / ratio * (normal / quantile) ** 2
    return _mid_p_interval(value, size, n, level, "over classes, mid-P with effective size")


def resampling_scale(count: int, tested: int, pool: int) -> float:
    """Return the factor on the standard error of a mean over random class splits [N].

    Splits share classes. With s2 the variance over splits and p = tested / pool the expected share of unseen classes
    that two splits have in common, the variance of the mean for new classes is (1 / count + p / (1 - p)) s2, not
    s2 / count. Many splits of a small pool have pool - 1 degrees of freedom.

    Args:
        count: number of splits.
        tested: unseen classes of each split.
        pool: classes that they are sampled from.
    """
    if not 0 < tested < pool:
        raise DataError(f"{tested} unseen classes of {pool}: random splits need more classes than are tested.")
    quantiles = [t_quantile((1 + LEVEL) / 2, freedom - 1.0) for freedom in (min(count, pool), count)]
    return math.sqrt(1 + count * tested / (pool - tested)) * quantiles[0] / quantiles[1]


def split_interval(values: ArrayLike, tested: int, pool: int) -> Interval:
    """Return the mean of accuracies over random class splits with its confidence interval for new classes.

    The interval is that of a share with the variance of `resampling_scale` [K], and of `pool` classes without variance.

    Args:
        values: (n,) one per split, with a mean from 0 to 1.
        tested, pool: as in `resampling_scale`.
    """
    numbers = per_image(values, what="accuracies of splits")
    n, value = len(numbers), float(numbers.mean())
    if n < 2 or not 0 <= value <= 1:
        return no_interval(value, "two splits or more with accuracies from 0 to 1 are needed", n=n)
    variance = (resampling_scale(n, tested, pool) * float(numbers.std(ddof=1))) ** 2 / n
    normal = normal_quantile((1 + LEVEL) / 2)
    size = (value * (1 - value) / variance if variance else pool) * (normal / t_quantile((1 + LEVEL) / 2, n - 1.0)) ** 2
    return _mid_p_interval(value, size, n, LEVEL, "over random class splits, corrected for the classes that they share")


def needed_classes(differences: ArrayLike) -> int | None:
    """Return how many classes a paired t-test needs to find the observed mean difference with a power of 80 %.

    Args:
        differences: (n,) differences of two candidates, one per class.

    Returns:
        The number of classes; None if it is unknown (fewer than two classes, or no difference) or above a million.
    """
    values = per_image(differences, what="differences")
    mean = abs(float(values.mean()))
    if len(values) < 2 or mean == 0.0:
        return None
    ratio = float(values.std(ddof=1)) / mean

    count = 2
    while count <= 1_000_000:
        if count >= ((t_quantile((1 + LEVEL) / 2, count - 1) + t_quantile(_POWER, count - 1)) * ratio) ** 2:
            return count
        count += max(1, count // 100)  # from 200 on, the answer is rounded up by at most 1 %
    return None


def t_interval(value: float, error: float, freedom: float, *, n: int, level: float, method: str) -> Interval:
    """Return the interval of an estimate with a standard error and degrees of freedom."""
    half = t_quantile((1 + check_level(level)) / 2, freedom) * error
    return Interval(value, value - half, value + half, level, n, method, p=t_p(value, error, freedom))


def _bounded_interval(values: FloatArray, labels: ArrayLike | None, level: float) -> Interval:
    if values.min() < 0 or values.max() > 1:
        raise DataError(
            f"outcomes must lie between 0 (wrong) and 1 (right); found {values.min():g} to {values.max():g}. For "
            "other scores use mean_interval."
        )
    return share_interval(estimate_mean(values, labels), len(values), level)


def estimate_mean(values: FloatArray, labels: ArrayLike | None) -> Mean:
    """Return the mean over images, or over classes of their means, with its variance over images."""
    found, variances, size = estimate_means(values[None], labels)
    excess = 1.0
    if labels is not None:
        shares = 1 / groups_of(labels, len(values))[1]
        excess = size * float((shares**2).sum() / shares.sum()) / len(shares)
    return Mean(float(found[0]), float(variances[0]), size, excess)


def estimate_means(values: FloatArray, labels: ArrayLike | None) -> tuple[FloatArray, FloatArray, float]:
    """Return the means (r,) of rows of values (r, n), their variances (r,) and the size, as `Mean` defines it."""
    n = values.shape[1]
    if labels is None:
        means = values.mean(axis=1)
        return means, values.var(axis=1, ddof=1) / n if n > 1 else np.full(len(means), np.nan), float(n)
    index, counts = groups_of(labels, n)
    classes, order = len(counts), np.argsort(index, kind="stable")
    starts = np.cumsum(counts) - counts
    ordered, repeated = values[:, order], np.repeat(counts, counts)
    class_means = np.add.reduceat(ordered, starts, axis=1) / counts
    means = class_means.mean(axis=1)
    within = np.add.reduceat((ordered - np.repeat(class_means, counts, axis=1)) ** 2, starts, axis=1)
    overall = ((ordered - means[:, None]) ** 2 / repeated).sum(axis=1, keepdims=True) / classes
    shrunk = (within + _PRIOR_IMAGES * overall) / (counts - 1 + _PRIOR_IMAGES)
    return means, (shrunk / counts).sum(axis=1) / classes**2, classes**2 / float((1 / counts).sum())


def share_interval(mean: Mean, n: int, level: float, method: str = "") -> Interval:
    """Return the mid-P interval of a mean of values from 0 to 1."""
    value = min(max(mean.value, 0.0), 1.0)
    spread = value * (1 - value)
    equal_weights = math.isclose(mean.size, n) and math.isclose(mean.excess, 1)
    ratio = mean.variance * mean.size / spread if spread > 0 and math.isfinite(mean.variance) else mean.excess
    if equal_weights:  # values in [0, 1] cannot vary more than 0/1 outcomes
        ratio = min(ratio, 1.0)
    errors, prior = mean.size * spread, _PRIOR_ERRORS if equal_weights else _PRIOR_ERRORS_UNEQUAL
    ratio = (errors * ratio + prior * mean.excess) / (errors + prior)
    size = mean.size / ratio
    method = method or ("mid-P" if ratio == 1.0 and equal_weights else "mid-P with effective sample size")
    return _mid_p_interval(value, size, n, check_level(level), method)


def _mid_p_interval(value: float, size: float, n: int, level: float, method: str) -> Interval:
    """Return the mid-P interval of a share of `size` images, which contains the value."""
    low, high = mid_p_limits(value * size, size, level)
    return Interval(value, min(low, value), max(high, value), level, n, method)


@lru_cache(maxsize=65536)
def mid_p_limits(right: float, size: float, level: float) -> tuple[float, float]:
    """Return the mid-P limits of a share of `right` out of `size`, which need not be whole numbers."""
    low = 0.0 if right <= 0 else _mid_p_quantile(right, size, (1 - level) / 2)
    high = 1.0 if right >= size else _mid_p_quantile(right, size, (1 + level) / 2)
    return low, high


def _mid_p_quantile(right: float, size: float, probability: float) -> float:
    """Return a quantile of the mid-P confidence distribution: half Beta(x, n - x + 1) and half Beta(x + 1, n - x)."""
    halves = [(right, size - right + 1)] if right > 0 else []
    halves += [(right + 1, size - right)] if right < size else []
    wanted = 2 * probability - (0.0 if right > 0 else 1.0)  # the other half is the point 0
    if wanted <= 0:
        return 0.0

    def excess(x: float) -> tuple[float, float]:
        return sum(beta_cdf(a, b, x) for a, b in halves) - wanted, sum(beta_density(a, b, x) for a, b in halves)

    return solve(excess, min(max(right / size, 1e-3), 1 - 1e-3))


def combine_intervals(
    function: Callable[[Sequence[float]], float], parts: Sequence[Interval], *, shared: Sequence[str] | None = None
) -> Interval:
    """Return the interval of an increasing function of several values [Z].

    Args:
        function: increases in every argument.
        parts: its arguments with their intervals, all of one level.
        shared: per part, the images that it is estimated on; by default all parts have different images.
    """
    if not parts or len({part.level for part in parts}) > 1 or (shared is not None and len(shared) != len(parts)):
        raise DataError("a combination needs one interval or more, of one level, and one name of images per interval.")
    values, level, n = [part.value for part in parts], parts[0].level, sum(part.n for part in parts)
    value = float(function(values))
    if unknown := [part.reason or "no interval is known" for part in parts if not part.known]:
        return no_interval(value, f"a part has no interval: {unknown[0]}", level=level, n=n)
    limits = []
    for end in ("low", "high"):
        distances: dict[str, float] = {}
        for i, part in enumerate(parts):
            moved = function([*values[:i], getattr(part, end), *values[i + 1 :]])
            key = str(i) if shared is None else shared[i]
            distances[key] = distances.get(key, 0.0) + abs(moved - value)
        limits.append(math.hypot(*distances.values()))
    return Interval(value, value - limits[0], value + limits[1], level, n, "MOVER")


def mean_of_intervals(parts: Sequence[Interval], *, shared: Sequence[str] | None = None) -> Interval:
    """Return the mean over tasks, with the interval over the test images of these tasks.

    For a claim about new tasks give the values of the tasks to `mean_interval`.
    """
    return combine_intervals(lambda values: sum(values) / len(values), parts, shared=shared)


def harmonic_mean_interval(first: Interval, second: Interval) -> Interval:
    """Return the harmonic mean of two accuracies on different images, with its interval."""
    return combine_intervals(lambda pair: 2 * math.prod(pair) / sum(pair) if sum(pair) > 0 else 0.0, [first, second])


def median_outcomes(correct: ArrayLike) -> FloatArray:
    """Return the per-image outcomes (n,) of the seed with the median accuracy, out of (seeds, n).

    Their mean is the median over seeds. For an even number of seeds it is the mean of the two in the middle.
    """
    rows = np.atleast_2d(np.asarray(correct, np.float64))
    per_image(rows)
    order = np.argsort(rows.mean(axis=1), kind="stable")
    return np.asarray(rows[[order[(len(order) - 1) // 2], order[len(order) // 2]]].mean(axis=0))
