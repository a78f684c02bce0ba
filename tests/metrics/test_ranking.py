"""The metrics of NeuCRaB: against loops, scipy, all orders of ties, and published tables."""

from __future__ import annotations

import json
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, pearsonr

from unseen.core.errors import DataError
from unseen.metrics import kendall_tau, pearson, recall_at_k, relative_accuracy_at_k, weighted_tau

small_numbers = st.integers(0, 3).map(float)
task = st.integers(2, 5).flatmap(
    lambda n: st.tuples(
        st.lists(small_numbers, min_size=n, max_size=n), st.lists(small_numbers, min_size=n, max_size=n)
    )
)


def every_order(scores: list[float], k: int) -> list[list[int]]:
    """The first k of every way to order the checkpoints that agrees with the scores."""
    orders = [
        order for order in permutations(range(len(scores))) if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    return [list(order[:k]) for order in orders]


@given(task, st.integers(1, 4))
def test_ties_get_what_all_their_orders_give_on_average(pair: tuple[list[float], list[float]], k: int) -> None:
    scores, accuracies = pair[0], [a + 1 for a in pair[1]]
    tops = every_order(scores, k)
    best = max(accuracies)
    recall = np.mean([any(accuracies[i] == best for i in top) for top in tops])
    relative = np.mean([max(accuracies[i] for i in top) / best for top in tops])
    assert recall_at_k(scores, accuracies, k) == pytest.approx(recall, abs=1e-12)
    assert relative_accuracy_at_k(scores, accuracies, k) == pytest.approx(relative, abs=1e-12)


def test_recall_counts_tasks_and_relative_accuracy_averages_them() -> None:
    scores = [[3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [0.1, 0.3, 0.2, 0.0]]
    accuracies = [[0.9, 0.8, 0.7], [0.9, 0.8, 0.6], [0.5, 0.4, 0.8, 0.1]]
    assert recall_at_k(scores, accuracies, 1) == pytest.approx(1 / 3)
    assert recall_at_k(scores, accuracies, 2) == pytest.approx(2 / 3)
    assert recall_at_k(scores, accuracies, 4) == 1.0
    assert relative_accuracy_at_k(scores, accuracies, 1) == pytest.approx((1 + 0.6 / 0.9 + 0.4 / 0.8) / 3)


def test_correlations_are_scipy_s_averaged_over_tasks() -> None:
    generator = np.random.default_rng(0)
    scores, accuracies = generator.normal(size=(3, 9)), generator.normal(size=(3, 9))
    accuracies[1, 3] = accuracies[1, 4]
    pairs = list(zip(scores, accuracies, strict=True))
    assert kendall_tau(scores, accuracies) == pytest.approx(np.mean([kendalltau(s, a).statistic for s, a in pairs]))
    assert pearson(scores, accuracies) == pytest.approx(np.mean([pearsonr(s, a).statistic for s, a in pairs]))


def naive_weighted_tau(scores: list[float], accuracies: list[float]) -> float:
    """Vigna's tau with hyperbolic additive weights, averaged over both rankings; no ties."""
    found = []
    for reference in (scores, accuracies):
        rank = [sorted(reference, reverse=True).index(value) for value in reference]
        above, below = 0.0, 0.0
        for i in range(len(scores)):
            for j in range(len(scores)):
                if i != j:
                    weight = 1 / (rank[i] + 1) + 1 / (rank[j] + 1)
                    sign = np.sign(scores[i] - scores[j]) * np.sign(accuracies[i] - accuracies[j])
                    above, below = above + weight * sign, below + weight
        found.append(above / below)
    return float(np.mean(found))


def test_weighted_tau_by_loops() -> None:
    generator = np.random.default_rng(1)
    scores, accuracies = generator.normal(size=8).tolist(), generator.normal(size=8).tolist()
    assert weighted_tau(scores, accuracies) == pytest.approx(naive_weighted_tau(scores, accuracies), abs=1e-12)


def test_a_constant_score_has_no_correlation_and_the_luck_of_the_draw() -> None:
    accuracies = [0.1, 0.2, 0.3, 0.4]
    assert np.isnan(kendall_tau([1, 1, 1, 1], accuracies))
    assert np.isnan(weighted_tau([1, 1, 1, 1], accuracies))
    assert np.isnan(pearson([1, 1, 1, 1], accuracies))
    assert recall_at_k([1, 1, 1, 1], accuracies, 1) == 0.25


@pytest.mark.parametrize(
    ("scores", "accuracies", "k", "message"),
    [
        ([1.0, 2.0], [1.0, 2.0, 3.0], 1, "equal length"),
        ([1.0, float("nan")], [1.0, 2.0], 1, "finite"),
        ([1.0], [1.0], 1, "at least 2"),
        ([1.0, 2.0], [1.0, 2.0], 0, "at least 1"),
    ],
)
def test_rubbish_is_refused(scores: list[float], accuracies: list[float], k: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        recall_at_k(scores, accuracies, k)


@pytest.mark.parametrize("dataset", ["CIFAR10", "StanfordCars", "SUN397"])
@pytest.mark.parametrize("score", ["HScore", "LEEP", "LogME", "NCE"])
def test_published_weighted_tau_is_recomputed(golden_data: Path, dataset: str, score: str) -> None:
    table = json.loads((golden_data / "results" / "tll_model_selection.json").read_text())[dataset]
    rows = table["scores"].values()
    found = weighted_tau([row[score] for row in rows], [row["Finetuned Acc"] for row in rows])
    assert found == pytest.approx(table["Weighted Tau"][score], abs=0.0006)
