"""Caltech101: a folder per class; 30 random images of each are for training, the others for testing.

TFDS' key: class and file. It draws the 30 by NumPy's old generator from 1234, class after class, in the order in which
a file system lists folders and files: on another machine they are others.

Differs:    the draw is TFDS' with listings in alphabetical order; the authors' is not known. Whoever has their 3,060
            names puts them, one `class/image_0001.jpg` per line, into `caltech101_train.txt` beside the classes or
            above them: then those are taken
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.listing import read_lines
from unseen.data.sources.vtab.examples import Examples
from unseen.data.sources.vtab.original.class_folders import (
    holds_class_folders,
    packed,
    read_class_folders,
    true_folder,
)

LIST = "caltech101_train.txt"
_PER_CLASS = 30
_FOLDERS = ("101_ObjectCategories", "caltech101/101_ObjectCategories", "caltech-101/101_ObjectCategories")
_PACKED = ("", "caltech101", "caltech-101", "caltech101/caltech-101")


def find(root: Path) -> Path | None:
    for place in (root / folder for folder in _FOLDERS):
        if holds_class_folders(place, "caltech101"):
            return place
    archives = (root / folder / "101_ObjectCategories.tar.gz" for folder in _PACKED)
    return next((archive for archive in archives if archive.is_file()), None)


def read(place: Path) -> dict[str, Examples]:
    if place.is_file():
        raise packed(place)
    everything = read_class_folders(place, "caltech101")
    path = next((p for p in (place / LIST, place.parent / LIST) if p.exists()), None)
    chosen = _listed(path, everything) if path else _drawn(everything)
    own = f"its training images are those of {path.name}" if path else "its 30 training images per class are drawn here"
    found = {}
    for split, rows in (("train", np.flatnonzero(chosen)), ("test", np.flatnonzero(~chosen))):
        part = everything.take(rows)
        keys = [f"{true_folder(name, 'caltech101')}/{name.rpartition('/')[2]}" for name in part.names]
        found[split] = replace(part.as_recorded(split, keys), own=own)
    return found


def _drawn(everything: Examples) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which images are for training; they stand in alphabetical order."""
    generator = np.random.RandomState(1234)
    labels = everything.fields["label"]
    chosen = np.zeros(len(everything), bool)
    for label in dict.fromkeys(labels.tolist()):
        rows = np.flatnonzero(labels == label)
        chosen[generator.choice(rows, min(_PER_CLASS, len(rows)), replace=False)] = True
    return chosen


def _listed(path: Path, everything: Examples) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    number = {name.lower(): row for row, name in enumerate(everything.names)}
    chosen = np.zeros(len(everything), bool)
    for line, name in read_lines(path):
        if name.lower() not in number:
            raise DataError(f"{path}, line {line}: there is no image {name!r}.")
        chosen[number[name.lower()]] = True
    return chosen
