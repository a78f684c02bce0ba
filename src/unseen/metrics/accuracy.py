"""Accuracies of a classifier: top-1, top-k, per class.

All are fractions in [0, 1] in full precision; percentages are made in reports.

Shapes:     labels, predictions (n,) of any comparable type; scores (n, c), one column per entry of `classes`
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def accuracy(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """The share of predictions that equal their label."""
    found, wanted = paired(predictions, labels)
    return float(np.mean(found == wanted))


def per_class_accuracy(
    labels: npt.ArrayLike, predictions: npt.ArrayLike, classes: npt.ArrayLike | None = None
) -> FloatArray:
    """Accuracy within each class, in the order of `classes`.

    Args:
        labels: the truth.
        predictions: what a classifier said.
        classes: the classes to report; by default those that occur in `labels`, sorted.

    Returns:
        One value per class, NaN where a class has no image.
    """
    found, wanted = paired(predictions, labels)
    known = np.unique(wanted) if classes is None else np.asarray(classes)
    order = np.argsort(known, kind="stable")
    place = np.searchsorted(known, wanted, sorter=order).clip(max=len(known) - 1)
    index = order[place]
    listed = known[index] == wanted
    counts = np.bincount(index[listed], minlength=len(known))
    right = np.bincount(index[listed & (found == wanted)], minlength=len(known))
    shares: FloatArray = np.full(len(known), np.nan)
    np.divide(right, counts, out=shares, where=counts > 0)
    return shares


def mean_per_class_accuracy(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """The mean of the per-class accuracies over the classes that occur: every class counts alike."""
    return float(per_class_accuracy(labels, predictions).mean())


def top_k_correct(labels: npt.ArrayLike, scores: npt.ArrayLike, classes: npt.ArrayLike, k: int) -> BoolArray:
    """For each image, whether its label is among the `k` best-scored classes.

    Equal scores are ranked by column, so that `k = 1` is what `argmax` says. A label that is not in `classes` is
    never right.
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


def top_k_accuracy(labels: npt.ArrayLike, scores: npt.ArrayLike, classes: npt.ArrayLike, k: int = 5) -> float:
    """The share of images whose label is among the `k` best-scored classes."""
    return float(top_k_correct(labels, scores, classes, k).mean())


def paired(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Two one-dimensional arrays of the same, positive length."""
    left, right = np.asarray(first), np.asarray(second)
    if left.ndim != 1 or left.shape != right.shape or len(left) == 0:
        raise DataError(
            f"a comparison needs two lists of one entry per image, of equal length and not empty; found shapes "
            f"{left.shape} and {right.shape}. Check that both come from the same images."
        )
    return left, right
