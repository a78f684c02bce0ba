"""The splits of the zero-shot datasets: locs and attributes of att_splits.mat, class lists, and their checks.

Paper:      Xian et al., TPAMI 2018, section 5.2; layout of its release `xlsa17`
Standard:   the class lists of the standard split stand in `standard_splits.toml`, so that SS needs no more than PS does
Differs:    folds come from the class lists, never from `train_loc` and `val_loc`, which differ between public copies
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from unseen.core.arrays import AnyArray, FloatArray, IntArray
from unseen.core.errors import DataError
from unseen.core.guard import guarded
from unseen.core.identity import digest
from unseen.data.matlab import read_matlab
from unseen.data.sources.features import ClassFold

TRAINVAL, TEST_SEEN, TEST_UNSEEN = "trainval", "test_seen", "test_unseen"
LOCS = (TRAINVAL, TEST_SEEN, TEST_UNSEEN)


@dataclass(frozen=True, eq=False)
class AttributeSplits:
    """What att_splits.mat holds, counted from 0 and checked.

    Attributes:
        class_names: in the order of the labels.
        attributes: (classes, attributes), l2-normalised rows as published.
        locs: image indices of `trainval`, `test_seen` and `test_unseen`, which partition all images.
    """

    class_names: Sequence[str]
    attributes: FloatArray
    locs: dict[str, IntArray]

    @property
    def images(self) -> int:
        return sum(len(loc) for loc in self.locs.values())

    @property
    def digest(self) -> str:
        """Return a digest of the used content: copies that differ elsewhere are the same split."""
        locs = [np.sort(self.locs[loc]).tolist() for loc in LOCS]
        return digest([list(self.class_names), np.round(self.attributes, 6).tolist(), locs])


def read_attribute_splits(path: Path) -> AttributeSplits:
    """Read and check att_splits.mat.

    Raises:
        DataError: swapped axes, attributes that are not numbers, locs that count from 0 or overlap or leave a gap.
    """
    found = read_matlab(path, ("att", "allclasses_names", *(f"{loc}_loc" for loc in LOCS)))
    names = found["allclasses_names"]
    if not isinstance(names, list):
        raise DataError(f"{path}: allclasses_names is not a list of strings.")
    if len(set(names)) != len(names):
        raise DataError(f"{path}: a class is named twice in allclasses_names.")
    attributes = np.asarray(found["att"], np.float64)
    if attributes.ndim != 2 or attributes.shape[1] != len(names):
        swapped = attributes.ndim == 2 and attributes.shape[0] == len(names)
        why = "The axes are swapped: transpose it." if swapped else "Embedding and class list do not belong together."
        raise DataError(
            f"{path}: att has shape {attributes.shape}; (attributes, {len(names)} classes) is needed. {why}"
        )
    if bad := np.flatnonzero(~np.isfinite(attributes).all(axis=0)).tolist():
        raise DataError(f"{path}: {len(bad)} classes have attributes that are not numbers, such as {names[bad[0]]!r}.")
    locs = {loc: _loc(path, f"{loc}_loc", np.asarray(found[f"{loc}_loc"])) for loc in LOCS}
    every = np.concatenate(list(locs.values()))
    distinct, counts = np.unique(every, return_counts=True)
    if (counts > 1).any():
        raise DataError(
            f"{path}: {int((counts > 1).sum())} images are in two of trainval_loc, test_seen_loc and test_unseen_loc, "
            f"such as image {int(distinct[counts > 1][0]) + 1}. The three must be disjoint."
        )
    if distinct[-1] != len(distinct) - 1:
        raise DataError(
            f"{path}: the locs name {len(distinct)} images, up to number {int(distinct[-1]) + 1}. Together they must "
            "be 1..N without a gap."
        )
    return AttributeSplits(names, np.ascontiguousarray(attributes.T), locs)


def _loc(path: Path, name: str, values: AnyArray) -> IntArray:
    loc = values.ravel()
    if not len(loc):
        raise DataError(f"{path}: {name} is empty.")
    if loc.dtype.kind == "f" and not (loc == np.rint(loc)).all():
        raise DataError(f"{path}: {name} holds numbers that are not whole.")
    numbers = loc.astype(np.int64)
    if numbers.min() < 1:
        raise DataError(
            f"{path}: {name} starts at {int(numbers.min())}. These files count images from 1: add 1 to the locs."
        )
    return np.asarray(numbers - 1)


def check_labels(splits: AttributeSplits, labels: IntArray, folder: Path) -> None:
    """Raise where the labels do not fit the splits: another number of images, or a test class that is trained on."""
    if len(labels) != splits.images:
        raise DataError(
            f"{folder}: there are labels of {len(labels)} images, the locs of att_splits.mat {splits.images}."
        )
    train, seen, unseen = (np.unique(labels[splits.locs[loc]]) for loc in LOCS)
    for other, what in ((train, "training images"), (seen, "test images of seen classes")):
        if len(both := np.intersect1d(unseen, other)):
            raise DataError(
                f"{folder}: {len(both)} test classes are not unseen, such as {splits.class_names[both[0]]!r}: "
                f"they have {what} too. Test classes must be disjoint from the training classes."
            )
    if len(alone := np.setdiff1d(seen, train)):
        raise DataError(f"{folder}: {splits.class_names[alone[0]]!r} is a seen test class without a training image.")


def read_folds(folder: Path, class_names: Sequence[str], unseen_labels: IntArray) -> tuple[ClassFold, ...]:
    """Read the three folds of training classes from the class lists, checked against the test classes."""

    def read(name: str) -> IntArray:
        return read_classes(folder / f"{name}.txt", class_names)

    seen, unseen = read("trainvalclasses"), read("testclasses")
    if len(both := np.intersect1d(seen, unseen)):
        raise DataError(f"{folder}: {class_names[both[0]]!r} is in testclasses.txt and in trainvalclasses.txt.")
    if not np.array_equal(np.unique(unseen_labels), np.unique(unseen)):
        raise DataError(f"{folder}: testclasses.txt does not name the classes of the test images.")
    folds = []
    for number in (1, 2, 3):
        train, val = read(f"trainclasses{number}"), read(f"valclasses{number}")
        if np.intersect1d(train, val).size or not np.isin([*train, *val], seen).all():
            raise DataError(
                f"{folder}: fold {number} must divide the classes of trainvalclasses.txt into train and val."
            )
        folds.append(ClassFold(train, val))
    return tuple(folds)


def standard_split(
    name: str, class_names: Sequence[str], labels: IntArray
) -> tuple[dict[str, IntArray], tuple[ClassFold, ...]]:
    """Return SS by the lists of the package: locs, and the three folds of training classes."""
    lists = tomllib.loads((files(__package__) / "standard_splits.toml").read_text(encoding="utf-8"))
    found = lists["AWA" if name.startswith("AWA") else name]
    where = f"the standard split of {name} (other lists: the option standard=, or standard_split/{name}/)"
    rows = {key: class_rows(text.split(), class_names, where) for key, text in found.items()}
    train = np.setdiff1d(np.arange(len(class_names)), rows["test"])
    folds = tuple(ClassFold(np.setdiff1d(train, val), val) for val in (rows[f"val{number}"] for number in (1, 2, 3)))
    return _locs(train, rows["test"], labels), folds


def read_classes(path: Path, class_names: Sequence[str]) -> IntArray:
    """Read class indices from a list with one name per line."""
    with guarded(path, "a class list"):
        names = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        return class_rows(names, class_names, str(path))


def class_rows(names: Sequence[str], class_names: Sequence[str], where: str) -> IntArray:
    """Return the sorted class indices of some names."""
    index = {name: i for i, name in enumerate(class_names)}
    if unknown := [name for name in names if name not in index]:
        raise DataError(f"{where}: {unknown[0]!r} is not among the {len(index)} classes of att_splits.mat.")
    return np.asarray(sorted(index[name] for name in names), np.int64)


def standard_locs(lists: Path, class_names: Sequence[str], labels: IntArray) -> dict[str, IntArray]:
    """Return SS by the lists of a folder: all images of training classes train, all of test classes test."""
    train = read_classes(lists / "trainvalclasses.txt", class_names)
    return _locs(train, read_classes(lists / "testclasses.txt", class_names), labels)


def _locs(train: IntArray, test: IntArray, labels: IntArray) -> dict[str, IntArray]:
    return {TRAINVAL: np.flatnonzero(np.isin(labels, train)), TEST_UNSEEN: np.flatnonzero(np.isin(labels, test))}
