"""Point values of classifiers: accuracies, Cohen's kappa and label ranking precision, and the soft maximum.

All are fractions in full precision; percentages are made in reports.

Papers:     Cohen, "Weighted kappa", Psychological Bulletin 1968; VTAB, Appendix D (quadratic weights);
            Schapire & Singer, "BoosTexter", Machine Learning 2000 (label ranking average precision)
Shapes:     labels, predictions (n,) of any comparable type; scores (n, c), one column per entry of `classes`; with
            several labels per image: truth (n, l) booleans, scores (n, l)
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from unseen.core.arrays import AnyArray, BoolArray, FloatArray
from unseen.core.errors import DataError
from unseen.stats.interval import same_length

Float = TypeVar("Float", bound=np.floating[Any])


def accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return the share of predictions that equal their label."""
    found, wanted = same_length(predictions, labels)
    return float(np.mean(found == wanted))


def per_class_accuracy(labels: ArrayLike, predictions: ArrayLike, classes: ArrayLike | None = None) -> FloatArray:
    """Return the accuracy within each class, in the order of `classes`; NaN where a class has no image.

    Args:
        labels: the truth.
        predictions: predicted classes.
        classes: the classes to report; by default those that occur in `labels`, sorted.
    """
    found, wanted = same_length(predictions, labels)
    names, means = class_means(wanted, found == wanted)
    if classes is None:
        return means
    by_class = dict(zip(names.tolist(), means.tolist(), strict=True))
    return np.array([by_class.get(each, np.nan) for each in np.asarray(classes).tolist()])


def class_means(labels: ArrayLike, values: ArrayLike) -> tuple[AnyArray, FloatArray]:
    """Return the classes that occur, sorted, and the mean of the values of their images."""
    wanted, numbers = same_length(labels, values)
    names, index = np.unique(wanted, return_inverse=True)
    return names, np.asarray(np.bincount(index, numbers) / np.bincount(index))


def mean_per_class_accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return the mean of the per-class accuracies over the classes that occur: every class counts alike."""
    return float(per_class_accuracy(labels, predictions).mean())


def top_k_correct(labels: ArrayLike, scores: ArrayLike, classes: ArrayLike, k: int) -> BoolArray:
    """Return for each image whether its label is among the `k` best-scored classes.

    Equal scores are ranked by column, so that `k = 1` equals `argmax`. A label that is not in `classes` is never right.
    """
    values, columns = np.asarray(scores), np.asarray(classes)
    wanted = np.asarray(labels)
    if values.ndim != 2 or values.shape != (len(wanted), len(columns)):
        raise DataError(
            f"top-{k} accuracy needs scores of shape (images, classes) = ({len(wanted)}, {len(columns)}), "
            f"found {values.shape}."
        )
    matches = columns[None, :] == wanted[:, None]
    column = matches.argmax(axis=1)
    own = np.take_along_axis(values, column[:, None], axis=1)
    earlier = np.arange(len(columns))[None, :] < column[:, None]
    rank = ((values > own) | ((values == own) & earlier)).sum(axis=1)
    return np.asarray(matches.any(axis=1) & (rank < k))


def top_k_accuracy(labels: ArrayLike, scores: ArrayLike, classes: ArrayLike, k: int = 5) -> float:
    """Return the share of images whose label is among the `k` best-scored classes."""
    return float(top_k_correct(labels, scores, classes, k).mean())


def quadratic_kappa(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Return Cohen's kappa of class indices with quadratic weights, in [-1, 1]: 1 is full agreement, 0 is chance.

    kappa = 1 - sum(W O) / sum(W E), with observed counts O, counts E expected from the margins and W_ij = (i - j)^2.
    It is 1 where labels and predictions are all one and the same class.
    """
    found, wanted = same_length(predictions, labels)
    if not (np.issubdtype(found.dtype, np.integer) and np.issubdtype(wanted.dtype, np.integer)):
        raise DataError(f"kappa needs class indices, found {wanted.dtype} and {found.dtype}.")
    observed = np.mean((found - wanted).astype(np.float64) ** 2)
    # E[(i - j)^2] under independent margins needs their moments alone, not the c x c tables.
    expected = found.var() + wanted.var() + (found.mean() - wanted.mean()) ** 2
    return 1.0 if expected == 0 else float(1 - observed / expected)


def label_ranking_precision(truth: BoolArray, scores: FloatArray) -> FloatArray:
    """Return (n,) per image: of what is ranked at least as high as each of its labels, the share that are its labels.

    1 for an image without labels, or with all of them.
    """
    found = np.ones(len(truth))
    for i in np.flatnonzero(truth.any(1) & ~truth.all(1)):
        own = scores[i, truth[i]]
        among = (own[None, :] >= own[:, None]).sum(1)
        above = (scores[i][None, :] >= own[:, None]).sum(1)
        found[i] = float((among / above).mean())
    return found


def softmax(scores: npt.NDArray[Float]) -> npt.NDArray[Float]:
    """Return (n, c) exp(s) over its sum per row, in the precision of the scores, safe from overflow."""
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def log_softmax(scores: npt.NDArray[Float]) -> npt.NDArray[Float]:
    """Return (n, c) the logarithm of `softmax`, without taking one of a 0."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
