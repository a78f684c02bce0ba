"""The VTAB-1k folder that people pass around: images and four lists per task.

ROOT/cifar/images/...
ROOT/cifar/train800.txt            "images/train800/000000.png 12" per line
ROOT/cifar/val200.txt
ROOT/cifar/train800val200.txt      the two together; checked where it is there
ROOT/cifar/test.txt
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.listing import read_lines
from unseen.data.sources.vtab.examples import Examples, from_files

LISTS = {"train": "train800.txt", "val": "val200.txt", "test": "test.txt"}


def find_1k(root: Path, name: str) -> Path | None:
    """The folder of a task, where its lists are."""
    for folder in (root / name, root / "vtab-1k" / name):
        if (folder / LISTS["test"]).exists() and (folder / "train800.txt").exists():
            return folder
    return None


def read_1k(folder: Path) -> dict[str, Examples]:
    """Train, val and test of one task."""
    listed = {split: _read_list(folder / name) for split, name in LISTS.items()}
    both = folder / "train800val200.txt"
    if both.exists():
        together = dict(zip(*_read_list(both), strict=True))
        apart = {name: label for split in ("train", "val") for name, label in zip(*listed[split], strict=True)}
        if together != apart:
            odd = sorted(set(together.items()) ^ set(apart.items()))[0]
            raise DataError(
                f"{both} is not train800.txt and val200.txt together: {odd[0]!r} with label {odd[1]} is in one of them "
                "only. Get the folder again, or remove the file to go by the two others."
            )
    return {split: from_files(folder, names, {"label": np.array(labels)}) for split, (names, labels) in listed.items()}


def _read_list(path: Path) -> tuple[list[str], list[int]]:
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
