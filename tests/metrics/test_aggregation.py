"""Aggregations against naive versions, and against Table 4 of the VTAB paper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import gmean, kendalltau
from tools.balduzzi import readings

from unseen.benchmarks.vtab.published_tables import (
    paper_tables,
    published_aggregations,
    score_table,
)
from unseen.core.errors import DataError
from unseen.data.sources.vtab.tasks import vtab_tasks
from unseen.metrics import aggregation
from unseen.metrics.aggregation import agreement_with_mean
from unseen.stats import kendall_tau

TABLES = arrays(np.float64, (5, 7), elements=st.integers(1, 100).map(float))
ROWS = tuple(vtab_tasks().values())


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12))
def test_tau_is_scipys_tau_b(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, float).T
    expected = kendalltau(first, second).statistic
    found = kendall_tau(first, second)
    assert found == pytest.approx(expected, abs=1e-6) or (np.isnan(found) and np.isnan(expected))


def naive_ballot(table: np.ndarray) -> list[int]:
    """Who leaves, in order: written as one would explain it."""
    remaining, gone = set(range(len(table))), []
    while remaining:
        blamed = dict.fromkeys(remaining, 0.0)
        for task in range(table.shape[1]):
            lowest = min(table[m, task] for m in remaining)
            worst = [m for m in remaining if table[m, task] == lowest]
            for m in worst:
                blamed[m] += 1 / len(worst)

        def rank(m: int) -> float:
            better = [sum(table[o, t] > table[m, t] for o in remaining) for t in range(table.shape[1])]
            equal = [sum(table[o, t] == table[m, t] for o in remaining) for t in range(table.shape[1])]
            return sum(b + (e + 1) / 2 for b, e in zip(better, equal, strict=True)) / table.shape[1]

        out = max(remaining, key=lambda m: (round(blamed[m], 9), round(rank(m), 9), -table[m].mean(), -m))
        gone.append(out)
        remaining.discard(out)
    return gone


@given(TABLES)
def test_elimination_is_the_ballot(table: np.ndarray) -> None:
    table = table + np.arange(5)[:, None] * 1e-3  # no two methods alike
    assert np.argsort(aggregation.elimination_rank(table)).tolist() == naive_ballot(table)


@given(TABLES)
def test_means_against_scipy_and_loops(table: np.ndarray) -> None:
    assert aggregation.geometric_mean(table) == pytest.approx(gmean(table, axis=1))
    labels = list("aabbbcc")
    naive = [np.mean([row[:2].mean(), row[2:5].mean(), row[5:].mean()]) for row in table]
    assert aggregation.macro_mean(table, labels) == pytest.approx(naive)


@given(TABLES, st.permutations(range(5)), st.permutations(range(7)))
def test_order_of_methods_and_tasks_does_not_matter(table: np.ndarray, methods: list[int], tasks: list[int]) -> None:
    moved = table[methods][:, tasks]
    for name in ("mean_score", "geometric_mean", "average_rank", "robust_rank"):
        way = getattr(aggregation, name)
        assert way(moved) == pytest.approx(way(table)[methods])


@pytest.mark.parametrize("size", ["1000", "full"])
def test_table_4_within_two_deviations(size: str) -> None:
    found = agreement_with_mean(score_table("lightweight", size).scores, published_aggregations())  # type: ignore[arg-type]
    published = {name: row[size] for name, row in paper_tables().table4.items()}  # type: ignore[index]
    assert set(found) == set(published)
    for name, (tau, deviation) in published.items():
        assert abs(found[name] - tau) <= 2 * deviation, (name, found[name], tau)


def test_no_other_reading_of_balduzzi_gives_both_printed_values() -> None:
    """What the paper leaves open is chosen by this: the weights of one game, from the full datasets."""
    close: dict[tuple[str, int], list[bool]] = {}
    for size in ("1000", "full"):
        tau, deviation = paper_tables().table4["balduzzi"][size]  # type: ignore[index]
        for name, values in readings(score_table("lightweight", size).scores).items():  # type: ignore[arg-type]
            for source, value in enumerate(values):
                close.setdefault((name, source), []).append(abs(value - tau) <= 2 * deviation)
    assert [key for key, both in close.items() if all(both)] == [("one game, scores less their grand mean", 1)]


def test_single_runs_keep_balduzzi_within_two_deviations() -> None:
    """Table 4 samples single runs. Noise of 2 points (1,000) and 1 (full) spreads the other rows as printed."""
    rng = np.random.default_rng(0)
    ways = published_aggregations()
    for size, points in (("1000", 2.0), ("full", 1.0)):
        scores = score_table("lightweight", size).scores  # type: ignore[arg-type]
        runs = np.clip(scores[..., None] + rng.normal(0, points, (*scores.shape, 3)), 0, 100)
        chosen = {name: ways[name] for name in ("balduzzi", "average-rank")}
        found = aggregation.sampled_agreement(runs.tolist(), chosen, samples=40)
        for name, (mean, deviation) in found.items():
            tau, printed = paper_tables().table4[name][size]  # type: ignore[index]
            assert abs(mean - tau) <= 2 * printed, (size, name, mean)
            assert printed / 2 < deviation < 2 * printed, (size, name, deviation)


def test_sampled_repeats_are_drawn_for_every_method_and_task() -> None:
    table = np.random.default_rng(0).uniform(20, 90, (5, 4))
    ways = {"average-rank": aggregation.average_rank, "mean": aggregation.mean_score}
    fixed = aggregation.sampled_agreement([[[v, v, v] for v in row] for row in table.tolist()], ways, samples=5)
    assert fixed["mean"] == (1.0, 0.0)
    assert fixed["average-rank"] == (pytest.approx(agreement_with_mean(table, ways)["average-rank"]), 0.0)
    # Two methods whose repeats are each other's: the order is a coin's, in independent throws per task.
    twins = [[[10.0, 20.0]] * 6, [[20.0, 10.0]] * 6, [[50.0]] * 6]
    mean, deviation = aggregation.sampled_agreement(twins, {"first": lambda s: s[:, 0]}, samples=200)["first"]
    assert 0.5 < mean < 0.95
    assert deviation > 0.1


def test_the_perturbed_rank_on_average_over_noise() -> None:
    for size in ("1000", "full"):
        scores = score_table("lightweight", size).scores  # type: ignore[arg-type]
        reference = scores.mean(axis=1)
        taus = [kendall_tau(reference, aggregation.perturbed_rank(scores, seed=s)) for s in range(50)]
        tau, deviation = paper_tables().table4["perturbed-rank"][size]  # type: ignore[index]
        assert abs(np.mean(taus) - tau) <= 2 * deviation


def test_gaps_are_refused() -> None:
    with pytest.raises(DataError, match="gaps"):
        aggregation.mean_score([[1.0, np.nan], [2.0, 3.0]])
    with pytest.raises(DataError, match="one per task"):
        aggregation.macro_mean([[1.0, 2.0]], ["a"])
    with pytest.raises(DataError, match="not negative"):
        aggregation.geometric_mean([[-1.0, 2.0]])


def test_a_vote_is_shared_between_equals() -> None:
    """Three share the last place of the first task: the one that is alone in the last place of the second leaves."""
    table = [[1, 9], [1, 8], [1, 7], [5, 1]]
    assert aggregation.elimination_rank(table)[3] == 0
