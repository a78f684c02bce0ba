"""Several datasets as one, whose features stay those of each: ImageNet-1K and the unseen concepts of ImageNet-21K."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from unseen.core.errors import DataError
from unseen.core.identity import digest
from unseen.core.records import DatasetCard
from unseen.data.dataset import CLASS, Dataset, Split


@dataclass(frozen=True, eq=False, repr=False)
class JoinedSplit(Split):
    """The images of several datasets, one after the other.

    Attributes:
        members: the datasets and the names of their splits: what features are extracted from, and stored under. A part
            of a joined split, such as `take` gives, is a split like any other.
    """

    members: tuple[tuple[Dataset, str], ...] = ()

    def _compute_fingerprint(self) -> str:
        return digest([member.split(name).fingerprint for member, name in self.members], length=32)


def join_datasets(card: DatasetCard, members: Sequence[Dataset]) -> Dataset:
    """One dataset with the classes of all, those of the first member first, and the splits that all of them have.

    Raises:
        DataError: two members have a class with the same WordNet id.
    """
    if odd := next((member for member in members if member.target != CLASS), None):
        raise DataError(f"{card.id!r}: {odd.id!r} has no classes, so it cannot be joined with others.")
    wnids = [wnid for member in members for wnid in (member.wnids or [None] * len(member.class_names))]
    known = [wnid for wnid in wnids if wnid is not None]
    if len(set(known)) < len(known):
        twice = next(wnid for i, wnid in enumerate(known) if wnid in known[:i])
        raise DataError(f"{card.id!r}: {twice} is a class of two of its parts ({', '.join(m.id for m in members)}).")
    shared = [name for name in members[0].splits if all(name in member.splits for member in members)]
    return Dataset(
        card=card,
        class_names=[name for member in members for name in member.class_names],
        wnids=wnids,
        splits={name: _join(members, name) for name in shared},
    )


def _join(members: Sequence[Dataset], name: str) -> JoinedSplit:
    parts = [member.split(name) for member in members]
    first = np.cumsum([0, *(len(member.class_names) for member in members)])
    ends = np.cumsum([len(part) for part in parts])

    def find(i: int) -> tuple[Split, int]:
        number = int(np.searchsorted(ends, i, side="right"))
        return parts[number], i - int(ends[number]) + len(parts[number])

    def open_one(i: int) -> Image.Image:
        part, row = find(i)
        return part.open(row)

    def content_key(i: int) -> bytes:
        part, row = find(i)
        return part.content_key(row) if part.content_key else f"{part.fingerprint}:{row}".encode()

    return JoinedSplit(
        names=[each for part in parts for each in part.names],
        labels=np.concatenate([part.labels + start for part, start in zip(parts, first, strict=False)]),
        open=open_one,
        content_key=content_key,
        members=tuple((member, name) for member in members),
    )
