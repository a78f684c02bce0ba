"""The images of ImageNet-1K in the layouts in which people have them.

    folders   train/n01440764/*.JPEG and val/n01440764/*.JPEG, or val/*.JPEG with a list of labels
    Kaggle    ILSVRC/Data/CLS-LOC/train and val, with LOC_val_solution.csv at the root
    tars      ILSVRC2012_img_train.tar (a tar per class) and ILSVRC2012_img_val.tar, or train/n01440764.tar
    blurred   train_blurred and val_blurred

A validation image is called val/n01440764/ILSVRC2012_val_00000293.JPEG in all of them, even where it lies in a heap: so
features are the same whichever layout they were extracted from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.core.names import is_wnid
from unseen.data.dataset import IntArray, Split
from unseen.data.scan import subfolders
from unseen.data.sources.imagenet.tree import Images, find_tree, images_in_folder, images_in_tar, join_split
from unseen.data.sources.imagenet.val import find_val_labels, read_val_labels

CLASSES = 1000

_BASES = ("", "ILSVRC/Data/CLS-LOC", "Data/CLS-LOC")
_TRAIN = ("train", "train_blurred", "ILSVRC2012_img_train.tar", "train.tar")
_VAL = ("val", "val_blurred", "validation", "ILSVRC2012_img_val.tar", "val.tar")


@dataclass(frozen=True)
class In1k:
    """Where the parts of ImageNet-1K lie."""

    root: Path
    base: Path
    train: Path
    val: Path


def find_in1k(root: Path) -> In1k:
    """Find the training and validation images below a root.

    Raises:
        DataError: there are none.
    """
    for base in (root / each for each in _BASES):
        train = next((base / each for each in _TRAIN if (base / each).exists()), None)
        val = next((base / each for each in _VAL if (base / each).exists()), None)
        if train is not None and val is not None:
            return In1k(root, base, train, val)
    inside = ", ".join(subfolders(root)[:5]) if root.is_dir() else "not a folder"
    raise DataError(
        f"{str(root)!r} ({inside or 'no folder in it'}) is no root of ImageNet-1K. Expected are train/ and val/, or "
        "ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar."
    )


def read_in1k(found: In1k, val_labels: Path | None = None) -> tuple[list[str], dict[str, Split], str]:
    """(wnids in the order of the labels, train and test splits, notes in words).

    Args:
        val_labels: what the validation images show, if they lie in a heap and nothing beside them says so.
    """
    tree = find_tree(found.train)
    classes = [each for each in tree.concepts if is_wnid(each)]
    if not classes:
        raise DataError(f"{str(found.train)!r} has no class called like n01440764. One folder per wnid is expected.")
    train = join_split([(i, np.arange(len(i)), label) for label, i in enumerate(tree.every(classes))], "train/")
    parts, left_out = read_validation(found, val_labels, classes)
    test = join_split(parts, "val/")
    for name, split in (("training", train), ("validation", test)):
        if empty := sorted(set(range(len(classes))).difference(split.labels.tolist())):
            raise DataError(
                f"{len(empty)} of {len(classes)} classes of {str(found.root)!r} have no {name} image, such as "
                f"{classes[empty[0]]}."
            )
    notes = [f"{len(classes):,} of the {CLASSES:,} classes"] if len(classes) != CLASSES else []
    notes += [f"{left_out:,} validation images of other classes were left out"] if left_out else []
    return classes, {"train": train, "test": test}, "; ".join(notes)


_Part = tuple[Images, IntArray, int]


def read_validation(found: In1k, val_labels: Path | None, classes: Sequence[str]) -> tuple[list[_Part], int]:
    """The validation images by class, and how many were left out because train has not their class."""
    place = found.val
    if place.is_dir() and any(is_wnid(each.name.removesuffix(".tar")) for each in place.iterdir()):
        tree = find_tree(place)
        kept = [(label, each) for label, each in enumerate(classes) if each in tree]
        mine = zip(kept, tree.every([each for _, each in kept]), strict=True)
        others = tree.every([each for each in tree.concepts if each not in set(classes)])
        return [(i, np.arange(len(i)), label) for (label, _), i in mine], sum(map(len, others))
    heap = images_in_folder(place, "") if place.is_dir() else images_in_tar(place, "")
    places = [found.base, found.root, place if place.is_dir() else place.parent, found.root / "ILSVRC"]
    path = val_labels or find_val_labels(places)
    return _sort_heap(heap, read_val_labels(path, classes), path, classes)


def _sort_heap(heap: Images, labels: Mapping[str, str], path: Path, classes: Sequence[str]) -> tuple[list[_Part], int]:
    """Images of a heap by class, called as if they lay in a folder per class."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(heap.names):
        stem = name.rpartition("/")[2].partition(".")[0]
        if stem not in labels:
            raise DataError(f"{str(path)!r} does not say what {name!r} shows. It knows {len(labels):,} images.")
        rows.setdefault(labels[stem], []).append(row)
    parts: list[_Part] = []
    for label, wnid in enumerate(classes):
        if mine := rows.get(wnid):
            parts.append((_taken(heap, mine, wnid), np.arange(len(mine)), label))
    return parts, len(heap) - sum(len(rows) for _, rows, _ in parts)


def _taken(heap: Images, rows: Sequence[int], wnid: str) -> Images:
    names = tuple(f"{wnid}/{heap.names[row].rpartition('/')[2]}" for row in rows)
    return Images(names, lambda i: heap.open(rows[i]), lambda i: heap.size(rows[i]))
