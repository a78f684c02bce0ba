"""NWPU-RESISC45: a folder per class, one set that is cut in three."""

from __future__ import annotations

from pathlib import Path

from unseen.data.sources.vtab.examples import Examples
from unseen.data.sources.vtab.original.class_folders import holds_class_folders, read_class_folders


def find(root: Path) -> Path | None:
    places = ("NWPU-RESISC45", "resisc45/NWPU-RESISC45", "RESISC45", "resisc45")
    return next((root / p for p in places if holds_class_folders(root / p, "airplane")), None)


def read(place: Path) -> dict[str, Examples]:
    return {"train": read_class_folders(place).shuffled()}
