"""The published search: the same trials as those of a plain script, with any number of threads."""

import math

import numpy as np
import optuna
import pytest
import torch

from unseen.probes import Protocol, Settings, draw_rows, evaluate_probe, rows
from unseen.probes.paper import _quiet_study, fit_paper
from unseen.probes.rows import Workers

SHORT = Protocol(trials=14, epochs=4, batch_size=128)


def train_plainly(data, rows, setting, protocol):
    """nn.Linear, optim.SGD and autograd on torch's own stream, as a script would."""
    model = torch.nn.Linear(data.features.dimension, data.classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=setting["lr"], momentum=0.9, weight_decay=setting["wd"])
    features, labels = data.features.tensor[rows], data.labels[rows]
    for epoch in range(protocol.epochs):
        for batch in torch.randperm(len(rows)).split(min(protocol.batch_size, len(rows))):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(features[batch]), labels[batch]).backward()
            optimizer.step()
        optimizer.param_groups[0]["lr"] = setting["lr"] * 0.5 * (1 + math.cos(math.pi * epoch / protocol.epochs))
    return model


def search_plainly(data, draw, protocol):
    """The search as a script would write it: one seed for torch, study.optimize, one trial after the other."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(multivariate=True, seed=draw.seed), direction="maximize"
    )

    def objective(trial):
        lr = trial.suggest_float("lr", 1e-1, 1e2, log=True)
        wd = trial.suggest_float("wd", 1e-12, 1e-4, log=True)
        model = train_plainly(data, draw.tuning, {"lr": lr, "wd": wd}, protocol)
        found = model(data.features.tensor[draw.validation]).argmax(1) == data.labels[draw.validation]
        return float(found.double().mean())

    with torch.random.fork_rng():
        torch.manual_seed(draw.seed)
        study.optimize(objective, n_trials=protocol.trials)
        final = train_plainly(data, draw.final, study.best_params, protocol)
    return study, final


@pytest.mark.parametrize("seed", [22, 37])
def test_equals_a_plain_script_trial_by_trial(sample, workers, seed):
    data, draw = sample.rows, draw_rows(sample.train_labels, seed=seed)[0]
    found = fit_paper(data, [draw], workers, Settings(SHORT))[0]
    study, final = search_plainly(data, draw, SHORT)
    assert [dict(trial.parameters) for trial in found.trials] == [trial.params for trial in study.trials]
    assert [trial.accuracy for trial in found.trials] == [trial.value for trial in study.trials]
    assert dict(found.best) == study.best_params
    torch.testing.assert_close(found.model.weights, final.weight.detach(), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(found.model.bias, final.bias.detach(), atol=1e-3, rtol=1e-3)


def test_same_bits_with_any_number_of_threads_and_any_company(sample):
    data = sample.rows
    draws = [draw_rows(sample.train_labels, seed=seed)[0] for seed in (22, 37, 45)]
    protocol = Protocol(trials=12, epochs=3)
    results = []
    for threads, chosen in ((1, draws), (2, draws), (2, draws[:1])):
        with Workers(threads) as workers:
            results.append(fit_paper(data, chosen, workers, Settings(protocol))[0])
    for other in results[1:]:
        assert torch.equal(results[0].model.weights, other.model.weights)
        assert results[0].trials == other.trials


def test_a_short_search_never_leaves_the_random_start(sample, workers):
    draw = draw_rows(sample.train_labels, seed=1)[0]
    found = fit_paper(sample.rows, [draw], workers, Settings(Protocol(trials=3, epochs=2)))[0]
    assert len(found.trials) == 3


def test_ranges_are_the_published_ones_and_the_log_stays_quiet(capfd):
    study = _quiet_study(22)
    draws = [study.ask() for _ in range(200)]
    lrs = np.log10([trial.suggest_float("lr", 1e-1, 1e2, log=True) for trial in draws])
    assert lrs.min() >= -1 and lrs.max() <= 2 and lrs.max() - lrs.min() > 2.5
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("memory_limit", [None, 60_000, 0])
def test_the_path_of_a_device_gives_the_same_numbers(sample, monkeypatch, memory_limit):
    """As on a GPU: work is not divided among threads, validation reads blocks, and few rows fit into the memory."""
    options = {"solver": "paper", "shots": [4, "all"], "seeds": [22, 37], "settings": Settings(SHORT)}
    expected = evaluate_probe(*sample, **options)
    monkeypatch.setattr(rows.FeatureSet, "is_on_cpu", False)
    monkeypatch.setattr(rows, "STREAM_ROWS", 37)
    streamed: list[bool] = []
    original = rows.FeatureSet.take
    monkeypatch.setattr(
        rows.FeatureSet, "take", lambda own, chosen: (streamed.append(own.tensor is None), original(own, chosen))[1]
    )
    found = evaluate_probe(*sample, memory_limit=memory_limit, **options)
    assert any(streamed) == (memory_limit is not None)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.predictions, other.predictions)
        assert [trial.accuracy for trial in one.trials] == [trial.accuracy for trial in other.trials]
