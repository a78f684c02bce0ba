"""Datasets of other libraries, read by what they offer: torch and torchvision, Hugging Face, data frames.

None of the libraries is imported here: who holds such an object has imported it.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from unseen.core.errors import DataError
from unseen.data.images import image_key, is_image

#: Names of columns and attributes, likeliest first.
IMAGE_COLUMNS = ("image", "img", "image_path", "path", "filepath", "file_path", "filename", "file_name", "file",
                 "image_id", "image_name", "id")  # fmt: skip
LABEL_COLUMNS = ("label", "labels", "class", "category", "target", "fine_label", "breed", "species", "diagnosis", "y",
                 "class_name", "classname", "class_id", "category_id", "id")  # fmt: skip

RANDOM = (
    "the dataset gives another image each time it is asked, as augmentation does: numbers change from call to call, "
    "and stored features are not found again"
)


def pixels_of_torch(value: Any) -> Any:
    """An array or tensor of several images, as something whose rows are images."""
    if getattr(value, "ndim", 4) not in (3, 4):
        raise DataError(f"images are an array (n, h, w), (n, h, w, 3) or (n, 3, h, w); found shape {value.shape}.")
    return value


def guess_column(names: Sequence[str], known: Sequence[str], what: str, *, taken: str = "") -> str:
    """The column that holds the images or the labels, by its name.

    Raises:
        DataError: no name is known; the columns are named.
    """
    lower = {name.lower().strip().replace(" ", "_"): name for name in names if name != taken}
    for word in known:
        if word in lower:
            return lower[word]
    raise DataError(f"which column holds the {what}? Found {', '.join(names)}; none of them is called {known[0]}.")


class _Items:
    """The images of a torch dataset, read when asked for."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> Any:
        return image_of(self.data[i])


def image_of(item: Any) -> Any:
    """The image in an item of a dataset: the item itself, its first part, or what a dict calls so."""
    if isinstance(item, dict) and not is_image(item):
        item = item[guess_column(list(item), (*IMAGE_COLUMNS, "pixel_values"), "images")]
    found = item[0] if isinstance(item, tuple | list) else item
    if not is_image(found):
        raise DataError(f"an item of the dataset begins with {type(found).__name__}, which is no image.")
    return found


def label_of(item: Any) -> Any:
    """The label in an item of a dataset, or None."""
    if isinstance(item, dict):
        names = [name for name in LABEL_COLUMNS if name in item]
        found = item[names[0]] if names else None
    else:
        found = item[1] if isinstance(item, tuple | list) and len(item) > 1 else None
    return plain_label(found)


def plain_label(value: Any) -> Any:
    """A label as a text or a number; one of several values stays an array or a list."""
    if hasattr(value, "item") and hasattr(value, "dtype"):
        if getattr(value, "ndim", 0) and int(np.prod(value.shape)) != 1:
            return np.asarray(value)
        return value.item()
    return value


def read_torch(data: Any) -> dict[str, Any]:
    """Images, labels and class names of a torch dataset that has a length.

    Its own transform, which prepares images for one model, is left aside where the dataset lets one.
    """
    if not hasattr(data, "__len__"):
        raise DataError(f"{type(data).__name__} has no length. Give a dataset with items that can be counted.")
    if not len(data):
        raise DataError("the dataset is empty.")
    if type(data).__name__ == "Subset" and hasattr(data, "indices"):
        return _subset(read_torch(data.dataset), list(data.indices))
    bare, notes = _without_transform(data)
    if _is_random(bare):
        notes = (*notes, RANDOM)
        warnings.warn(f"{type(data).__name__}: {RANDOM}", UserWarning, stacklevel=2)
    names = None
    samples = getattr(data, "samples", None)
    if isinstance(samples, list) and samples and isinstance(samples[0], tuple) and isinstance(samples[0][0], str):
        items: Any = [path for path, _ in samples]
        labels: list[Any] | None = [label for _, label in samples]
        names = list(items)
    else:
        items = _Items(bare)
        labels = _attribute_labels(data)
        if labels is None:
            labels = [label_of(bare[i]) for i in range(len(data))]
    known = getattr(data, "classes", None)
    return {
        "items": items,
        "labels": None if labels is None or None in labels else [plain_label(label) for label in labels],
        "class_names": list(known) if isinstance(known, list | tuple) else None,
        "names": names,
        "title": type(data).__name__,
        "notes": notes,
    }


def _is_random(data: Any) -> bool:
    """Whether a dataset gives another image at the second look, as augmentation does."""
    try:
        return image_key(image_of(data[0])) != image_key(image_of(data[0]))
    except Exception:  # noqa: BLE001 - whatever it raises, reading all images will meet it
        return False


def _subset(found: dict[str, Any], rows: list[int]) -> dict[str, Any]:
    class Rows:
        def __len__(self) -> int:
            return len(rows)

        def __getitem__(self, i: int) -> Any:
            return found["items"][rows[i]]

    chosen = {key: [found[key][i] for i in rows] for key in ("labels", "names") if found[key] is not None}
    items = [found["items"][i] for i in rows] if isinstance(found["items"], list) else Rows()
    return {**found, **chosen, "items": items}


def _without_transform(data: Any) -> tuple[Any, tuple[str, ...]]:
    """The same dataset giving images as they are, if it keeps its transform where torchvision's do."""
    if getattr(data, "transform", None) is None and getattr(data, "transforms", None) is None:
        return data, ()
    bare = copy.copy(data)
    for name in ("transform", "transforms"):
        if hasattr(bare, name):
            setattr(bare, name, None)
    try:
        image_of(bare[0])
    except Exception:  # noqa: BLE001 - whatever a dataset raises that cannot do without its transform
        return data, ()
    return bare, ("the dataset's own transform is left aside: the model's preprocessing is used",)


def _attribute_labels(data: Any) -> list[Any] | None:
    for name in ("targets", "labels", "_labels", "y"):
        found = getattr(data, name, None)
        if found is not None and hasattr(found, "__len__") and len(found) == len(data):
            if getattr(found, "ndim", 1) == 2:  # a row of 0 and 1 per image
                return list(np.asarray(found))
            return found.tolist() if hasattr(found, "tolist") else list(found)
    return None


def read_hugging_face(data: Any, image: str = "", label: str = "") -> dict[str, Any]:
    """Images, labels and class names of a `datasets.Dataset`; images come encoded, and are decoded by us."""
    if not hasattr(data, "__len__"):
        raise DataError("a streamed dataset has no length. Load it without streaming=True.")
    features = data.features
    kinds = {name: type(feature).__name__ for name, feature in features.items()}
    image = image or next((name for name, kind in kinds.items() if kind == "Image"), "")
    image = image or guess_column(list(kinds), IMAGE_COLUMNS, "images")
    label = label or next((name for name, kind in kinds.items() if kind == "ClassLabel"), "")
    if not label:
        try:
            label = guess_column(list(kinds), LABEL_COLUMNS, "labels", taken=image)
        except DataError:
            label = ""
    for column in (image, label):
        if column and column not in kinds:
            raise DataError(f"the dataset has no column {column!r}. It has {', '.join(kinds)}.")
    raw = data.cast_column(image, type(features[image])(decode=False)) if kinds[image] == "Image" else data
    raw = raw.with_format(None)

    class Rows:
        def __len__(self) -> int:
            return len(raw)

        def __getitem__(self, i: int) -> Any:
            found = raw[int(i)][image]
            return np.asarray(found, np.uint8) if isinstance(found, list) else found

    return {
        "items": Rows(),
        "labels": list(raw[label]) if label else None,
        "class_names": _class_names(features[label]) if label else None,
        "title": str(getattr(data.info, "dataset_name", None) or "hf"),
    }


def _class_names(feature: Any) -> list[str] | None:
    """Of a `ClassLabel`, or of a list of them."""
    names = getattr(getattr(feature, "feature", feature), "names", None)
    return list(names) if names is not None else None


def read_frame(frame: Any, image: str = "", label: str = "") -> dict[str, Any]:
    """Paths (or images) and labels of a data frame."""
    columns = [str(name) for name in frame.columns]
    image = image or guess_column(columns, IMAGE_COLUMNS, "images")
    label = label or guess_column(columns, LABEL_COLUMNS, "labels", taken=image)
    items = list(frame[image])
    names = [str(item) for item in items] if items and isinstance(items[0], str) else None
    labels = [plain_label(v) for v in frame[label]]
    if any(isinstance(v, str) and "|" in v for v in labels):
        labels = [tuple(filter(None, str(v).split("|"))) for v in labels]
    return {"items": items, "labels": labels, "names": names, "title": "frame"}
