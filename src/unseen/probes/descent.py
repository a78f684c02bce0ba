"""Training where one batch holds all rows: the published SGD is then plain gradient descent, and is run as it is.

With a hundred steps in all, momentum overshoots and the walk no longer follows the gradient flow of path.py. But
nothing is random any more, many learning rates fit into one matrix product, and few rows span few dimensions.

Paper:      the protocol of Sariyildiz et al., ICCV 2021, for n <= 1024 rows
Shapes:     X (n, r) rows, their bias column included; W (t, c, r) weights of t learning rates; V their momentum
Implements: V <- 0.9 V + (P - Y) X / n, W <- W - lr V, from W = 0, under the published schedule
Differs:    no weight decay, and no random start, whose scores are far below those of trained weights; learning rates
            are bracketed instead of sampled
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unseen.probes.outcome import Trial, best_trial
from unseen.probes.products import times_transposed
from unseen.probes.protocol import Protocol

_COARSE = 10**0.5  # between neighbouring learning rates
_FIRST = 3  # learning rates to start with, from the highest down


def descend(rows: Tensor, labels: Tensor, classes: int, rates: Sequence[float], protocol: Protocol) -> Tensor:
    """Weights (t, c, r) after the published number of full-batch epochs, one per learning rate."""
    count = len(rates)
    weights = torch.zeros(count, classes, rows.shape[1])
    flat, momentum = weights.view(count * classes, -1), torch.zeros(count * classes, rows.shape[1])
    hits = labels * len(rows) + torch.arange(len(rows))
    minus_one = torch.full((count, len(rows)), -1.0)
    steps = torch.tensor(rates).repeat_interleave(classes)[:, None]
    for epoch in range(protocol.epochs):
        residual = times_transposed(flat, rows)
        torch.softmax(residual.view(count, classes, -1), 1, out=residual.view(count, classes, -1))
        residual.view(count, -1).index_add_(1, hits, minus_one)
        momentum.mul_(protocol.momentum).add_(times_transposed(residual, rows.T), alpha=1.0 / len(rows))
        flat.addcmul_(momentum, steps, value=-protocol.factor(epoch))
    return weights


def search_rates(
    rows: Tensor, labels: Tensor, validation: Tensor, validation_labels: Tensor, classes: int, protocol: Protocol
) -> list[Trial]:
    """Bracket the learning rate by validation accuracy, from the highest down, and refine it once."""
    trials: list[Trial] = []

    def attempt(rates: list[float]) -> None:
        found = descend(rows, labels, classes, rates, protocol)
        for rate, weights in zip(rates, found, strict=True):
            accuracy, log_loss = _evaluate(weights, validation, validation_labels)
            trials.append(Trial({"lr": rate}, accuracy, log_loss))

    attempt([protocol.highest_lr / _COARSE**k for k in range(_FIRST)])
    while (
        lowest := min(trial.parameters["lr"] for trial in trials)
    ) / _COARSE >= protocol.lowest_lr * 0.999 and _best_rate(trials) == lowest:
        attempt([lowest / _COARSE])
    best = _best_rate(trials)
    attempt([r for r in (best * _COARSE**0.5, best / _COARSE**0.5) if r <= protocol.highest_lr])
    return trials


def _best_rate(trials: Sequence[Trial]) -> float:
    return trials[best_trial(trials)].parameters["lr"]


def _evaluate(weights: Tensor, rows: Tensor, labels: Tensor) -> tuple[float, float]:
    """Top-1 accuracy and mean loss."""
    scores = rows @ weights.T
    loss = torch.nn.functional.cross_entropy(scores, labels)
    return float((scores.argmax(dim=1) == labels).double().mean()), float(loss)
