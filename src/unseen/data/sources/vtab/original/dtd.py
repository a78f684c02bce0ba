"""DTD: textures by class, with ten published folds. VTAB takes the first."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.listing import read_lines
from unseen.data.scan import subfolders
from unseen.data.sources.vtab.examples import Examples, from_files

_LISTS = {"train": "train1.txt", "validation": "val1.txt", "test": "test1.txt"}


def find(root: Path) -> Path | None:
    return next((p for p in (root / "dtd", root / "dtd" / "dtd", root) if (p / "labels" / "train1.txt").exists()), None)


def read(place: Path) -> dict[str, Examples]:
    classes = subfolders(place / "images")
    number = {name: label for label, name in enumerate(classes)}
    found = {}
    for split, name in _LISTS.items():
        images = [line for _, line in read_lines(place / "labels" / name)]
        unknown = [image for image in images if image.partition("/")[0] not in number]
        if unknown:
            raise DataError(f"{place / 'labels' / name} names {unknown[0]!r}, but there is no such class folder.")
        labels = np.array([number[image.partition("/")[0]] for image in images])
        found[split] = from_files(place / "images", images, {"label": labels}, classes).shuffled()
    return found
