"""SUN397: folders by first letter and class, `a/abbey/sun_*.jpg`; some classes are one folder deeper.

The published split is three lists that come with TFDS (`sun397_tfds_tr.txt`, `_va.txt`, `_te.txt`). Where they lie
beside the images they are used; without them the images are drawn 70 : 10 : 20.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.listing import read_lines
from unseen.data.scan import find_images, subfolders
from unseen.data.sources.vtab.examples import Examples, from_files

_LISTS = {"train": "sun397_tfds_tr.txt", "validation": "sun397_tfds_va.txt", "test": "sun397_tfds_te.txt"}


def find(root: Path) -> Path | None:
    places = (root / "SUN397", root / "sun397" / "SUN397")
    return next((p for p in places if (p / "a").is_dir()), None)


def read(place: Path) -> dict[str, Examples]:
    names = [name for letter in subfolders(place) for name in find_images(place / letter, f"{letter}/").names]
    if not names:
        raise DataError(f"{place} has no images in folders such as a/abbey.")
    classes = sorted({name.rpartition("/")[0] for name in names})
    number = {name: label for label, name in enumerate(classes)}

    def examples(chosen: list[str]) -> Examples:
        labels = np.array([number[name.rpartition("/")[0]] for name in chosen])
        return from_files(place, chosen, {"label": labels}, classes)

    lists = {split: next((f for f in (place / n, place.parent / n) if f.exists()), None) for split, n in _LISTS.items()}
    if all(lists.values()):
        return {split: examples(_listed(path, set(names))).shuffled() for split, path in lists.items() if path}
    everything = examples(names).shuffled()
    ends = [0, round(0.7 * len(names)), round(0.8 * len(names)), len(names)]
    return {s: everything.take(np.arange(ends[k], ends[k + 1])) for k, s in enumerate(_LISTS)}


def _listed(path: Path, there: set[str]) -> list[str]:
    chosen = []
    for number, line in read_lines(path):
        name = line.lstrip("/")
        if name not in there:
            raise DataError(f"{path}, line {number}: there is no image {name!r}.")
        chosen.append(name)
    return chosen
