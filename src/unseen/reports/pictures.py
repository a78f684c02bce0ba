"""Small pictures inside a page: as data: addresses, which ask nothing of the network."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from unseen.core.errors import UnseenError
from unseen.data import Dataset
from unseen.data.decode import decode_rgb


def thumbnail(image: Image.Image, size: int = 64, quality: int = 62) -> str:
    """An image as a JPEG whose longer side has at most `size` pixels, as a data: address of a few kB.

    Raises:
        DataError: the pixels cannot be had.
    """
    small = decode_rgb(image, truncated="accept")
    small.thumbnail((size, size), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    small.save(stream, "JPEG", quality=quality, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


@dataclass(frozen=True, eq=False)
class ClassPictures:
    """A picture of each class: that of its first test image. What cannot be opened has none.

    Attributes:
        load: gives a dataset by its name.
        size: longest side in pixels.
    """

    load: Callable[[str], Dataset]
    size: int = 64
    _places: dict[str, dict[str, int]] = field(default_factory=dict)

    def __call__(self, dataset: str, name: str) -> str:
        try:
            loaded = self.load(dataset)
            images = loaded.split("test") if "test" in loaded.splits else next(iter(loaded.splits.values()))
            if dataset not in self._places:
                labels, places = np.unique(images.labels, return_index=True)
                first = zip(labels.tolist(), places.tolist(), strict=True)
                self._places[dataset] = {loaded.class_names[label]: place for label, place in first}
            place = self._places[dataset].get(name)
            return thumbnail(images.open(place), self.size) if place is not None else ""
        except (UnseenError, OSError):  # a page without a picture is better than none
            return ""
