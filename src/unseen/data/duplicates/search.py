"""Duplicates of images within a set, between its splits, and against another set.

Implements: 1. images whose files are equal, by their content keys
            2. candidates: for every image the few others whose features are most alike (`near_pairs`)
            3. each candidate is confirmed, or not, by the pictures themselves (`compare`)
Why so:     features find a copy among a million, whatever was done to it, but call two photographs of one thing alike
            too; pictures tell these apart, but cannot be compared all with all. So precision is that of the pictures,
            and recall is bounded by that of the features
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from unseen.core.errors import DataError
from unseen.core.guard import read_patiently
from unseen.data.duplicates.comparison import Agreement, Kind, compare
from unseen.data.duplicates.images import ImageSet
from unseen.data.duplicates.neighbours import NearPairs, near_pairs
from unseen.data.duplicates.report import DuplicatePair, DuplicateReport, to_drop
from unseen.data.duplicates.signature import Signature, signature

#: Least cosine of features for a candidate, and candidates per image.
THRESHOLD = 0.6
MOST = 5
#: Least cosine where features are all there is.
ALONE = 0.95

_CHUNK = 256
_BYTES_PER_PICTURE = 20_000


def find_duplicates(
    images: ImageSet,
    against: ImageSet | None = None,
    *,
    threshold: float = THRESHOLD,
    most: int = MOST,
    alone: float = ALONE,
    parts: bool = True,
    keep: Sequence[str] = ("test", "val", "train"),
    workers: int = 2,
    memory: int = 256 << 20,
    progress: Callable[[str, int, int], None] | None = None,
) -> DuplicateReport:
    """Find the copies among images.

    Args:
        images: the set that is looked at.
        against: another set, such as what a model was trained on. Then pairs between the two are sought, not within.
        threshold: least cosine of features for a candidate.
        most: candidates per image.
        alone: least cosine for a pair of kind "not confirmed", where the images of a set are not at hand.
        parts: also look for crops, which is nearly all of the cost: tens of milliseconds per candidate.
        keep: of copies in several splits, the one in the first of these stays; the others are to be dropped.
        workers: threads that decode and compare.
        memory: bytes for blocks of features, and as many again for the pictures at hand.
        progress: is told (stage, done, in all) as work goes on.
    """
    tell = progress or (lambda stage, done, total: None)
    with ThreadPoolExecutor(workers) as pool:
        pairs = _equal_files(images, against, pool)
        candidates = near_pairs(
            images.features,
            None if against is None else against.features,
            threshold=threshold,
            most=most,
            memory=memory,
            progress=lambda done, total: tell("features", done, total),
        )
        gallery = _Gallery(images, against, memory // _BYTES_PER_PICTURE, pool)
        known = {(pair.first, pair.second) for pair in pairs}
        if not gallery.complete:
            pairs += _by_features(candidates, alone, known)
        done = 0
        for chunk in _chunks(candidates) if gallery.complete else ():
            asked = [(a, b, similar) for a, b, similar in chunk if (a, b) not in known]
            for (a, b, similar), found in zip(asked, gallery.compare(asked, parts=parts), strict=True):
                if found is not None:
                    pairs.append(DuplicatePair(a, b, found.kind, similar, found.correlation))
            done += len(chunk)
            tell("pictures", done, len(candidates))
    order = list(Kind)
    pairs.sort(key=lambda p: (order.index(p.kind), -(p.correlation or p.similarity or 0.0), p.first, p.second))
    dropped = to_drop(images, against, pairs, keep)
    compared = len(candidates) if gallery.complete else 0
    return DuplicateReport(images, against, tuple(pairs), dropped, compared, gallery.unreadable)


def _equal_files(images: ImageSet, against: ImageSet | None, pool: ThreadPoolExecutor) -> list[DuplicatePair]:
    """Pairs of equal files: each copy with the first of its kind."""
    if images.content_key is None or (against is not None and against.content_key is None):
        return []
    holder: dict[bytes, int] = {}
    if against is not None and against.content_key is not None:
        for j, key in enumerate(pool.map(against.content_key, range(len(against)))):
            holder.setdefault(key, j)
    pairs = []
    for i, key in enumerate(pool.map(images.content_key, range(len(images)))):
        if against is None:
            first = holder.setdefault(key, i)
            if first != i:
                pairs.append(DuplicatePair(first, i, Kind.EXACT, None, 1.0))
        elif key in holder:
            pairs.append(DuplicatePair(i, holder[key], Kind.EXACT, None, 1.0))
    return pairs


def _by_features(candidates: NearPairs, alone: float, known: Collection[tuple[int, int]]) -> list[DuplicatePair]:
    """Candidates that are so alike that they are told, though no picture confirms them."""
    alike = np.flatnonzero(candidates.similarity >= alone)
    rows = zip(
        *(side[alike].tolist() for side in (candidates.first, candidates.second, candidates.similarity)), strict=True
    )
    return [DuplicatePair(a, b, Kind.UNCONFIRMED, similar, None) for a, b, similar in rows if (a, b) not in known]


def _chunks(candidates: NearPairs) -> Iterator[list[tuple[int, int, float]]]:
    """Candidates by the first image, so that a picture is at hand for all that it is compared with."""
    order = np.lexsort((candidates.second, candidates.first))
    for start in range(0, len(order), _CHUNK):
        rows = order[start : start + _CHUNK]
        columns = (candidates.first[rows], candidates.second[rows], candidates.similarity[rows])
        yield list(zip(*(column.tolist() for column in columns), strict=True))


class _Gallery:
    """Signatures of the images at hand; the least recently used ones make room."""

    def __init__(self, images: ImageSet, against: ImageSet | None, most: int, pool: ThreadPoolExecutor) -> None:
        self._sets = (images, images if against is None else against)
        self._two = against is not None
        self._most = max(2 * _CHUNK, most)
        self._pool = pool
        self._held: OrderedDict[tuple[int, int], Signature | None] = OrderedDict()
        self.unreadable: dict[str, str] = {}
        self.complete = all(each.open is not None for each in self._sets)

    def compare(self, asked: Sequence[tuple[int, int, float]], *, parts: bool) -> Iterator[Agreement | None]:
        """The verdict on each pair, in order."""
        keys = [((0, a), (int(self._two), b)) for a, b, _ in asked]
        wanted = dict.fromkeys(key for pair in keys for key in pair)
        missing = [key for key in wanted if key not in self._held]
        for key, made in zip(missing, self._pool.map(self._make, missing), strict=True):
            self._held[key] = made
        for key in wanted:
            self._held.move_to_end(key)
        found = [(self._held[one], self._held[other]) for one, other in keys]
        while len(self._held) > self._most:
            self._held.popitem(last=False)
        return self._pool.map(lambda pair: _verdict(*pair, parts=parts), found)

    def _make(self, key: tuple[int, int]) -> Signature | None:
        which, image = key
        source = self._sets[which]
        opened = source.open
        assert opened is not None
        try:
            return read_patiently(lambda: signature(opened(image)), source.names[image])
        except (DataError, OSError) as error:
            self.unreadable[source.names[image]] = str(error)
            return None


def _verdict(a: Signature | None, b: Signature | None, *, parts: bool) -> Agreement | None:
    return compare(a, b, parts=parts) if a is not None and b is not None else None
