"""Means over tasks with their uncertainty, from a few repeats of each.

Paper:      Zhai et al., 2019 [P], section 3.1 (median of three seeds) and Figure 3 (bootstrap over the repeats)
Shapes:     runs: one sequence of scores per task; numbers of repeats may differ
Implements: value = mean over tasks of the median over repeats; interval = the same over resampled repeats
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unseen.core.errors import DataError
from unseen.metrics.significance import RESAMPLES, Interval


def task_mean(
    runs: Sequence[Sequence[float]], *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """The mean over tasks of the median over repeats; single runs give an interval of no width."""
    if not runs or any(not len(repeats) for repeats in runs):
        raise DataError("a mean over tasks needs at least one task, and one run of each.")
    generator = np.random.default_rng(seed)
    drawn = np.zeros(resamples)
    for repeats in runs:
        values = np.asarray(repeats, np.float64)
        picks = generator.integers(len(values), size=(resamples, len(values)))
        drawn += np.median(values[picks], axis=1)
    low, high = np.quantile(drawn / len(runs), [(1 - level) / 2, (1 + level) / 2])
    value = float(np.mean([np.median(repeats) for repeats in runs]))
    return Interval(value, float(low), float(high), level)


def group_means(
    runs: Mapping[str, Sequence[float]], groups: Mapping[str, str], *, seed: int = 0
) -> dict[str, Interval]:
    """Group to the mean of its tasks, in order of first appearance, and "all" last.

    Args:
        runs: task to scores of its repeats.
        groups: task to group.
    """
    names = list(dict.fromkeys(groups[task] for task in runs))
    found = {name: task_mean([runs[t] for t in runs if groups[t] == name], seed=seed) for name in names}
    return found | {"all": task_mean(list(runs.values()), seed=seed)}
