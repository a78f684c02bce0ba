"""Accuracies of zero-shot learning: every class counts alike, seen and unseen classes are weighed by a harmonic mean.

Paper:      Xian et al., TPAMI 2018, section 5.3
Shapes:     labels, predictions (n,); scores (n, c), one column per entry of `classes`
Implements: Eq. (21), the mean of `per_class_accuracy`, also for the k best classes; Eq. (22); intervals by the
            bootstrap over the test images of each class
Differs:    n images of a class drawn with replacement hold a binomial number of right ones: drawing that number is the
            same bootstrap at a cost that does not grow with the images
"""

from __future__ import annotations

from typing import overload

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.metrics.significance import Interval

FloatArray = npt.NDArray[np.float64]


@overload
def harmonic_mean(first: float, second: float) -> float: ...
@overload
def harmonic_mean(first: npt.NDArray[np.floating], second: npt.NDArray[np.floating]) -> FloatArray: ...
def harmonic_mean(
    first: float | npt.NDArray[np.floating], second: float | npt.NDArray[np.floating]
) -> float | FloatArray:
    """2 a b / (a + b) of two accuracies, of fractions or of percentages alike; 0 where both are 0. Eq. (22)."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if (a < 0).any() or (b < 0).any():
        raise DataError("a harmonic mean of accuracies needs values from 0 on; a negative one was given.")
    total = a + b
    result: FloatArray = np.asarray(np.divide(2 * a * b, total, out=np.zeros_like(total), where=total > 0))
    return float(result) if result.ndim == 0 else result


def mean_per_class(labels: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """The mean over the classes in `labels` of the share of their images that are `correct`. Eq. (21)."""
    wanted, right = np.asarray(labels), np.asarray(correct, np.float64)
    if wanted.ndim != 1 or wanted.shape != right.shape or not len(wanted):
        raise DataError(f"one value per label is needed, and at least one; found {right.shape} for {wanted.shape}.")
    _, index = np.unique(wanted, return_inverse=True)
    return float((np.bincount(index, right) / np.bincount(index)).mean())


def mean_per_class_interval(
    labels: npt.ArrayLike, correct: npt.ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """`mean_per_class` with the percentile interval over test images."""
    draws = _resampled(labels, correct, resamples, np.random.default_rng(seed))
    return _interval(mean_per_class(labels, correct), draws, level)


def share_interval(correct: npt.ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Interval:
    """The share of images that are `correct`, whatever their classes, with the percentile interval over images."""
    right = np.asarray(correct, np.float64)
    draws = np.random.default_rng(seed).binomial(len(right), right.mean(), resamples) / len(right)
    return _interval(float(right.mean()), draws, level)


def harmonic_interval(
    first: tuple[npt.ArrayLike, npt.ArrayLike],
    second: tuple[npt.ArrayLike, npt.ArrayLike],
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """H of two sets of images, each as (labels, correct), with the percentile interval over both."""
    rng = np.random.default_rng(seed)
    draws = harmonic_mean(_resampled(*first, resamples, rng), _resampled(*second, resamples, rng))
    return _interval(harmonic_mean(mean_per_class(*first), mean_per_class(*second)), draws, level)


def _resampled(labels: npt.ArrayLike, correct: npt.ArrayLike, resamples: int, rng: np.random.Generator) -> FloatArray:
    _, index, counts = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    share = np.bincount(index, np.asarray(correct, np.float64)) / counts
    return np.asarray((rng.binomial(counts, share, (resamples, len(counts))) / counts).mean(1))


def _interval(value: float, draws: FloatArray, level: float) -> Interval:
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high), level)
