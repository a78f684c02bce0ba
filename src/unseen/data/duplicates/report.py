"""What a search for duplicates found: the pairs, what they mean for the splits, and which images to drop.

Copies are gathered into groups: where A is a crop of B and B a flip of C, all three are one picture. Of a group within
one set one image stays, and the others are listed to be dropped. Against another set every copy is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from unseen.data.duplicates.comparison import Kind
from unseen.data.duplicates.images import ImageSet


@dataclass(frozen=True)
class DuplicatePair:
    """Two images that are one picture.

    Attributes:
        first: index in the set.
        second: index in the other set, or of a later image of the same one.
        kind: what was done to the picture.
        similarity: cosine of the features; None where the files are equal and features were not asked.
        correlation: of the details of the pictures; 1 for equal pixels, None where pictures were not at hand.
    """

    first: int
    second: int
    kind: Kind
    similarity: float | None
    correlation: float | None


@dataclass(frozen=True, eq=False)
class DuplicateReport:
    """All that was found.

    Attributes:
        images: the set that was looked at.
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
        """Pairs by kind."""
        found = Counter(pair.kind for pair in self.pairs)
        return {kind: found[kind] for kind in Kind if kind is not Kind.UNCONFIRMED or found[kind]}

    @property
    def between_splits(self) -> dict[tuple[str, str], int]:
        """How many images of a split have a copy in another split, by (split, other split)."""
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
        """Pairs under two labels: at least one of the labels is wrong, or the classes overlap."""
        other = self.against or self.images
        if self.against is not None or not len(self.images.labels):
            return ()
        return tuple(p for p in self.pairs if self.images.labels[p.first] != other.labels[p.second])

    @property
    def drop_names(self) -> list[str]:
        return [self.images.names[i] for i in self.drop]

    @property
    def reasons(self) -> list[tuple[int, DuplicatePair]]:
        """Each image to drop with a pair that is the reason: one with an image that stays, where there is one."""
        dropped = {*self.drop} if self.against is None else set()
        found: dict[int, DuplicatePair] = {}
        for pair in self.pairs:
            for image, other in ((pair.first, pair.second), (pair.second, pair.first))[
                : 2 - (self.against is not None)
            ]:
                if image in self.drop_set and (image not in found or other not in dropped):
                    found[image] = pair
        return sorted(found.items())

    @cached_property
    def drop_set(self) -> frozenset[int]:
        return frozenset(self.drop)

    @property
    def summary(self) -> str:
        """A sentence or two, fit for a paper."""
        total = len(self.images)
        told = {kind: count for kind, count in self.kinds.items() if count and kind is not Kind.UNCONFIRMED}
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in told.items())
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
        """Plain values for JSON."""
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
    """Indices of the images to drop, so that no picture is left twice.

    Args:
        pairs: those that are not confirmed drop nothing.
        keep: of copies in several splits, the one in the first of these stays; of copies in one split the first.
    """
    pairs = [pair for pair in pairs if pair.kind is not Kind.UNCONFIRMED]
    if against is not None:
        return tuple(sorted({pair.first for pair in pairs}))
    rank = {split: place for place, split in enumerate(keep)}
    dropped: list[int] = []
    for group in _groups(pairs):
        best = min(group, key=lambda image: (rank.get(images.split_of(image), len(rank)), image))
        dropped += [image for image in group if image != best]
    return tuple(sorted(dropped))


def _groups(pairs: Iterable[DuplicatePair]) -> list[list[int]]:
    """Images that pairs join, directly or over others."""
    parent: dict[int, int] = {}

    def root(image: int) -> int:
        parent.setdefault(image, image)
        while parent[image] != image:
            parent[image] = parent[parent[image]]
            image = parent[image]
        return image

    for pair in pairs:
        one, other = root(pair.first), root(pair.second)
        parent[max(one, other)] = min(one, other)
    members: dict[int, list[int]] = {}
    for image in parent:
        members.setdefault(root(image), []).append(image)
    return list(members.values())
