"""The walk down the loss against the gradient flow that it stands for."""

import math

import pytest
import torch

from unseen.probes import Protocol
from unseen.probes.descent import descend, search_rates
from unseen.probes.outcome import Trial, best_trial
from unseen.probes.path import Walker, _past_the_peak, search_path
from unseen.probes.softmax import SoftmaxLoss, memory_blocks, with_ones


@pytest.fixture
def problem(sample):
    data = sample.rows
    features = with_ones(data.features.tensor)
    return features, data.labels, data.classes, features.square().mean(0)


def flow(features, labels, classes, time, step=0.05):
    """Gradient flow by many small explicit steps."""
    weights = torch.zeros(classes, features.shape[1])
    onehot = torch.nn.functional.one_hot(labels, classes).float()
    for _ in range(round(time / step)):
        residual = torch.softmax(features @ weights.T, 1) - onehot
        weights -= step * residual.T @ features / len(labels)
    return weights


def test_small_implicit_steps_follow_the_gradient_flow(problem):
    features, labels, classes, spectrum = problem
    loss = SoftmaxLoss(memory_blocks(features, labels), len(labels))
    walker = Walker(loss, spectrum, 1e-7)
    point, time = torch.zeros(classes, features.shape[1]), 0.0
    for target in (2.0 * 1.15**k for k in range(22)):
        point, time = walker.step(point, target - time).weights, target
    expected = flow(features, labels, classes, time)
    assert float((point - expected).norm() / expected.norm()) < 0.05


def test_each_step_is_the_proximal_point(problem):
    features, labels, classes, spectrum = problem
    loss = SoftmaxLoss(memory_blocks(features, labels), len(labels))
    origin = 0.1 * torch.randn(classes, features.shape[1], generator=torch.Generator().manual_seed(0))
    reached = Walker(loss, spectrum, 1e-9).step(origin, 20.0).weights
    # At the end of an implicit step, the move is the step times the gradient found there.
    torch.testing.assert_close((origin - reached) / 20.0, loss(reached).gradient, atol=2e-5, rtol=0)


def test_search_keeps_the_sweep_and_the_way_to_the_best(problem):
    features, labels, classes, spectrum = problem
    rows = torch.arange(len(labels)) % 5 == 0
    loss = SoftmaxLoss(memory_blocks(features[~rows], labels[~rows]), int((~rows).sum()))
    held = SoftmaxLoss(memory_blocks(features[rows], labels[rows]), int(rows.sum()))
    rates = [10 ** (k / 4) for k in range(-4, 8)]
    found = search_path(Walker(loss, spectrum, 1e-4), held, rates, 500.0, classes)
    best = found.trials[found.best]
    assert best == found.trials[best_trial(found.trials, held.count)]
    assert found.schedule[-1] == best.parameters["lr"]
    assert list(found.schedule) == sorted(found.schedule)
    accuracy, log_loss = held.accuracy_and_loss(found.weights[-1])
    assert (accuracy, log_loss) == (best.accuracy, best.log_loss)
    assert len(loss.blocks) == 1
    assert loss.evaluations < 10 * len(found.trials)


def test_log_loss_decides_what_accuracy_cannot_tell_apart():
    trials = [Trial({"lr": 1.0}, 0.80, 0.9), Trial({"lr": 2.0}, 0.79, 0.7), Trial({"lr": 3.0}, 0.60, 0.5)]
    assert best_trial(trials) == 0
    assert best_trial(trials, 100) == 1  # one standard error is 0.04
    assert best_trial(trials, 10_000) == 0
    assert best_trial([*trials, Trial({"lr": 4.0}, 0.80, 0.8)]) == 3


def test_past_the_peak_needs_two_points_that_are_worse_in_both():
    def trials(*pairs):
        return [Trial({"lr": float(i)}, a, b) for i, (a, b) in enumerate(pairs)]

    assert _past_the_peak(trials((0.5, 1.0), (0.4, 1.1), (0.4, 1.2)))
    assert not _past_the_peak(trials((0.5, 1.0), (0.4, 1.1)))
    assert not _past_the_peak(trials((0.5, 1.0), (0.4, 0.9), (0.4, 1.2)))
    assert not _past_the_peak(trials((0.4, 1.0), (0.4, 1.1), (0.5, 1.2)))


def test_descent_is_torch_sgd_from_zero(problem):
    features, labels, classes, _ = problem
    protocol = Protocol(epochs=30)
    rates = [0.5, 5.0]
    found = descend(features, labels, classes, rates, protocol)
    for rate, weights in zip(rates, found, strict=True):
        parameter = torch.zeros(classes, features.shape[1], requires_grad=True)
        optimizer = torch.optim.SGD([parameter], lr=rate, momentum=0.9)
        for epoch in range(30):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(features @ parameter.T, labels).backward()
            optimizer.step()
            optimizer.param_groups[0]["lr"] = rate * 0.5 * (1 + math.cos(math.pi * epoch / 30))
        torch.testing.assert_close(weights, parameter.detach(), atol=1e-4, rtol=1e-3)


def test_rates_are_bracketed_downwards_until_the_best_is_inside(problem):
    features, labels, classes, _ = problem
    protocol = Protocol(epochs=20)
    trials = search_rates(features[80:], labels[80:], features[:80], labels[:80], classes, protocol)
    tried = [trial.parameters["lr"] for trial in trials]
    assert max(tried) == protocol.highest_lr
    assert min(tried) >= protocol.lowest_lr * 0.5
    assert len(tried) == len(set(tried))
