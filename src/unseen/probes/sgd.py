"""A linear classifier trained by SGD exactly as published, without autograd.

Paper:      Sariyildiz et al., ICCV 2021, supplement B.2, and the authors' released source
Shapes:     W (c, d) weights; b (c,) biases; V momentum of W; X (m, d) a batch; P (c, m) softmax by class
Implements: V <- 0.9 V + (P - Y) X / m + wd W, W <- W - lr V, and the same for b: torch.optim.SGD with momentum and
            weight decay on a default-initialised nn.Linear under the mean cross-entropy. Initial weights and orders of
            rows are drawn from the stream as nn.Linear and one torch.randperm per epoch draw them: the same training
            as that of a plain script, but for rounding.
Differs:    fewer rows than dimensions are written in as many dimensions as there are rows. What the initial weights
            have outside their span meets no gradient; weight decay shrinks it by a factor that is known beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from unseen.core.arrays import IntArray, Pixels
from unseen.probes.outcome import LinearModel
from unseen.probes.rows import LabelledRows, rows_fit
from unseen.probes.softmax import WORTHWHILE, times_transposed
from unseen.probes.solvers import MEMORY_LIMIT, Protocol


@dataclass(frozen=True, slots=True)
class Setting:
    """Hyper-parameters that the search chooses."""

    lr: float
    wd: float


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained classifier; `stopped_at` is the epoch in which its loss stopped being finite, if it did."""

    model: LinearModel
    stopped_at: int | None = None


class TrainingRows:
    """Rows to train on, in the coordinates that suit them; several trainings may share them.

    Args:
        data: features and labels.
        rows: which of them to train on.
        memory_limit: bytes that the rows may take where not all of `data` is in memory; beyond, they are read again
            in every epoch.

    Attributes:
        basis: (d, n) orthonormal columns that span the rows, or None if rows are not changed.
    """

    def __init__(self, data: LabelledRows, rows: IntArray, memory_limit: int = MEMORY_LIMIT) -> None:
        self.count, self.classes, self.dimension = len(rows), data.classes, data.features.dimension
        fits = data.features.tensor is not None or rows_fit(data.features, len(rows), memory_limit)
        self._features, self._rows = data.features, torch.from_numpy(rows)
        self.labels = data.take_labels(self._rows.numpy())
        self.basis: Tensor | None = None
        self._table = data.features.tensor
        few = len(rows) <= WORTHWHILE * self.dimension
        if fits and (few or self._table is None):  # else the features themselves serve all runs, without a copy
            self._table, self._rows = data.features.take(rows), torch.arange(len(rows))
        if fits and few:
            assert self._table is not None
            self.basis, triangle = torch.linalg.qr(self._table.T)
            self._table = triangle.T.contiguous()

    def buffer(self, size: int) -> Tensor:
        """Return memory for a batch."""
        width = self.dimension if self.basis is None else self.basis.shape[1]
        return torch.empty(size, width, device=self.labels.device)

    def batches(self, order: Tensor, buffer: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield features and labels of batches, as many rows as the buffer has, in the given order of rows."""
        for batch in torch.split(order, len(buffer)):
            chosen = self._rows[batch]
            if self._table is None:
                yield self._features.take(chosen.numpy()), self.labels[batch]
            else:
                rows = torch.index_select(self._table, 0, chosen.to(buffer.device), out=buffer[: len(batch)])
                yield rows, self.labels[batch]


def train(rows: TrainingRows, setting: Setting, protocol: Protocol, generator: torch.Generator) -> Trained:
    """Train one classifier.

    Args:
        rows: what to train on.
        setting: learning rate and weight decay.
        protocol: epochs, batch size, momentum, schedule.
        generator: gives the initial weights and the order of rows in every epoch; it is left where a training of all
            epochs ends.
    """
    began = generator.get_state()
    # Checks of every batch cost time: a training that diverges is repeated, up to its first loss that is not finite.
    for checked in (False, True):
        generator.set_state(began)
        trainer = _Trainer(rows, setting, protocol, generator)
        stopped = next((e for e in range(protocol.epochs) if not trainer.run_epoch(e, checked=checked)), None)
        model = trainer.model()
        if checked or bool(torch.isfinite(model.weights).all()):
            break
        ended = generator.get_state()
    if stopped is not None:
        generator.set_state(ended)
    return Trained(model, stopped)


def _initial(generator: torch.Generator, classes: int, dimension: int) -> tuple[Tensor, Tensor]:
    """Return weights and biases as nn.Linear initialises them."""
    bound = dimension**-0.5
    weights = torch.empty(classes, dimension).uniform_(-bound, bound, generator=generator)
    return weights, torch.empty(classes).uniform_(-bound, bound, generator=generator)


class _Trainer:
    """State of the classifier and the buffers that batches pass through."""

    def __init__(self, rows: TrainingRows, setting: Setting, protocol: Protocol, generator: torch.Generator) -> None:
        self.rows, self.setting, self.protocol, self.generator = rows, setting, protocol, generator
        self.batch = min(protocol.batch_size, rows.count)
        start, self.bias = (part.to(rows.labels.device) for part in _initial(generator, rows.classes, rows.dimension))
        self.weights = start if rows.basis is None else start @ rows.basis
        self._outside = None if rows.basis is None else start - self.weights @ rows.basis.T
        self._share, self._share_velocity = 1.0, 0.0  # of `_outside` that is left
        self.momentum, self.bias_momentum = torch.zeros_like(self.weights), torch.zeros_like(self.bias)
        self._features = rows.buffer(self.batch)
        self._columns = torch.arange(self.batch, device=start.device)
        self._minus_one = start.new_full((self.batch,), -1.0)

    def run_epoch(self, epoch: int, *, checked: bool = False) -> bool:
        """Make one pass in a new random order; with `checked`, return False as soon as a loss is not finite."""
        order = torch.randperm(self.rows.count, generator=self.generator)
        rate = self.setting.lr * self.protocol.factor(epoch)
        for features, labels in self.rows.batches(order, self._features):
            residual = self._residual(features, labels, checked)
            if residual is None:
                return False
            self._step(features, residual, rate)
        return True

    def model(self) -> LinearModel:
        """Return the present classifier."""
        if self._outside is None:
            return LinearModel(self.weights.cpu(), self.bias.cpu())
        assert self.rows.basis is not None
        whole = torch.addmm(self._outside, self.weights, self.rows.basis.T, beta=self._share)
        return LinearModel(whole.cpu(), self.bias.cpu())

    def _residual(self, features: Tensor, labels: Tensor, checked: bool) -> Tensor | None:
        """Return P - Y, (c, m), or None if a checked loss is not finite."""
        scores = times_transposed(self.weights, features).add_(self.bias[:, None])
        if checked and not bool(torch.isfinite(torch.nn.functional.cross_entropy(scores.T, labels))):
            return None
        residual = torch.softmax(scores, 0, out=scores)
        size = len(labels)
        residual.view(-1).index_add_(0, labels * size + self._columns[:size], self._minus_one[:size])
        return residual

    def _step(self, features: Tensor, residual: Tensor, rate: float) -> None:
        """Apply the momentum update, in place."""
        decay, wd, share = self.protocol.momentum, self.setting.wd, 1.0 / residual.shape[1]
        for value, velocity, gradient in (
            (self.weights, self.momentum, times_transposed(residual, features.T)),
            (self.bias, self.bias_momentum, residual.sum(dim=1)),
        ):
            velocity.mul_(decay).add_(gradient, alpha=share).add_(value, alpha=wd)
            value.add_(velocity, alpha=-rate)
        self._share_velocity = decay * self._share_velocity + wd * self._share
        self._share -= rate * self._share_velocity


class BatchOrder:
    """The rows of each training step, from the seed and the step alone: every epoch has its own random order."""

    def __init__(self, count: int, batch_size: int, seed: int) -> None:
        self.count, self.batch_size, self.seed = count, batch_size, seed
        self._order = lru_cache(maxsize=4)(self._epoch_order)

    def counts(self, steps: int) -> Pixels:
        """Return (steps, count): how often each row is in the batch of each step."""
        found = np.empty((steps, self.count), np.uint8)
        before = np.zeros(self.count, np.uint8)
        for step in range(steps):  # differences of how often each row has occurred so far, modulo 256
            epochs, rest = divmod((step + 1) * self.batch_size, self.count)
            after = np.full(self.count, epochs & 255, np.uint8)
            if rest:
                after[self._order(epochs)[:rest]] += 1
            found[step] = after - before
            before = after
        return found

    def positions(self, step: int) -> IntArray:
        """Return the rows (batch_size,) of a step; one may occur twice if the batch reaches into the next epoch."""
        begin, end = step * self.batch_size, (step + 1) * self.batch_size
        starts = range(begin // self.count * self.count, end, self.count)
        return np.concatenate([self._order(at // self.count)[max(begin - at, 0) : end - at] for at in starts])

    def _epoch_order(self, epoch: int) -> IntArray:
        return np.random.default_rng([self.seed, 0, epoch]).permutation(self.count)
