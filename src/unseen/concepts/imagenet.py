"""Which synsets ImageNet-1K and ImageNet-21K hold, and how many images each has.

Source:     the synset lists are data files of the `timm` wheel, read as text: timm itself is not imported
Expected:   1,000 and 21,841 synsets (ILSVRC-2012, and the Fall 2011 release); 999 are in both, because n04399382
            (teddy) is in ImageNet-1K alone
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from os import PathLike
from pathlib import Path

from unseen.core.errors import DataError
from unseen.core.guard import reader

_LISTS = {"imagenet-1k": "imagenet_synsets.txt", "imagenet-21k": "imagenet22k_synsets.txt"}
_IMAGE_SUFFIXES = frozenset({".jpeg", ".jpg", ".png", ".webp", ".bmp"})


@cache
def _synset_list(name: str) -> tuple[str, ...]:
    spec = find_spec("timm")
    if spec is None or spec.origin is None:
        raise DataError(f"the synset list {name} comes with timm, which is not installed. Run: pip install timm")
    path = Path(spec.origin).parent / "data" / "_info" / _LISTS[name]
    try:
        return tuple(path.read_text(encoding="ascii").split())
    except OSError as error:
        raise DataError(
            f"the installed timm lacks {path.name} ({error.strerror}). Install timm 1.0.11 or later."
        ) from None


def imagenet_1k() -> tuple[str, ...]:
    """The 1,000 synsets of ILSVRC-2012, in the order of the labels, which is that of the wnids."""
    return _synset_list("imagenet-1k")


def imagenet_21k() -> tuple[str, ...]:
    """The 21,841 synsets of the Fall 2011 release, by wnid."""
    return _synset_list("imagenet-21k")


@reader("image counts")
def read_counts(path: str | PathLike[str]) -> dict[str, int]:
    """Images per concept from a CSV file with two columns, concept and count; a header row is skipped."""
    path = Path(path)
    counts: dict[str, int] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise DataError(f"cannot read the image counts {path}: {error.strerror}.") from None
    for number, row in enumerate(csv.reader(lines, delimiter="\t" if path.suffix == ".tsv" else ","), start=1):
        if not row or (number == 1 and len(row) == 2 and not row[1].strip().isdigit()):
            continue
        if len(row) != 2 or not row[1].strip().isdigit():
            raise DataError(f"{path}, line {number}: expected a concept and a count, found {','.join(row)[:60]!r}.")
        concept = row[0].strip()
        if concept in counts:
            raise DataError(f"{path}, line {number}: {concept!r} is counted twice.")
        counts[concept] = int(row[1])
    if not counts:
        raise DataError(f"{path} has no counts. It needs one concept and one number per line.")
    return counts


def count_images(root: str | PathLike[str]) -> dict[str, int]:
    """Images per concept of a folder that has one sub-folder per concept, as an unpacked ImageNet has."""
    root = Path(root)
    if not root.is_dir():
        raise DataError(f"{root} is not a folder. Give the folder that holds one sub-folder of images per concept.")
    counts = {
        folder.name: sum(1 for file in folder.rglob("*") if file.suffix.lower() in _IMAGE_SUFFIXES)
        for folder in sorted(root.iterdir())
        if folder.is_dir()
    }
    if not any(counts.values()):
        raise DataError(f"{root} has {len(counts)} sub-folders and no image in them. One per concept is expected.")
    return counts


def check_wnids(counts: Mapping[str, int], known: object) -> None:
    """Raise if a counted concept is not in the taxonomy `known`, naming the first few."""
    unknown = [concept for concept in counts if concept not in known]  # type: ignore[operator]
    if unknown:
        raise DataError(
            f"{len(unknown)} of {len(counts)} counted concepts are not in the taxonomy, such as "
            f"{', '.join(map(repr, unknown[:3]))}. Concepts are called by their ids there (n02123045 in WordNet)."
        )
