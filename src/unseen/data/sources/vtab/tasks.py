"""The 19 tasks of VTAB, as data: tasks, places of original files, how annotations become classes, names of classes.

Paper:      Zhai et al., 2019, Appendix A; bounds of bins from the authors' released source
Implements: bins: the index of the largest bound strictly below the value, so that a value on a bound falls below it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from unseen.core.arrays import IntArray
from unseen.core.errors import DataError, UnknownNameError
from unseen.core.files import read_toml
from unseen.core.records import DatasetCard

OPTIONS = "options: size=1000 or full, root, source"


@dataclass(frozen=True)
class Rule:
    """How one field of the annotations becomes a class index.

    Attributes:
        field: of the annotations.
        bounds: of bins; without any, the class is the floor of (value - `offset`) / `width`.
    """

    field: str = "label"
    offset: int = 0
    width: float = 1.0
    bounds: tuple[float, ...] = ()

    def __call__(self, values: npt.ArrayLike, classes: int) -> IntArray:
        """Return the class indices of values.

        Raises:
            DataError: a value belongs to none of the classes.
        """
        numbers = np.asarray(values)
        if self.bounds:
            found = np.searchsorted(np.asarray(self.bounds), numbers.astype(np.float64), side="left") - 1
        else:
            found = np.floor((numbers - self.offset) / self.width).astype(np.int64)
        wrong = np.flatnonzero((found < 0) | (found >= classes))
        if len(wrong):
            raise DataError(
                f"{self.field} = {numbers[wrong[0]]} of example {wrong[0]} belongs to none of the {classes} classes "
                f"({len(wrong)} such examples). Is this the right dataset?"
            )
        return found


@dataclass(frozen=True)
class VtabTask:
    """One task.

    Attributes:
        name: as in `vtab:NAME`.
        title: the heading of its column in the paper's tables.
        group: "natural", "specialized" or "structured".
        data: which images; equal for tasks that share them.
        printed_size: training and validation images together, as Table 2 prints it.
        sizes: of train, val and test, whole.
        splits: train, val and test out of the official splits, such as "train[:90%]".
        rule: how an annotation becomes a class.
        folder: its name in a VTAB-1k folder.
        tfds: builder and configuration in TensorFlow Datasets.
        wds: its name in CLIP_benchmark, whose shards are in `wds_vtab-NAME`.
        selection: whose 1,000 examples the original files give, and why.
        url, expects: where to get the original files, and what they are called.
    """

    name: str
    title: str
    group: str
    data: str
    printed_size: int
    classes: int
    reference: str
    sizes: tuple[int, int, int]
    splits: Mapping[str, str]
    folder: str
    tfds: str
    wds: str
    url: str
    expects: str
    citation: str
    license: str
    rule: Rule = Rule()
    selection: str = "the authors' from original files too: they are put into the order of TFDS' records"

    @property
    def official_sizes(self) -> Mapping[str, int]:
        """Return the number of examples of the official splits that this task is cut from."""
        found: Counter[str] = Counter()
        for spec, size in zip(self.splits.values(), self.sizes, strict=True):
            found[spec.partition("[")[0]] += size
        return found

    @property
    def card(self) -> DatasetCard:
        return DatasetCard(
            id=f"vtab:{self.name}",
            name=self.title,
            group=self.group,
            paper="vtab",
            classes=self.classes,
            images=sum(self.sizes),
            source=self.url,
            license=self.license,
            citation=self.citation,
            notes=f"{OPTIONS}; examples: {self.selection}",
        )


@dataclass(frozen=True)
class Files:
    """Where the original files of a dataset are below a root, and what the records of TFDS call its examples.

    Attributes:
        splits: by official split, the file or part of the files that its reader reads.
        folders: in the order in which they are tried; "" is the root.
        requires: file patterns that a folder must have, each with alternatives between "|"; without any, the folder
            must have a sub-folder of one of the classes.
        archives: names of packed forms that cannot be read, beside those that are downloaded.
        key: the feature of a record by which TFDS sorts the examples.
        numbered: whether the key is the number of the example in its file; older versions do not record it.
    """

    splits: Mapping[str, str]
    folders: tuple[str, ...]
    requires: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    key: str = "file_name"
    numbered: bool = False


@cache
def files_of(data: str) -> Files:
    """Return where the files of a dataset are."""
    return msgspec.convert(read_toml(__package__, "tasks.toml")["original"][data], Files)


@cache
def vtab_tasks() -> Mapping[str, VtabTask]:
    """Return the tasks by name, in the order of the paper's tables."""
    return {task.name: task for task in msgspec.convert(read_toml(__package__, "tasks.toml")["task"], list[VtabTask])}


def vtab_task(name: str) -> VtabTask:
    """Return a task by name."""
    try:
        return vtab_tasks()[name]
    except KeyError:
        raise UnknownNameError("VTAB task", name, vtab_tasks()) from None


@cache
def class_names(data: str) -> tuple[str, ...]:
    """Return the folders of a dataset in the order of their labels; none if it does not come as folders."""
    return tuple(read_toml(__package__, "class_names.toml").get(data, "").split())


def folder_labels(data: str, folders: Sequence[str], place: Path) -> IntArray:
    """Return the label of each folder; upper and lower case are not distinguished.

    Raises:
        DataError: a folder is not a class of this dataset.
    """
    number = {name.lower(): label for label, name in enumerate(class_names(data))}
    for folder in folders:
        if folder.lower() not in number:
            raise DataError(
                f"{place}: {folder!r} is none of the {len(number)} classes of this dataset, which are "
                f"{', '.join(class_names(data)[:3])} and so on. Move it away, or get the data again."
            )
    return np.array([number[folder.lower()] for folder in folders], np.int64)
