"""DTD: textures by class, with ten published folds. VTAB takes the first. TFDS' key: class and file."""

from __future__ import annotations

from pathlib import Path

from unseen.data.listing import read_lines
from unseen.data.sources.vtab.class_names import class_names, labels_of
from unseen.data.sources.vtab.examples import Examples, from_files

_LISTS = {"train": "train1.txt", "validation": "val1.txt", "test": "test1.txt"}


def find(root: Path) -> Path | None:
    return next((p for p in (root / "dtd", root / "dtd" / "dtd", root) if (p / "labels" / "train1.txt").exists()), None)


def read(place: Path) -> dict[str, Examples]:
    found = {}
    for split, name in _LISTS.items():
        path = place / "labels" / name
        images = [line for _, line in read_lines(path)]
        labels = labels_of("dtd", [image.partition("/")[0] for image in images], path)
        examples = from_files(place / "images", images, {"label": labels}, class_names("dtd"))
        found[split] = examples.as_recorded(split, images)
    return found
