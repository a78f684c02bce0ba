"""Seeded samples that keep classes in proportion."""

from __future__ import annotations

import numpy as np

from unseen.ranking.inputs import IntArray


def stratified_rows(index: IntArray, size: int, seed: int) -> IntArray:
    """Return the row numbers, ascending, of a sample of `size` rows with every class in proportion.

    Rows are taken by their relative place in a random order of their class: a class loses its last row only when there
    are fewer places than classes.
    """
    order, by_class, counts, within = _shuffled(index, seed)
    place = np.empty(len(index))
    # The first of every class comes before the second of any, then in proportion.
    place[by_class] = np.where(within == 0, 0.0, (within + 0.5) / np.repeat(counts, counts))
    chosen = order[np.argsort(place[order], kind="stable")[: min(size, len(index))]]
    return np.sort(chosen).astype(np.int64)


def split_rows(index: IntArray, share: float, seed: int) -> tuple[IntArray, IntArray]:
    """Return row numbers of training and held-out rows: `share` of every class is held out, never its only row."""
    _, by_class, counts, within = _shuffled(index, seed)
    held = np.minimum(np.maximum(np.rint(counts * share), 1), counts - 1)
    out = within < np.repeat(held, counts)
    return np.sort(by_class[~out]).astype(np.int64), np.sort(by_class[out]).astype(np.int64)


def _shuffled(index: IntArray, seed: int) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return a random order of the rows, the same order sorted by class, rows per class, and places in the class."""
    order = np.random.default_rng(seed).permutation(len(index))
    counts = np.bincount(index)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    within = np.arange(len(index)) - np.repeat(starts, counts)
    return order, order[np.argsort(index[order], kind="stable")], counts, within


def stratified_folds(index: IntArray, folds: int, seed: int) -> IntArray:
    """Return the fold that holds each row out, stratified by class; -1 for the only row of a class.

    There are no more folds than the largest class has rows.
    """
    counts = np.bincount(index)
    order = np.random.default_rng([seed, 5]).permutation(len(index))
    order = order[np.argsort(index[order], kind="stable")]
    found = np.empty(len(index), np.int64)
    # Neighbours of one class fall into different folds.
    found[order] = np.arange(len(index)) % max(2, min(folds, int(counts.max())))
    found[counts[index] == 1] = -1
    return found
