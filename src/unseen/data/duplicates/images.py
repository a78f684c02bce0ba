"""A set of images that can be compared: names, features, and a way to open each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PIL import Image

from unseen.core.errors import DataError
from unseen.data.duplicates.neighbours import Rows


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images that can be compared.

    Attributes:
        name: what to call the set.
        names: one per image.
        features: (n, d), row i of image i; two sets need the same model and layer.
        open: gives image i, not decoded yet where the format allows; called from several threads at once. None where
            only features are at hand: then nothing can be confirmed.
        splits: of each image, such as "train" and "test"; empty where there is one.
        labels: class of each image; empty where it is not known. Copies under two labels are told.
        content_key: gives bytes that are equal for equal files; None where files cannot be had.
    """

    name: str
    names: Sequence[str]
    features: Rows
    open: Callable[[int], Image.Image] | None
    splits: Sequence[str] = ()
    labels: Sequence[int] = ()
    content_key: Callable[[int], bytes] | None = None

    def __post_init__(self) -> None:
        count = len(self.names)
        given = {"rows of features": self.features.shape[0], "splits": len(self.splits), "labels": len(self.labels)}
        for what, found in given.items():
            if found != count and (found or what == "rows of features"):
                raise DataError(f"{self.name!r} has {count} images but {found} {what}. Give one for each image.")

    def __len__(self) -> int:
        return len(self.names)

    def split_of(self, image: int) -> str:
        """The split of an image; "" where there are none."""
        return self.splits[image] if len(self.splits) else ""
