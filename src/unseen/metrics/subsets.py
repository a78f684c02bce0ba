"""Which few tasks represent all: exhaustive search, and tests of its result.

Paper:      Zhai et al., 2019 [P], Appendix F (representative subsets) and Appendix N (a left-out task)
Shapes:     S (m, t) scores of methods on tasks, or (r, m, t) for r samples of repeated runs; n = choose(t, k) subsets
Implements: tau of the ranking by the subset's mean with the ranking by the mean of all tasks, for every subset; the
            leave-a-pair-out test; tau of each task with the mean of the others
Differs:    of equally good subsets the leave-a-pair-out test takes the average; [P] does not say which it takes
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import Float32Array, FloatArray, IntArray
from unseen.core.errors import DataError
from unseen.stats.interval import full_table


@dataclass(frozen=True, eq=False)
class SubsetSearch:
    """All subsets with their agreement, best first.

    Attributes:
        subsets: (n, k) task positions.
        taus: (n,) mean over samples; `stds` their standard deviation over samples.
    """

    subsets: IntArray
    taus: FloatArray
    stds: FloatArray

    def tau_of(self, tasks: ArrayLike) -> tuple[float, int]:
        """Return the agreement of one subset, and how many subsets are strictly better."""
        wanted = np.sort(np.asarray(tasks))
        row = np.flatnonzero((self.subsets == wanted).all(axis=1))
        if not len(row):
            raise DataError(f"{wanted.tolist()} is not a subset of {self.subsets.shape[1]} different tasks.")
        tau = float(self.taus[row[0]])
        return tau, int(np.count_nonzero(self.taus > tau + 1e-12))


def search_subsets(scores: ArrayLike, size: int = 5) -> SubsetSearch:
    """Return every subset of `size` tasks and its agreement with the mean of all."""
    samples = _samples(scores)
    subsets, choice = _choices(samples.shape[2], size)
    taus = np.stack(
        [_tau_of_signs(_pair_signs((table @ choice).T), _pair_signs(table.mean(axis=1))) for table in samples]
    )
    mean, std = taus.mean(axis=0), taus.std(axis=0, ddof=1) if len(taus) > 1 else np.zeros(len(subsets))
    order = np.argsort(-mean, kind="stable")
    return SubsetSearch(subsets[order], mean[order], std[order])


def unseen_pair_accuracy(scores: ArrayLike, size: int = 5) -> float:
    """Return how often the best subset of the other methods ranks a held-out pair of methods as all tasks do."""
    table = _samples(scores)[0]
    _, choice = _choices(table.shape[1], size)
    signs, reference = _pair_signs((table @ choice).T), _pair_signs(table.mean(axis=1))
    first, second = np.triu_indices(len(table), 1)
    outcomes = []
    for pair, (i, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        others = ~np.isin(first, (i, j)) & ~np.isin(second, (i, j))
        # Equal counts must not differ by the order of their sums.
        taus = _tau_of_signs(np.ascontiguousarray(signs[:, others]), reference[others]).round(9)
        best = taus == np.nanmax(taus)
        outcomes.append(float(np.mean(signs[best, pair] == reference[pair])))
    return float(np.mean(outcomes))


def left_out_taus(scores: ArrayLike, suite: ArrayLike | None = None) -> FloatArray:
    """Return (t,) tau of the ranking on each task with that by the mean over the other tasks of a suite.

    Args:
        scores: of methods on the tasks to predict.
        suite: positions of the tasks that make up the suite; by default all of them.
    """
    table = _samples(scores)[0]
    members = np.arange(table.shape[1]) if suite is None else np.asarray(suite)
    found = []
    for task in range(table.shape[1]):
        others = members[members != task]
        if not len(others):
            raise DataError("a suite of one task cannot predict that task: give it another.")
        gold, predicted = _pair_signs(table[:, task]), _pair_signs(table[:, others].mean(axis=1))
        found.append(float(_tau_of_signs(gold, predicted)))
    return np.asarray(found)


def _choices(tasks: int, size: int) -> tuple[IntArray, FloatArray]:
    """Return all subsets, and the (t, n) matrix that takes their means."""
    if not 1 <= size <= tasks:
        raise DataError(f"subsets of {size} out of {tasks} tasks: choose a size from 1 to {tasks}.")
    subsets = np.array(list(combinations(range(tasks), size)), np.int64)
    choice = np.zeros((tasks, len(subsets)))
    choice[subsets.T, np.arange(len(subsets))] = 1 / size
    return subsets, choice


def _samples(scores: ArrayLike) -> FloatArray:
    tables = [scores] if np.ndim(scores) == 2 else list(np.asarray(scores))
    return np.stack([full_table(table, least=(3, 1)) for table in tables])


def _pair_signs(scores: ArrayLike) -> Float32Array:
    """Return (..., P): for each of the P = m (m - 1) / 2 pairs of methods which one is ahead: 1, 0 or -1."""
    values = np.asarray(scores, np.float64)
    first, second = np.triu_indices(values.shape[-1], 1)
    return np.sign(values[..., first] - values[..., second]).astype(np.float32)


def _tau_of_signs(left: Float32Array, right: Float32Array) -> FloatArray:
    """Return Kendall's tau-b of many rankings at once, from signs (..., P) and (P,); NaN where all pairs are tied."""
    together = (left @ right).astype(np.float64)
    untied = np.abs(left).sum(axis=-1, dtype=np.float64) * np.abs(right).sum(axis=-1, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(together / np.sqrt(untied))
