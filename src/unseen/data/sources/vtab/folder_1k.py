"""The VTAB-1k folder that people pass around: images and lists per task.

ROOT/cifar/images/...
ROOT/cifar/train800.txt            "images/train800/000000.jpg 12" per line
ROOT/cifar/val200.txt              "images/val200/000000.jpg 3"
ROOT/cifar/train800val200.txt      "images/train800val200/000000.jpg 12": the same 1,000 in that order, other names
ROOT/cifar/test.txt

Where the joint list and the test list are all there is, its first 800 are train and its last 200 are val.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.listing import read_lines
from unseen.data.sources.vtab.examples import Examples, from_files

SINGLE = {"train": "train800.txt", "val": "val200.txt"}
JOINT, TEST = "train800val200.txt", "test.txt"
OWN = "they are what the lists of the folder name"
_TRAIN, _VAL = 800, 200

Listed = tuple[list[str], list[int]]


def find_1k(root: Path, name: str) -> Path | None:
    """The folder of a task, where its lists are."""
    for folder in (root / name, root / "vtab-1k" / name):
        single = all((folder / each).exists() for each in SINGLE.values())
        if (folder / TEST).exists() and (single or (folder / JOINT).exists()):
            return folder
    return None


def read_1k(folder: Path) -> dict[str, Examples]:
    """Train, val and test of one task."""
    listed = {**_read_train(folder), "test": _read_list(folder / TEST)}
    return {split: from_files(folder, names, {"label": np.array(labels)}) for split, (names, labels) in listed.items()}


def _read_train(folder: Path) -> dict[str, Listed]:
    joint = _read_list(folder / JOINT) if (folder / JOINT).exists() else None
    if all((folder / name).exists() for name in SINGLE.values()):
        listed = {split: _read_list(folder / name) for split, name in SINGLE.items()}
        if joint:
            _compare(folder, joint[1], [*listed["train"][1], *listed["val"][1]])
        return listed
    assert joint is not None, folder
    names, labels = joint
    if len(names) != _TRAIN + _VAL:
        raise DataError(
            f"{folder / JOINT} lists {len(names):,} images; {_TRAIN + _VAL:,} were expected, {_TRAIN} of train and "
            f"then {_VAL} of val. Get the folder again, or put {' and '.join(SINGLE.values())} beside it."
        )
    return {"train": (names[:_TRAIN], labels[:_TRAIN]), "val": (names[_TRAIN:], labels[_TRAIN:])}


def _compare(folder: Path, together: list[int], apart: list[int]) -> None:
    """The joint list names copies of the images, so that only classes, in their order, can be compared."""
    if together == apart:
        return
    pairs = zip(together, apart, strict=False)
    line = next((n for n, (a, b) in enumerate(pairs, 1) if a != b), min(len(together), len(apart)) + 1)
    raise DataError(
        f"{folder / JOINT} is not train800.txt and then val200.txt: they differ from line {line} on ({len(together):,} "
        f"and {len(apart):,} lines). Get the folder again, or remove the file to go by the two others."
    )


def _read_list(path: Path) -> Listed:
    names, labels = [], []
    for number, line in read_lines(path):
        name, _, label = line.rpartition(" ")
        if not name or not label.isdecimal():
            raise DataError(f"{path}, line {number}: {line!r} is not an image and a class number with a space between.")
        if name.startswith("/") or ".." in name.split("/"):
            raise DataError(f"{path}, line {number}: {name!r} leads out of the folder; paths are relative to it.")
        names.append(name.strip())
        labels.append(int(label))
    if not names:
        raise DataError(f"{path} lists no image.")
    return names, labels
