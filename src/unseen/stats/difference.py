"""Differences of two candidates: on the same images, on different images, or of two intervals.

Papers:     Bonett & Price, "Adjusted Wald confidence interval for a difference of binomial proportions based on paired
            data", Journal of Educational and Behavioral Statistics 2012 [B];
            Donner & Zou, "Closed-form confidence intervals for functions of the normal mean and standard deviation",
            Statistical Methods in Medical Research 2012 [M] (method of variance estimates recovery, MOVER);
            Welch, "The generalization of Student's problem when several different population variances are involved",
            Biometrika 1947
Shapes:     a, b (n,) or (seeds, n)
Implements: [B] for outcomes of 0 and 1: Wald's interval after adding one image that only the first candidate has
            right and one that only the second has right. The p-value is that of the same statistic, so p < 0.05 if and
            only if the 95 % interval excludes 0. Scores without bounds: the paired t-test. Different images: [M] on
            the intervals of both candidates; Welch's t for values without bounds
Differs:    from [B]: outcomes averaged over seeds differ by less than 1 per image, so the square of the two added
            differences is (sum of d^2 + 1) / (number of d != 0, + 1), which is 1 for outcomes of 0 and 1
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import FloatArray
from unseen.core.errors import DataError
from unseen.stats.interval import Difference, Interval, check_level, normal_quantile, per_image, t_p, t_quantile
from unseen.stats.means import combine_intervals, estimate_means, t_interval


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    *,
    level: float = 0.95,
    labels: ArrayLike | None = None,
    error_scale: float = 1.0,
) -> Difference:
    """Return the mean of `a` minus the mean of `b` on the same images, with its interval and p-value.

    Args:
        a, b: (n,) or (seeds, n) outcomes of the same images in the same order; numbers of seeds may differ.
        level: the confidence level.
        labels: (n,) class of each image, for the difference of two means of per-class accuracies.
        error_scale: factor on the standard error, for outcomes that vary more than independent images would.
    """
    first, second = per_image(a, what="outcomes of the first candidate"), per_image(b, what="outcomes of the second")
    if first.shape != second.shape:
        raise DataError(
            f"a paired difference needs outcomes of the same images; found {len(first)} and {len(second)} images. Use "
            "unpaired_difference for different images."
        )
    shares = bool(min(first.min(), second.min()) >= 0 and max(first.max(), second.max()) <= 1)
    differences = (first - second)[None]
    return paired_differences(differences, shares=shares, level=level, labels=labels, error_scale=error_scale)[0]


def paired_differences(
    differences: FloatArray,
    *,
    shares: bool,
    level: float,
    labels: ArrayLike | None,
    error_scale: float,
) -> list[Difference]:
    """Return the intervals of many means of paired differences (pairs, n).

    Args:
        shares: whether all outcomes lie between 0 and 1.
    """
    check_level(level)
    n = differences.shape[1]
    if not shares and n < 2:
        reason = "a paired t-test needs two images or more"
        return [replace(_unknown(float(d[0]), reason, level, n), paired=True) for d in differences]
    if shares and labels is None:
        values, variances, size = differences.mean(axis=1), np.zeros(0), float(n)
    else:
        values, variances, size = estimate_means(differences, labels)
    if shares:  # [B]: two images more, of the differences 1 and -1
        squares = np.einsum("ij,ij->i", differences, differences)
        added = (squares + 1) / (np.count_nonzero(differences, axis=1) + 1)
        total = squares if labels is None else size * (size * variances + values**2)
        centres = values * size / (size + 2)
        errors = np.sqrt(((total + 2 * added) / (size + 2) - centres**2) / (size + 2)) * error_scale
        freedom, bound, method = math.inf, 1.0, "paired, Bonett and Price"
    else:
        centres, errors = values, np.sqrt(variances) * error_scale
        freedom, bound, method = n - 1.0, math.inf, "paired t"
    halves = t_quantile((1 + level) / 2, freedom) * errors
    low = np.maximum(np.minimum(centres - halves, values), -bound)
    high = np.minimum(np.maximum(centres + halves, values), bound)
    found = []
    for value, centre, error, least, most in np.stack([values, centres, errors, low, high], axis=1).tolist():
        p = t_p(centre, error, freedom)
        found.append(Difference(value, least, most, level, n, method, p=p, adjusted_p=p, paired=True))
    return found


def _unknown(value: float, reason: str, level: float, n: int) -> Difference:
    return Difference(value, math.nan, math.nan, check_level(level), n, "none", reason)


def unpaired_difference(a: Interval, b: Interval, *, error_scale: float = 1.0) -> Difference:
    """Return the difference of two values that were estimated on different images, from their intervals [M].

    For the same images this is valid where the outcomes of the candidates are not negatively correlated, and wider
    than `paired_difference`.
    """
    found = combine_intervals(sum, [a, replace(b, value=-b.value, low=-b.high, high=-b.low)])
    level, value, n = found.level, found.value, min(a.n, b.n)
    if not found.known:
        return _unknown(value, found.reason, level, n)
    below, above = error_scale * (value - found.low), error_scale * (found.high - value)
    p = t_p(normal_quantile((1 + level) / 2) * value, below if value > 0 else above, math.inf)
    return Difference(value, value - below, value + above, level, n, "unpaired, MOVER", p=p, adjusted_p=p)


def welch_difference(a: ArrayLike, b: ArrayLike, *, level: float = 0.95) -> Difference:
    """Return the difference of the means of two independent samples of values without bounds, by Welch's t.

    Use it for claims over concepts or tasks, such as the accuracy of the concepts of one level minus another.
    """
    first, second = per_image(a, what="values"), per_image(b, what="values")
    value, n = float(first.mean() - second.mean()), len(first) + len(second)
    if min(len(first), len(second)) < 2:
        return _unknown(value, "Welch's t-test needs two values or more on both sides", level, n)
    parts = [float(x.var(ddof=1)) / len(x) for x in (first, second)]
    error = math.sqrt(sum(parts))
    weights = sum(v * v / (len(x) - 1) for v, x in zip(parts, (first, second), strict=True))
    found = t_interval(value, error, sum(parts) ** 2 / weights if error else 1.0, n=n, level=level, method="Welch's t")
    return Difference(value, found.low, found.high, level, n, found.method, p=found.p, adjusted_p=found.p)
