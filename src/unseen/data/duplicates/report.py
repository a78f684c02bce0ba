"""Sets of images, and the result of a search for duplicates: the pairs, the splits concerned, the images to drop.

Copies are joined into groups: if A is a crop of B and B a flip of C, all three are one picture. Of a group within one
set one image stays, and the others are listed to be dropped. Against another set every copy is listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from PIL import Image
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from unseen.core.arrays import AnyArray
from unseen.core.errors import DataError
from unseen.data.duplicates.comparison import Kind


class Rows(Protocol):
    """An (n, d) array, or anything that gives blocks of one, such as features in the store."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: slice, /) -> AnyArray: ...


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images that can be compared.

    Attributes:
        name: what to call the set.
        names: one per image.
        features: (n, d), row i of image i; two sets need the same model and layer.
        open: returns image i, not decoded yet if the format allows; called from several threads at once. None if
            only features are available: then nothing can be confirmed.
        splits: of each image, such as "train" and "test"; empty if there is one.
        labels: class of each image; empty if it is not known. Copies under two labels are reported.
        content_key: returns bytes that are equal for equal files; None if there are no files.
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
        counts = {"rows of features": self.features.shape[0], "splits": len(self.splits), "labels": len(self.labels)}
        for what, found in counts.items():
            if found != count and (found or what == "rows of features"):
                raise DataError(f"{self.name!r} has {count} images but {found} {what}. Give one for each image.")

    def __len__(self) -> int:
        return len(self.names)

    def split_of(self, image: int) -> str:
        """Return the split of an image; "" if there are none."""
        return self.splits[image] if len(self.splits) else ""


@dataclass(frozen=True)
class DuplicatePair:
    """Two images that are one picture.

    Attributes:
        first: index in the set.
        second: index in the other set, or of a later image of the same one.
        kind: what was done to the picture.
        similarity: cosine of the features; None if the files are equal and features were not compared.
        correlation: of the details of the pictures; 1 for equal pixels, None if pictures were not available.
    """

    first: int
    second: int
    kind: Kind
    similarity: float | None
    correlation: float | None


@dataclass(frozen=True, eq=False)
class DuplicateReport:
    """The duplicates of a set.

    Attributes:
        images: the set that was searched.
        against: the other set, or None.
        pairs: surest kinds first, then by correlation.
        drop: indices of the images to drop, ascending.
        compared: how many pairs of pictures were laid over each other.
        unreadable: images that could not be decoded, and why.
    """

    images: ImageSet
    against: ImageSet | None
    pairs: tuple[DuplicatePair, ...]
    drop: tuple[int, ...]
    compared: int
    unreadable: dict[str, str]

    @property
    def kinds(self) -> dict[Kind, int]:
        """Return the number of pairs by kind."""
        found = Counter(pair.kind for pair in self.pairs)
        return {kind: found[kind] for kind in Kind if kind is not Kind.UNCONFIRMED or found[kind]}

    @property
    def between_splits(self) -> dict[tuple[str, str], int]:
        """Return how many images of a split have a copy in another split, by (split, other split)."""
        if self.against is not None or not len(self.images.splits):
            return {}
        found: dict[tuple[str, str], set[int]] = {}
        for pair in self.pairs:
            one, other = self.images.split_of(pair.first), self.images.split_of(pair.second)
            if one != other:
                found.setdefault((one, other), set()).add(pair.first)
                found.setdefault((other, one), set()).add(pair.second)
        return {splits: len(members) for splits, members in sorted(found.items())}

    @property
    def conflicts(self) -> tuple[DuplicatePair, ...]:
        """Return pairs under two labels: at least one of the labels is wrong, or the classes overlap."""
        labels = self.images.labels
        if self.against is not None or not len(labels):
            return ()
        return tuple(pair for pair in self.pairs if labels[pair.first] != labels[pair.second])

    @property
    def drop_names(self) -> list[str]:
        return [self.images.names[i] for i in self.drop]

    @property
    def reasons(self) -> list[tuple[int, DuplicatePair]]:
        """Return each image to drop with a pair that is the reason: one with an image that stays, if there is one."""
        dropped = {*self.drop}
        found: dict[int, DuplicatePair] = {}
        for pair in self.pairs:
            ways = [(pair.first, pair.second), (pair.second, pair.first)]
            for image, other in ways if self.against is None else ways[:1]:
                stays = self.against is not None or other not in dropped
                if image in dropped and (image not in found or stays):
                    found[image] = pair
        return sorted(found.items())

    @property
    def summary(self) -> str:
        """Return a sentence or two, fit for a paper."""
        total = len(self.images)
        confirmed = {kind: count for kind, count in self.kinds.items() if count and kind is not Kind.UNCONFIRMED}
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in confirmed.items())
        if self.against is not None:
            copies, alike = len(self.drop), {p.first for p in self.pairs if p.kind is Kind.UNCONFIRMED} - {*self.drop}
            text = (
                f"{copies:,} of {total:,} images of {self.images.name} ({copies / max(total, 1):.2%}) have a copy in "
            )
            text += f"{self.against.name}" + (f" (pairs: {kinds})" if kinds else "")
            if alike:
                text += f"; {len(alike):,} more are alike by their features alone, which no picture confirms"
            return f"{text}."
        if not self.pairs:
            return f"No image among the {total:,} of {self.images.name} is a copy of another one."
        text = f"Of {total:,} images of {self.images.name}, {len(self.drop):,} are copies of others ({kinds})"
        crossing = [
            f"{self.between_splits[one, other]:,} {one} images have a copy in {other}"
            for one, other in self.between_splits
            if one != "train" and (other == "train" or one < other)
        ]
        text += "; " + ", ".join(crossing) if crossing else ""
        text += f"; {len(self.conflicts):,} pairs are under two labels" if self.conflicts else ""
        return text + "."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        other = self.against or self.images
        return {
            "format": "unseen-duplicates/1",
            "images": {"name": self.images.name, "count": len(self.images)},
            "against": {"name": self.against.name, "count": len(self.against)} if self.against is not None else None,
            "summary": self.summary,
            "kinds": {kind.value: count for kind, count in self.kinds.items()},
            "between_splits": [[one, two, count] for (one, two), count in self.between_splits.items()],
            "compared": self.compared,
            "pairs": [
                {
                    "first": self.images.names[pair.first],
                    "second": other.names[pair.second],
                    "first_split": self.images.split_of(pair.first),
                    "second_split": other.split_of(pair.second),
                    "kind": pair.kind.value,
                    "similarity": pair.similarity,
                    "correlation": pair.correlation,
                }
                for pair in self.pairs
            ],
            "drop": self.drop_names,
            "unreadable": self.unreadable,
        }


def to_drop(
    images: ImageSet, against: ImageSet | None, pairs: Iterable[DuplicatePair], keep: Sequence[str]
) -> tuple[int, ...]:
    """Return the indices of the images to drop, so that no picture is left twice.

    Args:
        pairs: those that are not confirmed drop nothing.
        keep: of copies in several splits, the one in the first of these stays; of copies in one split the first.
    """
    pairs = [pair for pair in pairs if pair.kind is not Kind.UNCONFIRMED]
    if against is not None:
        return tuple(sorted({pair.first for pair in pairs}))
    ends = np.array([(pair.first, pair.second) for pair in pairs], np.int64).reshape(-1, 2)
    graph = coo_array((np.ones(len(ends)), ends.T), (len(images), len(images)))
    _, group = connected_components(graph, directed=False)
    place = {split: number for number, split in enumerate(keep)}
    rank = np.array([place.get(images.split_of(image), len(keep)) for image in range(len(images))])
    order = np.lexsort((rank, group))  # within a group, the image that stays is the first
    return tuple(sorted(order[1:][np.diff(group[order]) == 0].tolist()))
