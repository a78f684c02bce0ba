"""Labelled images that exist in Python only: pairs of lists, torch and Hugging Face datasets, data frames.

An object becomes `object:NAME@DIGEST`, a name like any other while somebody holds it. The digest is of its content, so
that equal images share stored features and changed ones do not. Features are stored for the whole object, whatever is
drawn from it as train and test.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError, UnknownNameError
from unseen.core.names import Options
from unseen.core.records import DatasetCard
from unseen.data.dataset import Dataset
from unseen.data.foreign import pixels_of_torch, read_frame, read_hugging_face, read_torch
from unseen.data.given import SCHEME, GivenImages, divide, learn_targets
from unseen.data.images import is_image
from unseen.data.load import DatasetSource

_HINT = "Objects are found in the process that holds them, while it does: use one worker, or a name."
_HELD: dict[str, Dataset] = {}
#: How many hold each.
_HOLDERS: Counter[str] = Counter()


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
    return divide(given, share=share, seed=seed)


def hold(dataset: Dataset) -> str:
    """Make a dataset of an object findable by its name, which is returned."""
    _HELD[dataset.id] = dataset
    _HOLDERS[dataset.id] += 1
    return dataset.id


def hold_again(name: str) -> bool:
    """One more holder of what is held already; whether it is."""
    if name in _HELD:
        _HOLDERS[name] += 1
    return name in _HELD


def release(name: str) -> None:
    """Forget what `hold` has made findable, when nobody else holds it."""
    _HOLDERS[name] -= 1
    if _HOLDERS[name] < 1:
        _HELD.pop(name, None)
        del _HOLDERS[name]


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
            raise UnknownNameError("dataset object", f"{SCHEME}:{name}", _HELD, hint=_HINT)
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
        if getattr(labels, "ndim", 1) == 2:  # a row of 0 and 1 per image
            labels = list(np.asarray(labels))
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


def label_object(data: Any) -> tuple[Dataset, npt.NDArray[Any] | None]:
    """All images of an object as one split, and their labels if it has any: class indices, numbers, or (n, labels)
    booleans."""
    given = read_object(data)
    whole = given.whole()
    if given.labels is None:
        return whole, None
    target, classes, labels, targets = learn_targets({"train": given})
    return replace(whole, class_names=classes, target=target), (targets or labels)["train"]
