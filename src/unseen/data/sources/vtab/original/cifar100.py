"""CIFAR-100: `cifar-100-python` (pickles), `cifar-100-matlab` or `cifar-100-binary`; fine labels.

The pickles are read by a loader that builds plain arrays and nothing else. A record of the binary form is the coarse
label, the fine label and 3,072 pixels, channel after channel. TFDS' key: the number of the image.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unseen.core.errors import DataError
from unseen.core.safe_pickle import load_plain_pickle
from unseen.data.listing import read_lines
from unseen.data.matlab import read_matlab
from unseen.data.sources.vtab.examples import Examples, from_pixels

_PIXELS = 3 * 32 * 32
_TRAIN = {"cifar-100-python": "train", "cifar-100-matlab": "train.mat", "cifar-100-binary": "train.bin"}


def find(root: Path) -> Path | None:
    bases = (root, root / "cifar100", root / "cifar-100")
    return next((base / form for base in bases for form, name in _TRAIN.items() if (base / form / name).exists()), None)


def read(place: Path) -> dict[str, Examples]:
    names = _class_names(place)
    found = {split: _read(place, split, names) for split in ("train", "test")}
    return {split: part.as_recorded(split, list(map(str, range(len(part))))) for split, part in found.items()}


def _read(place: Path, split: str, class_names: list[str]) -> Examples:
    mat, binary = place / f"{split}.mat", place / f"{split}.bin"
    content: Any
    if mat.exists():
        content = read_matlab(mat, ("data", "fine_labels"))
    elif binary.exists():
        content = _read_binary(binary)
    else:
        content = _texted(load_plain_pickle(place / split))
    try:
        rows, labels = np.asarray(content["data"], np.uint8), np.asarray(content["fine_labels"]).reshape(-1)
        images = rows.reshape(len(labels), 3, 32, 32)
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(f"{place / split} is not a CIFAR-100 file: {error!r}.") from error
    return from_pixels(split, lambda i: images[i].transpose(1, 2, 0), len(images), {"label": labels}, class_names)


def _read_binary(path: Path) -> dict[str, Any]:
    try:
        values = np.fromfile(path, np.uint8)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}.") from error
    if not len(values) or len(values) % (2 + _PIXELS):
        raise DataError(
            f"{path} has {len(values):,} bytes, which is no whole number of images of {2 + _PIXELS:,}. Get it again."
        )
    rows = values.reshape(-1, 2 + _PIXELS)
    return {"data": rows[:, 2:], "fine_labels": rows[:, 1]}


def _class_names(place: Path) -> list[str]:
    if (place / "fine_label_names.txt").exists():
        return [line for _, line in read_lines(place / "fine_label_names.txt")]
    if not (place / "meta").exists():
        return []
    names = _texted(load_plain_pickle(place / "meta")).get("fine_label_names", [])
    return [n.decode("utf-8") if isinstance(n, bytes) else str(n) for n in names]


def _texted(content: Any) -> dict[str, Any]:
    """Keys as text: a Python 2 pickle may give them as bytes."""
    if not isinstance(content, dict):
        raise DataError(f"a CIFAR-100 pickle holds a {type(content).__name__}; a dictionary was expected.")
    return {key.decode("utf-8") if isinstance(key, bytes) else str(key): value for key, value in content.items()}
