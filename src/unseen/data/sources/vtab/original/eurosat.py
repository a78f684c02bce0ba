"""EuroSAT (RGB): a folder per class, one set that is cut in three."""

from __future__ import annotations

from pathlib import Path

from unseen.data.sources.vtab.examples import Examples
from unseen.data.sources.vtab.original.class_folders import holds_class_folders, read_class_folders


def find(root: Path) -> Path | None:
    places = ("2750", "EuroSAT_RGB", "eurosat/2750", "EuroSAT/2750", "EuroSAT")
    return next((root / p for p in places if holds_class_folders(root / p, "AnnualCrop")), None)


def read(place: Path) -> dict[str, Examples]:
    return {"train": read_class_folders(place).shuffled()}
