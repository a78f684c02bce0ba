"""A zero-shot problem: features, labels and class embeddings, divided into seen and unseen classes, and checked.

Paper:      Xian et al., TPAMI 2018, section 5.2 [P]
Shapes:     X (n, d) features; y (n,) class indices; S (c, a) class embeddings, one row per class index
Implements: splits of any dataset with class names. PS: test classes are sampled among those that the leak audit clears,
            so that no feature can have seen them; SS: sampled among all classes, as earlier work did; the ImageNet
            splits of [P] (2-hops, 3-hops, most-500 ... all) with ImageNet-1K as seen classes; `file:PATH`, a list of
            unseen classes by name or WordNet id
Differs:    [P] fixed its splits once; these are sampled by a seed from the names, the same on every machine
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from unseen.concepts import (
    Audit,
    Relation,
    audit_classes,
    imagenet_1k,
    imagenet_zeroshot_split,
    list_unknown,
    load_wordnet,
    match_names,
    read_split,
)
from unseen.core.arrays import FloatingArray
from unseen.core.arrays import IntArray as IntArray
from unseen.core.errors import DataError, UnknownNameError
from unseen.data import Dataset
from unseen.data.sources.features import ZERO_SHOT, check_classes
from unseen.data.sources.features import Fold as Fold
from unseen.data.subset import draw_order
from unseen.features import FeatureRows
from unseen.features.rows import RowIndex

FloatArray = FloatingArray

NORMALISATIONS = ("l2", "standard", "none")
IMAGENET_SPLITS = (
    "2-hops",
    "3-hops",
    *(f"{kind}-{size}" for kind in ("most", "least") for size in ("500", "1k", "5k")),
    "all",
)
SPLITS = ("PS", "SS", *IMAGENET_SPLITS)
_FOLDS = 3


@dataclass(frozen=True, eq=False)
class Images:
    """Features with their labels; there may be none. Methods read `FeatureRows` block by block, arrays at once."""

    X: FloatArray | FeatureRows
    y: IntArray

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: IntArray) -> Images:
        """Return some images, without a copy of `FeatureRows`."""
        return Images(self.X.select(rows) if isinstance(self.X, FeatureRows) else self.X[rows], self.y[rows])

    def of(self, classes: IntArray) -> Images:
        """Return the images of some classes."""
        return self.take(np.flatnonzero(np.isin(self.y, classes)))

    def load(self) -> Images:
        """Return the images with their features in memory."""
        return Images(self.X[:], self.y)

    def join(self, other: Images) -> Images:
        """Return these images followed by others, without a copy."""
        return Images(FeatureRows.of(self.X).join(other.X), np.concatenate([self.y, other.y]))


@dataclass(frozen=True, eq=False)
class _ScaledRows:
    """Rows that are scaled as they are read."""

    rows: FeatureRows
    scale: Callable[[FloatArray], FloatArray]

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape

    def __getitem__(self, index: RowIndex) -> FloatArray:
        return self.scale(self.rows[index])


@dataclass(frozen=True, eq=False)
class Problem:
    """Training, validation and test data of a method.

    Attributes:
        train: images of the seen classes ("trainval").
        test_unseen: images of the unseen classes.
        test_seen: held-out images of the seen classes; none if the split has no generalized test.
        S: (c, a) class embeddings.
        class_names: one per row of S.
        folds: of the seen classes, to tune on.
    """

    train: Images
    test_unseen: Images
    test_seen: Images
    S: FloatArray
    class_names: Sequence[str]
    folds: Sequence[Fold]

    @property
    def parts(self) -> dict[str, Images]:
        """The images of each part, by its name in a published split."""
        return dict(zip(ZERO_SHOT, (self.train, self.test_seen, self.test_unseen), strict=True))

    @property
    def seen(self) -> IntArray:
        return np.unique(self.train.y)

    @property
    def unseen(self) -> IntArray:
        return np.unique(self.test_unseen.y)

    def __post_init__(self) -> None:
        classes = len(as_matrix(self.S, "class embeddings"))
        if classes != len(self.class_names):
            raise DataError(f"{len(self.class_names)} classes need as many embeddings; there are {classes}.")
        for name, images in self.parts.items():
            if not len(images) and images is not self.test_seen:
                raise DataError(f"there are no {name} images.")
            if len(images.X) != len(images.y):
                raise DataError(f"{len(images.X)} {name} features have {len(images.y)} labels.")
            if len(images) and not isinstance(images.X, FeatureRows):  # those are checked as they are read
                as_matrix(images.X, f"{name} features")
            if images.y.min(initial=0) < 0 or images.y.max(initial=0) >= classes:
                raise DataError(f"{name} labels go from {images.y.min()} to {images.y.max()}; classes count from 0.")
        check_classes({name: images.y for name, images in self.parts.items()}, self.class_names)
        for number, fold in enumerate(self.folds, 1):
            outside = np.setdiff1d(np.concatenate([fold.train, fold.val]), self.seen)
            if len(wrong := [*np.intersect1d(fold.train, fold.val), *outside]):
                raise DataError(
                    f"fold {number}: {self.class_names[wrong[0]]!r} is trained and validated on, or is not a training "
                    "class. Folds divide the training classes."
                )
            if min(len(fold.train), len(fold.val)) < 2:
                raise DataError(f"fold {number} needs two classes at least on either side.")

    def normalised(self, kind: str) -> Problem:
        """Return the problem with features scaled: rows to length 1, columns to deviation 1 (of training), or not.

        Test images are scaled as they are read.
        """
        if kind not in NORMALISATIONS:
            raise UnknownNameError("normalisation", kind, NORMALISATIONS)
        if kind == "none":
            return self
        train = self.train.X[:]
        scale: Callable[[FloatArray], FloatArray] = unit_rows
        if kind == "standard":
            mean, deviation = train.mean(0), train.std(0)
            deviation = np.where(deviation > 0, deviation, 1)
            scale = lambda rows: np.asarray((rows - mean) / deviation)  # noqa: E731
        test_unseen, test_seen = (
            Images(
                FeatureRows.of(_ScaledRows(FeatureRows.of(part.X), scale), np.result_type(part.X.dtype, np.float32)),
                part.y,
            )
            for part in (self.test_unseen, self.test_seen)
        )
        return replace(self, train=Images(scale(train), self.train.y), test_unseen=test_unseen, test_seen=test_seen)


@dataclass(frozen=True, eq=False)
class ClassSplit:
    """Seen and unseen classes by index.

    Attributes:
        folds: of the seen classes; sampled if there are none.
        unknown: entries of the split file that were ignored.
        pool: number of classes that the unseen ones were sampled from; 0 if they were not sampled.
    """

    seen: IntArray
    unseen: IntArray
    folds: tuple[Fold, ...] = ()
    unknown: tuple[str, ...] = ()
    pool: int = 0


def split_classes(
    kind: str | IntArray,
    dataset: Dataset,
    *,
    counts: Sequence[int],
    share: float = 0.2,
    seed: int = 0,
    listed: str = "",
    drop_unknown: bool = False,
) -> ClassSplit:
    """Divide the classes of a dataset.

    Args:
        kind: one of `SPLITS`, "file:PATH", a list of unseen classes by name or WordNet id (`read_split`), or the
            indices of the unseen classes.
        counts: images per class, which the ImageNet splits rank by.
        share: of the classes that are unseen, in PS and SS.
        seed: of the sampled classes.
        listed: file of the unseen classes of an ImageNet split, in place of those that WordNet gives.
        drop_unknown: whether to ignore classes of a file that the dataset does not have; otherwise they are an error.

    Raises:
        DataError: the file names a class that the dataset does not have, or too few classes are seen or unseen.
    """
    keys = _keys(dataset)
    unknown: tuple[str, ...] = ()
    seen, pool = np.arange(len(keys)), 0
    if not isinstance(kind, str):
        unseen = np.unique(kind)
    elif kind in ("PS", "SS"):
        unseen, pool = _sampled_unseen(kind, dataset, share, seed)
    elif kind in IMAGENET_SPLITS:
        seen, unseen = _imagenet(kind, keys, counts)
        if listed:
            unseen, unknown = _read_listed(listed, kind, dataset, drop_unknown)
            unseen = np.setdiff1d(unseen, seen)
    elif kind.startswith("file:") or Path(kind).is_file():
        unseen, unknown = _read_listed(kind, None, dataset, drop_unknown)
    else:
        raise UnknownNameError("zero-shot split", kind, SPLITS, hint="A list of unseen classes is file:PATH.")
    seen = np.setdiff1d(seen, unseen)
    if len(unseen) < 2 or len(seen) < 4:
        title = f"the split {kind!r}" if isinstance(kind, str) else "the list of unseen classes"
        raise DataError(f"{title} leaves {len(seen)} seen and {len(unseen)} unseen classes; 4 and 2 are needed.")
    return ClassSplit(seen, unseen, unknown=unknown, pool=pool)


def _keys(dataset: Dataset) -> list[str]:
    """Return the WordNet id of each class, or its name if it has none."""
    names = dataset.class_names
    return [wnid or name for wnid, name in zip(dataset.wnids or [None] * len(names), names, strict=True)]


def _read_listed(
    source: str, split: str | None, dataset: Dataset, drop_unknown: bool
) -> tuple[IntArray, tuple[str, ...]]:
    """Return the classes that a split file lists, and its entries that are not classes of the dataset."""
    path, places = Path(source.removeprefix("file:")).expanduser(), dict[str, set[int]]()
    for i, pair in enumerate(zip(dataset.class_names, _keys(dataset), strict=True)):
        for name in pair:
            places.setdefault(name, set()).add(i)
    found = match_names(read_split(path, split), places)
    unknown = tuple(name for name, own in found.items() if own is None)
    if unknown and not drop_unknown:
        raise DataError(
            f"{path}: {len(unknown):,} of {len(found):,} classes are not classes of the dataset: "
            f"{list_unknown(unknown, places)}. Correct them, or ignore them with --drop-unknown."
        )
    listed = sorted({i for own in found.values() if own is not None for i in places[own]})
    return np.asarray(listed, np.int64), unknown


def draw_folds(seen: IntArray, dataset: Dataset, seed: int) -> tuple[Fold, ...]:
    """Return three folds of the seen classes, with disjoint validation classes: a quarter each, or a third of few."""
    count = max(2, min(round(len(seen) / 4), len(seen) // _FOLDS))
    keys = _keys(dataset)
    order = seen[draw_order([keys[i] for i in seen], seed)]
    vals = [np.sort(order[number * count : (number + 1) * count]) for number in range(_FOLDS)]
    return tuple(Fold(np.setdiff1d(seen, val), val) for val in vals if len(val) >= 2)


def audit_unseen(dataset: Dataset, unseen: IntArray) -> Audit:
    """Return the audit of the test classes that a model trained on ImageNet-1K has seen; numbers match no class."""
    own = [dataset.wnids[i] for i in unseen] if dataset.wnids else ()
    return audit_classes(
        [dataset.class_names[i] for i in unseen], imagenet_1k(), wnids=own, seen_name="ImageNet-1K", noun="test classes"
    )


def _sampled_unseen(kind: str, dataset: Dataset, share: float, seed: int) -> tuple[IntArray, int]:
    """Return the unseen classes, and the number of classes that they are sampled from."""
    names = dataset.class_names
    wanted = round(share * len(names))
    order = draw_order(_keys(dataset), seed)
    if kind == "PS" and not all(name.isdecimal() for name in names):  # numbers are not names to audit
        audit = audit_unseen(dataset, np.arange(len(names)))
        clear = {i for i, row in enumerate(audit.rows) if row.relation is Relation.UNSEEN and not row.flagged}
        order = np.asarray([i for i in order if int(i) in clear], np.int64)
        if len(order) < wanted:
            raise DataError(
                f"PS needs {wanted} classes that no model trained on ImageNet-1K has seen, and the audit clears "
                f"{len(order)}. Request fewer (share), or SS, whose test classes may have been seen."
            )
    return np.sort(order[:wanted]), len(order)


def _imagenet(kind: str, keys: Sequence[str], counts: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Return the seen and unseen classes of an ImageNet split."""
    wordnet = load_wordnet()
    known = {key: count for key, count in zip(keys, counts, strict=True) if key in wordnet}
    if len(known) < len(keys):
        raise DataError(f"split {kind!r} needs WordNet ids; {len(keys) - len(known)} of the classes have none.")
    training = list(imagenet_1k())
    unseen = imagenet_zeroshot_split(kind, wordnet, known, training)
    return np.flatnonzero(np.isin(keys, training)), np.flatnonzero(np.isin(keys, list(unseen)))


def as_matrix(values: npt.ArrayLike, what: str) -> FloatArray:
    """Return a finite two-dimensional array of float32 or float64."""
    array = np.asarray(values)
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(f"{what} must be a table with one row each, not empty; found shape {array.shape}.")
    if array.dtype.kind not in "fiub":
        raise DataError(f"{what} must be numbers; found {array.dtype}.")
    matrix = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    if not np.isfinite(matrix).all():
        row = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
        raise DataError(f"{what} hold values that are not finite, first in row {row}.")
    return matrix


def unit_rows(matrix: FloatArray) -> FloatArray:
    """Scale rows to length 1; a zero row stays zero."""
    length = np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix / np.where(length > 0, length, 1)
