"""From scores on many tasks to one ranking of methods.

Papers:     Zhai et al., 2019 [P], section 3.5 and Appendix E; Balduzzi et al., "Re-evaluating evaluation", NeurIPS 2018
            [B]; Shahandashti, "Electoral systems used around the world", 2016 (exhaustive ballot)
Shapes:     S (m, t) scores in percent, a row per method, a column per task; every aggregation gives (m,), higher =
            better. For [B]: B = S - grand mean; y (t,) weights of tasks
Implements: the mean and the seven alternatives of [P]. The weights of [B] (Nash averaging): the antisymmetric game of
            all m + t players, A = [[0, B], [-B', 0]], and its most even equilibrium. It plays tasks alone where they
            can hold every method to the grand mean (B y <= 0): then it is the most even y that does. Where they
            cannot, methods alone are played, and the weights are those of the game of methods against tasks: the most
            even of the y with the least max(B y)
Differs:    what [P] leaves open is stated at each function: ties and the direction of the ballot. [P] names [B] without
            the game, the scale and the table: `tools/balduzzi.py` compares what each reading gives for its Table 4
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import FloatArray
from unseen.core.errors import DataError
from unseen.stats import kendall_tau
from unseen.stats.interval import full_table

Aggregation = Callable[[FloatArray], FloatArray]


def mean_score(scores: ArrayLike) -> FloatArray:
    """Return the mean over tasks: what VTAB ranks by."""
    return np.asarray(full_table(scores).mean(axis=1))


def macro_mean(scores: ArrayLike, labels: Sequence[str]) -> FloatArray:
    """Return the mean over labels of the mean over their tasks: a dataset or a group of tasks counts once."""
    table = full_table(scores)
    if len(labels) != table.shape[1]:
        raise DataError(f"{len(labels)} labels for {table.shape[1]} tasks; one per task is needed.")
    names = np.asarray(labels)
    parts = [table[:, names == name].mean(axis=1) for name in dict.fromkeys(labels)]
    return np.asarray(np.mean(parts, axis=0), np.float64)


def geometric_mean(scores: ArrayLike) -> FloatArray:
    """Return the geometric mean; a method with a score of zero on any task has zero."""
    table = full_table(scores)
    if table.min() < 0:
        raise DataError(f"a geometric mean needs scores that are not negative, found {table.min()}.")
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(np.log(table).mean(axis=1)), np.float64)


def average_rank(scores: ArrayLike) -> FloatArray:
    """Return minus the mean over tasks of the rank (1 is best); equal scores share the mean of their ranks."""
    from scipy.stats import rankdata

    return np.asarray(-rankdata(-full_table(scores), axis=0).mean(axis=1))


def perturbed_rank(scores: ArrayLike, *, seed: int = 0) -> FloatArray:
    """Return the average rank after Gaussian noise of variance 1 (in points) on every score."""
    table = full_table(scores)
    return average_rank(table + np.random.default_rng(seed).normal(size=table.shape))


def robust_rank(scores: ArrayLike) -> FloatArray:
    """Return the average rank of scores in buckets of one point: all in a bucket share a rank."""
    return average_rank(np.floor(full_table(scores)))


def elimination_rank(scores: ArrayLike) -> FloatArray:
    """Return the round of an exhaustive ballot in which each method leaves: later is better.

    In each round every task votes against its worst remaining method, and the one with most votes leaves. A vote is
    shared between equals; of methods with equally many votes, the one with the worse average rank leaves, then the one
    with the lower mean. [P] does not state the votes. Votes for the best method leave most methods without any vote
    and give tau 0.70 / 0.84 where [P] has 0.93 / 0.93; votes against the worst give 0.95 / 0.96.
    """
    table = full_table(scores)
    remaining = list(range(len(table)))
    left_at = np.zeros(len(table))
    for round_number in range(len(table)):
        present = table[remaining]
        worst = present == present.min(axis=0)
        votes = (worst / worst.sum(axis=0)).sum(axis=1)
        order = np.lexsort((present.mean(axis=1), average_rank(present), -votes.round(9)))
        left_at[remaining.pop(int(order[0]))] = round_number
    return left_at


def balduzzi_mean(scores: ArrayLike, reference: ArrayLike | None = None) -> FloatArray:
    """Return the mean over tasks with the weights of [B].

    Args:
        reference: the table that the weights come from; by default `scores` themselves.
    """
    table = full_table(scores)
    return weighted_means(table, nash_weights(table if reference is None else full_table(reference)))


def aggregations(
    data: Sequence[str], groups: Sequence[str], *, reference: ArrayLike | None = None
) -> dict[str, Aggregation]:
    """Return all alternatives to the mean, under the names of the published table.

    Args:
        data: per task, which images it uses.
        groups: per task, its group.
        reference: the table that [B]'s weights of tasks come from; by default the one that is aggregated.
    """
    return {
        "datasets": lambda scores: macro_mean(scores, data),
        "groups": lambda scores: macro_mean(scores, groups),
        "balduzzi": lambda scores: balduzzi_mean(scores, reference),
        "geometric": geometric_mean,
        "average-rank": average_rank,
        "perturbed-rank": perturbed_rank,
        "robust-rank": robust_rank,
        "elimination": elimination_rank,
    }


def agreement_with_mean(scores: ArrayLike, ways: Mapping[str, Aggregation]) -> dict[str, float]:
    """Return Kendall's tau between the ranking by the mean and each other ranking."""
    table = full_table(scores)
    reference = mean_score(table)
    return {name: kendall_tau(reference, way(table)) for name, way in ways.items()}


def sampled_agreement(
    runs: Sequence[Sequence[Sequence[float]]], ways: Mapping[str, Aggregation], *, samples: int = 100
) -> dict[str, tuple[float, float]]:
    """Return mean and standard deviation of tau with the mean, over sampled repeats, by aggregation (Table 4 of [P]).

    Args:
        runs: per method and task the scores of its repeats, in percent; numbers of repeats may differ.
        samples: how often one repeat is drawn, independently for every method and task.
    """
    generator = np.random.default_rng(0)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(samples):
        table = [[repeats[int(generator.integers(len(repeats)))] for repeats in row] for row in runs]
        for name, tau in agreement_with_mean(table, ways).items():
            found[name].append(tau)
    return {name: (float(np.nanmean(taus)), float(np.nanstd(taus))) for name, taus in found.items()}


# ---- Nash averaging [B] ----------------------------------------------------------------------------------------------


def nash_weights(scores: FloatArray) -> FloatArray:
    """Return (t,) weights of tasks: how often each is played in the equilibrium of greatest entropy.

    Args:
        scores: a full table, in percent.
    """
    table = scores / 100
    return most_even_strategy(table - table.mean(), 0.0)


def most_even_strategy(payoff: FloatArray, least: float = -np.inf) -> FloatArray:
    """Return the strategy of greatest entropy of the columns that hold every row to the value of the game, or `least`.

    Args:
        least: the smallest bound; 0 for columns that play together with the rows in one antisymmetric game.
    """
    value, start = _solve(payoff)
    return _most_even(payoff, max(value, least), start)


def weighted_means(scores: FloatArray, weights: FloatArray) -> FloatArray:
    """Return (m,) scores of methods by weights of tasks.

    The methods that an equilibrium plays are equal up to the tolerance of the solver: rounding makes them ties.
    """
    return np.round(scores @ weights, 6)


def _solve(payoff: FloatArray) -> tuple[float, FloatArray]:
    """Return the value of the game of rows against columns, and an optimal strategy of the columns, which minimise."""
    from scipy.optimize import linprog

    rows, columns = payoff.shape
    found = linprog(
        np.r_[np.zeros(columns), 1.0],
        A_ub=np.c_[payoff, -np.ones(rows)],
        b_ub=np.zeros(rows),
        A_eq=[np.r_[np.ones(columns), 0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * columns + [(None, None)],
    )
    solution = np.asarray(found.x, np.float64)  # the game of a full table always has one
    return float(solution[-1]), np.clip(solution[:-1], 0, None)


def _most_even(payoff: FloatArray, bound: float, start: FloatArray) -> FloatArray:
    """Return the unique strategy of greatest entropy of those of the columns that hold every row to `bound`."""
    from scipy.optimize import LinearConstraint, minimize

    def negative_entropy(weights: FloatArray) -> tuple[float, FloatArray]:
        logs = np.log(np.clip(weights, 1e-12, None))
        return float(np.sum(weights * logs)), np.asarray(logs + 1)

    found = minimize(
        negative_entropy,
        start,
        jac=True,
        bounds=[(0, 1)] * len(start),
        constraints=[
            LinearConstraint(np.ones((1, len(start))), 1, 1),
            LinearConstraint(payoff, -np.inf, bound + 1e-9),
        ],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    weights = np.clip(found.x, 0, None)
    weights /= weights.sum()
    even = found.success and float((payoff @ weights).max()) <= bound + 1e-6
    return np.asarray(weights if even else start / start.sum())
