"""Nash averaging: equilibria checked by what an equilibrium is."""

from __future__ import annotations

import numpy as np
import pytest
from tools.balduzzi import READINGS, SCALES, weights_of

from unseen.benchmarks.vtab.published_tables import score_table
from unseen.metrics.aggregation import nash_weights


def entropy(weights: np.ndarray) -> float:
    some = weights[weights > 0]
    return float(-(some * np.log(some)).sum())


@pytest.mark.parametrize("scale", ["score", "range", "standard", "log-odds"])
def test_methods_against_tasks_is_an_equilibrium(scale: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(4):
        table = rng.uniform(5, 95, (6, 8))
        weights = weights_of(table, scale=scale)
        assert weights.sum() == pytest.approx(1)
        assert weights.min() >= 0
        payoff = SCALES[scale](table / 100)
        value = (payoff @ weights).max()
        # No single task, nor any of many random mixtures, holds the methods to less.
        others = np.vstack([np.eye(8), rng.dirichlet(np.full(8, 0.3), 500)])
        assert (others @ payoff.T).max(axis=1).min() >= value - 1e-4


@pytest.mark.parametrize("size", ["1000", "full"])
def test_one_game_is_an_equilibrium_of_all_players_and_the_most_even(size: str) -> None:
    scores = score_table("lightweight", size).scores  # type: ignore[arg-type]
    payoff = (scores - scores.mean()) / 100
    methods, tasks = payoff.shape
    game = np.block([[np.zeros((methods, methods)), payoff], [-payoff.T, np.zeros((tasks, tasks))]])
    weights = nash_weights(scores)
    player = np.r_[np.zeros(methods), weights]
    assert (game @ player).max() <= 1e-6  # in an antisymmetric game, whose value is 0, that is an equilibrium
    # Of greatest entropy: it tilts the uniform distribution by the methods that it has to hold, and by nothing else.
    binding = payoff @ weights > -1e-5
    assert binding.any()
    basis = np.column_stack([np.ones(tasks), payoff[binding].T])
    coefficients, *_ = np.linalg.lstsq(basis, np.log(weights), rcond=None)
    assert np.abs(basis @ coefficients - np.log(weights)).max() < 1e-3
    assert (coefficients[1:] < 1e-3).all()


def test_one_game_falls_back_where_methods_alone_are_played() -> None:
    """A method above the grand mean on every task: no mixture of tasks holds it there."""
    table = np.array([[90.0, 80.0, 95.0], [20.0, 30.0, 10.0], [15.0, 35.0, 20.0]])
    assert nash_weights(table) == pytest.approx(weights_of(table), abs=1e-5)


def test_a_copy_of_a_task_changes_nothing_but_shares_its_weight() -> None:
    table = np.random.default_rng(1).uniform(5, 95, (6, 5))
    doubled = np.column_stack([table, table[:, 0]])
    one, two = weights_of(table), weights_of(doubled)
    assert doubled @ two == pytest.approx(table @ one, abs=1e-3)
    assert two[0] == pytest.approx(two[5], abs=1e-3)


def test_readings_differ() -> None:
    scores = score_table("lightweight", "1000").scores
    found = [weights_of(scores, scale=scale, one_game=game) for scale, game in READINGS.values()]
    assert all(np.abs(a - b).max() > 1e-6 for k, a in enumerate(found) for b in found[:k])
    assert entropy(found[0]) > entropy(found[2])  # one game spreads the weight over all tasks


@pytest.mark.parametrize(("scale", "same"), [("range", True), ("standard", True), ("score", False)])
def test_what_a_task_is_measured_in_does_not_matter_where_tasks_are_scaled(scale: str, same: bool) -> None:
    table = np.random.default_rng(2).uniform(20, 60, (6, 5))
    turned = table * [1.0, 1.5, 0.5, 1.0, 1.2] + [0.0, 5.0, 10.0, 30.0, -10.0]
    first, second = (weights_of(each, scale=scale) for each in (table, turned))
    assert (np.abs(first - second).max() < 1e-3) == same


def test_a_task_on_which_all_are_equal_does_no_harm() -> None:
    table = np.column_stack([np.random.default_rng(3).uniform(20, 60, (4, 3)), np.full(4, 50.0)])
    for scale in ("range", "standard"):
        weights = weights_of(table, scale=scale)
        assert np.isfinite(weights).all() and weights.sum() == pytest.approx(1)
