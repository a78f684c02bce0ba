"""Linear classifiers trained by SGD exactly as published, without autograd, several side by side.

Paper:      Sariyildiz et al., ICCV 2021, supplement B.2, and the authors' released source
Shapes:     t settings side by side; W (t, c, d) weights; b (t, c) biases; V momentum of W; X (m, d) a batch;
            P (t, c, m) softmax by class
Implements: V <- 0.9 V + (P - Y) X / m + wd W, W <- W - lr V, and the same for b: torch.optim.SGD with momentum and
            weight decay on a default-initialised nn.Linear under the mean cross-entropy
Differs:    the gradient is accumulated into the momentum by the matrix product itself, so sums round in another order.
            All settings of one run start from the same weights and see the same batches (the published script lets one
            random stream run on from trial to trial): a setting's result does not depend on what runs beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unseen.probes.linear import LabelledRows, LinearModel
from unseen.probes.protocol import Protocol
from unseen.probes.rows import STREAM_ROWS, IntArray


@dataclass(frozen=True, slots=True)
class Setting:
    """What the search chooses."""

    lr: float
    wd: float


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained classifier; `stopped_at` is the epoch in which its loss stopped being finite, if it did."""

    model: LinearModel
    stopped_at: int | None = None


def train(
    data: LabelledRows, rows: IntArray, settings: Sequence[Setting], protocol: Protocol, seed: Sequence[int]
) -> list[Trained]:
    """Train one classifier per setting on `rows`, all on the same stream of batches.

    Args:
        data: features and labels.
        rows: the rows to train on.
        settings: learning rate and weight decay of each classifier.
        protocol: epochs, batch size, momentum, schedule.
        seed: of the initial weights and of the order of rows in every epoch.
    """
    trainer = _Trainer(data, rows, settings, protocol, seed)
    for epoch in range(protocol.epochs):
        trainer.run_epoch(epoch)
    results = [Trained(model) for model in trainer.models()]
    for position, result in enumerate(results):
        if not bool(torch.isfinite(result.model.weights).all()):
            results[position] = _train_checked(data, rows, settings[position], protocol, seed)
    return results


def _train_checked(
    data: LabelledRows, rows: IntArray, setting: Setting, protocol: Protocol, seed: Sequence[int]
) -> Trained:
    """Train one setting that is known to diverge, up to the first batch whose loss is not finite."""
    trainer = _Trainer(data, rows, [setting], protocol, seed)
    for epoch in range(protocol.epochs):
        if not trainer.run_epoch(epoch, checked=True):
            return Trained(trainer.models()[0], stopped_at=epoch)
    return Trained(trainer.models()[0])


class _Trainer:
    """State of the classifiers and the buffers that batches pass through."""

    def __init__(
        self, data: LabelledRows, rows: IntArray, settings: Sequence[Setting], protocol: Protocol, seed: Sequence[int]
    ) -> None:
        self.data, self.settings, self.protocol = data, settings, protocol
        self.rows = torch.from_numpy(rows)
        self.batch = min(protocol.batch_size, len(rows))
        state = int(np.random.SeedSequence(list(seed)).generate_state(1, np.uint64)[0] >> 1)
        self.generator = torch.Generator().manual_seed(state)
        count, classes, dimension = len(settings), data.classes, data.features.dimension
        bound = dimension**-0.5  # what nn.Linear draws from
        weights = torch.empty(classes, dimension).uniform_(-bound, bound, generator=self.generator)
        bias = torch.empty(classes).uniform_(-bound, bound, generator=self.generator)
        self.weights = weights.expand(count, -1, -1).contiguous()
        self.bias = bias.expand(count, -1).contiguous()
        self.momentum, self.bias_momentum = torch.zeros_like(self.weights), torch.zeros_like(self.bias)
        self._features = torch.empty(self.batch, dimension)
        self._scores = torch.empty(2, count * classes * self.batch)
        self._minus_one = torch.full((count, self.batch), -1.0)

    def run_epoch(self, epoch: int, *, checked: bool = False) -> bool:
        """One pass in a new random order; with `checked`, False as soon as a loss is not finite."""
        order = self.rows[torch.randperm(len(self.rows), generator=self.generator)]
        factor = self.protocol.factor(epoch)
        for batch in torch.split(order, self.batch):
            features, labels = self._gather(batch), self.data.labels[batch]
            residual = self._residual(features, labels, checked)
            if residual is None:
                return False
            self._step(features, residual, factor)
        return True

    def models(self) -> list[LinearModel]:
        """The classifiers as they are now."""
        return [LinearModel(w.clone(), b.clone()) for w, b in zip(self.weights, self.bias, strict=True)]

    def _gather(self, batch: Tensor) -> Tensor:
        """A contiguous batch of rows, in the buffer where they are in memory."""
        tensor = self.data.features.tensor
        if tensor is None:
            return self.data.features.take(batch.numpy())
        return torch.index_select(tensor, 0, batch, out=self._features[: len(batch)])

    def _residual(self, features: Tensor, labels: Tensor, checked: bool) -> Tensor | None:
        """P - Y, (t, c, m), or None where a checked loss is not finite."""
        count, classes, size = len(self.settings), self.data.classes, len(labels)
        flat, probabilities = (buffer[: count * classes * size] for buffer in self._scores)
        scores = torch.mm(self.weights.view(count * classes, -1), features.T, out=flat.view(count * classes, size))
        scores = scores.view(count, classes, size).add_(self.bias[..., None])
        if checked:
            loss = torch.nn.functional.cross_entropy(scores[0].T, labels)
            if not bool(torch.isfinite(loss)):
                return None
        residual = torch.softmax(scores, 1, out=probabilities.view(count, classes, size))
        hits = labels * size + torch.arange(size)
        residual.view(count, -1).index_add_(1, hits, self._minus_one[:, :size])
        return residual

    def _step(self, features: Tensor, residual: Tensor, factor: float) -> None:
        """The momentum update, in place."""
        count, classes, size = residual.shape
        decay = self.protocol.momentum
        flat = self.momentum.view(count * classes, -1)
        torch.addmm(flat, residual.view(count * classes, size), features, beta=decay, alpha=1.0 / size, out=flat)
        self.bias_momentum.mul_(decay).add_(residual.sum(dim=2), alpha=1.0 / size)
        for position, setting in enumerate(self.settings):
            for value, velocity in ((self.weights, self.momentum), (self.bias, self.bias_momentum)):
                velocity[position].add_(value[position], alpha=setting.wd)
                value[position].add_(velocity[position], alpha=-setting.lr * factor)


def accuracies(models: Sequence[LinearModel], data: LabelledRows, rows: IntArray) -> list[float]:
    """Top-1 accuracy of each model on `rows`."""
    weights = torch.cat([model.weights for model in models])
    bias = torch.stack([model.bias for model in models])
    correct = torch.zeros(len(models), dtype=torch.int64)
    for start in range(0, len(rows), STREAM_ROWS):
        part = rows[start : start + STREAM_ROWS]
        scores = (weights @ data.features.take(part).T).view(*bias.shape, len(part)).add_(bias[..., None])
        correct += (scores.argmax(dim=1) == data.labels[torch.from_numpy(part)]).sum(dim=1)
    return [int(count) / len(rows) for count in correct]
