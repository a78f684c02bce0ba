"""Representative subsets against naive loops, and against Table 5 and Appendix F and N."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau

from unseen.benchmarks.vtab.published_tables import paper_tables, score_table
from unseen.core.errors import DataError
from unseen.metrics.subsets import left_out_taus, search_subsets, unseen_pair_accuracy


def test_against_a_naive_search() -> None:
    table = np.random.default_rng(0).uniform(0, 100, (6, 7))
    found = search_subsets(table, 3)
    assert len(found.taus) == 35
    for subset in combinations(range(7), 3):
        expected = kendalltau(table[:, subset].mean(axis=1), table.mean(axis=1)).statistic
        assert found.tau_of(subset)[0] == pytest.approx(expected, abs=1e-6)
    assert (np.diff(found.taus) <= 0).all()


def test_the_pair_test_against_a_naive_one() -> None:
    table = np.random.default_rng(2).uniform(0, 100, (6, 5))
    outcomes = []
    for i, j in combinations(range(6), 2):
        rest = [m for m in range(6) if m not in (i, j)]
        taus = {
            s: round(kendalltau(table[rest][:, s].mean(1), table[rest].mean(1)).statistic, 9)
            for s in combinations(range(5), 2)
        }
        best = [s for s, tau in taus.items() if tau == max(taus.values())]
        right = [(table[i, s].mean() > table[j, s].mean()) == (table[i].mean() > table[j].mean()) for s in best]
        outcomes.append(np.mean(right))
    assert unseen_pair_accuracy(table, 2) == pytest.approx(np.mean(outcomes))


@pytest.mark.parametrize("size", ["1000", "full"])
def test_the_published_subsets_are_among_the_best(size: str) -> None:
    table = score_table("lightweight", size)  # type: ignore[arg-type]
    found = search_subsets(table.scores)
    assert len(found.taus) == 11_628
    for row in (row for row in paper_tables().table5 if row.size == size):
        printed, deviation = row.tau
        tau, better = found.tau_of([table.tasks.index(task) for task in row.tasks])
        assert abs(tau - printed) <= 2 * deviation
        assert better <= 0.02 * len(found.taus)


def test_the_whole_search_is_quick() -> None:
    began = time.perf_counter()
    search_subsets(score_table("lightweight", "1000").scores)
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("size", ["1000", "full"])
def test_an_unseen_pair_is_ranked_right_as_often_as_published(size: str) -> None:
    printed = {"1000": 0.956, "full": 0.952}  # Appendix F
    found = unseen_pair_accuracy(score_table("lightweight", size).scores)  # type: ignore[arg-type]
    assert found == pytest.approx(printed[size], abs=0.02)


def test_left_out_taus_of_another_suite() -> None:
    table = np.random.default_rng(3).uniform(0, 100, (8, 6))
    found = left_out_taus(table, suite=[0, 1, 2])
    assert found[5] == pytest.approx(kendalltau(table[:, 5], table[:, :3].mean(1)).statistic, abs=1e-6)
    assert found[1] == pytest.approx(kendalltau(table[:, 1], table[:, [0, 2]].mean(1)).statistic, abs=1e-6)
    with pytest.raises(DataError, match="give it another"):
        left_out_taus(table, suite=[0])


def test_samples_of_repeats_give_a_spread() -> None:
    rng = np.random.default_rng(4)
    table = rng.uniform(0, 100, (6, 7))
    found = search_subsets(table + rng.normal(0, 5, (4, 6, 7)), 3)
    assert found.stds.max() > 0
    with pytest.raises(DataError, match="from 1 to 7"):
        search_subsets(table, 8)
