"""The splits of the zero-shot datasets: locs and attributes of att_splits.mat, class lists, and their checks.

Paper:      Xian et al., TPAMI 2018, section 5.2; layout of its release `xlsa17`
Standard:   the class lists of the standard split stand in `standard_splits.toml`, so that SS needs no more than PS does
Differs:    folds come from the lists of validation classes, never from `train_loc` and `val_loc`, which differ between
            public copies; all other training classes of a fold train
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unseen.core.arrays import FloatArray, IntArray
from unseen.core.errors import DataError
from unseen.core.files import read_toml
from unseen.core.identity import digest
from unseen.data.columns import read_lines
from unseen.data.matlab import read_matlab
from unseen.data.sources.features import ZERO_SHOT, Fold, class_rows


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
        locs = [np.sort(self.locs[loc]).tolist() for loc in ZERO_SHOT]
        return digest([list(self.class_names), np.round(self.attributes, 6).tolist(), locs])


def read_attribute_splits(path: Path) -> AttributeSplits:
    """Read and check att_splits.mat.

    Raises:
        DataError: swapped axes, a class that is named twice, locs that count from 0 or overlap or leave a gap.
    """
    found = read_matlab(path, ("att", "allclasses_names", *(f"{loc}_loc" for loc in ZERO_SHOT)))
    names, attributes = list(found["allclasses_names"]), np.asarray(found["att"], np.float64)
    if len(set(names)) != len(names):
        raise DataError(f"{path}: a class is named twice in allclasses_names.")
    if attributes.ndim != 2 or attributes.shape[1] != len(names):
        swapped = attributes.ndim == 2 and attributes.shape[0] == len(names)
        why = "The axes are swapped: transpose it." if swapped else "Embedding and class list do not belong together."
        raise DataError(
            f"{path}: att has shape {attributes.shape}; (attributes, {len(names)} classes) is needed. {why}"
        )
    counted = {loc: np.ravel(np.asarray(found[f"{loc}_loc"])) for loc in ZERO_SHOT}
    every = np.sort(np.concatenate(list(counted.values())))
    if not np.array_equal(every, np.arange(1, len(every) + 1)):
        raise DataError(
            f"{path}: {', '.join(f'{loc}_loc' for loc in ZERO_SHOT)} must be disjoint and together be 1..N: they count "
            f"images from 1. They hold {len(every)} numbers, {len(np.unique(every))} different, from "
            f"{every.min(initial=0)} to {every.max(initial=0)}."
        )
    locs = {loc: values.astype(np.int64) - 1 for loc, values in counted.items()}
    return AttributeSplits(names, np.ascontiguousarray(attributes.T), locs)


def read_folds(folder: Path, class_names: Sequence[str], seen: IntArray) -> tuple[Fold, ...]:
    """Read the three folds of the training classes from the lists of their validation classes."""
    validation = []
    for path in (folder / f"valclasses{number}.txt" for number in (1, 2, 3)):
        validation.append(read_classes(path, class_names))
        if not np.isin(validation[-1], seen).all():
            raise DataError(f"{path} names a class that is not a training class.")
    return _folds(seen, validation)


def _folds(seen: IntArray, validation: Iterable[IntArray]) -> tuple[Fold, ...]:
    return tuple(Fold(np.setdiff1d(seen, val), val) for val in validation)


def standard_split(name: str, class_names: Sequence[str], lists: Path) -> tuple[IntArray, tuple[Fold, ...]]:
    """Return the test classes of SS, and three folds of all others, by the lists of a folder if it exists."""
    every = np.arange(len(class_names))
    if lists.is_dir():
        test = read_classes(lists / "testclasses.txt", class_names)
        return test, read_folds(lists, class_names, np.setdiff1d(every, test))
    found = read_toml("unseen.data.sources.xlsa17", "standard_splits.toml")["AWA" if name.startswith("AWA") else name]
    where = f"the standard split of {name} (other lists: standard_split/{name}/)"
    test, *validation = (_rows(found[key].split(), class_names, where) for key in ("test", "val1", "val2", "val3"))
    return test, _folds(np.setdiff1d(every, test), validation)


def read_classes(path: Path, class_names: Sequence[str]) -> IntArray:
    """Read sorted class indices from a list with one name per line."""
    return _rows([line for _, line in read_lines(path)], class_names, str(path))


def _rows(names: Sequence[str], class_names: Sequence[str], where: str) -> IntArray:
    return np.sort(class_rows(np.asarray(names), class_names, f"{where}: "))
