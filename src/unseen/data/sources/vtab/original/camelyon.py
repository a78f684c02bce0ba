"""PatchCamelyon: HDF5 files of patches and of labels, per split. Needs the `vtab` extra (h5py).

TFDS' key: split and number.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError, MissingExtraError
from unseen.data.sources.vtab.examples import Examples, from_pixels

_SPLITS = {"train": "train", "validation": "valid", "test": "test"}
_FILE = "camelyonpatch_level_2_split_{}_{}.h5"


def find(root: Path) -> Path | None:
    places = (root, root / "pcam", root / "patch_camelyon")
    return next(
        (p for p in places if any((p / (_FILE.format("train", "x") + end)).exists() for end in ("", ".gz"))), None
    )


def read(place: Path) -> dict[str, Examples]:
    found = {}
    for split, short in _SPLITS.items():
        examples = _read(place, short, split)
        found[split] = examples.as_recorded(split, [f"{short}_{i}" for i in range(len(examples))])
    return found


def _read(place: Path, short: str, split: str) -> Examples:
    images = _open(place / _FILE.format(short, "x"), "x")
    labels = np.asarray(_open(place / _FILE.format(short, "y"), "y")).reshape(-1).astype(np.int64)
    if images.shape != (len(labels), 96, 96, 3):
        raise DataError(f"{place}: split {short!r} has {images.shape} images and {len(labels)} labels.")
    lock = Lock()  # HDF5 reads one thing at a time

    def pixels(i: int) -> npt.NDArray[np.uint8]:
        with lock:
            return np.asarray(images[i], np.uint8)

    return from_pixels(split, pixels, len(labels), {"label": labels}, ("no tumour", "tumour"))


def _open(path: Path, name: str) -> Any:
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("h5py, which reads PatchCamelyon,", "vtab") from None
    if not path.exists() and path.with_name(path.name + ".gz").exists():
        raise DataError(f"{path.name}.gz is packed: unpack it first (gunzip -k), its patches are read one by one.")
    try:
        return h5py.File(path, "r")[name]
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        raise DataError(f"cannot read {path}: {error}.") from error
