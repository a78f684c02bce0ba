"""EuroSAT (RGB): a folder per class, one set that is cut in three. TFDS' key: class and file name."""

from __future__ import annotations

from pathlib import Path

from unseen.data.sources.vtab.examples import Examples
from unseen.data.sources.vtab.original.class_folders import holds_class_folders, read_class_folders, true_folder


def find(root: Path) -> Path | None:
    places = ("2750", "EuroSAT_RGB", "eurosat/2750", "EuroSAT/2750", "EuroSAT")
    return next((root / p for p in places if holds_class_folders(root / p, "eurosat")), None)


def read(place: Path) -> dict[str, Examples]:
    found = read_class_folders(place, "eurosat")
    keys = [f"{true_folder(name, 'eurosat')}_{name.rpartition('/')[2]}" for name in found.names]
    return {"train": found.as_recorded("train", keys)}
