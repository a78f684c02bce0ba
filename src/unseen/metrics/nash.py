"""Nash averaging: weights of tasks from a game between methods and tasks.

Paper:      Balduzzi et al., "Re-evaluating evaluation", NeurIPS 2018 [B]
Shapes:     S (m, t) scores in percent; B = S - grand mean; y (t,) weights of tasks
Implements: the antisymmetric game of all m + t players, A = [[0, B], [-B', 0]], and its most even equilibrium.
            It plays tasks alone where they can hold every method to the grand mean (B y <= 0): then it is the most
            even y that does. Where they cannot, methods alone are played, and the weights are those
            of the game of methods against tasks: the most even of the y with the least max(B y)
Differs:    Zhai et al., 2019 [P], name [B] and say no more. Which game, on what scale, from which table: what each
            reading gives for their Table 4 is in `READINGS`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

#: Ways to read "the weighting of Balduzzi et al.": a scale, and whether all players are in one game.
READINGS: Mapping[str, tuple[str, bool]] = {
    "one game, scores less their grand mean": ("score", True),
    "one game, log-odds less their grand mean": ("log-odds", True),
    "methods against tasks, scores": ("score", False),
    "methods against tasks, each task from 0 to 1": ("range", False),
    "methods against tasks, standardised tasks": ("standard", False),
    "methods against tasks, log-odds": ("log-odds", False),
}
_LEAST = 0.005  # log-odds of nothing and of all are infinite


def nash_weights(scores: FloatArray, *, scale: str = "score", one_game: bool = True) -> FloatArray:
    """(t,) weights of tasks: how often each is played in the equilibrium of greatest entropy.

    Args:
        scores: a full table, in percent.
        scale: "score", "range" (each task from 0 to 1), "standard" or "log-odds".
        one_game: methods and tasks are players of one antisymmetric game; otherwise methods play against tasks.
    """
    table = _SCALES[scale](scores / 100)
    payoff = table - table.mean() if one_game else table
    value, start = _solve(payoff)
    return _most_even(payoff, max(value, 0.0) if one_game else value, start)


def weighted_means(scores: FloatArray, weights: FloatArray) -> FloatArray:
    """(m,) scores of methods by weights of tasks.

    In an equilibrium the methods that are played are equal, but for what a solver leaves of them: that is rounded away,
    so that they are ties.
    """
    return np.round(scores @ weights, 6)


def _solve(payoff: FloatArray) -> tuple[float, FloatArray]:
    """The value of the game of rows against columns, and an optimal strategy of the columns, who want little."""
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
    """Of all strategies of the columns that hold every row to `bound`, the one of greatest entropy (it is unique)."""
    from scipy.optimize import LinearConstraint, minimize

    def negative_entropy(weights: FloatArray) -> float:
        return float(np.sum(weights * np.log(np.clip(weights, 1e-12, None))))

    def slope(weights: FloatArray) -> FloatArray:
        return np.asarray(np.log(np.clip(weights, 1e-12, None)) + 1, np.float64)

    found = minimize(
        negative_entropy,
        start,
        jac=slope,
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


def _log_odds(table: FloatArray) -> FloatArray:
    inside = np.clip(table, _LEAST, 1 - _LEAST)
    return np.asarray(np.log(inside / (1 - inside)))


def _ranged(table: FloatArray) -> FloatArray:
    low, high = table.min(axis=0), table.max(axis=0)
    return np.asarray((table - low) / np.where(high > low, high - low, 1.0))


def _standard(table: FloatArray) -> FloatArray:
    spread = table.std(axis=0)
    return np.asarray((table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


_SCALES: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "score": np.asarray,
    "range": _ranged,
    "standard": _standard,
    "log-odds": _log_odds,
}
