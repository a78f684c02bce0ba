"""A linear classifier trained by SGD exactly as published, without autograd.

Paper:      Sariyildiz et al., ICCV 2021, supplement B.2, and the authors' released source
Shapes:     W (c, d) weights; b (c,) biases; V momentum of W; X (m, d) a batch; P (c, m) softmax by class
Implements: V <- 0.9 V + (P - Y) X / m + wd W, W <- W - lr V, and the same for b: torch.optim.SGD with momentum and
            weight decay on a default-initialised nn.Linear under the mean cross-entropy. Initial weights and orders of
            rows are drawn from the stream as nn.Linear and one torch.randperm per epoch draw them.
Differs:    the gradient is accumulated into the momentum by the matrix product itself, so sums round in another order
"""

from __future__ import annotations

from dataclasses import dataclass

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
    data: LabelledRows, rows: IntArray, setting: Setting, protocol: Protocol, generator: torch.Generator
) -> Trained:
    """Train one classifier on `rows`.

    Args:
        data: features and labels.
        rows: the rows to train on.
        setting: learning rate and weight decay.
        protocol: epochs, batch size, momentum, schedule.
        generator: gives the initial weights and the order of rows in every epoch; it is left where they end.
    """
    began = generator.get_state()
    trainer = _Trainer(data, rows, setting, protocol, generator)
    for epoch in range(protocol.epochs):
        trainer.run_epoch(epoch)
    model = trainer.model()
    if bool(torch.isfinite(model.weights).all()):
        return Trained(model)
    generator.set_state(began)
    return _train_checked(_Trainer(data, rows, setting, protocol, generator))


def skip_training(generator: torch.Generator, rows: int, classes: int, dimension: int, epochs: int) -> None:
    """Move a stream on by what one training draws from it."""
    _initial(generator, classes, dimension)
    for _ in range(epochs):
        torch.randperm(rows, generator=generator)


def _initial(generator: torch.Generator, classes: int, dimension: int) -> tuple[Tensor, Tensor]:
    """Weights and biases as nn.Linear draws them."""
    bound = dimension**-0.5
    weights = torch.empty(classes, dimension).uniform_(-bound, bound, generator=generator)
    return weights, torch.empty(classes).uniform_(-bound, bound, generator=generator)


def _train_checked(trainer: _Trainer) -> Trained:
    """Train a setting that is known to diverge, up to the first batch whose loss is not finite."""
    for epoch in range(trainer.protocol.epochs):
        if not trainer.run_epoch(epoch, checked=True):
            return Trained(trainer.model(), stopped_at=epoch)
    return Trained(trainer.model())


class _Trainer:
    """State of the classifier and the buffers that batches pass through."""

    def __init__(
        self, data: LabelledRows, rows: IntArray, setting: Setting, protocol: Protocol, generator: torch.Generator
    ) -> None:
        self.data, self.setting, self.protocol, self.generator = data, setting, protocol, generator
        self.rows = torch.from_numpy(rows)
        self.batch = min(protocol.batch_size, len(rows))
        classes, dimension = data.classes, data.features.dimension
        self.weights, self.bias = _initial(generator, classes, dimension)
        self.momentum, self.bias_momentum = torch.zeros_like(self.weights), torch.zeros_like(self.bias)
        self._features = torch.empty(self.batch, dimension)
        self._scores = torch.empty(2, classes * self.batch)
        self._columns, self._minus_one = torch.arange(self.batch), torch.full((self.batch,), -1.0)

    def run_epoch(self, epoch: int, *, checked: bool = False) -> bool:
        """One pass in a new random order; with `checked`, False as soon as a loss is not finite."""
        order = self.rows[torch.randperm(len(self.rows), generator=self.generator)]
        rate = self.setting.lr * self.protocol.factor(epoch)
        for batch in torch.split(order, self.batch):
            features, labels = self._gather(batch), self.data.labels[batch]
            residual = self._residual(features, labels, checked)
            if residual is None:
                return False
            self._step(features, residual, rate)
        return True

    def model(self) -> LinearModel:
        """The classifier as it is now."""
        return LinearModel(self.weights, self.bias)

    def _gather(self, batch: Tensor) -> Tensor:
        """A contiguous batch of rows, in the buffer where they are in memory."""
        tensor = self.data.features.tensor
        if tensor is None:
            return self.data.features.take(batch.numpy())
        return torch.index_select(tensor, 0, batch, out=self._features[: len(batch)])

    def _residual(self, features: Tensor, labels: Tensor, checked: bool) -> Tensor | None:
        """P - Y, (c, m), or None where a checked loss is not finite."""
        classes, size = self.data.classes, len(labels)
        flat, probabilities = (buffer[: classes * size].view(classes, size) for buffer in self._scores)
        scores = torch.addmm(self.bias[:, None], self.weights, features.T, out=flat)
        if checked:
            loss = torch.nn.functional.cross_entropy(scores.T, labels)
            if not bool(torch.isfinite(loss)):
                return None
        residual = torch.softmax(scores, 0, out=probabilities)
        hits = labels * size + self._columns[:size]
        residual.view(-1).index_add_(0, hits, self._minus_one[:size])
        return residual

    def _step(self, features: Tensor, residual: Tensor, rate: float) -> None:
        """The momentum update, in place."""
        decay, share = self.protocol.momentum, 1.0 / residual.shape[1]
        torch.addmm(self.momentum, residual, features, beta=decay, alpha=share, out=self.momentum)
        self.bias_momentum.mul_(decay).add_(residual.sum(dim=1), alpha=share)
        for value, velocity in ((self.weights, self.momentum), (self.bias, self.bias_momentum)):
            velocity.add_(value, alpha=self.setting.wd)
            value.add_(velocity, alpha=-rate)


def accuracy(model: LinearModel, data: LabelledRows, rows: IntArray) -> float:
    """Top-1 accuracy on `rows`."""
    correct = 0
    for start in range(0, len(rows), STREAM_ROWS):
        part = rows[start : start + STREAM_ROWS]
        scores = torch.addmm(model.bias[:, None], model.weights, data.features.take(part).T)
        correct += int((scores.argmax(dim=0) == data.labels[torch.from_numpy(part)]).sum())
    return correct / len(rows)
