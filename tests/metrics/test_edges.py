"""Metrics at their edges: what is left out of a call, constants, lists that do not fit, and weights of images."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.metrics import (
    alpha_req,
    bootstrap_interval,
    effective_rank,
    paired_bootstrap,
    recall_at_k,
    relative_accuracy_at_k,
    share_interval,
    welch_comparison,
    wilson_interval,
)
from unseen.metrics.accuracy import label_ranking_precision, quadratic_kappa
from unseen.metrics.aggregation import _most_even
from unseen.metrics.ranks import friedman_test, paired_t_test, rank_methods
from unseen.metrics.seen_unseen import (
    SeenUnseenCurve,
    harmonic_interval,
    mean_per_class_interval,
    seen_leads,
)
from unseen.metrics.sensitivity import sensitivities
from unseen.stats import Interval, bootstrap, kendall_tau

RIGHT = np.arange(60) % 4 > 0
LABELS = np.arange(60) % 5


@pytest.mark.parametrize(
    "interval",
    [
        lambda **more: bootstrap_interval(RIGHT, **more),
        lambda **more: wilson_interval(0.75, 60, **more),
        lambda **more: welch_comparison(RIGHT, LABELS, **more).difference,
        lambda **more: paired_bootstrap(RIGHT, LABELS, **more).difference,
        lambda **more: share_interval(RIGHT, **more),
        lambda **more: mean_per_class_interval(LABELS, RIGHT, **more),
        lambda **more: harmonic_interval((LABELS, RIGHT), (LABELS, ~RIGHT), **more),
    ],
)
def test_an_interval_is_of_95_percent_and_narrower_of_less(interval: Callable[..., Interval]) -> None:
    usual, half = interval(), interval(level=0.5)
    assert (usual.level, half.level) == (0.95, 0.5)
    assert usual == interval(level=0.95)
    assert usual.value == half.value
    assert usual.low < half.low < half.value < half.high < usual.high


def test_ends_belong_to_an_interval() -> None:
    interval = Interval(0.5, 0.25, 0.75)
    assert [value in interval for value in (0.2, 0.25, 0.5, 0.75, 0.8)] == [False, True, True, True, False]


def test_welch_of_a_loss_and_of_samples_without_spread() -> None:
    found = welch_comparison([0.1, 0.2, 0.3], [0.8, 0.9, 0.7])
    assert found.difference.value == pytest.approx(-0.6)
    assert found.difference.low + found.difference.high == pytest.approx(-1.2)
    certain = welch_comparison([0.5, 0.5], [0.25, 0.25, 0.25])
    assert (certain.difference, certain.p_value) == (Interval(0.25, 0.25, 0.25), 0.0)
    assert welch_comparison([0.5, 0.5], [0.25, 0.75]).p_value == pytest.approx(1.0)
    with pytest.raises(DataError, match="found 2 and 1"):
        welch_comparison([0.5, 0.6], [0.5])


def test_k_is_one_by_default() -> None:
    scores, accuracies = [3.0, 2.0, 1.0], [0.4, 0.8, 0.6]
    assert relative_accuracy_at_k(scores, accuracies) == 0.5
    assert recall_at_k(scores, accuracies) == 0.0
    assert recall_at_k(scores, accuracies, 2) == relative_accuracy_at_k(scores, accuracies, 2) == 1.0


@pytest.mark.parametrize(
    ("first", "second"), [([1, 2, 3], [1, 2]), ([1, 2], [1, 2, 3]), ([1], [1]), ([[1, 2]] * 2, [[1, 2]] * 2)]
)
def test_lists_that_do_not_fit_have_no_tau(first: list[float], second: list[float]) -> None:
    with pytest.raises(DataError, match="equal length"):
        kendall_tau(first, second)
    assert kendall_tau([1, 2], [5, 4]) == -1.0


@pytest.mark.parametrize(("labels", "predictions"), [([0, 1], [0.0, 1.0]), ([0.0, 1.0], [0, 1]), (["0", "1"], [0, 1])])
def test_kappa_is_of_whole_numbers_on_both_sides(labels: list[float], predictions: list[float]) -> None:
    with pytest.raises(DataError, match="class indices"):
        quadratic_kappa(labels, predictions)


def test_a_decay_is_fitted_from_the_fourth_to_the_hundredth() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(150, 130)) * np.linspace(1, 0.1, 130)
    assert alpha_req(features) == alpha_req(features, first=4, last=100)
    others = {alpha_req(features, first=first, last=last) for first, last in ((3, 100), (5, 100), (4, 99), (4, 101))}
    assert alpha_req(features) not in others
    assert len(others) == 4


def test_images_without_labels_or_with_all_are_ranked_well() -> None:
    truth = np.array([[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 1]], bool)
    found = label_ranking_precision(truth, np.tile([0.1, 0.2, 0.3], (4, 1)))
    assert found.tolist() == [1.0, 1.0, 1 / 3, 1.0]


def test_a_curve_is_frozen() -> None:
    steps = np.linspace(0, 1, 11)
    curve = SeenUnseenCurve(steps, 1 - steps, np.arange(10.0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        curve.ts = steps  # type: ignore[misc]
    assert curve.area == pytest.approx(0.5)


def test_sensitivities_of_few_values_of_many_and_of_words() -> None:
    def searched(values: list[object], **more: object) -> list[dict[str, object]]:
        return [
            {"x": value, "seconds": n, "note": str(n), "accuracy": n / 100, **more} for n, value in enumerate(values)
        ]

    eight, nine = (sensitivities(searched(list(range(count))))["x"] for count in (8, 9))
    assert (bool(eight.scores), bool(eight.binned)) == (True, False)
    assert (bool(nine.scores), bool(nine.binned)) == (False, True)
    assert eight.good == (5, 6, 7), "two points from the best are good still"
    words = sensitivities(searched(["b", 2, "a", None, 1, "b"]))["x"]
    assert (words.best, words.good, words.tried) == ("b", (1, "b"), (1, 2, "a", "b"))
    assert words.scores == {1: (0.04,), 2: (0.01,), "a": (0.02,), "b": (0.0, 0.05)}
    assert set(sensitivities([*searched([1, 2]), {"x": 9, "accuracy": "failed"}, {"x": 7}])) == {"x"}


def test_friedman_takes_three_methods_and_two_observations() -> None:
    agreed = friedman_test(rank_methods("abc", [[3, 3], [2, 2], [1, 1]]))
    assert (agreed.statistic, agreed.f_statistic, agreed.f_p_value) == (pytest.approx(4.0), np.inf, 0.0)
    for values in ([[3], [2], [1]], [[3, 3], [2, 2]]):
        with pytest.raises(DataError, match="3 methods and 2 observations"):
            friedman_test(rank_methods("abc"[: len(values)], values))
    tied = friedman_test(rank_methods("abc", np.ones((3, 4))))
    assert (tied.statistic, tied.p_value, tied.f_statistic, tied.f_p_value) == (0.0, 1.0, 0.0, 1.0)


def test_pairs_by_hand() -> None:
    found = paired_t_test([1.0, 2.0, 4.5], [0.5, 2.5, 3.0])
    assert (found.difference, found.pairs) == (pytest.approx(0.5), 3)
    assert found.statistic == pytest.approx(0.5 / (1.0 / np.sqrt(3)))
    for first, second in (([1.0], [2.0]), ([1.0, 2.0], [1.0, 2.0, 3.0]), ([[1.0, 2.0]] * 2, [[1.0, 2.0]] * 2)):
        with pytest.raises(DataError, match="equal length"):
            paired_t_test(first, second)


def test_a_class_without_a_score_leads_nowhere() -> None:
    nan, seen = np.nan, np.array([True, True, False, False])
    scores = np.array([[nan, 1.0, 3.0, nan], [nan, nan, 3.0, 1.0], [0.0, 2.0, nan, nan], [nan] * 4])
    assert seen_leads(scores, seen).tolist() == [-2.0, -np.inf, np.inf, 0.0]


def test_directions_whose_lengths_sum_to_one_are_counted() -> None:
    assert effective_rank(np.eye(2) / 2, centre=False) == pytest.approx(2.0)
    assert effective_rank(np.eye(2) / 3, centre=False) == pytest.approx(2.0)
    assert effective_rank(np.zeros((3, 2))) == 1.0


def test_a_paired_interval_is_that_of_the_differences() -> None:
    first, second = np.random.default_rng(2).random((2, 80)).round(1)
    found = paired_bootstrap(first, second, resamples=500, seed=4)
    assert found.difference == bootstrap_interval(first - second, resamples=500, seed=4)
    below = (1 - 0.8) / 2
    values = first - second
    means = bootstrap(
        lambda w: w @ np.unique(values) / 80, 80, counts=np.unique(values, return_counts=True)[1], resamples=500, seed=4
    )
    wide = bootstrap_interval(first - second, resamples=500, seed=4, level=0.8)
    assert (wide.low, wide.high) == pytest.approx(tuple(np.quantile(means, [below, 1 - below])))


@pytest.mark.parametrize(("success", "weights"), [(False, [0.5, 0.5]), (True, [0.0, 1.0])])
def test_where_no_even_strategy_is_found_the_first_is_kept(
    monkeypatch: pytest.MonkeyPatch, success: bool, weights: list[float]
) -> None:
    found = SimpleNamespace(x=np.array(weights), success=success)
    monkeypatch.setattr("scipy.optimize.minimize", lambda *_arguments, **_more: found)
    payoff = np.array([[-1.0, 1.0], [-1.0, 1.0]])  # the second column does not hold the rows to the bound
    assert _most_even(payoff, 0.0, np.array([3.0, 1.0])).tolist() == [0.75, 0.25]
    assert _most_even(payoff, 1.0, np.array([3.0, 1.0])).tolist() == (weights if success else [0.75, 0.25])
