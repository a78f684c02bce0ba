"""The dry check of ImageNet-CoG: what is missing, what is short of images, what a run would use. Seconds, not days.

Folders and tar indexes are listed, and a few sample images are decoded; nothing else is read. A tar file that was never
indexed before is walked through once. Faults are collected and not raised: a check that stops at the first one would
have to be run as often as there are faults.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unseen.benchmarks.cog.cost import ImageSet
from unseen.core.errors import DataError
from unseen.core.names import is_wnid
from unseen.data import decode_rgb
from unseen.data.sources.imagenet.cog import Caps, Lists, pick_image_lists, read_split_file
from unseen.data.sources.imagenet.source import CLASSES, find_in1k, read_validation
from unseen.data.sources.imagenet.tree import Images, ImageTree, Progress, find_tree, some


@dataclass(frozen=True)
class LevelCheck:
    """What there is of one level.

    Attributes:
        concepts: how many it has.
        counts: images on disk, of each concept that is there.
        missing: concepts that are not there at all.
        short: concepts with fewer images than are needed.
        damaged: concepts whose folder or tar file cannot be read, with the reason.
        absent: listed images that are not there, where lists are given.
        train, test: images that a run would use.
    """

    name: str
    concepts: int
    counts: Mapping[str, int]
    missing: tuple[str, ...]
    short: tuple[str, ...]
    damaged: Mapping[str, str]
    absent: int
    train: int
    test: int

    @property
    def ok(self) -> bool:
        return not (self.missing or self.short or self.damaged or self.absent)

    @property
    def image_set(self) -> ImageSet:
        return ImageSet(self.name, len(self.counts) - len(self.short), self.train, self.test)

    def problems(self, caps: Caps) -> list[str]:
        """What is wrong, in words; a few examples of each."""
        found = []
        if self.missing:
            found.append(f"{self.name}: {len(self.missing):,} concepts are not there: {some(self.missing)}")
        if self.short:
            shown = some([f"{concept} ({self.counts[concept]})" for concept in self.short])
            found.append(
                f"{self.name}: {len(self.short):,} concepts have fewer than {caps.least + caps.test} images: {shown}"
            )
        found += [f"{self.name}: {concept} cannot be read: {reason}" for concept, reason in self.damaged.items()]
        if self.absent:
            found.append(f"{self.name}: {self.absent:,} listed images are not there")
        return found


@dataclass(frozen=True)
class SeenCheck:
    """What there is of ImageNet-1K; `notes` are what a run will not stop at, such as a class that is left out."""

    root: str
    classes: int
    train: int
    test: int
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def image_set(self) -> ImageSet:
        return ImageSet("in1k", self.classes, self.train, self.test)


@dataclass(frozen=True)
class ImageNetCheck:
    """All that a dry check found out.

    Attributes:
        layout: "folders", "tars", "folders and tars", "one tar", or "" where the root cannot be read.
        concepts: in the root, of whatever level.
        samples: how many images were decoded.
        unreadable: name and reason of those that could not be.
        sample_bytes: mean size of the samples on disk.
        problems: everything that is wrong, in words.
        seconds: that the check took.
    """

    root: str
    layout: str
    concepts: int
    caps: Caps
    levels: tuple[LevelCheck, ...]
    seen: SeenCheck | None
    samples: int
    unreadable: Mapping[str, str]
    sample_bytes: float
    problems: tuple[str, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether a run can start. An unreadable image does not keep it from that: it is skipped and counted."""
        return not self.problems

    @property
    def sets(self) -> tuple[ImageSet, ...]:
        """What a run would go over: the argument of `plan_cost`."""
        seen = (self.seen.image_set,) if self.seen is not None else ()
        return seen + tuple(level.image_set for level in self.levels)

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}

    def lines(self) -> list[str]:
        """The check in words."""
        found = [f"{self.root}: {self.layout or 'not readable'}, {self.concepts:,} concepts, {self.seconds:.1f} s"]
        found += [f"{s.name:6} {s.classes:5,} concepts  {s.train:9,} train  {s.test:7,} test" for s in self.sets]
        found.append(f"{self.samples} sample images decoded, {len(self.unreadable)} unreadable")
        found += [f"unreadable: {name}: {reason}" for name, reason in self.unreadable.items()]
        found += [f"note: {each}" for each in (self.seen.notes if self.seen is not None else ())]
        return found + [f"problem: {each}" for each in self.problems]


def check_imagenet(
    root: Path,
    levels: Mapping[str, Sequence[str]],
    *,
    in1k: Path | None = None,
    val_labels: Path | None = None,
    split: Path | None = None,
    caps: Caps | None = None,
    samples: int = 20,
    progress: Progress | None = None,
) -> ImageNetCheck:
    """Look at an ImageNet-21K root, and at an ImageNet-1K root if one is given.

    Args:
        levels: concepts by level, as `read_levels` gives them.
        split: file of image lists; without it, images are drawn.
        caps: the paper's, unless given.
        samples: how many images to decode, spread over the concepts.
        progress: called with (concepts looked at, all concepts).
    """
    began = time.perf_counter()
    caps = caps or Caps()
    problems: list[str] = []
    lists = _lists(split, levels, problems)
    wanted = sorted({concept for concepts in levels.values() for concept in concepts})
    tree, found = _look(root, wanted, problems, progress)
    checks = tuple(_check_level(name, concepts, found, lists, caps) for name, concepts in levels.items())
    for check in checks:
        problems += check.problems(caps)
    seen = _check_in1k(in1k, val_labels) if in1k is not None else None
    problems += seen.problems if seen is not None else ()
    unreadable, sizes = _sample([each for each in found.values() if isinstance(each, Images)], samples)
    return ImageNetCheck(
        root=str(root),
        layout=tree.layout if tree is not None else "",
        concepts=len(tree.concepts) if tree is not None else 0,
        caps=caps,
        levels=checks,
        seen=seen,
        samples=len(sizes) + len(unreadable),
        unreadable=unreadable,
        sample_bytes=sum(sizes) / len(sizes) if sizes else 0.0,
        problems=tuple(problems),
        seconds=time.perf_counter() - began,
    )


def count_concepts(root: Path, *, progress: Progress | None = None) -> dict[str, int]:
    """Images of every concept below a root, in folders or tar files: what levels are made from.

    Raises:
        DataError: the root, or a folder or tar file in it, cannot be read.
    """
    tree = find_tree(root)
    counts = {}
    for concept, images in tree.survey(tree.concepts, progress).items():
        if isinstance(images, DataError):
            raise images
        counts[concept] = len(images)
    return counts


def _lists(split: Path | None, levels: Mapping[str, Sequence[str]], problems: list[str]) -> Lists | None:
    if split is None:
        return None
    try:
        content = read_split_file(split)
    except DataError as error:
        problems.append(str(error))
        return None
    lists: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for name, concepts in levels.items():
        try:
            lists |= pick_image_lists(split, content, concepts)
        except DataError as error:
            problems.append(f"{name}: {error}")
    return lists


def _look(
    root: Path, wanted: Sequence[str], problems: list[str], progress: Progress | None
) -> tuple[ImageTree | None, dict[str, Images | DataError]]:
    """What lies below the root, and the images, or the reason why not, of each wanted concept that is there."""
    try:
        tree = find_tree(root)
    except DataError as error:
        problems.append(str(error))
        return None, {}
    return tree, tree.survey([concept for concept in wanted if concept in tree], progress)


def _check_level(
    name: str, concepts: Sequence[str], found: Mapping[str, Images | DataError], lists: Lists | None, caps: Caps
) -> LevelCheck:
    counts: dict[str, int] = {}
    damaged: dict[str, str] = {}
    short: list[str] = []
    train = test = absent = 0
    for concept in sorted(concepts):
        images = found.get(concept)
        if isinstance(images, DataError):
            damaged[concept] = str(images)
        if not isinstance(images, Images):
            continue
        counts[concept] = len(images)
        if lists is not None and concept in lists:
            there = set(images.names)
            used = [sum(each in there for each in names) for names in lists[concept]]
            absent += sum(map(len, lists[concept])) - sum(used)
        else:
            used = list(caps.used(len(images)))
            short += [concept] if not used[0] else []
        train, test = train + used[0], test + used[1]
    missing = tuple(sorted(set(concepts) - set(counts) - set(damaged)))
    return LevelCheck(name, len(concepts), counts, missing, tuple(short), damaged, absent, train, test)


def _check_in1k(root: Path, val_labels: Path | None) -> SeenCheck:
    try:
        found = find_in1k(root)
        tree = find_tree(found.train)
    except DataError as error:
        return SeenCheck(str(root), 0, 0, 0, (f"in1k: {error}",))
    classes = [each for each in tree.concepts if is_wnid(each)]
    listed = tree.survey(classes)
    problems = [f"in1k: {wnid} cannot be read: {each}" for wnid, each in listed.items() if isinstance(each, DataError)]
    counts = {wnid: len(each) for wnid, each in listed.items() if isinstance(each, Images)}
    if empty := [wnid for wnid, count in counts.items() if not count]:
        problems.append(f"in1k: {len(empty):,} classes have no training image: {some(empty)}")
    notes = [f"in1k: {len(classes):,} of the {CLASSES:,} classes are there"] if len(classes) != CLASSES else []
    test = 0
    try:
        parts, left_out = read_validation(found, val_labels, classes)
        test = sum(len(rows) for _, rows, _ in parts)
        notes += [f"in1k: {left_out:,} validation images of other classes are left out"] if left_out else []
        if lacking := sorted(set(range(len(classes))).difference(label for *_, label in parts)):
            problems.append(f"in1k: {len(lacking):,} classes have no validation image: {classes[lacking[0]]}, ...")
    except DataError as error:
        problems.append(f"in1k: {error}")
    return SeenCheck(str(root), len(classes), sum(counts.values()), test, tuple(problems), tuple(notes))


def _sample(every: Sequence[Images], count: int) -> tuple[dict[str, str], list[int]]:
    """(name and reason of unreadable ones, sizes of the others) of a few images, spread over the concepts."""
    filled = [images for images in every if len(images)]
    unreadable: dict[str, str] = {}
    sizes: list[int] = []
    for i in range(min(count, len(filled))):
        images = filled[i * len(filled) // min(count, len(filled))]
        row = len(images) // 2
        try:
            decode_rgb(images.open(row), truncated="accept")
            sizes.append(images.size(row))
        except (DataError, OSError) as error:
            unreadable[images.names[row]] = str(error)
    return unreadable, sizes
