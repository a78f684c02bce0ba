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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from unseen.core.errors import DataError, UnknownNameError
from unseen.data.subset import draw_order

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.int64]

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
        """Return the images of some classes."""
        rows = np.isin(self.y, classes)
        return Images(self.X[rows], self.y[rows])


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
        split: the name of the split, such as "PS".
    """

    train: Images
    test_unseen: Images
    test_seen: Images
    S: FloatArray
    class_names: Sequence[str]
    folds: Sequence[Fold]
    split: str = "PS"

    @property
    def parts(self) -> dict[str, Images]:
        """The images of each part."""
        return {"train": self.train, "test_unseen": self.test_unseen, "test_seen": self.test_seen}

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
        for name, images in self.parts.items():
            self._check_images(images, name, may_be_empty=images is self.test_seen)
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
        """Return the problem with features scaled: rows to length 1, columns to deviation 1 (of training), or not."""
        if kind == "none":
            return self
        if kind not in NORMALISATIONS:
            raise UnknownNameError("normalisation", kind, NORMALISATIONS)
        mean, deviation = self.train.X.mean(0), self.train.X.std(0)
        deviation = np.where(deviation > 0, deviation, 1)
        train, test_unseen, test_seen = (
            Images(unit_rows(part.X) if kind == "l2" else (part.X - mean) / deviation, part.y)
            for part in self.parts.values()
        )
        return replace(self, train=train, test_unseen=test_unseen, test_seen=test_seen)


def no_images(dimension: int) -> Images:
    """Return an empty set of images."""
    return Images(np.empty((0, dimension), np.float32), np.empty(0, np.int64))


def join_images(images: Mapping[str, Images], splits: Sequence[str]) -> Images:
    """Return the images of some splits, one after the other; none if there are no such splits."""
    parts = [images[split] for split in splits if split in images]
    parts = parts or [no_images(next(iter(images.values())).X.shape[1])]
    return Images(np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts]))


@dataclass(frozen=True, eq=False)
class ClassSplit:
    """Seen and unseen classes by index, folds of the seen ones, and entries of the split file that were ignored."""

    seen: IntArray
    unseen: IntArray
    folds: tuple[Fold, ...]
    unknown: tuple[str, ...] = ()


def split_classes(
    kind: str | IntArray,
    names: Sequence[str],
    wnids: Sequence[str | None],
    *,
    counts: Sequence[int],
    share: float = 0.2,
    seed: int = 0,
    listed: Path | None = None,
    drop_unknown: bool = False,
) -> ClassSplit:
    """Divide the classes of a dataset.

    Args:
        kind: one of `SPLITS`, "file:PATH", a list of unseen classes by name or WordNet id (`read_split`), or the
            indices of the unseen classes.
        names, wnids: of the classes.
        counts: images per class, which the ImageNet splits rank by.
        share: of the classes that are unseen, in PS and SS.
        seed: of the sampled classes.
        listed: a file with the unseen classes of an ImageNet split, in place of those that WordNet gives.
        drop_unknown: whether to ignore classes of the file that the dataset does not have; otherwise they are an error.

    Raises:
        DataError: the file names a class that the dataset does not have, or too few classes are seen or unseen.
    """
    keys = [wnid or name for wnid, name in zip(wnids or [None] * len(names), names, strict=True)]
    unknown: tuple[str, ...] = ()
    seen = np.arange(len(names))
    if not isinstance(kind, str):
        unseen = np.unique(kind)
    elif kind in ("PS", "SS"):
        unseen = _sampled_unseen(kind, names, wnids, keys, share, seed)
    elif kind in IMAGENET_SPLITS:
        seen, unseen = _imagenet(kind, keys, dict(zip(keys, counts, strict=True)))
        if listed is not None:
            unseen, unknown = _listed(read_split(listed, kind), str(listed), names, keys, drop_unknown)
            unseen = np.setdiff1d(unseen, seen)
    elif kind.startswith("file:") or Path(kind).is_file():
        path = Path(kind.removeprefix("file:")).expanduser()
        unseen, unknown = _listed(read_split(path), str(path), names, keys, drop_unknown)
    else:
        raise UnknownNameError("zero-shot split", kind, SPLITS, hint="A list of unseen classes is file:PATH.")
    seen = np.setdiff1d(seen, unseen)
    if len(unseen) < 2 or len(seen) < 4:
        title = f"the split {kind!r}" if isinstance(kind, str) else "the list of unseen classes"
        raise DataError(f"{title} leaves {len(seen)} seen and {len(unseen)} unseen classes; 4 and 2 are needed.")
    return ClassSplit(seen, unseen, draw_folds(seen, [keys[i] for i in seen], seed), unknown)


def draw_folds(seen: IntArray, keys: Sequence[str], seed: int, *, share: float = 0.25) -> tuple[Fold, ...]:
    """Return three folds of the seen classes, with disjoint validation classes."""
    count = max(2, min(round(share * len(seen)), len(seen) // _FOLDS))
    order = draw_order(keys, seed)
    folds = []
    for number in range(_FOLDS):
        val = np.sort(seen[order[number * count : (number + 1) * count]])
        if len(val) >= 2:
            folds.append(Fold(np.setdiff1d(seen, val), val))
    return tuple(folds)


def audit_unseen(names: Sequence[str], wnids: Sequence[str | None], unseen: IntArray) -> Audit:
    """Return the audit of the test classes that a model trained on ImageNet-1K has seen; numbers match no class."""
    own = [wnids[i] for i in unseen] if wnids else ()
    return audit_classes(
        [names[i] for i in unseen], imagenet_1k(), wnids=own, seen_name="ImageNet-1K", noun="test classes"
    )


def _listed(
    given: Sequence[str], path: str, names: Sequence[str], keys: Sequence[str], drop_unknown: bool
) -> tuple[IntArray, tuple[str, ...]]:
    """Return the classes that a split file lists, and its entries that are no class of the dataset."""
    places: dict[str, set[int]] = {}
    for i, pair in enumerate(zip(names, keys, strict=True)):
        for name in pair:
            places.setdefault(name, set()).add(i)
    found = match_names(given, places)
    unknown = tuple(name for name, own in found.items() if own is None)
    if unknown and not drop_unknown:
        raise DataError(
            f"{path}: {len(unknown):,} of {len(found):,} classes are no class of the dataset: "
            f"{list_unknown(unknown, places)}. Correct them, or ignore them with --drop-unknown."
        )
    listed = sorted({i for own in found.values() if own is not None for i in places[own]})
    return np.asarray(listed, np.int64), unknown


def _sampled_unseen(
    kind: str, names: Sequence[str], wnids: Sequence[str | None], keys: Sequence[str], share: float, seed: int
) -> IntArray:
    wanted = round(share * len(names))
    order = draw_order(keys, seed)
    if kind == "PS" and not all(name.isdecimal() for name in names):  # numbers are no names to audit
        audit = audit_unseen(names, wnids, np.arange(len(names)))
        clear = {i for i, row in enumerate(audit.rows) if row.relation is Relation.UNSEEN and not row.flagged}
        order = np.asarray([i for i in order if int(i) in clear], np.int64)
        if len(order) < wanted:
            raise DataError(
                f"PS needs {wanted} classes that no model trained on ImageNet-1K has seen, and the audit clears "
                f"{len(order)}. Request fewer (share), or SS, whose test classes may have been seen."
            )
    return np.sort(order[:wanted])


def _imagenet(kind: str, keys: Sequence[str], counts: Mapping[str, int]) -> tuple[IntArray, IntArray]:
    wordnet = load_wordnet()
    known = {key: count for key, count in counts.items() if key in wordnet}
    if len(known) < len(keys):
        raise DataError(f"split {kind!r} needs WordNet ids; {len(keys) - len(known)} of the classes have none.")
    training = [wnid for wnid in imagenet_1k() if wnid in known]
    if len(training) < 4:
        raise DataError(f"split {kind!r} trains on ImageNet-1K, of which the dataset has {len(training)} classes.")
    place = {key: i for i, key in enumerate(keys)}
    unseen = imagenet_zeroshot_split(kind, wordnet, known, list(imagenet_1k()))
    found = ([place[wnid] for wnid in wnids if wnid in place] for wnids in (training, unseen))
    seen_rows, unseen_rows = (np.sort(np.asarray(rows, np.int64)) for rows in found)
    return seen_rows, unseen_rows


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
    return np.asarray(matrix / np.where(length > 0, length, 1))
