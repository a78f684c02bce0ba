"""Flowers102: numbered images, their classes in `imagelabels.mat` (from 1), the splits in `setid.mat` (from 1).

TFDS' key: the file name.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.matlab import read_matlab
from unseen.data.sources.vtab.examples import Examples, from_files

_SETS = {"train": "trnid", "validation": "valid", "test": "tstid"}


def find(root: Path) -> Path | None:
    places = (root / "flowers-102", root / "flowers102", root / "oxford_flowers102", root)
    return next((p for p in places if (p / "setid.mat").exists() and (p / "imagelabels.mat").exists()), None)


def read(place: Path) -> dict[str, Examples]:
    labels = np.asarray(read_matlab(place / "imagelabels.mat", ("labels",))["labels"]).reshape(-1).astype(np.int64)
    sets = read_matlab(place / "setid.mat", tuple(_SETS.values()))
    folder = "jpg" if (place / "jpg").is_dir() or not (place / "images" / "jpg").is_dir() else "images/jpg"
    found = {}
    for split, variable in _SETS.items():
        numbers = np.asarray(sets[variable]).reshape(-1).astype(np.int64)
        if len(numbers) and (numbers.min() < 1 or numbers.max() > len(labels)):
            raise DataError(f"{place / 'setid.mat'}: {variable} names image {numbers.max()} of {len(labels)}.")
        keys = [f"image_{number:05d}.jpg" for number in numbers.tolist()]
        examples = from_files(place, [f"{folder}/{key}" for key in keys], {"label": labels[numbers - 1] - 1})
        found[split] = examples.as_recorded(split, keys)
    return found
