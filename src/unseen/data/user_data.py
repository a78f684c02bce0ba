"""Turn images and labels of any kind into a dataset: Python objects, tables and archives.

An in-memory object becomes `object:NAME@DIGEST`; the digest covers its content, so equal images share stored features.
Features are stored for all images together, independent of the split into train and test. Images are sampled by their
path below their common folder, so that a folder, its table and its torchvision dataset have the same test images;
images without a file are sampled by their content.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from threading import Lock
from typing import Any, Protocol

import numpy as np

from unseen.core.arrays import AnyArray, IntArray
from unseen.core.errors import DataError
from unseen.core.records import DatasetCard
from unseen.core.registry import OBJECT_SCHEME
from unseen.core.run_record import Dropped, RunRecord, dropped
from unseen.data.columns import is_unlabelled, number_classes, number_targets, several_targets, target_of
from unseen.data.dataset import ALL, CLASS, NUMBER, Dataset, Split, Target, Whole
from unseen.data.images import image_key, to_image
from unseen.data.subset import Division, single_image_classes, stratified_split

_DEFAULT_DIVISION = Division()


class Items(Protocol):
    """A sequence of images; a true attribute `threadsafe` allows reads by several threads at once."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int, /) -> object: ...


@dataclass(frozen=True)
class LazyImages:
    """Images that a function reads by their number."""

    count: int
    read: Callable[[int], Any]
    threadsafe: bool = True

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> object:
        return self.read(i)


@dataclass(eq=False)
class LabelledImages:
    """Images and their labels, before they are divided into splits.

    Attributes:
        items: one per image, in any form that `to_image` accepts.
        labels: of any type that sorts, one per image; None if there are none.
        class_names: given if labels are indices into them.
        names: one per image; the positions of the images by default.
        sampling_keys: decide the place of each image in a random sample; by default the names, or else the content of
            the images.
        title: part of the name of the dataset.
        notes: decisions while reading, for the card.
        losses: what was dropped while reading, as sentences for the run record.
        split: the images as a split, instead of `items`.
        keys: returns bytes that change when image `i` does, if that is cheaper than reading it.
        id: the name that features are stored under; derived from the content by default.
        target: what the labels are; inferred from their types by default.
        groups: group of each image, of any type that sorts; None if every image is its own.
    """

    items: Items
    labels: Sequence[Any] | None = None
    class_names: Sequence[str] | None = None
    names: Sequence[str] | None = None
    sampling_keys: Sequence[str] | None = None
    title: str = "images"
    notes: tuple[str, ...] = field(default=())
    losses: tuple[str, ...] = field(default=())
    split: Split | None = None
    keys: Callable[[int], bytes] | None = None
    id: str = ""
    target: Target | None = None
    groups: Sequence[Any] | None = None

    def __len__(self) -> int:
        return len(self.items if self.split is None else self.split)

    def whole(self) -> Dataset:
        """Return all images as one split without labels, whose features are stored."""
        none = np.zeros(len(self), np.int64)
        if self.split is not None:
            split = replace(self.split, labels=none, primary_labels=none)
        else:
            read = _reader(self.items)
            split = Split(
                names=list(self.names or [f"{i:08d}" for i in range(len(self))]),
                labels=none,
                open=lambda i: to_image(read(i)),
                content_key=self.keys or cache(lambda i: image_key(read(i))),
                sampling_keys=self.sampling_keys or (),
            )
        name = self.id or f"{OBJECT_SCHEME}:{self.title}@{split.fingerprint[:12]}"
        card = DatasetCard(id=name, name=self.title, group=OBJECT_SCHEME)
        return Dataset(card, ["image"], {ALL: split})

    def keys_of(self, whole: Split) -> Sequence[str]:
        """Return the sampling keys of all images: paths, or digests of the images if there are none."""
        if self.split is not None or self.names is not None or self.sampling_keys is not None:
            return whole.sampling_keys
        key = whole.content_key
        assert key is not None
        return [key(i).hex() for i in range(len(whole))]


def below_common_folder(paths: Sequence[str]) -> list[str]:
    """Return paths relative to the deepest folder that contains all of them, with slashes."""
    whole = [path.replace(os.sep, "/") for path in paths]
    folders = {path.rpartition("/")[0] for path in whole}
    common = os.path.commonpath(list(folders)).replace(os.sep, "/") if all(folders) else ""
    return [path[len(common) :].lstrip("/") for path in whole]


def file_sampling_keys(paths: Sequence[object]) -> list[str]:
    """Return the sampling keys of image files: `below_common_folder` of their absolute paths."""
    return below_common_folder([os.path.abspath(os.path.expanduser(str(path))) for path in paths])  # noqa: PTH100, PTH111


def _reader(items: Items) -> Callable[[int], object]:
    """Return a function that reads an image; items of other libraries one by one, as they may not be thread-safe."""
    plain = isinstance(items, list | tuple | np.ndarray) or getattr(items, "threadsafe", False)
    lock = nullcontext() if plain else Lock()

    def read(i: int) -> object:
        with lock:
            return items[i]

    return read


def _group_numbers(
    images: Mapping[str, LabelledImages], rows: Mapping[str, IntArray]
) -> tuple[dict[str, IntArray], list[str]]:
    """Return the groups of the labelled images, by split, and a note if two splits share some."""
    texts = {name: [str(own.groups[i]) for i in rows[name]] for name, own in images.items() if own.groups is not None}
    splits = Counter(text for own in texts.values() for text in set(own))
    numbers = {text: place for place, text in enumerate(sorted(splits))}
    found = {name: np.asarray([numbers[text] for text in own], np.int64) for name, own in texts.items()}
    shared = sum(count > 1 for count in splits.values())
    note = f"{shared:,} groups have images in more than one split, so that test images are not independent of train"
    return found, [note] if shared else []


def divide(
    images: Mapping[str, LabelledImages],
    division: Division = _DEFAULT_DIVISION,
    *,
    group: str = OBJECT_SCHEME,
    ordered: bool = False,
) -> Dataset:
    """Return a dataset with the splits train and test (and val).

    Images without a label are dropped, and are listed in the dataset's record.

    Args:
        images: by split; with train alone, test is sampled from it.
        division: the shares to sample; 0 samples none.
        group: on the card.
        ordered: sort the samples by their sampling keys, as `folder:` does.

    Raises:
        DataError: no labels, nothing to train or to test on, or a class without training images.
    """
    images, rows, lost = _labelled(flatten_labels(images))
    if not len(rows.get("train", ())):
        raise DataError(f"there are no images to train on; found the splits {', '.join(images)}.")
    target, classes, labels, targets = learn_targets(images, rows)
    groups, shared = _group_numbers(images, rows)
    wholes = {name: own.whole() for name, own in images.items()}
    # By split: the images that it is taken from, and which of their labelled ones.
    parts = {name: (name, np.arange(len(own))) for name, own in rows.items()}
    untested: tuple[str, ...] = ()
    if "test" not in parts and "val" in parts:
        parts["test"] = parts.pop("val")
    elif "test" not in parts:
        every = images["train"].keys_of(wholes["train"].split(ALL))
        keys = [every[i] for i in rows["train"]]
        shares = {"test": division.test, "val": division.val}
        sampled = stratified_split(keys, labels["train"], **shares, seed=division.seed, groups=groups.get("train"))
        if ordered:
            sampled = {name: np.asarray(sorted(own, key=keys.__getitem__), np.int64) for name, own in sampled.items()}
        untested = single_image_classes(classes, labels["train"]) if division.test and target == CLASS else ()
        parts = {name: ("train", chosen) for name, chosen in sampled.items()}

    def split_of(own: str, chosen: IntArray) -> Split:
        taken = wholes[own].split(ALL).take(rows[own][chosen], labels[own][chosen])
        several, group = (each[own][chosen] if own in each else None for each in (targets, groups))
        return replace(taken, whole=Whole(wholes[own], rows[own][chosen]), targets=several, groups=group)

    splits = {name: split_of(*part) for name, part in parts.items()}
    for name, split in splits.items():
        untrained = np.setdiff1d(split.labels, splits["train"].labels)
        if target == CLASS and len(untrained):
            raise DataError(
                f"the class {classes[untrained[0]][:80]!r} has images in {name} but none in train. Every class needs "
                "images to train on."
            )
    if division.test and not len(splits["test"]):
        raise DataError(
            f"no class has two images ({classes[0][:80]!r} has one), so none can be held out to test on. Give test "
            "images."
        )
    first = next(iter(images.values()))
    card = DatasetCard(
        id="",
        name=first.title,
        group=group,
        notes="; ".join(first.notes),
        splits=tuple(splits),
        classes=len(classes),
        images=sum(map(len, splits.values())),
    )
    notes = tuple(dict.fromkeys([*(note for own in images.values() for note in own.losses), *shared]))
    record = RunRecord(dropped=lost, notes=notes)
    made = Dataset(card, classes, splits, target=target, record=record, untested=untested)
    name = first.id or f"{OBJECT_SCHEME}:{first.title}@{made.revision}"
    return replace(made, card=replace(card, id=name), features_id=name)


def flatten_labels(images: Mapping[str, LabelledImages]) -> Mapping[str, LabelledImages]:
    """Return the same images with labels of shape (n,) if those of all splits have the shape (n, 1)."""
    if any(own.labels is None or own.target is not None for own in images.values()):
        return images
    every = [label for own in images.values() for label in own.labels or ()]
    if not every or not all(_is_group_of_one(label) for label in every):
        return images
    return {split: replace(own, labels=[label[0] for label in own.labels or ()]) for split, own in images.items()}


def _is_group_of_one(label: object) -> bool:
    return isinstance(label, tuple | list | np.ndarray) and getattr(label, "ndim", 1) == 1 and len(label) == 1


def _labelled(
    images: Mapping[str, LabelledImages],
) -> tuple[dict[str, LabelledImages], dict[str, IntArray], tuple[Dropped, ...]]:
    """Return the splits that have labels, the rows of their labelled images, and the images without a label.

    Raises:
        DataError: the train images, or all images of every split, have no labels.
    """
    kept: dict[str, LabelledImages] = {}
    rows: dict[str, IntArray] = {}
    lost: list[Dropped] = []
    for split, own in images.items():
        if own.labels is None:
            raise DataError(f"the {split} images have no labels. Give (images, labels).")
        missing = np.asarray([is_unlabelled(label, own.class_names) for label in own.labels], np.bool_)
        names = own.names or (own.split.names if own.split is not None else None)
        unlabelled = [names[i] if names else f"{i:08d}" for i in np.flatnonzero(missing).tolist()]
        lost += dropped("unlabelled", dict.fromkeys(unlabelled, "the image has no label"), split)
        if not missing.all() or not len(missing):
            kept[split], rows[split] = own, np.flatnonzero(~missing)
        elif split == "train":
            raise DataError("no train image has a label. Give (images, labels).")
    return kept, rows, tuple(lost)


def learn_targets(
    images: Mapping[str, LabelledImages], rows: Mapping[str, IntArray]
) -> tuple[Target, list[str], dict[str, IntArray], dict[str, AnyArray]]:
    """Return the kind of the labels, names and indices of classes or strata, and targets other than classes.

    Args:
        rows: the labelled images, by split.
    """
    every = {split: [(own.labels or ())[i] for i in rows[split]] for split, own in images.items()}
    kinds = [own.target or target_of(every[split]) for split, own in images.items()]
    target = next((kind for kind in kinds if kind != CLASS), CLASS)
    if target == CLASS:
        return CLASS, *number_classes(every, images["train"].class_names), {}
    if target == NUMBER:
        return target, *number_targets(every)
    return target, *several_targets(every, next(iter(images.values())).class_names)
