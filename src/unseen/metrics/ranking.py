"""How well a ranking measure orders checkpoints: the metrics of NeuCRaB, each averaged over tasks.

Papers:     Li et al., "Ranking neural checkpoints" (NeuCRaB), section 2.3, CVPR 2021 [P]; weighted tau: Vigna, "A
            weighted correlation index for rankings with ties", WWW 2015, as scipy computes it
Shapes:     scores, accuracies: one number per checkpoint (m,), or one such list per task (tasks of any size)
Implements: Recall@k, Rel@k, Pearson's r and Kendall's tau (tau-b) of [P]
Differs:    checkpoints of equal score share their places: Recall@k and Rel@k are then expectations over their order, so
            that a constant score gets what chance gives it. A correlation with a constant is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unseen import stats
from unseen.core.arrays import BoolArray, FloatArray
from unseen.core.errors import DataError
from unseen.stats.interval import finite_lists

#: One task, or several.
Tasks = ArrayLike | Sequence[ArrayLike]


def recall_at_k(scores: Tasks, accuracies: Tasks, k: int = 1) -> float:
    """Return the share of tasks whose checkpoint of the highest accuracy is among the `k` of the highest scores."""
    return _over_tasks(scores, accuracies, lambda s, a: _recall(s, a, k))


def relative_accuracy_at_k(scores: Tasks, accuracies: Tasks, k: int = 1) -> float:
    """Return the best accuracy of the `k` checkpoints of the highest scores, over the best of all; mean over tasks."""
    return _over_tasks(scores, accuracies, lambda s, a: _relative(s, a, k))


def pearson(scores: Tasks, accuracies: Tasks) -> float:
    """Return Pearson's linear correlation, mean over tasks."""
    return _over_tasks(scores, accuracies, lambda s, a: stats.correlation_interval(s, a).value)


def kendall_tau(scores: Tasks, accuracies: Tasks) -> float:
    """Return Kendall's rank correlation (tau-b), mean over tasks."""
    return _over_tasks(scores, accuracies, stats.kendall_tau)


def weighted_tau(scores: Tasks, accuracies: Tasks) -> float:
    """Return Kendall's rank correlation with the top of the ranking weighing most, mean over tasks."""

    def one(first: FloatArray, second: FloatArray) -> float:
        from scipy.stats import weightedtau

        return float(weightedtau(first, second).statistic) if np.ptp(first) and np.ptp(second) else float("nan")

    return _over_tasks(scores, accuracies, one)


def _over_tasks(scores: Tasks, accuracies: Tasks, metric: Callable[[FloatArray, FloatArray], float]) -> float:
    first, second = _tasks(scores), _tasks(accuracies)
    if len(first) != len(second):
        raise DataError(f"scores and accuracies must be of the same tasks; found {len(first)} and {len(second)} tasks.")
    return float(np.mean([metric(*finite_lists(*task, least=2)) for task in zip(first, second, strict=True)]))


def _tasks(values: Tasks) -> list[ArrayLike]:
    """Return one list per task."""
    listed: list[Any] = list(values) if isinstance(values, Sequence | np.ndarray) else [values]
    return listed if listed and np.ndim(listed[0]) else [listed]


def _chosen(scores: FloatArray, k: int) -> tuple[BoolArray, BoolArray, int]:
    """Return which are surely among the first k, which share the last places, and how many places those are."""
    if k < 1:
        raise DataError(f"k counts the checkpoints that may be tried: at least 1, not {k}.")
    k = min(k, len(scores))
    last = np.sort(scores)[-k]
    sure = scores > last
    return sure, scores == last, k - int(sure.sum())


def _recall(scores: FloatArray, accuracies: FloatArray, k: int) -> float:
    sure, tied, places = _chosen(scores, k)
    best = accuracies == accuracies.max()
    if (best & sure).any():
        return 1.0
    size, hits = int(tied.sum()), int((best & tied).sum())
    return 1 - comb(size - hits, places) / comb(size, places)


def _relative(scores: FloatArray, accuracies: FloatArray, k: int) -> float:
    sure, tied, places = _chosen(scores, k)
    floor = float(accuracies[sure].max()) if sure.any() else -np.inf
    # The best of `places` out of the tied: it is the i-th from below in comb(i, places - 1) of all choices.
    group = np.sort(accuracies[tied])
    expected = sum(
        comb(i, places - 1) * max(float(value), floor) for i, value in enumerate(group) if i >= places - 1
    ) / comb(len(group), places)
    return expected / float(accuracies.max())
