"""A folder per class: what Caltech101, EuroSAT and Resisc45 have in common."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.scan import find_images, subfolders
from unseen.data.sources.vtab.examples import Examples, from_files


def read_class_folders(root: Path) -> Examples:
    """All images; classes are numbered in the order of their names, whatever the case."""
    classes = sorted(subfolders(root), key=str.lower)
    names: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        found = find_images(root / name, f"{name}/").names
        names += found
        labels += [label] * len(found)
    if not names:
        raise DataError(f"{root} has no folders with images, one per class.")
    return from_files(root, names, {"label": np.array(labels)}, classes)


def holds_class_folders(root: Path, some_class: str) -> bool:
    """Whether `root` has a folder of that class, whatever the case."""
    return root.is_dir() and any(name.lower() == some_class.lower() for name in subfolders(root))
