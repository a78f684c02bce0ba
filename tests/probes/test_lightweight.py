"""VTAB's linear evaluation: the dual form is torch's SGD, step for step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unseen.core.errors import DataError
from unseen.probes import lightweight
from unseen.probes.lightweight import LIGHTWEIGHT, LinearSetting, fit_linear, predict, sweep_linear
from unseen.probes.sgd import BatchOrder
from unseen.probes.solvers import StepSchedule, default_warmup


def clusters(count: int, *, seed: int = 0, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(4, size=count)
    centres = np.random.default_rng(99).normal(0, 1, (4, 20))
    return (centres[labels] + rng.normal(0, spread, (count, 20))).astype(np.float32), labels


def torch_sgd(features: np.ndarray, labels: np.ndarray, setting: LinearSetting, seed: int) -> torch.nn.Linear:
    """The published training written with torch's own layer, loss and optimiser."""
    layer = torch.nn.Linear(features.shape[1], 4)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    optimiser = torch.optim.SGD(layer.parameters(), lr=1.0, momentum=0.9)
    schedule = StepSchedule(setting.steps, default_warmup(setting.steps))
    order = BatchOrder(len(features), setting.batch_size, seed)
    x, y = torch.from_numpy(features), torch.from_numpy(labels)
    for step in range(setting.steps):
        optimiser.param_groups[0]["lr"] = setting.learning_rate * schedule.factor(step)
        rows = torch.from_numpy(order.positions(step))
        loss = torch.nn.functional.cross_entropy(layer(x[rows]), y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return layer


@pytest.mark.parametrize("batch", [16, 50])
def test_it_is_torchs_sgd(batch: int) -> None:
    features, labels = clusters(40)
    setting = LinearSetting(0.05, 90, batch)
    model = fit_linear((features, labels), 4, setting, [3])[0]
    expected = torch_sgd(features, labels, setting, 3)
    assert torch.allclose(model.weights, expected.weight.detach(), atol=2e-4)
    assert torch.allclose(model.bias, expected.bias.detach(), atol=2e-4)


def test_the_sweep_is_the_published_one() -> None:
    assert {(s.learning_rate, s.steps) for s in LIGHTWEIGHT} == {(r, n) for r in (0.1, 0.01) for n in (2500, 10_000)}
    assert {s.batch_size for s in LIGHTWEIGHT} == {512}


def test_validation_tells_settings_apart() -> None:
    settings = (LinearSetting(1e-6, 5, 32), LinearSetting(0.1, 300, 32))
    trials = sweep_linear(clusters(60), clusters(200, seed=1), 4, settings)
    assert [t.parameters["steps"] for t in trials] == [5, 300]
    assert trials[1].accuracy > 0.8
    assert trials[1].accuracy >= trials[0].accuracy


def test_seeds_differ_and_repeat() -> None:
    train = clusters(60, spread=3.0)
    setting = LinearSetting(0.1, 50, 16)
    first, second, again = fit_linear(train, 4, setting, [0, 1, 0])
    assert torch.equal(first.weights, again.weights)
    assert not torch.equal(first.weights, second.weights)


def test_prediction_reads_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = clusters(50)
    model = fit_linear((features, labels), 4, LinearSetting(0.1, 50, 16), [0])[0]
    whole = predict(model, features)
    monkeypatch.setattr(lightweight, "_BLOCK", 7)
    assert np.array_equal(predict(model, features), whole)
    assert len(predict(model, features[:0])) == 0


def test_a_training_that_diverges_is_reported() -> None:
    features, labels = clusters(40)
    features[0, 0] = np.inf
    trials = sweep_linear((features, labels), clusters(10), 4, (LinearSetting(0.1, 5, 8),))
    assert trials[0].error == "diverged"
    assert trials[0].accuracy == 0.0


def test_labels_that_do_not_fit_are_refused() -> None:
    features, labels = clusters(10)
    with pytest.raises(DataError, match="one label per row"):
        fit_linear((features, labels[:5]), 4, LinearSetting(0.1, 5), [0])
    with pytest.raises(DataError, match="3 classes"):
        fit_linear((features, np.full(10, 3)), 3, LinearSetting(0.1, 5), [0])
