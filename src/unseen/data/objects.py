"""Labelled images that exist in Python only: pairs of lists, torch and Hugging Face datasets, data frames.

An object becomes `object:NAME@DIGEST`, a name like any other while somebody holds it. The digest is of its content, so
that equal images share stored features and changed ones do not. Features are stored for the whole object, whatever is
drawn from it as train and test.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from unseen.core.errors import DataError, UnknownNameError
from unseen.core.names import Options
from unseen.core.records import DatasetCard
from unseen.data.dataset import ALL, Dataset, IntArray, Split, Whole
from unseen.data.foreign import pixels_of_torch, read_frame, read_hugging_face, read_torch
from unseen.data.images import image_key, is_image, to_image
from unseen.data.load import DatasetSource
from unseen.data.subset import stratified_split

SCHEME = "object"
#: Decoded images of a foreign dataset that are kept between the first look and the extraction, in bytes.
_KEEP = 256 << 20
_HELD: dict[str, Dataset] = {}


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
    """

    items: Sequence[Any]
    labels: Sequence[Any] | None = None
    class_names: Sequence[str] | None = None
    names: Sequence[str] | None = None
    title: str = "images"
    notes: tuple[str, ...] = field(default=())
    split: Split | None = None

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
            split = Split(names=names, labels=none, open=reader.open, content_key=reader.key)
        card = DatasetCard(id=f"{SCHEME}:{self.title}@{split.fingerprint[:12]}", name=self.title, group="object")
        return Dataset(card, ["image"], {ALL: split})


class _Reader:
    """Images and their keys, one at a time where another library does the reading, each decoded once if few enough."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._items, self._lock, self._room = items, Lock(), _KEEP
        self._foreign = not isinstance(items, list | tuple | np.ndarray)
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


def as_dataset(data: Any, test: Any = None, *, share: float = 0.2, seed: int = 0) -> Dataset:
    """An object as a dataset with the splits train and test.

    Args:
        data: (images, labels), a torch or Hugging Face dataset, a data frame; or a dict of splits of them.
        test: the same, of other images; without it a share of every class is drawn from `data`.
        share, seed: of what is drawn.

    Raises:
        DataError: no labels, other labels than images, a class without training images.
    """
    given = _splits(data)
    if test is not None:
        if len(given) > 1:
            raise DataError("the data bring their own test images: give test= or those, not both.")
        given = {"train": next(iter(given.values())), "test": next(iter(_splits(test).values()))}
    return _divided(given, share, seed)


def hold(dataset: Dataset) -> str:
    """Make a dataset of an object findable by its name, which is returned."""
    _HELD[dataset.id] = dataset
    return dataset.id


def release(name: str) -> None:
    """Forget what `hold` has made findable."""
    _HELD.pop(name, None)


def is_data_object(value: Any) -> bool:
    """Whether something is no name, path or dataset of ours, but may hold images."""
    return not isinstance(value, str | Path | Dataset)


class ObjectSource(DatasetSource):
    """Datasets that somebody holds in this process."""

    listed = False

    def cards(self) -> Iterable[DatasetCard]:
        return [dataset.card for dataset in _HELD.values()]

    def load(self, name: str, options: Options) -> Dataset:
        found = _HELD.get(f"{SCHEME}:{name}")
        if found is None:
            raise UnknownNameError("dataset object", f"{SCHEME}:{name}", _HELD, hint="Objects live as long as a call.")
        return found


def read_object(data: Any) -> GivenImages:
    """Images and labels out of one object."""
    if isinstance(data, GivenImages):
        return data
    if isinstance(data, tuple) and len(data) == 2:
        return _pair(*data)
    kind = type(data).__module__.partition(".")[0]
    if kind == "datasets" and hasattr(data, "column_names"):
        return GivenImages(**read_hugging_face(data))
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return GivenImages(**read_frame(data))
    torch_data: Any = sys.modules.get("torch.utils.data")
    if torch_data is not None and isinstance(data, torch_data.Dataset):
        return GivenImages(**read_torch(data))
    if torch_data is not None and isinstance(data, torch_data.DataLoader):
        return GivenImages(**read_torch(data.dataset))
    return _pair(data, None)


def _pair(images: Any, labels: Any) -> GivenImages:
    if isinstance(images, str | Path) or not hasattr(images, "__len__") or not hasattr(images, "__getitem__"):
        raise DataError(
            f"{type(images).__name__} is no set of images. Give a dataset's name, a folder, (images, labels), a torch "
            "or Hugging Face dataset, or a data frame with paths and labels."
        )
    items = list(pixels_of_torch(images)) if hasattr(images, "ndim") else list(images)
    if not items:
        raise DataError("there are no images.")
    if not is_image(items[0]):
        raise DataError(f"{type(items[0]).__name__} is no image. Give Pillow images, arrays, tensors or paths.")
    if labels is not None:
        labels = labels.tolist() if hasattr(labels, "tolist") else list(labels)
        if len(labels) != len(items):
            raise DataError(f"there are {len(items)} images and {len(labels)} labels.")
    names = [str(item) for item in items] if all(isinstance(item, str | Path) for item in items) else None
    return GivenImages(items, labels, names=names)


def _splits(data: Any) -> dict[str, GivenImages]:
    """Objects by split: a dict of them, or one."""
    if not isinstance(data, dict):
        return {"train": read_object(data)}
    known = {"validation": "val", "valid": "val", "dev": "val"}
    return {known.get(str(name), str(name)): read_object(part) for name, part in data.items()}


def _divided(given: dict[str, GivenImages], share: float, seed: int) -> Dataset:
    if unlabelled := [name for name, part in given.items() if part.labels is None]:
        raise DataError(f"the {unlabelled[0]} images have no labels. Give (images, labels).")
    if "train" not in given:
        raise DataError(f"there are no images to train on; found the splits {', '.join(given)}.")
    classes, labels = _numbered(given)
    wholes = {name: part.whole() for name, part in given.items()}
    rows = {name: np.arange(len(part)) for name, part in given.items()}
    if "test" not in given and "val" in given:
        for table in (wholes, rows, labels):
            table["test"] = table.pop("val")  # type: ignore[attr-defined]
    elif "test" not in given:
        drawn = stratified_split(wholes["train"].split(ALL).names, labels["train"], test=share, seed=seed)
        rows = dict(drawn)
        labels = {name: labels["train"][chosen] for name, chosen in drawn.items()}
        wholes = dict.fromkeys(drawn, wholes["train"])
    splits = {}
    for name, chosen in rows.items():
        taken = wholes[name].split(ALL).take(chosen, labels[name])
        splits[name] = replace(taken, whole=Whole(wholes[name], np.asarray(chosen, np.int64)))
    if not len(splits["test"]):
        raise DataError("no class has two images, so none can be held out to test on. Give test images.")
    first = next(iter(given.values()))
    made = Dataset(DatasetCard(id="", name=first.title, group="object", notes="; ".join(first.notes)), classes, splits)
    card = replace(
        made.card,
        id=f"{SCHEME}:{first.title}@{made.revision}",
        splits=tuple(splits),
        classes=len(classes),
        images=sum(len(split) for split in splits.values()),
    )
    return replace(made, card=card, features_id=card.id)


def _numbered(given: dict[str, GivenImages]) -> tuple[list[str], dict[str, IntArray]]:
    """Class names, and class indices by split; labels that are indices of named classes stay as they are."""
    named = given["train"].class_names
    every = [label for part in given.values() for label in part.labels or ()]
    if any(isinstance(label, float) and not float(label).is_integer() for label in every):
        raise DataError("labels are classes; numbers with a fraction were found. Cut them into ranges first.")
    if named is not None and all(isinstance(label, int | np.integer) and 0 <= label < len(named) for label in every):
        return [str(name) for name in named], {n: np.asarray(p.labels, np.int64) for n, p in given.items()}
    try:
        values = sorted(set(every))
    except TypeError:
        raise DataError("labels are of several types; give texts, or whole numbers.") from None
    index = {value: i for i, value in enumerate(values)}
    found = {n: np.asarray([index[v] for v in p.labels or ()], np.int64) for n, p in given.items()}
    return [str(value) for value in values], found


def label_object(data: Any) -> tuple[Dataset, IntArray | None]:
    """All images of an object as one split, and their labels as class indices, if it has any."""
    given = read_object(data)
    whole = given.whole()
    if given.labels is None:
        return whole, None
    classes, labels = _numbered({"train": given})
    return replace(whole, class_names=classes), labels["train"]
