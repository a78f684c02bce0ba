"""SUN397: folders by first letter and class, `a/abbey/sun_*.jpg`; some classes are one folder deeper.

The published split is three lists that come with TFDS (`sun397_tfds_tr.txt`, `_va.txt`, `_te.txt`). Where they lie
beside the images they are used; without them the images are drawn 70 : 10 : 20. TFDS' key: the path with a slash.

Differs:    TFDS shrinks images to 120,000 pixels and encodes them again; here they are as they are. It leaves out one
            listed image that it cannot decode, which would be number 66,481 of train: not among the first 800
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.listing import read_lines
from unseen.data.scan import find_images, subfolders
from unseen.data.sources.vtab.class_names import class_names, labels_of
from unseen.data.sources.vtab.examples import Examples, from_files
from unseen.data.sources.vtab.original.class_folders import packed

_LISTS = {"train": "sun397_tfds_tr.txt", "validation": "sun397_tfds_va.txt", "test": "sun397_tfds_te.txt"}


def find(root: Path) -> Path | None:
    letters = [place for place in (root / "SUN397", root / "sun397" / "SUN397") if place.is_dir()]
    archives = [root / "SUN397.tar.gz", root / "sun397" / "SUN397.tar.gz"]
    return next((p for p in letters if any(len(name) == 1 for name in subfolders(p))), None) or next(
        (archive for archive in archives if archive.is_file()), None
    )


def read(place: Path) -> dict[str, Examples]:
    if place.is_file():
        raise packed(place)
    lists = {split: next((f for f in (place / n, place.parent / n) if f.exists()), None) for split, n in _LISTS.items()}
    if all(lists.values()):
        return {split: _examples(place, split, _listed(path)) for split, path in lists.items() if path}
    return _drawn(place)


def _examples(place: Path, split: str, names: list[str]) -> Examples:
    labels = labels_of("sun397", [name.rpartition("/")[0] for name in names], place)
    found = from_files(place, names, {"label": labels}, class_names("sun397"))
    return found.as_recorded(split, [f"/{name}" for name in names])


def _drawn(place: Path) -> dict[str, Examples]:
    names = [name for letter in subfolders(place) for name in find_images(place / letter, f"{letter}/").names]
    if not names:
        raise DataError(f"{place} has no images in folders such as a/abbey.")
    everything = _examples(place, "", names)
    ends = [0, round(0.7 * len(everything)), round(0.8 * len(everything)), len(everything)]
    parts = {s: everything.take(np.arange(ends[k], ends[k + 1])) for k, s in enumerate(_LISTS)}
    own = f"its splits are drawn here: {', '.join(_LISTS.values())} of TFDS are not beside the images"
    return {split: replace(part, own=own) for split, part in parts.items()}


def _listed(path: Path) -> list[str]:
    return [line.lstrip("/") for _, line in read_lines(path)]
