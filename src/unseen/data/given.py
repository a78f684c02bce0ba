"""Images and labels in any form, divided into a dataset: what objects, tables and archives have in common.

Features are stored for all images together, whatever is drawn from them as train and test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.core.records import DatasetCard
from unseen.data.dataset import ALL, CLASS, NUMBER, Dataset, IntArray, Split, Target, Whole
from unseen.data.images import image_key, to_image
from unseen.data.subset import stratified_split

SCHEME = "object"
#: Decoded images of a foreign dataset that are kept between the first look and the extraction, in bytes.
_KEEP = 256 << 20


class Items(Protocol):
    """Images that can be counted and taken by number; `threadsafe` ones by several threads at once."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int, /) -> Any: ...


@dataclass(eq=False)
class GivenImages:
    """Images and labels out of an object, before they are divided.

    Attributes:
        items: one per image, in any form that `to_image` takes.
        labels: of any type that sorts, one per image; None where there are none.
        class_names: where labels are indices into them.
        names: one per image; the places of the images where there are none.
        title: for the name that the object gets.
        notes: what was decided on the way.
        split: the images as a split already, instead of `items`.
        keys: gives bytes that change when image `i` does, where that is cheaper than reading it.
        id: what its features are stored under, where it has a name; an object's is its content.
        target: what the labels are; their types tell where it is not given.
    """

    items: Items
    labels: Sequence[Any] | None = None
    class_names: Sequence[str] | None = None
    names: Sequence[str] | None = None
    title: str = "images"
    notes: tuple[str, ...] = field(default=())
    split: Split | None = None
    keys: Callable[[int], bytes] | None = None
    id: str = ""
    target: Target | None = None

    def __len__(self) -> int:
        return len(self.items if self.split is None else self.split)

    def whole(self) -> Dataset:
        """All images as one split, without labels: what features are stored of."""
        none = np.zeros(len(self), np.int64)
        if self.split is not None:
            split = replace(self.split, labels=none, primary_labels=none)
        else:
            names = list(self.names or [f"{i:08d}" for i in range(len(self))])
            reader = _Reader(self.items)
            split = Split(names=names, labels=none, open=reader.open, content_key=self.keys or reader.key)
        name = self.id or f"{SCHEME}:{self.title}@{split.fingerprint[:12]}"
        card = DatasetCard(id=name, name=self.title, group=SCHEME)
        return Dataset(card, ["image"], {ALL: split})


class _Reader:
    """Images and their keys, one at a time where another library does the reading, each decoded once if few enough."""

    def __init__(self, items: Items) -> None:
        self._items, self._lock, self._room = items, Lock(), _KEEP
        self._foreign = not isinstance(items, list | tuple | np.ndarray) and not getattr(items, "threadsafe", False)
        self._kept: dict[int, Any] = {}

    def key(self, i: int) -> bytes:
        value = self._value(i)
        size = value.size[0] * value.size[1] * 4 if hasattr(value, "getbands") else getattr(value, "nbytes", 0)
        if self._foreign and size and self._room >= size:
            self._room -= size
            self._kept[i] = value
        return image_key(value)

    def open(self, i: int) -> Any:
        value = self._kept.pop(i, None)
        return to_image(self._value(i) if value is None else value)

    def _value(self, i: int) -> Any:
        if not self._foreign:
            return self._items[i]
        with self._lock:  # nobody promises that their dataset may be read by several threads
            return self._items[i]


def divide(
    given: Mapping[str, GivenImages], *, share: float = 0.2, val: float = 0.0, seed: int = 0, group: str = SCHEME
) -> Dataset:
    """A dataset with train and test (and val) of images and labels by split.

    Args:
        given: by split; with train alone, test is drawn from it.
        share, val: of every class that are drawn to test and to validate; 0 draws none.
        seed: of what is drawn.
        group: on the card.

    Raises:
        DataError: no labels, or nothing to train or to test on.
    """
    if unlabelled := [name for name, part in given.items() if part.labels is None]:
        raise DataError(f"the {unlabelled[0]} images have no labels. Give (images, labels).")
    if "train" not in given:
        raise DataError(f"there are no images to train on; found the splits {', '.join(given)}.")
    target, classes, labels, targets = learn_targets(given)
    wholes = {name: part.whole() for name, part in given.items()}
    rows = {name: np.arange(len(part)) for name, part in given.items()}
    if "test" not in given and "val" in given:
        tables: tuple[dict[str, Any], ...] = (wholes, rows, labels, targets)
        for table in tables:
            if table:
                table["test"] = table.pop("val")
    elif "test" not in given:
        drawn = stratified_split(wholes["train"].split(ALL).names, labels["train"], test=share, val=val, seed=seed)
        rows = dict(drawn)
        labels = {name: labels["train"][chosen] for name, chosen in drawn.items()}
        targets = {name: targets["train"][chosen] for name, chosen in drawn.items()} if targets else {}
        wholes = dict.fromkeys(drawn, wholes["train"])
    splits = {}
    for name, chosen in rows.items():
        taken = wholes[name].split(ALL).take(chosen, labels[name])
        whole = Whole(wholes[name], np.asarray(chosen, np.int64))
        splits[name] = replace(taken, whole=whole, targets=targets.get(name))
    if share and not len(splits["test"]):
        raise DataError("no class has two images, so none can be held out to test on. Give test images.")
    first = next(iter(given.values()))
    card = DatasetCard(id="", name=first.title, group=group, notes="; ".join(first.notes))
    made = Dataset(card, classes, splits, target=target)
    card = replace(
        made.card,
        id=first.id or f"{SCHEME}:{first.title}@{made.revision}",
        splits=tuple(splits),
        classes=len(classes),
        images=sum(len(split) for split in splits.values()),
    )
    return replace(made, card=card, features_id=card.id)


def learn_targets(
    given: Mapping[str, GivenImages],
) -> tuple[Target, list[str], dict[str, IntArray], dict[str, npt.NDArray[Any]]]:
    """What labels are; names and indices of classes, or of strata; targets where there are more than classes."""
    from unseen.data.targets import number_targets, several_targets, target_of

    every = {split: list(part.labels or ()) for split, part in given.items()}
    told = [part.target or target_of(every[split]) for split, part in given.items()]
    target = next((each for each in told if each != CLASS), CLASS)
    if target == CLASS:
        return CLASS, *number_classes(given), {}
    if target == NUMBER:
        return target, *number_targets(every)
    return target, *several_targets(every, next(iter(given.values())).class_names)


def number_classes(given: Mapping[str, GivenImages]) -> tuple[list[str], dict[str, IntArray]]:
    """Class names, and class indices by split; labels that are indices of named classes stay as they are."""
    named = given["train"].class_names
    every = [label for part in given.values() for label in part.labels or ()]
    if named is not None and all(isinstance(label, int | np.integer) and 0 <= label < len(named) for label in every):
        return [str(name) for name in named], {n: np.asarray(p.labels, np.int64) for n, p in given.items()}
    try:
        values = sorted(set(every))
    except TypeError:
        raise DataError("labels are of several types; give texts, or whole numbers.") from None
    index = {value: i for i, value in enumerate(values)}
    found = {n: np.asarray([index[v] for v in p.labels or ()], np.int64) for n, p in given.items()}
    return [str(value) for value in values], found
