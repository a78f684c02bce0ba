"""CIFAR-100: the pickles of `cifar-100-python`, or the .mat files of `cifar-100-matlab`; fine labels.

The pickles are read by a loader that builds plain arrays and nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unseen.core.errors import DataError
from unseen.core.safe_pickle import load_plain_pickle
from unseen.data.matlab import read_matlab
from unseen.data.sources.vtab.examples import Examples, from_pixels


def find(root: Path) -> Path | None:
    places = [
        base / name
        for base in (root, root / "cifar100", root / "cifar-100")
        for name in ("cifar-100-python", "cifar-100-matlab")
    ]
    return next((p for p in places if any((p / n).exists() for n in ("train", "train.mat"))), None)


def read(place: Path) -> dict[str, Examples]:
    names = _class_names(place / "meta") if (place / "meta").exists() else []
    return {split: _read(place, split, names).shuffled() for split in ("train", "test")}


def _read(place: Path, split: str, class_names: list[str]) -> Examples:
    mat = place / f"{split}.mat"
    content: Any = (
        read_matlab(mat, ("data", "fine_labels")) if mat.exists() else _texted(load_plain_pickle(place / split))
    )
    try:
        rows, labels = np.asarray(content["data"], np.uint8), np.asarray(content["fine_labels"]).reshape(-1)
        images = rows.reshape(len(labels), 3, 32, 32)
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(f"{place / split} is not a CIFAR-100 file: {error!r}.") from error
    return from_pixels(split, lambda i: images[i].transpose(1, 2, 0), len(images), {"label": labels}, class_names)


def _class_names(path: Path) -> list[str]:
    names = _texted(load_plain_pickle(path)).get("fine_label_names", [])
    return [n.decode("utf-8") if isinstance(n, bytes) else str(n) for n in names]


def _texted(content: Any) -> dict[str, Any]:
    """Keys as text: a Python 2 pickle may give them as bytes."""
    if not isinstance(content, dict):
        raise DataError(f"a CIFAR-100 pickle holds a {type(content).__name__}; a dictionary was expected.")
    return {key.decode("utf-8") if isinstance(key, bytes) else str(key): value for key, value in content.items()}
