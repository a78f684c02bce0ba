"""The synsets of ImageNet-1K and ImageNet-21K, and image counts.

Source:     the synset lists are data files of the `timm` wheel, read as text: timm itself is not imported
Expected:   1,000 and 21,841 synsets (ILSVRC-2012, and the Fall 2011 release); 999 are in both, because n04399382
            (teddy) is in ImageNet-1K alone. The numbers of images are in the package
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from os import PathLike
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.core.guard import guarded, reader

_LISTS = {"imagenet-1k": "imagenet_synsets.txt", "imagenet-21k": "imagenet22k_synsets.txt"}


@cache
def _synset_list(name: str) -> tuple[str, ...]:
    spec = find_spec("timm")
    if spec is None or spec.origin is None:
        raise DataError(f"the synset list {name} comes with timm, which is not installed. Run: pip install timm")
    path = Path(spec.origin).parent / "data" / "_info" / _LISTS[name]
    with guarded(path, "a synset list", advice="Install timm 1.0.11 or later."):
        return tuple(path.read_text(encoding="ascii").split())


def imagenet_1k() -> tuple[str, ...]:
    """Return the 1,000 synsets of ILSVRC-2012, in the order of the labels, which is that of the wnids."""
    return _synset_list("imagenet-1k")


def imagenet_21k() -> tuple[str, ...]:
    """Return the 21,841 synsets of the Fall 2011 release, in the order of the wnids."""
    return _synset_list("imagenet-21k")


@cache
def image_counts() -> dict[str, int]:
    """Return the number of images of each synset of ImageNet-21K (Fall 2011)."""
    with (files("unseen.concepts") / "imagenet21k_counts.npz").open("rb") as stream, np.load(stream) as table:
        return dict(zip(imagenet_21k(), table["images"].tolist(), strict=True))


@reader("image counts")
def read_counts(path: str | PathLike[str]) -> dict[str, int]:
    """Read images per concept from a CSV file with two columns, concept and count; a header row is skipped."""
    path = Path(path)
    counts: dict[str, int] = {}
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    for number, row in enumerate(csv.reader(lines, delimiter="\t" if path.suffix == ".tsv" else ","), start=1):
        counted = len(row) == 2 and row[1].strip().isdigit()
        if not row or (number == 1 and len(row) == 2 and not counted):
            continue
        if not counted:
            raise DataError(f"{path}, line {number}: expected a concept and a count, found {','.join(row)[:60]!r}.")
        concept = row[0].strip()
        if concept in counts:
            raise DataError(f"{path}, line {number}: {concept!r} is counted twice.")
        counts[concept] = int(row[1])
    if not counts:
        raise DataError(f"{path} has no counts. It needs one concept and one number per line.")
    return counts
