"""The record of a hyper-parameter search, for the trials of every method that has one."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from unseen.benchmarks.vtab.search import select
from unseen.core.run_record import Dropped, search_record
from unseen.probes import evaluate_probe
from unseen.probes.lightweight import LinearSetting, sweep_linear
from unseen.zeroshot.method import ZeroShotMethod
from unseen.zeroshot.problem import Fold, Images, Problem
from unseen.zeroshot.protocol import evaluate_method


def grid(name: str, *pairs: tuple[float, float], **more: Any) -> list[dict[str, Any]]:
    return [{name: value, "accuracy": accuracy, **more} for value, accuracy in pairs]


def edges(sweep: list[dict[str, Any]], **best: Any) -> dict[str, Any]:
    found = search_record(sweep, best).search
    assert found is not None and found.tried == len(sweep)
    return dict(found.edges)


def test_an_edge_is_the_smallest_or_largest_of_three_or_more() -> None:
    rates = grid("rate", (0.1, 0.5), (1.0, 0.6), (10.0, 0.7))
    assert edges(rates, rate=10.0) == {"rate": 10.0}
    assert edges(grid("rate", (0.1, 0.9), (1.0, 0.6), (10.0, 0.7)), rate=0.1) == {"rate": 0.1}
    assert edges(grid("rate", (0.1, 0.5), (1.0, 0.9), (10.0, 0.7)), rate=1.0) == {}
    assert edges(rates[1:], rate=10.0) == {}, "of two values each is an edge"


def test_a_tie_with_a_value_in_between_is_no_edge() -> None:
    assert edges(grid("rate", (0.1, 0.9), (1.0, 0.9), (10.0, 0.7)), rate=0.1) == {}
    by_loss = [
        {**trial, "log_loss": loss}
        for trial, loss in zip(grid("p", (1, 0.9), (2, 0.9), (3, 0.9)), (3, 2, 1), strict=True)
    ]
    assert edges(by_loss, p=3) == {"p": 3}, "the loss decided"


def test_no_count_is_smaller_than_one() -> None:
    assert edges(grid("k", (1, 0.9), (5, 0.8), (20, 0.7)), k=1) == {}
    assert edges(grid("epochs", (1, 0.7), (5, 0.8), (20, 0.9)), epochs=20) == {"epochs": 20}
    assert edges(grid("gamma", (-3, 0.9), (0, 0.8), (3, 0.7)), gamma=-3) == {"gamma": -3}, "an exponent is not a count"


def test_what_is_no_number_or_sampled_has_no_edge() -> None:
    assert edges(grid("scaled", (True, 0.9), (False, 0.8)), scaled=True) == {}
    drawn = [{"lr": lr, "wd": wd, "accuracy": lr} for lr, wd in ((0.1, 1e-4), (0.2, 1e-5), (0.3, 1e-6))]
    assert edges(drawn, lr=0.3, wd=1e-6) == {}
    assert search_record([], {}).search is None


def rows(classes: int = 4, per_class: int = 12, dimension: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes), per_class)
    return (3 * rng.normal(size=(classes, dimension)))[labels] + rng.normal(size=(len(labels), dimension)), labels


@pytest.mark.parametrize(
    ("solver", "name"), [("logistic", "regularization"), ("ridge", "regularization"), ("knn", "k")]
)
def test_grids_of_probes(solver: str, name: str) -> None:
    """An edge is found exactly where the chosen value is the first or last, and no inner one was as accurate."""
    X, y = rows()
    rng = np.random.default_rng(1)
    for noise in (0.0, 1.0):  # random labels push the penalty to its edge
        labels = np.where(rng.random(len(y)) < noise, rng.permutation(y), y)
        (record,) = evaluate_probe(X, labels, X, labels, solver=solver, seeds=[22])
        sweep = [trial.to_dict() for trial in record.trials]
        found = search_record(sweep, record.best).search
        assert found is not None and found.tried == len(sweep) >= 3
        values, chosen = sorted(trial[name] for trial in sweep), record.best[name]
        own = next(trial for trial in sweep if trial[name] == chosen)
        inner = [
            trial
            for trial in sweep
            if trial[name] in values[1:-1]
            and trial["accuracy"] >= own["accuracy"]
            and trial.get("log_loss", 0) <= own.get("log_loss", 0)
        ]
        expected = chosen in (values[0], values[-1]) and not inner and not (name == "k" and chosen == 1)
        assert dict(found.edges) == ({name: chosen} if expected else {})


def test_the_search_of_the_paper_samples_and_has_no_edges() -> None:
    pytest.importorskip("optuna")
    from unseen.probes import LinearProbe

    X, y = rows()
    probe = LinearProbe(solver="paper", trials=4, epochs=2).fit(X, y)
    found = search_record([trial.to_dict() for trial in probe.trials_], probe.best_params_).search
    assert found is not None and (found.tried, dict(found.edges)) == (4, {})


def test_linear_sweep_of_vtab_lists_what_diverged() -> None:
    X, y = rows()
    settings = [LinearSetting(rate, 20, 16) for rate in (3e38, 0.1, 0.01, 0.001)]
    chosen = select([trial.to_dict() for trial in sweep_linear((X, y), (X, y), 4, settings)])
    best = chosen.setting
    record = search_record(chosen.trials, best)
    assert record.search is not None and record.search.tried == 4
    assert record.dropped == (Dropped("candidate", "learning_rate=3e+38, steps=20, batch_size=16", "diverged"),)


class Shifted(ZeroShotMethod):
    """Scores by cosine, with an error that grows with the distance of `shift` from 3; not finite at 9."""

    grid: ClassVar[dict[str, Any]] = {"shift": (1.5, 3.0, 9.0)}

    def __init__(self, shift: float = 3.0) -> None:
        self.shift = shift

    def _fit(self, X: Any, y: Any, S: Any) -> None:
        pass

    def _scores(self, X: Any, S: Any) -> Any:
        scores = X @ S.T
        return np.full_like(scores, np.nan) if self.shift == 9 else scores * np.sign(2 - self.shift)


def test_trials_of_zero_shot_methods() -> None:
    S = np.eye(8)
    y = np.repeat(np.arange(8), 4)
    images = Images(S[y], y)
    seen = np.arange(6)
    folds = [Fold(np.setdiff1d(seen, val), val) for val in (np.array([0, 1]), np.array([2, 3]))]
    problem = Problem(images.of(seen), images.of(np.array([6, 7])), images.of(seen), S, [*"abcdefgh"], folds)
    found = evaluate_method(Shifted(), problem, grid="full")
    assert dict(found.best) == {"shift": 1.5}
    record = search_record(found.tuning.trials, found.best)
    assert record.search is not None and dict(record.search.edges) == {"shift": 1.5}
    assert record.dropped == (Dropped("candidate", "shift=9", "scores are not finite"),)
    first = found.tuning.on([0])
    assert [trial["value"] for trial in first] == [trial["values"][0] for trial in found.tuning.trials]
