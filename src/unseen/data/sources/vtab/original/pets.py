"""Oxford-IIIT Pets: `annotations/trainval.txt` and `test.txt`, lines of image, class (from 1), species, breed.

TFDS' key: the file name. It encodes five damaged files again; here they are as they are.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.listing import read_lines
from unseen.data.sources.vtab.examples import Examples, from_files

_LISTS = {"train": "trainval.txt", "test": "test.txt"}


def find(root: Path) -> Path | None:
    places = (root / "oxford-iiit-pet", root / "oxford_iiit_pet", root / "pets", root)
    return next((p for p in places if (p / "annotations" / "trainval.txt").exists()), None)


def read(place: Path) -> dict[str, Examples]:
    parsed = {split: _parse(place / "annotations" / name) for split, name in _LISTS.items()}
    breeds = {label: image.rpartition("_")[0] for rows in parsed.values() for image, label in rows}
    classes = [breeds.get(label, str(label)) for label in range(max(breeds) + 1)]
    found = {}
    for split, rows in parsed.items():
        names = [f"{image}.jpg" for image, _ in rows]
        examples = from_files(place / "images", names, {"label": np.array([n for _, n in rows])}, classes)
        found[split] = examples.as_recorded(split, names)
    return found


def _parse(path: Path) -> list[tuple[str, int]]:
    rows = []
    for number, line in read_lines(path):
        if line.startswith("#"):
            continue
        parts = line.split()
        if len(parts) != 4 or not parts[1].isdecimal():
            raise DataError(f"{path}, line {number}: {line!r} is not image, class, species and breed.")
        rows.append((parts[0], int(parts[1]) - 1))
    if not rows:
        raise DataError(f"{path} lists no image.")
    return rows
