"""Pairs of rows that are alike: the greatest cosines of every row, by blocked matrix products in bounded memory.

Shapes:     rows (n, d), others (m, d), of any floating type, in memory or on the disk; at most k pairs per row
Implements: all products are taken, none is skipped, so nothing above the threshold is missed but what a row has k
            better ones for. Within one set each product serves both rows, so half of them are taken
Cost:       n m d multiplications (half within one set). Memory: two blocks of rows, one block of products (all three
            within `memory`), and 12 n k bytes for what was found: 120 MB for a million rows and k = 10
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

_WIDEST = 8_192


class Rows(Protocol):
    """An (n, d) array, or anything that gives blocks of one, such as features in the store."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: slice, /) -> npt.NDArray[Any]: ...


@dataclass(frozen=True, eq=False)
class NearPairs:
    """Pairs of rows, each once, from the most to the least alike.

    Attributes:
        first: (p,) row of the set.
        second: (p,) row of the other set, or a later row of the same one.
        similarity: (p,) cosine.
    """

    first: IntArray
    second: IntArray
    similarity: FloatArray

    def __len__(self) -> int:
        return len(self.first)


def near_pairs(
    rows: Rows,
    others: Rows | None = None,
    *,
    threshold: float,
    most: int = 10,
    memory: int = 256 << 20,
    progress: Callable[[int, int], None] | None = None,
) -> NearPairs:
    """The pairs whose cosine is at least `threshold`, at most the `most` best of every row.

    Args:
        rows: features of a set.
        others: features of another set; None looks for pairs within the first.
        threshold: least cosine.
        most: how many pairs a row may have; within one set, with rows before it and as many with rows after it.
        memory: bytes for the blocks at hand.
        progress: is told (blocks done, blocks in all) after each block.
    """
    within = others is None
    second = rows if others is None else others
    _check(rows, second, most)
    count, other_count, dimension = rows.shape[0], second.shape[0], rows.shape[1]
    height, width = _block_sizes(dimension, memory)
    best = _Best(count, most, threshold)
    best_of_others = _Best(other_count, most, threshold) if within else None
    starts = [
        (top, left)
        for top in range(0, count, height)
        for left in range(0, other_count, width)
        if not within or left + width > top
    ]
    block, held = np.empty((0, dimension), np.float32), -1
    for done, (top, left) in enumerate(starts, start=1):
        if top != held:
            block, held = _unit(rows[top : top + height]), top
        products = block @ _unit(second[left : left + width]).T
        if best_of_others is not None:
            _drop_repeats(products, top, left)
            best_of_others.offer(products.T, left, top)
        best.offer(products, top, left)
        if progress is not None:
            progress(done, len(starts))
    return _joined(best, best_of_others)


def _check(rows: Rows, others: Rows, most: int) -> None:
    if len(rows.shape) != 2 or len(others.shape) != 2 or rows.shape[1] != others.shape[1]:
        raise DataError(
            f"features of shape {tuple(rows.shape)} and {tuple(others.shape)} cannot be compared: both need the same "
            "model, so that they have the same dimensions."
        )
    if most < 1:
        raise DataError(f"each image needs room for at least one pair, not {most}.")


def _block_sizes(dimension: int, memory: int) -> tuple[int, int]:
    """Rows of the two blocks, so that they, their float32 copies and their products fit into `memory`."""
    size = 16
    # The first block is four times as high: it is read once, the second once per first block.
    while size < _WIDEST and 4 * (2 * (4 * size + size) * dimension + 2 * 4 * size * size) <= memory // 2:
        size *= 2
    return 4 * size, size


def _unit(rows: npt.NDArray[Any]) -> FloatArray:
    """Rows of length one; a row of zeros, or of what is no number, is like nothing."""
    block = np.array(rows, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        norm = np.linalg.norm(block, axis=1, keepdims=True)
    known = np.isfinite(norm) & (norm > 0)
    np.divide(block, norm, out=block, where=known)
    block[~known[:, 0]] = 0.0
    return block


def _drop_repeats(products: FloatArray, top: int, left: int) -> None:
    """Of one set: leave only pairs whose second row comes after the first."""
    height, width = products.shape
    if left < top + height:
        later = np.arange(left, left + width)[None, :] > np.arange(top, top + height)[:, None]
        products[~later] = -np.inf


class _Best:
    """The greatest products of every row so far."""

    def __init__(self, rows: int, most: int, threshold: float) -> None:
        self.most = most
        self.similarity = np.full((rows, most), -np.inf, np.float32)
        self.place = np.full((rows, most), -1, np.int64)
        # What a product must reach to be kept: the threshold, or the least of a full row.
        self.floor = np.full(rows, np.float32(threshold))

    def offer(self, products: FloatArray, top: int, left: int) -> None:
        """Take what is good enough of a block whose first row and column are `top` and `left`."""
        rows = slice(top, top + products.shape[0])
        active = np.flatnonzero(products.max(axis=1, initial=-np.inf) >= self.floor[rows])
        # A few at a time: where most rows have pairs, their copies would be a second block of products.
        for part in np.array_split(active, max(1, len(active) // 256)):
            self._take(products[part], top + part, left)

    def _take(self, products: FloatArray, rows: IntArray, left: int) -> None:
        kept = min(self.most, products.shape[1])
        if not len(rows) or not kept:
            return
        columns = np.argpartition(-products, kept - 1, axis=1)[:, :kept]
        values = np.take_along_axis(products, columns, axis=1)
        good = values >= self.floor[rows][:, None]
        values = np.where(good, values, -np.inf)
        places = np.where(good, columns + left, -1)
        values = np.concatenate([self.similarity[rows], values], axis=1)
        places = np.concatenate([self.place[rows], places], axis=1)
        order = np.argsort(-values, axis=1, kind="stable")[:, : self.most]
        self.similarity[rows] = np.take_along_axis(values, order, axis=1)
        self.place[rows] = np.take_along_axis(places, order, axis=1)
        self.floor[rows] = np.maximum(self.floor[rows], self.similarity[rows, -1])

    def found(self) -> tuple[IntArray, IntArray, FloatArray]:
        row, column = np.nonzero(self.place >= 0)
        return row.astype(np.int64), self.place[row, column], self.similarity[row, column]


def _joined(best: _Best, best_of_others: _Best | None) -> NearPairs:
    first, second, similarity = best.found()
    if best_of_others is not None:
        back, forth, again = best_of_others.found()
        first, second = np.concatenate([first, forth]), np.concatenate([second, back])
        similarity = np.concatenate([similarity, again])
        _, once = np.unique(np.stack([first, second]), axis=1, return_index=True)
        first, second, similarity = first[once], second[once], similarity[once]
    order = np.lexsort((second, first, -similarity))
    return NearPairs(first[order], second[order], np.minimum(similarity[order], np.float32(1.0)))
