"""A folder per class: what Caltech101, EuroSAT and Resisc45 have in common."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.scan import find_images, subfolders
from unseen.data.sources.vtab.class_names import class_names, labels_of
from unseen.data.sources.vtab.examples import Examples, from_files


def read_class_folders(root: Path, data: str) -> Examples:
    """All images below the folders of the classes of a dataset, by folder and name."""
    folders = subfolders(root)
    labels = labels_of(data, folders, root)
    found = [find_images(root / folder, f"{folder}/").names for folder in folders]
    names = [name for some in found for name in some]
    if not names:
        raise DataError(f"{root} has no folders with images, one per class.")
    return from_files(root, names, {"label": np.repeat(labels, [len(some) for some in found])}, class_names(data))


def true_folder(name: str, data: str) -> str:
    """The folder of an image `FOLDER/FILE` as its authors call it: some copies have changed the case."""
    folder = name.partition("/")[0]
    return next(known for known in class_names(data) if known.lower() == folder.lower())


def holds_class_folders(root: Path, data: str) -> bool:
    """Whether `root` has a folder of one of the classes, whatever the case."""
    known = {name.lower() for name in class_names(data)}
    return root.is_dir() and any(name.lower() in known for name in subfolders(root))


def packed(path: Path) -> DataError:
    """What to say of an archive that should have been unpacked."""
    return DataError(f"{path} is packed, and single images cannot be read out of it: unpack it first (tar -xf).")
