"""A zero-shot problem: features, labels and class embeddings, divided into seen and unseen classes, and checked.

Shapes:     X (n, d) features; y (n,) class indices; S (c, a) class embeddings, one row per class index
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from unseen.core.errors import DataError, UnknownNameError
from unseen.zeroshot.method import FloatArray, IntArray, as_matrix, unit_rows

Normalisation = Literal["l2", "standard", "none"]
NORMALISATIONS = ("l2", "standard", "none")


@dataclass(frozen=True, eq=False)
class Fold:
    """Classes to train on and classes to validate on: disjoint, and none of them a test class."""

    train: IntArray
    val: IntArray


@dataclass(frozen=True, eq=False)
class Images:
    """Features with their labels; there may be none."""

    X: FloatArray
    y: IntArray

    def __len__(self) -> int:
        return len(self.y)

    def of(self, classes: IntArray) -> Images:
        """The images of some classes."""
        rows = np.isin(self.y, classes)
        return Images(self.X[rows], self.y[rows])


@dataclass(frozen=True, eq=False)
class Problem:
    """What a method is trained, tuned and tested on.

    Attributes:
        train: images of the seen classes ("trainval").
        test_unseen: images of the unseen classes.
        test_seen: images of the seen classes that were held out; none where the split has no generalized test.
        S: (c, a) class embeddings.
        class_names: one per row of S.
        folds: of the seen classes, to tune on.
        split: what the split is called, such as "PS".
        notes: what a reader of the result should know.
    """

    train: Images
    test_unseen: Images
    test_seen: Images
    S: FloatArray
    class_names: Sequence[str]
    folds: Sequence[Fold]
    split: str = "PS"
    notes: Sequence[str] = field(default=())

    @property
    def seen(self) -> IntArray:
        return np.unique(self.train.y)

    @property
    def unseen(self) -> IntArray:
        return np.unique(self.test_unseen.y)

    def __post_init__(self) -> None:
        embeddings = as_matrix(self.S, "class embeddings")
        if len(embeddings) != len(self.class_names):
            raise DataError(f"{len(self.class_names)} classes need as many embeddings; there are {len(embeddings)}.")
        self._check_images(self.train, "training")
        self._check_images(self.test_unseen, "unseen test")
        self._check_images(self.test_seen, "seen test", may_be_empty=True)
        if len(both := np.intersect1d(self.seen, self.unseen)):
            raise DataError(
                f"{len(both)} test classes are not unseen, such as {self.class_names[both[0]]!r}: they have training "
                "images too. Test classes must be disjoint from the training classes."
            )
        if len(self.test_seen) and len(lost := np.setdiff1d(self.test_seen.y, self.seen)):
            raise DataError(f"{self.class_names[lost[0]]!r} is tested as a seen class but has no training image.")
        for number, fold in enumerate(self.folds, 1):
            self._check_fold(fold, number)

    def _check_images(self, images: Images, what: str, *, may_be_empty: bool = False) -> None:
        if not len(images):
            if may_be_empty:
                return
            raise DataError(f"there are no {what} images.")
        if len(images.X) != len(images.y):
            raise DataError(f"{len(images.X)} {what} features have {len(images.y)} labels.")
        as_matrix(images.X, f"{what} features")
        if images.y.min() < 0 or images.y.max() >= len(self.class_names):
            raise DataError(f"{what} labels go from {images.y.min()} to {images.y.max()}; classes count from 0.")

    def _check_fold(self, fold: Fold, number: int) -> None:
        both = np.intersect1d(fold.train, fold.val)
        outside = np.setdiff1d(np.concatenate([fold.train, fold.val]), self.seen)
        if len(both) or len(outside):
            wrong = self.class_names[(both if len(both) else outside)[0]]
            why = "is trained and validated on" if len(both) else "is not a training class"
            raise DataError(f"fold {number}: {wrong!r} {why}. Folds divide the training classes.")
        if len(fold.train) < 2 or len(fold.val) < 2:
            raise DataError(f"fold {number} needs two classes at least on either side.")

    def normalised(self, kind: str) -> Problem:
        """The same problem with features scaled: rows to length 1, columns to deviation 1 (of training), or not."""
        if kind == "none":
            return self
        if kind not in NORMALISATIONS:
            raise UnknownNameError("normalisation", kind, NORMALISATIONS)
        if kind == "l2":
            scaled = [Images(unit_rows(i.X), i.y) for i in (self.train, self.test_unseen, self.test_seen)]
        else:
            mean, deviation = self.train.X.mean(0), self.train.X.std(0)
            deviation = np.where(deviation > 0, deviation, 1)
            scaled = [Images((i.X - mean) / deviation, i.y) for i in (self.train, self.test_unseen, self.test_seen)]
        return replace(self, train=scaled[0], test_unseen=scaled[1], test_seen=scaled[2])


def no_images(dimension: int) -> Images:
    """An empty set of images."""
    return Images(np.empty((0, dimension), np.float32), np.empty(0, np.int64))
