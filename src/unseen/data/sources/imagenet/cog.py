"""`imagenet:cog-l1` to `cog-l5`: the generalization levels of ImageNet-CoG, out of an ImageNet-21K root.

Paper:      Sariyildiz et al., ICCV 2021, sections 3.3 and 3.4.3 [P], supplement A.4 [S]
Implements: 50 test images per concept, the others train, at least 732 and at most 1,300 [P]; class-balanced levels of
            732 training images per concept [S]; label = rank of the sorted concept id
Differs:    which images are sampled. [P] sampled at random and published the lists; `split=FILE` uses them unchanged.
            Without them an image's place in the sample is the hash of the seed and of its name
Expected:   from the counts of the Fall 2011 release and our levels: 1,119,170 + 1,116,139 + 1,095,909 + 1,106,608 +
            1,091,662 = 5,529,488 training images; [P] says 1.10 million per level
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from unseen.core.arrays import IntArray
from unseen.core.errors import DataError
from unseen.core.guard import guarded
from unseen.core.pickles import load_plain_pickle
from unseen.data.dataset import Split
from unseen.data.sources.imagenet.tree import ImageTree, join_split, some
from unseen.data.subset import draw_order, rank_in_class

#: The format of files that `unseen cog levels --output` writes.
LEVELS_FORMAT = "unseen-levels/1"


@dataclass(frozen=True)
class Caps:
    """How many images of a concept are used.

    Attributes:
        train: at most that many to train on.
        test: exactly that many to test on.
        least: at least that many to train on; a concept with fewer is an error.
    """

    train: int = 1300
    test: int = 50
    least: int = 732

    def used(self, count: int) -> tuple[int, int]:
        """Return the numbers of (train, test) images out of `count`; (0, 0) if that is too few."""
        train = min(count - self.test, self.train)
        return (train, self.test) if train >= max(self.least, 1) else (0, 0)


Lists = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]


def read_levels(path: str | PathLike[str]) -> dict[str, list[str]]:
    """Read the concepts of each level, by the level's name in lower case, such as "l1".

    Read are: what `unseen cog levels --output` writes; JSON of {"L1": ["n01440764", ...], ...} or of a list of such
    lists; and the authors' `cog_levels_mapping_file.pkl`.
    """
    content = _read(Path(path), "levels")
    if isinstance(content, Mapping) and content.get("format") == LEVELS_FORMAT:
        with guarded(path, "levels", advice="It is damaged. Make it again with: unseen cog levels"):
            content = {level["name"]: [row[0] for row in level["concepts"]] for level in content["levels"]}
    if isinstance(content, Mapping) and not all(isinstance(key, str) for key in content):
        content = [content[key] for key in sorted(content, key=lambda key: (str(type(key)), key))]  # the authors count
    if isinstance(content, (list, tuple)):
        content = {f"l{i}": concepts for i, concepts in enumerate(content, start=1)}
    if not isinstance(content, Mapping) or not content:
        raise DataError(f"{path} holds no levels. Make a file of levels with: unseen cog levels --output {path}")
    return {str(name).lower(): _concepts(path, str(name), concepts) for name, concepts in content.items()}


def read_concepts(path: str | PathLike[str], *, gaps: bool = True) -> list[str]:
    """Read every concept of a file of levels, sorted; with `gaps` also those between two levels."""
    content = _read(Path(path), "levels")
    concepts = {concept for level in read_levels(path).values() for concept in level}
    if gaps and isinstance(content, Mapping) and content.get("format") == LEVELS_FORMAT:
        concepts.update(str(row[0]) for gap in content.get("gaps", ()) for row in gap)
    return _concepts(path, "in the gaps", sorted(concepts))


def read_image_lists(path: str | PathLike[str], concepts: Iterable[str]) -> Lists:
    """Read the sorted (train, test) image names of the given concepts, as `concept/file`.

    Read are the authors' `cog_concepts_split_file.pkl` and JSON of {"n01440764": {"train": [...], "test": [...]}, ...}.
    """
    content = _read(Path(path), "image lists")
    if not isinstance(content, Mapping):
        raise DataError(f"{path}: expected image lists by concept, found {type(content).__name__}.")
    lists = {}
    for concept in concepts:
        parts = content.get(concept)
        if not isinstance(parts, Mapping) or not {"train", "test"} <= set(parts):
            raise DataError(f"{path} has no 'train' and 'test' list for {concept}. Was it made for other levels?")
        train, test = (_file_names(path, concept, parts[split]) for split in ("train", "test"))
        if both := set(train).intersection(test):
            raise DataError(f"{path}: {min(both)} is to be trained and tested on.")
        lists[concept] = train, test
    return lists


def draw_images(names: Sequence[str], caps: Caps, seed: int) -> tuple[IntArray, IntArray]:
    """Sample ascending rows of the train and test images of one concept, by the seed."""
    order = draw_order(names, seed)
    train = order[caps.test : caps.test + caps.train]
    return np.sort(train), np.sort(order[: caps.test])


def balanced_rows(names: Sequence[str], labels: IntArray, count: int, seed: int = 0) -> IntArray:
    """Return ascending rows of exactly `count` images per class: the balanced variant of supplement A.4.

    The names are those of a train split, so rows of features that are stored already can be chosen by it.

    Raises:
        DataError: a class has fewer than `count`.
    """
    sizes = np.bincount(labels)
    if len(sizes) and sizes.min() < count:
        raise DataError(
            f"{np.count_nonzero(sizes < count)} of {len(sizes)} classes have fewer than balanced={count} training "
            f"images (the least: {sizes.min()}). Use at most that many."
        )
    return np.flatnonzero(rank_in_class(names, labels, seed)[0] < count)


def choose_splits(
    tree: ImageTree, level: str, concepts: Sequence[str], caps: Caps, *, seed: int = 0, lists: Lists | None = None
) -> tuple[dict[str, Split], str]:
    """Return train and test images of a level, from the lists or sampled by the seed, and how they were chosen.

    Args:
        concepts: sorted, in the order of the labels.
    """
    if missing := [concept for concept in concepts if concept not in tree]:
        raise DataError(
            f"{len(missing):,} of the {len(concepts):,} concepts of level {level} are not in {str(tree.root)!r}: "
            f"{some(missing)}. It holds {some(tree.concepts)}."
        )
    found = tree.every(concepts)
    if lists is not None:
        return _listed(tree, level, concepts, found, lists)
    short = [f"{c} ({len(i)})" for c, i in zip(concepts, found, strict=True) if not caps.used(len(i))[0]]
    if short:
        raise DataError(
            f"{len(short):,} of the {len(concepts):,} concepts of level {level} have fewer than the {caps.least} + "
            f"{caps.test} images needed to train and test: {some(short)}. Make levels without them "
            "(unseen cog levels --counts), or accept fewer with min=."
        )
    sampled = [draw_images(images.names, caps, seed) for images in found]
    splits = {
        name: join_split([(found[label], rows[i], label) for label, rows in enumerate(sampled)])
        for i, name in enumerate(("train", "test"))
    }
    notes = f"images drawn by seed {seed}: {caps.test} test, at most {caps.train} train per concept"
    return splits, f"{notes}; lists {lists_digest(splits)}"


def lists_digest(splits: Mapping[str, Split]) -> str:
    """Return a short digest of the assignment of images to splits."""
    total = hashlib.blake2b(digest_size=8)
    for name, split in splits.items():
        total.update("\n".join((name, *split.names, "")).encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _listed(
    tree: ImageTree, level: str, concepts: Sequence[str], found: Sequence[Split], lists: Lists
) -> tuple[dict[str, Split], str]:
    """Return splits of the listed images; a missing one stays and counts as unreadable when it is opened."""
    parts: dict[str, list[tuple[Split, IntArray, int]]] = {"train": [], "test": []}
    absent = 0
    for label, (concept, images) in enumerate(zip(concepts, found, strict=True)):
        known = {name: row for row, name in enumerate(images.names)}
        for split, names in zip(("train", "test"), lists[concept], strict=True):
            lost = sum(name not in known for name in names)
            if lost == len(names):
                raise DataError(
                    f"none of the {len(names):,} listed {split} images of {concept} (level {level}) is in "
                    f"{str(tree.root)!r}: are the lists made for another release?"
                )
            absent += lost
            parts[split].append((_at(images, known, names), np.arange(len(names)), label))
    splits = {name: join_split(each) for name, each in parts.items()}
    notes = f"images of the given lists {lists_digest(splits)}"
    return splits, notes + (f"; {absent:,} of them are not there" if absent else "")


def _at(images: Split, known: Mapping[str, int], names: tuple[str, ...]) -> Split:
    def open_one(i: int) -> Image.Image:
        if names[i] not in known:
            raise FileNotFoundError("listed, but missing")
        return images.open(known[names[i]])

    def content_key(i: int) -> bytes:
        assert images.content_key is not None
        return images.content_key(known[names[i]]) if names[i] in known else b"unreadable"

    return Split(names, np.zeros(len(names), np.int64), open_one, content_key=content_key)


def _read(path: Path, what: str) -> Any:
    if path.suffix in {".pkl", ".pickle"}:
        return load_plain_pickle(path)
    with guarded(path, what):
        return json.loads(path.read_text(encoding="utf-8"))


def _concepts(path: str | PathLike[str], level: str, concepts: object) -> list[str]:
    values = concepts.tolist() if isinstance(concepts, np.ndarray) else concepts
    if not isinstance(values, (list, tuple, set, frozenset)) or not values:
        raise DataError(f"{path}: level {level!r} is not a list of concepts.")
    for value in values:
        if not isinstance(value, str) or not value or value in {".", ".."} or "/" in value or "\\" in value:
            raise DataError(f"{path}: level {level!r} holds {value!r}, which cannot be the name of a folder.")
    ordered = sorted(values)
    if len(set(ordered)) < len(ordered):
        raise DataError(f"{path}: a concept of level {level!r} is listed twice.")
    return ordered


def _file_names(path: str | PathLike[str], concept: str, names: object) -> tuple[str, ...]:
    values = names.tolist() if isinstance(names, np.ndarray) else names
    if not isinstance(values, (list, tuple)) or not values or not all(isinstance(name, str) for name in values):
        raise DataError(f"{path}: the images of {concept} are not a list of file names.")
    plain = [name.replace("\\", "/").lstrip("/") for name in values]  # the authors' names may begin with a slash
    if any(".." in name.split("/") for name in plain):
        raise DataError(f"{path}: an image of {concept} lies outside the folder of images.")
    return tuple(sorted(n if n.startswith(f"{concept}/") else f"{concept}/{n}" for n in plain))
