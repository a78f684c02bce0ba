"""What a dataset is: classes, splits, labels and images that can be opened one by one.

Every source (folders, packaged sets, ImageNet, VTAB, procedural) builds these two records; nothing downstream
knows where the pixels come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from PIL import Image

from unseen.errors import DataError
from unseen.records import DatasetCard

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """One split of a dataset, in a fixed order.

    Attributes:
        names: one per image, for messages and for per-image results; a relative path where there is one.
        labels: class index per image.
        open: gives image `i`, not decoded yet where the format allows. It may raise `OSError` or `DataError` on a
            bad file: extraction records the reason and goes on.
        fingerprint: digest of names, image contents and primary labels, in order.
    """

    names: Sequence[str]
    labels: IntArray
    open: Callable[[int], Image.Image]
    fingerprint: str

    def __len__(self) -> int:
        return len(self.names)

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.names):
            raise DataError(f"a split has {len(self.names)} images but {len(self.labels)} labels")


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset that is ready to be read.

    Attributes:
        class_names: one per class index, as a person would write it.
        wnids: WordNet id per class, or None where it is not known; empty where none is.
        splits: by name: "train", "test", and "val" where the dataset brings its own.
        features_id: the dataset id that features are stored under. Two labellings of the same images share it, so
            that the images go through a model once.
    """

    card: DatasetCard
    class_names: Sequence[str]
    splits: Mapping[str, Split]
    wnids: Sequence[str | None] = field(default=())
    features_id: str = ""

    @property
    def id(self) -> str:
        return self.card.id

    def split(self, name: str) -> Split:
        try:
            return self.splits[name]
        except KeyError:
            raise DataError(f"dataset {self.id!r} has no split {name!r}. It has: {', '.join(self.splits)}.") from None

    def __post_init__(self) -> None:
        if not self.features_id:
            object.__setattr__(self, "features_id", self.card.id)
        if self.wnids and len(self.wnids) != len(self.class_names):
            raise DataError(f"{self.id!r} has {len(self.class_names)} classes but {len(self.wnids)} WordNet ids")
