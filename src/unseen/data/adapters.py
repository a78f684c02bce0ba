"""Turn Python objects into datasets: (images, labels), torch and Hugging Face datasets, data frames.

An object becomes `object:NAME@DIGEST`; the digest covers its content, so equal images share stored features. None of
the libraries is imported here: the caller that has such an object has imported it.
"""

from __future__ import annotations

import copy
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unseen.core.arrays import AnyArray
from unseen.core.errors import DataError
from unseen.core.names import Options
from unseen.core.records import DatasetCard
from unseen.core.registry import OBJECT_SCHEME, ObjectRegistry
from unseen.data.columns import is_unlabelled
from unseen.data.dataset import Dataset
from unseen.data.images import image_key, is_image
from unseen.data.layout import splits_by_name, unused_splits
from unseen.data.load import DatasetSource
from unseen.data.subset import Division
from unseen.data.user_data import (
    Items,
    LabelledImages,
    LazyImages,
    divide,
    file_sampling_keys,
    flatten_labels,
    learn_targets,
)

#: Datasets of this process, by id.
OBJECTS: ObjectRegistry[Dataset] = ObjectRegistry("dataset object")

#: Names of columns and attributes, likeliest first.
IMAGE_COLUMNS = ("image", "img", "image_path", "path", "filepath", "file_path", "filename", "file_name", "file",
                 "image_id", "image_name", "id")  # fmt: skip
LABEL_COLUMNS = ("label", "labels", "class", "category", "target", "fine_label", "breed", "species", "diagnosis", "y",
                 "class_name", "classname", "class_id", "category_id", "id")  # fmt: skip

#: Rows per batch: those of the Hugging Face hub contain images.
_BATCH = 100

_RANDOM = (
    "the dataset returns another image each time, as augmentation does: numbers change from call to call, and stored "
    "features are not found again"
)


def as_dataset(data: object, test: object = None, *, share: float = 0.2, seed: int = 0) -> Dataset:
    """Return an object as a dataset with the splits train and test.

    Args:
        data: (images, labels), a torch or Hugging Face dataset, a data frame; or a dict of splits of them.
        test: the same, of other images; without it a share of every class is sampled from `data`.
        share, seed: of that sample.

    Raises:
        DataError: no labels, other labels than images, a class without training images.
    """
    parts = _splits(data)
    if test is not None:
        if len(parts) > 1:
            raise DataError("the data have their own test images: give test= or those, not both.")
        parts = {"train": next(iter(parts.values())), "test": next(iter(_splits(test).values()))}
    return divide(parts, Division(share, seed=seed), ordered=True)


def label_object(data: object) -> tuple[Dataset, AnyArray | None]:
    """Return all images of an object as one split, and their labels if it has any.

    Labels are class indices (-1 for an image without a label), numbers (NaN), or (n, labels) booleans.
    """
    images = read_object(data)
    whole = images.whole()
    if images.labels is None:
        return whole, None
    images = flatten_labels({"train": images})["train"]
    missing = np.asarray([is_unlabelled(label, images.class_names) for label in images.labels or ()], np.bool_)
    target, classes, labels, targets = learn_targets({"train": images}, {"train": np.flatnonzero(~missing)})
    known = (targets or labels)["train"]
    blank: Any = {"class": -1, "number": np.nan, "several": False}[target]
    every = np.full((len(missing), *known.shape[1:]), blank, known.dtype)
    every[~missing] = known
    return replace(whole, class_names=classes, target=target), every


class ObjectSource(DatasetSource):
    """Datasets that are registered in this process."""

    listed = False

    def cards(self) -> Iterable[DatasetCard]:
        return [dataset.card for dataset in OBJECTS.objects.values()]

    def load(self, name: str, options: Options) -> Dataset:
        return OBJECTS.get(f"{OBJECT_SCHEME}:{name}")


def read_object(data: object) -> LabelledImages:
    """Return the images and labels of one object."""
    if isinstance(data, LabelledImages):
        return data
    if isinstance(data, tuple) and len(data) == 2:
        return _read_pair(*data)
    if type(data).__module__.partition(".")[0] == "datasets" and hasattr(data, "column_names"):
        return read_hugging_face(data)
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return _read_frame(data)
    torch_data: Any = sys.modules.get("torch.utils.data")
    if torch_data is not None and isinstance(data, torch_data.Dataset):
        return read_torch(data)
    if torch_data is not None and isinstance(data, torch_data.DataLoader):
        return read_torch(data.dataset)
    return _read_pair(data, None)


def _splits(data: object) -> dict[str, LabelledImages]:
    """Return objects by split: those of a dict, or one.

    Raises:
        DataError: a dict without training images.
    """
    if not isinstance(data, dict):
        return {"train": read_object(data)}
    return read_splits({str(name): part for name, part in data.items()}, "the data", read_object)


def read_splits(
    parts: Mapping[str, object], where: str, read: Callable[[Any], LabelledImages]
) -> dict[str, LabelledImages]:
    """Return the splits train, val and test of named parts; a note of `train` lists the others.

    Raises:
        DataError: no part is for training.
    """
    named = splits_by_name(parts, where)
    if "train" not in named:
        raise DataError(f"{where}: there are no images to train on; found the splits {', '.join(parts)}.")
    found = {split: read(parts[name]) for split, name in named.items()}
    if unused := [name for name in parts if name not in named.values()]:
        found["train"] = replace(found["train"], losses=(*found["train"].losses, unused_splits(unused)))
    return found


def _read_pair(images: Any, labels: Any) -> LabelledImages:
    if isinstance(images, str | Path) or not hasattr(images, "__len__") or not hasattr(images, "__getitem__"):
        raise DataError(
            f"{type(images).__name__} is not a set of images. Give a dataset's name, a folder, (images, labels), a "
            "torch or Hugging Face dataset, or a data frame with paths and labels."
        )
    if getattr(images, "ndim", 4) not in (3, 4):
        raise DataError(f"images are an array (n, h, w), (n, h, w, 3) or (n, 3, h, w); found shape {images.shape}.")
    items = list(images)
    if not items:
        raise DataError("there are no images.")
    if not is_image(items[0]):
        raise DataError(f"{type(items[0]).__name__} is not an image. Give Pillow images, arrays, tensors or paths.")
    if labels is not None:
        labels = _label_list(labels.detach().cpu() if hasattr(labels, "detach") else labels)
        if len(labels) != len(items):
            raise DataError(f"there are {len(items)} images and {len(labels)} labels.")
    names = [str(item) for item in items] if all(isinstance(item, str | Path) for item in items) else None
    files = names or [getattr(item, "filename", "") for item in items]
    return LabelledImages(items, labels, names=names, sampling_keys=file_sampling_keys(files) if all(files) else None)


def _label_list(labels: Any) -> list[Any]:
    """Return labels as a list; a row of 0 and 1 per image stays an array."""
    if getattr(labels, "ndim", 1) == 2:
        return list(np.asarray(labels))
    return labels.tolist() if hasattr(labels, "tolist") else list(labels)


def guess_column(names: Sequence[str], known: Sequence[str], what: str, *, taken: str = "") -> str:
    """Return the column with the images or the labels, by its name.

    Raises:
        DataError: no name is known; the message lists the columns.
    """
    if found := find_column(names, known, taken=taken):
        return found
    raise DataError(f"which column holds the {what}? Found {', '.join(names)}; none of them is called {known[0]}.")


def find_column(names: Sequence[str], known: Sequence[str], *, taken: str = "") -> str | None:
    """Return the column with the likeliest of some known names, or None."""
    lower = {name.lower().strip().replace(" ", "_"): name for name in names if name != taken}
    return next((lower[word] for word in known if word in lower), None)


def _image_of(item: object) -> Any:
    """Return the image in an item of a dataset: the item itself, its first part, or an entry of a dict."""
    if isinstance(item, dict) and not is_image(item):
        item = item[guess_column(list(item), (*IMAGE_COLUMNS, "pixel_values"), "images")]
    found = item[0] if isinstance(item, tuple | list) else item
    if not is_image(found):
        raise DataError(f"an item of the dataset begins with {type(found).__name__}, which is not an image.")
    return found


def _label_of(item: object) -> Any:
    """Return the label in an item of a dataset, or None."""
    if isinstance(item, dict):
        return next((item[name] for name in LABEL_COLUMNS if name in item), None)
    return item[1] if isinstance(item, tuple | list) and len(item) > 1 else None


def _plain_label(value: Any) -> Any:
    """Return a label as a text or a number; one of several values stays an array or a list."""
    if not hasattr(value, "dtype"):
        return value
    array = np.asarray(value)
    return array.item() if array.size == 1 else array


def read_torch(data: Any) -> LabelledImages:
    """Read a torch dataset that has a length.

    Its own transform, which prepares images for one model, is removed if the dataset works without it.
    """
    if not hasattr(data, "__len__"):
        raise DataError(f"{type(data).__name__} has no length. Give a dataset with items that can be counted.")
    if not len(data):
        raise DataError("the dataset is empty.")
    rows = list(range(len(data)))
    while type(data).__name__ == "Subset" and hasattr(data, "indices"):
        rows, data = [data.indices[i] for i in rows], data.dataset
    bare, notes = _without_transform(data)
    if _is_random(bare):
        notes = (*notes, _RANDOM)
        warnings.warn(f"{type(data).__name__}: {_RANDOM}", UserWarning, stacklevel=2)
    names: list[str] | None = None
    items: Items = LazyImages(len(rows), lambda i: _image_of(bare[rows[i]]), threadsafe=False)
    samples = getattr(data, "samples", None)
    if isinstance(samples, list) and samples and isinstance(samples[0], tuple) and isinstance(samples[0][0], str):
        items = names = [samples[i][0] for i in rows]
        labels = [samples[i][1] for i in rows]
    else:
        listed: list[Any] = [getattr(data, name, None) for name in ("targets", "labels", "_labels", "y")]
        known = next((_label_list(each) for each in listed if getattr(each, "__len__", int)() == len(data)), None)
        labels = [_label_of(bare[i]) if known is None else known[i] for i in rows]
    classes = getattr(data, "classes", None)
    return LabelledImages(
        items,
        None if all(label is None for label in labels) else [_plain_label(label) for label in labels],
        class_names=list(classes) if isinstance(classes, list | tuple) else None,
        names=names,
        sampling_keys=file_sampling_keys(names) if names else None,
        title=type(data).__name__,
        notes=notes,
    )


def _is_random(data: Any) -> bool:
    """Return whether a dataset returns another image the second time, as augmentation does."""
    try:
        return image_key(_image_of(data[0])) != image_key(_image_of(data[0]))
    except Exception:  # noqa: BLE001 - code of a user's dataset; reading all images runs it again
        return False


def _without_transform(data: Any) -> tuple[Any, tuple[str, ...]]:
    """Return the same dataset without its transform, if it stores the transform as torchvision's datasets do."""
    own = [name for name in ("transform", "transforms") if getattr(data, name, None) is not None]
    if not own:
        return data, ()
    bare = copy.copy(data)
    for name in own:
        setattr(bare, name, None)
    try:
        _image_of(bare[0])
    except Exception:  # noqa: BLE001 - code of a user's dataset that needs its transform
        return data, ()
    return bare, ("the dataset's own transform is left aside: the model's preprocessing is used",)


def read_hugging_face(data: Any, image: str = "", label: str = "") -> LabelledImages:
    """Read a `datasets.Dataset`; images stay encoded until they are opened."""
    if not hasattr(data, "__len__"):
        raise DataError("a streamed dataset has no length. Load it without streaming=True.")
    features = data.features
    kinds = {name: type(feature).__name__ for name, feature in features.items()}
    by_kind = {kind: name for name, kind in reversed(kinds.items())}
    image = image or by_kind.get("Image") or guess_column(list(kinds), IMAGE_COLUMNS, "images")
    label = label or by_kind.get("ClassLabel") or find_column(list(kinds), LABEL_COLUMNS, taken=image) or ""
    for column in (image, label):
        if column and column not in kinds:
            raise DataError(f"the dataset has no column {column!r}. It has {', '.join(kinds)}.")
    encoded = kinds[image] == "Image"
    raw = (data.cast_column(image, type(features[image])(decode=False)) if encoded else data).with_format(None)
    labels = list(raw[label]) if label else None
    feature = features.get(label)
    class_names = getattr(getattr(feature, "feature", feature), "names", None)  # of a ClassLabel, or of a list of them
    keys = None
    if encoded:
        tables = raw.select_columns([image]).with_format("arrow").iter(batch_size=_BATCH)
        files = [row["path"] for table in tables for row in table.column(image).to_pylist()]
        keys = encoded_sampling_keys(files, labels, class_names)

    def read(i: int) -> Any:
        found = raw[int(i)][image]
        return np.asarray(found, np.uint8) if isinstance(found, list) else found

    return LabelledImages(
        LazyImages(len(data), read, threadsafe=False),
        labels,
        class_names=class_names,
        sampling_keys=keys,
        title=str(getattr(data.info, "dataset_name", None) or "hf"),
    )


def encoded_sampling_keys(
    files: Sequence[str | None], labels: Sequence[object] | None, class_names: Sequence[str] | None
) -> list[str] | None:
    """Return the sampling keys of encoded images: their files, below a folder for each class.

    Args:
        files: path of each image. If it is a bare file name, as in datasets of the Hugging Face hub, the class is used
            as its folder.
    """
    if not all(files):
        return None
    paths = [str(file) for file in files]
    if all("/" in path or os.sep in path for path in paths) or labels is None:
        return file_sampling_keys(paths)
    named = class_names or ()
    folders = [named[own] if isinstance(own, int) and 0 <= own < len(named) else own for own in labels]
    return [f"{folder}/{path}" for folder, path in zip(folders, paths, strict=True)]


def _read_frame(frame: Any) -> LabelledImages:
    """Read the paths (or images) and labels of a data frame."""
    columns = [str(name) for name in frame.columns]
    image = guess_column(columns, IMAGE_COLUMNS, "images")
    label = guess_column(columns, LABEL_COLUMNS, "labels", taken=image)
    items = list(frame[image])
    names = [str(item) for item in items] if items and isinstance(items[0], str) else None
    labels = [_plain_label(value) for value in frame[label]]
    if any(isinstance(value, str) and "|" in value for value in labels):
        labels = [tuple(filter(None, str(value).split("|"))) for value in labels]
    keys = file_sampling_keys(names) if names else None
    return LabelledImages(items, labels, names=names, sampling_keys=keys, title="frame")
