"""Checked inputs of the scores: features, labels and source probabilities that belong together; samples of their rows.

Shapes:     features X (n, d); labels y (n,) of any names; source probabilities P (n, z), rows that sum to 1
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import FloatArray, IntArray
from unseen.core.errors import DataError
from unseen.core.extras import one_thread

Given = ParamSpec("Given")

#: Values of features up to which a score uses one thread.
_SMALL = 10_000_000

#: Called with a remark on the score, such as a cap that was applied.
Tell = Callable[[str], None]

#: How far a row of probabilities may be from summing to 1: float16 rows of a thousand classes are within it.
_SUM_TOLERANCE = 1e-2


def one_thread_if_small(score: Callable[Given, float]) -> Callable[Given, float]:
    """Decorate a score of features so that it uses one thread for small arrays."""

    @wraps(score)
    def run(*args: Given.args, **options: Given.kwargs) -> float:
        features: Any = args[0] if args else options["features"]
        with one_thread(math.prod(np.shape(features)) <= _SMALL):
            return score(*args, **options)

    return run


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels counted from 0 in the order of their names, so that no score depends on the names of classes.

    Attributes:
        index: class per row.
        counts: rows per class; none is 0.
    """

    index: IntArray
    counts: IntArray

    @property
    def classes(self) -> int:
        return len(self.counts)

    def sums(self, rows: FloatArray) -> FloatArray:
        """Return the sum of `rows` per class: (classes, columns)."""
        order = np.argsort(self.index, kind="stable")
        starts = np.concatenate(([0], np.cumsum(self.counts)[:-1]))
        return np.add.reduceat(rows[order], starts, axis=0)

    def means(self, rows: FloatArray) -> FloatArray:
        """Return the mean of `rows` per class."""
        return self.sums(rows) / self.counts[:, None]


def check_labels(labels: npt.ArrayLike, rows: int) -> Labels:
    """Return the labels of `rows` rows; raise a `DataError` for fewer than two classes, or as many as rows."""
    found = np.asarray(labels)
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim != 1 or len(found) != rows:
        raise DataError(
            f"a ranking score needs one label per row: found labels of shape {found.shape} for {rows} rows. "
            f"Pass labels of shape ({rows},)."
        )
    names, index, counts = np.unique(found, return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise DataError(
            f"a ranking score needs at least two classes; all {rows} rows have the label {names[:1].tolist()}. "
            "Check that the labels are those of the task."
        )
    if rows <= len(names):
        raise DataError(
            f"a ranking score needs more images than classes; found {rows} images of {len(names)} classes. "
            "Add images, or take fewer classes."
        )
    return Labels(index.astype(np.int64).reshape(-1), counts.astype(np.int64))


def check_rows(features: npt.ArrayLike) -> npt.NDArray[np.floating]:
    """Return features (n, d) as they are; raise a `DataError` for unusable ones."""
    rows = np.asarray(features)
    if rows.ndim != 2 or rows.size == 0:
        raise DataError(f"features must have the shape (images, dimensions) and not be empty; found {rows.shape}.")
    rows = rows if rows.dtype.kind == "f" else rows.astype(np.float64)
    bad = int((~np.isfinite(rows)).any(axis=1).sum())
    if bad:
        raise DataError(
            f"{bad} of {len(rows)} rows of features hold NaN or infinity. The model or its precision is at fault: "
            "extract again in fp32, or remove the model."
        )
    if (rows == rows[0]).all():
        raise DataError(
            f"the features are constant: all {len(rows)} rows are the same, so they cannot distinguish classes. "
            "Check that the weights are loaded."
        )
    return rows


def check_features(features: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[FloatArray, Labels]:
    """Return features in double precision and their labels; raise a `DataError` for unusable ones."""
    shape = np.shape(features)
    known = check_labels(labels, shape[0]) if len(shape) == 2 and shape[0] else None
    rows = check_rows(features)
    assert known is not None
    return rows.astype(np.float64), known


def check_probabilities(probabilities: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[FloatArray, Labels]:
    """Return source probabilities, rows scaled to sum to exactly 1, and their labels."""
    values = np.asarray(probabilities, dtype=np.float64)
    if values.ndim != 2 or values.size == 0:
        raise DataError(
            f"source probabilities must have the shape (images, source classes); found {values.shape}. "
            "Give the softmax output of the checkpoint's own class head."
        )
    known = check_labels(labels, len(values))
    if not np.isfinite(values).all() or values.min() < 0:
        raise DataError("source probabilities must be finite and not negative. Pass the softmax of the logits.")
    totals = values.sum(axis=1)
    worst = int(np.abs(totals - 1).argmax())
    if abs(totals[worst] - 1) > _SUM_TOLERANCE:
        raise DataError(
            f"source probabilities must sum to 1 in every row; row {worst} sums to {totals[worst]:.6g}. "
            "These may be logits: pass their softmax."
        )
    return values / totals[:, None], known


def is_narrow(features: npt.ArrayLike) -> bool:
    """Return whether features have at most single precision, so that products need no more."""
    return np.asarray(features).dtype.itemsize <= 4


def standardise(rows: FloatArray, by: FloatArray) -> FloatArray:
    """Return rows with the mean and the standard deviation of the columns of `by` removed."""
    spread = by.std(axis=0)
    return np.asarray((rows - by.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


# ---- seeded samples that keep classes in proportion ------------------------------------------------------------------


def stratified_rows(index: IntArray, size: int, seed: int) -> IntArray:
    """Return the row numbers, ascending, of a sample of `size` rows with every class in proportion.

    Rows are taken by their relative place in a random order of their class: a class loses its last row only when there
    are fewer places than classes.
    """
    order, by_class, counts, within = _shuffled(index, seed)
    place = np.empty(len(index))
    # The first of every class comes before the second of any, then in proportion.
    place[by_class] = np.where(within == 0, 0.0, (within + 0.5) / np.repeat(counts, counts))
    return np.sort(order[np.argsort(place[order], kind="stable")[:size]])


def split_rows(index: IntArray, share: float, seed: int) -> tuple[IntArray, IntArray]:
    """Return row numbers of training and held-out rows: `share` of every class is held out, never its only row."""
    _, by_class, counts, within = _shuffled(index, seed)
    held = np.minimum(np.maximum(np.rint(counts * share), 1), counts - 1)
    out = within < np.repeat(held, counts)
    return np.sort(by_class[~out]), np.sort(by_class[out])


def stratified_folds(index: IntArray, folds: int, seed: int) -> IntArray:
    """Return the fold that holds each row out, stratified by class; -1 for the only row of a class.

    There are no more folds than the largest class has rows.
    """
    _, by_class, counts, _ = _shuffled(index, [seed, 5])
    found = np.empty(len(index), np.int64)
    # Neighbours of one class fall into different folds.
    found[by_class] = np.arange(len(index)) % max(2, min(folds, int(counts.max())))
    found[counts[index] == 1] = -1
    return found


def proportional_folds(index: IntArray, folds: int, seed: int) -> IntArray:
    """Return folds like `stratified_folds` that begin anew with each class: all classes are in them in proportion.

    Fits on few images of few classes depend much on their proportions. Of many classes, the first folds would be large.
    """
    _, by_class, counts, within = _shuffled(index, [seed, 5])
    found = np.empty(len(index), np.int64)
    found[by_class] = within % max(2, min(folds, int(counts.max())))
    found[counts[index] == 1] = -1
    return found


def _shuffled(index: IntArray, seed: int | list[int]) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return a random order of the rows, the same order sorted by class, rows per class, and places in the class."""
    order = np.random.default_rng(seed).permutation(len(index))
    counts = np.bincount(index)
    within = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order, order[np.argsort(index[order], kind="stable")], counts, within
