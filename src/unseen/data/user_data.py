"""Turn images and labels of any kind into a dataset: Python objects, tables and archives.

An in-memory object becomes `object:NAME@DIGEST`; the digest covers its content, so equal images share stored features.
Features are stored for all images together, independent of the split into train and test. Images are sampled by their
path below their common folder, so that a folder, its table and its torchvision dataset have the same test images;
images without a file are sampled by their content.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.core.objects import OBJECT_SCHEME
from unseen.core.records import DatasetCard
from unseen.core.run_record import Dropped, RunRecord, dropped
from unseen.data.columns import flat_labels, is_unlabelled, number_targets, several_targets, target_of
from unseen.data.dataset import ALL, CLASS, NUMBER, Dataset, IntArray, Split, Target, Whole
from unseen.data.images import image_key, to_image
from unseen.data.subset import single_image_classes, stratified_split

#: Limit of decoded images that are cached between the computation of keys and the extraction, in bytes.
_CACHE_BYTES = 256 << 20


class Items(Protocol):
    """A sequence of images; a true attribute `threadsafe` allows reads by several threads at once."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int, /) -> Any: ...


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

    def __len__(self) -> int:
        return len(self.items if self.split is None else self.split)

    def whole(self) -> Dataset:
        """Return all images as one split without labels, whose features are stored."""
        none = np.zeros(len(self), np.int64)
        if self.split is not None:
            split = replace(self.split, labels=none, primary_labels=none)
        else:
            names = list(self.names or [f"{i:08d}" for i in range(len(self))])
            reader = _Reader(self.items)
            split = Split(
                names=names,
                labels=none,
                open=reader.open,
                content_key=self.keys or reader.key,
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


def file_sampling_keys(paths: Sequence[Any]) -> list[str]:
    """Return the sampling keys of image files: `below_common_folder` of their absolute paths."""
    return below_common_folder([os.path.abspath(os.path.expanduser(str(path))) for path in paths])  # noqa: PTH100, PTH111


class _Reader:
    """Read images and their content keys.

    Datasets of other libraries are read one image at a time, because they may not be thread-safe; a limited number of
    their decoded images is cached between the two reads.
    """

    def __init__(self, items: Items) -> None:
        self._items, self._lock, self._room = items, Lock(), _CACHE_BYTES
        self._locked = not isinstance(items, list | tuple | np.ndarray) and not getattr(items, "threadsafe", False)
        self._cached: dict[int, Any] = {}
        self._keys: dict[int, bytes] = {}

    def key(self, i: int) -> bytes:
        if i not in self._keys:
            self._keys[i] = self._read_key(i)
        return self._keys[i]

    def _read_key(self, i: int) -> bytes:
        value = self._value(i)
        size = value.size[0] * value.size[1] * 4 if hasattr(value, "getbands") else getattr(value, "nbytes", 0)
        if self._locked and size and self._room >= size:
            self._room -= size
            self._cached[i] = value
        return image_key(value)

    def open(self, i: int) -> Any:
        value = self._cached.pop(i, None)
        return to_image(self._value(i) if value is None else value)

    def _value(self, i: int) -> Any:
        if not self._locked:
            return self._items[i]
        with self._lock:
            return self._items[i]


def divide(
    parts: Mapping[str, LabelledImages],
    *,
    share: float = 0.2,
    val: float = 0.0,
    seed: int = 0,
    group: str = OBJECT_SCHEME,
    ordered: bool = False,
) -> Dataset:
    """Return a dataset with the splits train and test (and val).

    Images without a label are dropped, and are listed in the dataset's record.

    Args:
        parts: images by split; with train alone, test is sampled from it.
        share, val: shares of every class that are sampled to test and to validate; 0 samples none.
        seed: of the sample.
        group: on the card.
        ordered: sort the samples by their sampling keys, as `folder:` does.

    Raises:
        DataError: no labels, nothing to train or to test on, or a class without training images.
    """
    parts, rows, lost = _labelled(flatten_labels(parts))
    if "train" not in parts:
        raise DataError(f"there are no images to train on; found the splits {', '.join(parts)}.")
    target, classes, labels, targets = learn_targets(parts, rows)
    wholes = {name: part.whole() for name, part in parts.items()}
    untested: tuple[str, ...] = ()
    if "test" not in parts and "val" in parts:
        tables: tuple[dict[str, Any], ...] = (wholes, rows, labels, targets)
        for table in tables:
            if table:
                table["test"] = table.pop("val")
    elif "test" not in parts:
        every = parts["train"].keys_of(wholes["train"].split(ALL))
        names = [every[i] for i in rows["train"]]
        sampled = stratified_split(names, labels["train"], test=share, val=val, seed=seed)
        untested = single_image_classes(classes, labels["train"]) if share and target == CLASS else ()
        if ordered:
            sampled = {
                name: np.asarray(sorted(chosen, key=names.__getitem__), np.int64) for name, chosen in sampled.items()
            }
        labels = {name: labels["train"][chosen] for name, chosen in sampled.items()}
        targets = {name: targets["train"][chosen] for name, chosen in sampled.items()} if targets else {}
        rows = {name: rows["train"][chosen] for name, chosen in sampled.items()}
        wholes = dict.fromkeys(sampled, wholes["train"])
    if target == CLASS:
        _refuse_untrained(classes, labels)
    splits = {}
    for name, chosen in rows.items():
        taken = wholes[name].split(ALL).take(chosen, labels[name])
        splits[name] = replace(taken, whole=Whole(wholes[name], chosen), targets=targets.get(name))
    if share and not len(splits["test"]):
        raise DataError(
            f"no class has two images ({classes[0]!r} has one), so none can be held out to test on. Give test images."
        )
    first = next(iter(parts.values()))
    card = DatasetCard(id="", name=first.title, group=group, notes="; ".join(first.notes))
    notes = tuple(dict.fromkeys(note for part in parts.values() for note in part.losses))
    record = RunRecord(dropped=lost, notes=notes)
    made = Dataset(card, classes, splits, target=target, record=record, untested=untested)
    card = replace(
        made.card,
        id=first.id or f"{OBJECT_SCHEME}:{first.title}@{made.revision}",
        splits=tuple(splits),
        classes=len(classes),
        images=sum(len(split) for split in splits.values()),
    )
    return replace(made, card=card, features_id=card.id)


def flatten_labels(parts: Mapping[str, LabelledImages]) -> Mapping[str, LabelledImages]:
    """Return the same images with labels of shape (n,) if those of all splits have the shape (n, 1)."""
    if any(part.labels is None or part.target is not None for part in parts.values()):
        return parts
    flat = iter(flat_labels([label for part in parts.values() for label in part.labels or ()]))
    return {split: replace(part, labels=[next(flat) for _ in part.labels or ()]) for split, part in parts.items()}


def _labelled(
    parts: Mapping[str, LabelledImages],
) -> tuple[dict[str, LabelledImages], dict[str, IntArray], tuple[Dropped, ...]]:
    """Return the splits that have labels, the rows of their labelled images, and the images without a label.

    Raises:
        DataError: the train images, or all images of every split, have no labels.
    """
    kept: dict[str, LabelledImages] = {}
    rows: dict[str, IntArray] = {}
    lost: list[Dropped] = []
    for split, part in parts.items():
        labels = part.labels
        if labels is None:
            raise DataError(f"the {split} images have no labels. Give (images, labels).")
        missing = np.asarray([is_unlabelled(label, part.class_names) for label in labels], np.bool_)
        names = part.names or (part.split.names if part.split is not None else None)
        lost += dropped(
            "unlabelled",
            {names[i] if names else f"{i:08d}": _NO_LABEL for i in np.flatnonzero(missing).tolist()},
            split,
        )
        if missing.all() and len(missing):
            if split == "train":
                raise DataError("no train image has a label. Give (images, labels).")
            continue
        kept[split], rows[split] = part, np.flatnonzero(~missing)
    return kept, rows, tuple(lost)


_NO_LABEL = "the image has no label"


def _refuse_untrained(classes: Sequence[str], labels: Mapping[str, IntArray]) -> None:
    trained = set(labels["train"].tolist())
    for split, found in labels.items():
        if missing := sorted(set(found.tolist()) - trained):
            raise DataError(
                f"the class {classes[missing[0]]!r} has images in {split} but none in train. Every class needs images "
                "to train on."
            )


def learn_targets(
    parts: Mapping[str, LabelledImages], rows: Mapping[str, IntArray]
) -> tuple[Target, list[str], dict[str, IntArray], dict[str, npt.NDArray[Any]]]:
    """Return the kind of the labels, names and indices of classes or strata, and targets other than classes.

    Args:
        rows: the labelled images, by split.
    """
    every = {split: [(part.labels or ())[i] for i in rows[split]] for split, part in parts.items()}
    kinds = [part.target or target_of(every[split]) for split, part in parts.items()]
    target = next((kind for kind in kinds if kind != CLASS), CLASS)
    named = next(iter(parts.values())).class_names
    if target == CLASS:
        return CLASS, *number_classes(every, parts["train"].class_names), {}
    if target == NUMBER:
        return target, *number_targets(every)
    return target, *several_targets(every, named)


def number_classes(
    every: Mapping[str, Sequence[Any]], named: Sequence[str] | None
) -> tuple[list[str], dict[str, IntArray]]:
    """Return class names, and class indices by split; labels that are indices of named classes stay unchanged."""
    values = [label for labels in every.values() for label in labels]
    if named is not None and all(isinstance(label, int | np.integer) and 0 <= label < len(named) for label in values):
        return [str(name) for name in named], {split: np.asarray(own, np.int64) for split, own in every.items()}
    try:
        known = sorted(set(values))
    except TypeError:
        raise DataError("labels are of several types; give texts, or whole numbers.") from None
    index = {value: i for i, value in enumerate(known)}
    found = {split: np.asarray([index[value] for value in own], np.int64) for split, own in every.items()}
    return [str(value) for value in known], found
