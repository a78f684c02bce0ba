"""NWPU-RESISC45: a folder per class, one set that is cut in three. TFDS' key: class and file name."""

from __future__ import annotations

from pathlib import Path

from unseen.data.sources.vtab.examples import Examples
from unseen.data.sources.vtab.original.class_folders import holds_class_folders, read_class_folders, true_folder


def find(root: Path) -> Path | None:
    places = ("NWPU-RESISC45", "resisc45/NWPU-RESISC45", "RESISC45", "resisc45")
    return next((root / p for p in places if holds_class_folders(root / p, "resisc45")), None)


def read(place: Path) -> dict[str, Examples]:
    found = read_class_folders(place, "resisc45")
    keys = [f"{true_folder(name, 'resisc45')}_{name.rpartition('/')[2]}" for name in found.names]
    return {"train": found.as_recorded("train", keys)}
