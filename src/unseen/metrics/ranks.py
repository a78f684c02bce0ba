"""Ranks of methods over datasets: rank matrices, Friedman's test, Nemenyi's critical difference, the paired t-test.

Papers:     Xian et al., TPAMI 2018, Figs. 4 and 7 [P]; Demsar, "Statistical comparisons of classifiers over multiple
            data sets", JMLR 2006 [D]; Garcia & Herrera, JMLR 2008
Shapes:     values (methods, observations), greater is better
Implements: mean ranks with ties shared; [D] section 3.2.2, Friedman's chi-square with the correction for ties, Iman and
            Davenport's F, and Nemenyi's critical difference
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import FloatArray, IntArray
from unseen.core.errors import DataError
from unseen.stats.interval import full_table, same_length


@dataclass(frozen=True)
class RankTable:
    """Methods ranked over observations, best mean rank first.

    Attributes:
        methods: names.
        ranks: (methods, observations) from 1, the best; tied methods share the mean of their ranks.
        counts: (methods, methods): how often method i is at rank j; tied methods share the better rank.
    """

    methods: tuple[str, ...]
    ranks: FloatArray
    counts: IntArray

    @property
    def mean_ranks(self) -> FloatArray:
        return np.asarray(self.ranks.mean(axis=1))

    def place(self, method: str) -> int:
        """Return the place of a method by mean rank, from 1; methods with equal mean ranks share the better place."""
        means = self.mean_ranks
        return 1 + int((means < means[self.methods.index(method)] - 1e-9).sum())


@dataclass(frozen=True)
class Friedman:
    """Result of Friedman's test, that all methods are alike.

    Attributes:
        statistic, p_value: chi-square with the correction for ties.
        f_statistic, f_p_value: Iman and Davenport's, less conservative; infinite and 0 where ranks never differ.
    """

    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float


@dataclass(frozen=True)
class PairedTTest:
    """Mean difference of pairs, Student's t and the two-sided p-value."""

    difference: float
    statistic: float
    p_value: float
    pairs: int


def rank_methods(methods: Sequence[str], values: ArrayLike) -> RankTable:
    """Rank methods within each observation.

    Args:
        methods: one name per row.
        values: (methods, observations), no gaps.
    """
    from scipy.stats import rankdata

    table = full_table(values, least=(max(2, len(methods)), 1))
    ranks = rankdata(-table, axis=0)
    best = rankdata(-table, axis=0, method="min").astype(np.int64)
    order = np.lexsort((np.arange(len(methods)), ranks.mean(axis=1)))
    counts = np.stack([np.bincount(row - 1, minlength=len(methods)) for row in best])
    return RankTable(tuple(methods[i] for i in order), np.asarray(ranks[order]), np.asarray(counts[order]))


def friedman_test(table: RankTable) -> Friedman:
    """Return Friedman's test over the ranks of a table of three methods and two observations at least."""
    from scipy.stats import f, friedmanchisquare

    k, n = table.ranks.shape
    if k < 3 or n < 2:
        raise DataError(f"Friedman's test needs 3 methods and 2 observations at least; found {k} and {n}.")
    if not np.ptp(table.ranks, axis=0).any():  # all methods are tied in every observation
        return Friedman(0.0, 1.0, 0.0, 1.0)
    statistic, p_value = friedmanchisquare(*table.ranks)
    left = n * (k - 1) - statistic
    f_statistic = (n - 1) * statistic / left if left > 1e-12 else np.inf
    f_p = float(f.sf(f_statistic, k - 1, (k - 1) * (n - 1))) if np.isfinite(f_statistic) else 0.0
    return Friedman(float(statistic), float(p_value), float(f_statistic), f_p)


def nemenyi_difference(methods: int, observations: int, *, level: float = 0.05) -> float:
    """Return Nemenyi's critical difference of mean ranks at `level`, over all pairs at once."""
    from scipy.stats import studentized_range

    quantile = float(studentized_range.ppf(1 - level, methods, np.inf)) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * observations)))


def paired_t_test(first: ArrayLike, second: ArrayLike) -> PairedTTest:
    """Return Student's two-sided paired t-test of two equally long lists."""
    from scipy.stats import ttest_rel

    a, b = same_length(first, second, least=2)
    found = ttest_rel(a, b)
    return PairedTTest(float(np.mean(a - b)), float(found.statistic), float(found.pvalue), len(a))
