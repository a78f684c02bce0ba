"""Find duplicates of images within a set, between its splits, and against another set.

Implements: 1. images whose files are equal, by their content keys
            2. candidates: for every image the few others whose features are most similar (`near_pairs`)
            3. each candidate is confirmed, or not, by the pictures themselves (`compare`)
Reason:     features find an edited copy among a million images, but also call two photographs of one thing
            similar; pictures distinguish these, but cannot be compared all with all. So precision is that of the
            pictures, and recall is bounded by that of the features

Features:   rows (n, d), others (m, d), of any floating type, in memory or on the disk; at most k pairs per row. All
            products are computed, so nothing above the threshold is missed but what a row has k better ones for.
            Within one set each product serves both rows, so half of them are computed
Cost:       n m d multiplications (half within one set). Memory: two blocks of rows, one block of products (all three
            within `memory`), and 12 n k bytes for the pairs: 120 MB for a million rows and k = 10
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from unseen.core.arrays import AnyArray, Float32Array, IntArray
from unseen.core.errors import DataError
from unseen.core.guard import read_patiently
from unseen.data.duplicates.comparison import Agreement, Kind, compare
from unseen.data.duplicates.report import DuplicatePair, DuplicateReport, ImageSet, Rows, to_drop
from unseen.data.duplicates.signature import Signature, signature

#: Least cosine of features for a candidate, and candidates per image.
THRESHOLD = 0.6
MOST = 5
#: Least cosine if only features are available.
ALONE = 0.95

_CHUNK = 256
_BYTES_PER_PICTURE = 20_000
_WIDEST = 8_192


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
        images: the set to search.
        against: another set, such as a model's training images. Then pairs between the two are searched, not within.
        threshold: least cosine of features for a candidate.
        most: candidates per image.
        alone: least cosine for a pair of kind "not confirmed", if the images of a set are not available.
        parts: also look for crops, which is nearly all of the cost: tens of milliseconds per candidate.
        keep: of copies in several splits, the one in the first of these stays; the others are to be dropped.
        workers: threads that decode and compare.
        memory: bytes for blocks of features, and as many again for the cached pictures.
        progress: called with (stage, done, total).
    """
    report = progress or (lambda stage, done, total: None)
    with ThreadPoolExecutor(workers) as pool:
        pairs = _equal_files(images, against, pool)
        candidates = near_pairs(
            images.features,
            None if against is None else against.features,
            threshold=threshold,
            most=most,
            memory=memory,
            progress=lambda done, total: report("features", done, total),
        )
        gallery = _Gallery(images, against, memory // _BYTES_PER_PICTURE, pool)
        known = {(pair.first, pair.second) for pair in pairs}
        if not gallery.complete:
            alike = candidates.rows(np.flatnonzero(candidates.similarity >= alone))
            pairs += [DuplicatePair(a, b, Kind.UNCONFIRMED, s, None) for a, b, s in alike if (a, b) not in known]
        # By the first image, so that its picture is cached for all comparisons with it.
        order = np.lexsort((candidates.second, candidates.first))
        for start in range(0, len(order), _CHUNK) if gallery.complete else ():
            chunk = candidates.rows(order[start : start + _CHUNK])
            open_pairs = [(a, b, similar) for a, b, similar in chunk if (a, b) not in known]
            for (a, b, similar), found in zip(open_pairs, gallery.compare(open_pairs, parts=parts), strict=True):
                if found is not None:
                    pairs.append(DuplicatePair(a, b, found.kind, similar, found.correlation))
            report("pictures", start + len(chunk), len(candidates))
    kinds = list(Kind)
    pairs.sort(key=lambda p: (kinds.index(p.kind), -(p.correlation or p.similarity or 0.0), p.first, p.second))
    dropped = to_drop(images, against, pairs, keep)
    compared = len(candidates) if gallery.complete else 0
    return DuplicateReport(images, against, tuple(pairs), dropped, compared, gallery.unreadable)


def _equal_files(images: ImageSet, against: ImageSet | None, pool: ThreadPoolExecutor) -> list[DuplicatePair]:
    """Return pairs of equal files: each copy with the first of its kind."""
    if images.content_key is None or (against is not None and against.content_key is None):
        return []
    first: dict[bytes, int] = {}
    if against is not None and against.content_key is not None:
        for j, key in enumerate(pool.map(against.content_key, range(len(against)))):
            first.setdefault(key, j)
    pairs = []
    for i, key in enumerate(pool.map(images.content_key, range(len(images)))):
        j = first.setdefault(key, i) if against is None else first.get(key, -1)
        if against is not None and j >= 0:
            pairs.append(DuplicatePair(i, j, Kind.EXACT, None, 1.0))
        elif against is None and j != i:
            pairs.append(DuplicatePair(j, i, Kind.EXACT, None, 1.0))
    return pairs


class _Gallery:
    """A cache of signatures, which drops the least recently used ones."""

    def __init__(self, images: ImageSet, against: ImageSet | None, most: int, pool: ThreadPoolExecutor) -> None:
        self._sets = (images, images if against is None else against)
        self._second = int(against is not None)
        self._most = max(2 * _CHUNK, most)
        self._pool = pool
        self._cached: OrderedDict[tuple[int, int], Signature | None] = OrderedDict()
        self.unreadable: dict[str, str] = {}
        self.complete = all(each.open is not None for each in self._sets)

    def compare(self, pairs: Sequence[tuple[int, int, float]], *, parts: bool) -> Iterator[Agreement | None]:
        """Return the agreement of each pair, in order."""
        keys = [((0, a), (self._second, b)) for a, b, _ in pairs]
        wanted = dict.fromkeys(key for pair in keys for key in pair)
        missing = [key for key in wanted if key not in self._cached]
        self._cached |= zip(missing, self._pool.map(self._make, missing), strict=True)
        for key in wanted:
            self._cached.move_to_end(key)
        found = [(self._cached[one], self._cached[other]) for one, other in keys]
        while len(self._cached) > self._most:
            self._cached.popitem(last=False)

        def agreement(pair: tuple[Signature | None, Signature | None]) -> Agreement | None:
            a, b = pair
            return compare(a, b, parts=parts) if a is not None and b is not None else None

        return self._pool.map(agreement, found)

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


@dataclass(frozen=True, eq=False)
class NearPairs:
    """Pairs of rows, each once, from the most to the least similar.

    Attributes:
        first: (p,) row of the set.
        second: (p,) row of the other set, or a later row of the same one.
        similarity: (p,) cosine.
    """

    first: IntArray
    second: IntArray
    similarity: Float32Array

    def __len__(self) -> int:
        return len(self.first)

    def rows(self, chosen: IntArray) -> list[tuple[int, int, float]]:
        """Return some pairs as tuples of Python numbers."""
        columns = (each[chosen].tolist() for each in (self.first, self.second, self.similarity))
        return list(zip(*columns, strict=True))


def near_pairs(
    rows: Rows,
    others: Rows | None = None,
    *,
    threshold: float,
    most: int = 10,
    memory: int = 256 << 20,
    progress: Callable[[int, int], None] | None = None,
) -> NearPairs:
    """Return the pairs whose cosine is at least `threshold`, at most the `most` best of every row.

    Args:
        rows: features of a set.
        others: features of another set; None looks for pairs within the first.
        threshold: least cosine.
        most: how many pairs a row may have; within one set, with rows before it and as many with rows after it.
        memory: bytes for the blocks.
        progress: called with (blocks done, all blocks) after each block.
    """
    within = others is None
    second = rows if others is None else others
    if len(rows.shape) != 2 or len(second.shape) != 2 or rows.shape[1] != second.shape[1]:
        raise DataError(
            f"features of shape {tuple(rows.shape)} and {tuple(second.shape)} cannot be compared: both need the same "
            "model, so that they have the same dimensions."
        )
    if most < 1:
        raise DataError(f"each image needs room for at least one pair, not {most}.")
    height, width = _block_sizes(rows.shape[1], memory)
    best, best_before = (_Best(each.shape[0], most, threshold) for each in (rows, second))
    starts = [
        (top, left)
        for top in range(0, rows.shape[0], height)
        for left in range(0, second.shape[0], width)
        if not within or left + width > top
    ]
    block, loaded = np.empty((0, 0), np.float32), -1
    for done, (top, left) in enumerate(starts, start=1):
        if top != loaded:
            block, loaded = _unit(rows[top : top + height]), top
        products = block @ _unit(second[left : left + width]).T
        if within:
            # Only pairs whose second row comes after the first.
            products[np.tri(len(block), products.shape[1], top - left, np.bool_)] = -np.inf
            best_before.offer(products.T, left, top)
        best.offer(products, top, left)
        if progress is not None:
            progress(done, len(starts))
    found = best.found()
    if within:
        back, forth, again = best_before.found()
        joined = np.concatenate([found[:2], [forth, back]], axis=1)
        pairs, once = np.unique(joined, axis=1, return_index=True)
        found = (pairs[0], pairs[1], np.concatenate([found[2], again])[once])
    first, later, similarity = found
    order = np.lexsort((later, first, -similarity))
    return NearPairs(first[order], later[order], np.minimum(similarity[order], np.float32(1.0)))


def _block_sizes(dimension: int, memory: int) -> tuple[int, int]:
    """Return the rows of the two blocks, so that they, their float32 copies and their products fit into `memory`."""
    size = 16
    # The first block is four times as high: it is read once, the second once per first block.
    while size < _WIDEST and 4 * (2 * (4 * size + size) * dimension + 2 * 4 * size * size) <= memory // 2:
        size *= 2
    return 4 * size, size


def _unit(rows: AnyArray) -> Float32Array:
    """Return rows of length one; zeros for a row of zeros or with a value that is no number."""
    block = np.array(rows, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        norm = np.linalg.norm(block, axis=1, keepdims=True)
    known = np.isfinite(norm) & (norm > 0)
    np.divide(block, norm, out=block, where=known)
    block[~known[:, 0]] = 0.0
    return block


class _Best:
    """The greatest products of every row, from greatest to least; unused places have a value below the threshold."""

    def __init__(self, rows: int, most: int, threshold: float) -> None:
        self.most = most
        self.similarity = np.full((rows, most), np.nextafter(np.float32(threshold), np.float32(-np.inf)))
        self.place = np.full((rows, most), -1, np.int64)

    def offer(self, products: Float32Array, top: int, left: int) -> None:
        """Add the products of a block whose first row and column are `top` and `left`."""
        least = self.similarity[top : top + len(products), -1]
        active = np.flatnonzero(products.max(axis=1, initial=-np.inf) > least)
        kept = min(self.most, products.shape[1])
        # A few rows at a time: if most rows have pairs, their copies would be a second block of products.
        for part in np.array_split(active, max(1, len(active) // 256)) if len(active) else ():
            rows = top + part
            columns = np.argpartition(-products[part], kept - 1, axis=1)[:, :kept]
            new = np.take_along_axis(products[part], columns, axis=1)
            values = np.concatenate([self.similarity[rows], new], axis=1)
            places = np.concatenate([self.place[rows], columns + left], axis=1)
            order = np.argsort(-values, axis=1, kind="stable")[:, : self.most]
            self.similarity[rows] = np.take_along_axis(values, order, axis=1)
            self.place[rows] = np.take_along_axis(places, order, axis=1)

    def found(self) -> tuple[IntArray, IntArray, Float32Array]:
        row, column = np.nonzero(self.place >= 0)
        return row.astype(np.int64), self.place[row, column], self.similarity[row, column]
