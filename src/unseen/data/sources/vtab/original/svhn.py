"""SVHN, cropped digits: `train_32x32.mat` and `test_32x32.mat`. The digit 0 is stored as class 10.

TFDS' key: the number of the image.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.matlab import read_matlab
from unseen.data.sources.vtab.examples import Examples, from_pixels


def find(root: Path) -> Path | None:
    return next(
        (p for p in (root, root / "svhn", root / "SVHN", root / "svhn_cropped") if (p / "train_32x32.mat").exists()),
        None,
    )


def read(place: Path) -> dict[str, Examples]:
    found = {split: _read(place / f"{split}_32x32.mat", split) for split in ("train", "test")}
    return {split: part.as_recorded(split, list(map(str, range(len(part))))) for split, part in found.items()}


def _read(path: Path, split: str) -> Examples:
    content = read_matlab(path, ("X", "y"))
    images, labels = np.asarray(content["X"]), np.asarray(content["y"]).reshape(-1).astype(np.int64)
    if images.shape != (32, 32, 3, len(labels)):
        raise DataError(f"{path}: X has shape {images.shape}; (32, 32, 3, {len(labels)}) was expected.")
    return from_pixels(
        split, lambda i: images[:, :, :, i], len(labels), {"label": labels % 10}, [str(digit) for digit in range(10)]
    )
