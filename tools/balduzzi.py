"""Compare readings of "the weighting of Balduzzi et al.", which the VTAB paper names without its game and its scale.

    python -m tools.balduzzi   Kendall's tau with the mean by reading: the table of docs/evidence/vtab.md

A reading is a scale of the scores and a game: all methods and tasks are players of one antisymmetric game, or methods
play against tasks. The weights come from the table that is ranked, or from the table of the full datasets. One reading
agrees with both values that the paper prints: `unseen.metrics.aggregation` and `published_aggregations` use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.vtab.published_tables import score_table
from unseen.metrics.aggregation import most_even_strategy, weighted_means
from unseen.stats import kendall_tau

FloatArray = npt.NDArray[np.float64]

_LEAST = 0.005  # log-odds of nothing and of all are infinite


def _log_odds(table: FloatArray) -> FloatArray:
    inside = np.clip(table, _LEAST, 1 - _LEAST)
    return np.asarray(np.log(inside / (1 - inside)))


def _ranged(table: FloatArray) -> FloatArray:
    low, high = table.min(axis=0), table.max(axis=0)
    return np.asarray((table - low) / np.where(high > low, high - low, 1.0))


def _standard(table: FloatArray) -> FloatArray:
    spread = table.std(axis=0)
    return np.asarray((table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


SCALES: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "score": np.asarray,
    "range": _ranged,
    "standard": _standard,
    "log-odds": _log_odds,
}
#: By name, a scale, and whether all players are in one game.
READINGS: Mapping[str, tuple[str, bool]] = {
    "one game, scores less their grand mean": ("score", True),
    "one game, log-odds less their grand mean": ("log-odds", True),
    "methods against tasks, scores": ("score", False),
    "methods against tasks, each task from 0 to 1": ("range", False),
    "methods against tasks, standardised tasks": ("standard", False),
    "methods against tasks, log-odds": ("log-odds", False),
}


def weights_of(scores: FloatArray, *, scale: str = "score", one_game: bool = False) -> FloatArray:
    """Return (t,) weights of tasks of one reading, from a full table in percent."""
    table = SCALES[scale](scores / 100)
    return most_even_strategy(table - table.mean(), 0.0) if one_game else most_even_strategy(table)


def readings(scores: npt.ArrayLike) -> dict[str, tuple[float, float]]:
    """Return tau with the mean by reading: with weights of the table, and of the table of the full datasets."""
    table, full = np.asarray(scores, np.float64), score_table("lightweight", "full").scores
    mean, found = table.mean(axis=1), {}
    for name, (scale, one_game) in READINGS.items():
        weights = (weights_of(each, scale=scale, one_game=one_game) for each in (table, full))
        own, other = (kendall_tau(mean, weighted_means(table, each)) for each in weights)
        found[name] = (own, other)
    return found


def main() -> None:
    """Print the table."""
    few, full = readings(score_table("lightweight", "1000").scores), readings(score_table("lightweight", "full").scores)
    print("| game | 1,000, own weights | full, own | 1,000, weights of full | full |\n|---|---|---|---|---|")
    for name in READINGS:
        values = (few[name][0], full[name][0], few[name][1], full[name][1])
        print(f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} |")


if __name__ == "__main__":
    main()
