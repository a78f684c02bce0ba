"""Accuracies of zero-shot learning: all classes have the same weight, and H combines seen and unseen classes.

Paper:      Xian et al., TPAMI 2018, section 5.3
Shapes:     labels, correct (n,)
Implements: Eq. (21), the mean of `per_class_accuracy`; Eq. (22); intervals by `unseen.stats`
"""

from __future__ import annotations

from typing import overload

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.stats import Interval, accuracy_interval, harmonic_mean_interval, per_class_interval

FloatArray = npt.NDArray[np.float64]


@overload
def harmonic_mean(first: float, second: float) -> float: ...
@overload
def harmonic_mean(first: npt.NDArray[np.floating], second: npt.NDArray[np.floating]) -> FloatArray: ...
def harmonic_mean(
    first: float | npt.NDArray[np.floating], second: float | npt.NDArray[np.floating]
) -> float | FloatArray:
    """Return 2 a b / (a + b) of two accuracies, fractions or percentages; 0 where both are 0. Eq. (22)."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if (a < 0).any() or (b < 0).any():
        raise DataError("a harmonic mean of accuracies needs values of 0 or more; a negative one was given.")
    total = a + b
    result: FloatArray = np.asarray(np.divide(2 * a * b, total, out=np.zeros_like(total), where=total > 0))
    return float(result) if result.ndim == 0 else result


def mean_per_class(labels: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Return the mean over the classes in `labels` of the share of their images that are `correct`. Eq. (21)."""
    wanted, right = np.asarray(labels), np.asarray(correct, np.float64)
    if wanted.ndim != 1 or wanted.shape != right.shape or not len(wanted):
        raise DataError(f"one value per label is needed, and at least one; found {right.shape} for {wanted.shape}.")
    _, index = np.unique(wanted, return_inverse=True)
    return float((np.bincount(index, right) / np.bincount(index)).mean())


def mean_per_class_interval(labels: npt.ArrayLike, correct: npt.ArrayLike, *, level: float = 0.95) -> Interval:
    """Return `mean_per_class` with its confidence interval over test images (`stats.per_class_interval`)."""
    return per_class_interval(correct, labels, level=level)


def share_interval(correct: npt.ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the share of images that are `correct` with its confidence interval (`stats.accuracy_interval`)."""
    return accuracy_interval(correct, level=level)


def harmonic_interval(
    first: tuple[npt.ArrayLike, npt.ArrayLike], second: tuple[npt.ArrayLike, npt.ArrayLike], *, level: float = 0.95
) -> Interval:
    """Return H of two sets of images, each as (labels, correct), with its interval (`stats.harmonic_mean_interval`)."""
    parts = [per_class_interval(correct, labels, level=level) for labels, correct in (first, second)]
    return harmonic_mean_interval(*parts)
