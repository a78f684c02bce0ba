"""The published search: the sampler's own order, and nothing lost by running trials side by side."""

import numpy as np
import optuna
import pytest
import torch

from unseen.probes import Protocol, draw_rows
from unseen.probes.paper import _quiet_study, fit_paper
from unseen.probes.sgd import Setting, accuracies, train
from unseen.probes.workers import Workers

SHORT = Protocol(trials=14, epochs=4, batch_size=128)


def sequential(data, draw, protocol):
    """The search as a script would write it: study.optimize, one trial after the other."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(multivariate=True, seed=draw.seed), direction="maximize"
    )

    def objective(trial):
        lr = trial.suggest_float("lr", 1e-1, 1e2, log=True)
        wd = trial.suggest_float("wd", 1e-12, 1e-4, log=True)
        trained = train(data, draw.tuning, [Setting(lr, wd)], protocol, [draw.seed, 3])[0]
        return accuracies([trained.model], data, draw.validation)[0]

    study.optimize(objective, n_trials=protocol.trials)
    return study


def test_trials_are_those_of_a_sequential_search(sample, workers):
    data, draw = sample.rows, draw_rows(sample.train_labels, seed=22)[0]
    found = fit_paper(data, [draw], workers, SHORT)[0]
    study = sequential(data, draw, SHORT)
    assert [dict(trial.parameters) for trial in found.trials] == [trial.params for trial in study.trials]
    assert [trial.accuracy for trial in found.trials] == pytest.approx(
        [trial.value for trial in study.trials], abs=0.02
    )
    assert dict(found.best) == study.best_params


def test_the_best_setting_is_trained_on_all_rows(sample, workers):
    data, draw = sample.rows, draw_rows(sample.train_labels, seed=37)[0]
    found = fit_paper(data, [draw], workers, SHORT)[0]
    expected = train(data, draw.final, [Setting(**found.best)], SHORT, [37, 4])[0].model
    torch.testing.assert_close(found.model.weights, expected.weights)
    assert len(found.trials) == SHORT.trials


def test_same_bits_with_any_number_of_threads_and_any_company(sample):
    data = sample.rows
    draws = [draw_rows(sample.train_labels, seed=seed)[0] for seed in (22, 37, 45)]
    protocol = Protocol(trials=12, epochs=3)
    results = []
    for threads, chosen in ((1, draws), (2, draws), (2, draws[:1])):
        with Workers(threads) as workers:
            results.append(fit_paper(data, chosen, workers, protocol)[0])
    for other in results[1:]:
        assert torch.equal(results[0].model.weights, other.model.weights)
        assert results[0].trials == other.trials


def test_a_short_search_never_leaves_the_random_start(sample, workers):
    draw = draw_rows(sample.train_labels, seed=1)[0]
    found = fit_paper(sample.rows, [draw], workers, Protocol(trials=3, epochs=2))[0]
    assert len(found.trials) == 3


def test_ranges_are_the_published_ones_and_the_log_stays_quiet(capfd):
    study = _quiet_study(22)
    draws = [study.ask() for _ in range(200)]
    lrs = np.log10([trial.suggest_float("lr", 1e-1, 1e2, log=True) for trial in draws])
    assert lrs.min() >= -1 and lrs.max() <= 2 and lrs.max() - lrs.min() > 2.5
    assert capfd.readouterr().err == ""
