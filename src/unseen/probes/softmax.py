"""Multinomial logistic loss, its gradient and its accuracy, summed over blocks of rows.

Shapes:     W (c, d) weights, one row per class; X (b, d) a block; Z = W X' (c, b) scores; P = softmax of Z by column
Implements: loss = mean over rows of -log P[y, i]; gradient = (P - Y) X / n, with Y the one-hot labels
Differs:    scores are kept class-major: on CPUs, W X' with few classes runs up to twice as fast as X W'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from unseen.probes.products import times_transposed
from unseen.probes.rows import STREAM_ROWS, FeatureSet, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some rows of a table.

    Attributes:
        features: (b, d); one column less than the weights have where the bias column of ones is left out.
        labels: (b,) class indices; negative where a row does not count.
        scale: (b,) what each row is to be multiplied by, or None.
    """

    features: Tensor
    labels: Tensor
    scale: Tensor | None = None

    def scores(self, weights: Tensor) -> Tensor:
        """(c, b), class-major."""
        if self.features.shape[1] == weights.shape[1]:
            return times_transposed(weights, self.features)
        scores = times_transposed(weights[:, :-1], self.features)
        if self.scale is not None:
            scores *= self.scale
        return scores.add_(weights[:, -1:])

    def gradient(self, residual: Tensor, columns: int) -> Tensor:
        """residual times rows, (c, columns). Overwrites the residual."""
        if self.features.shape[1] == columns:
            return times_transposed(residual, self.features.T)
        found = torch.empty(len(residual), columns)
        found[:, -1] = residual.sum(dim=1)
        if self.scale is not None:
            residual *= self.scale
        found[:, :-1] = times_transposed(residual, self.features.T)
        return found


Block = Callable[[], Batch]
# How blocks are run: the builtin `map`, or a pool's ordered map.
BlockMap = Callable[..., Iterable[tuple[Tensor, ...]]]


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Loss and gradient at one point, without any penalty.

    Attributes:
        loss: mean over rows.
        gradient: (c, d), of the mean.
        variance: (c, 1), mean over rows of P(1 - P): the class's share of the Hessian. Empty where not asked for.
    """

    loss: float
    gradient: Tensor
    variance: Tensor


class SoftmaxLoss:
    """The mean logistic loss over fixed blocks of rows, as a function of the weights.

    Args:
        blocks: each gives a batch when called.
        count: rows that count in all blocks together.
        run: maps a function over the blocks, in order.
        basis: (d', d) orthonormal; where given, weights live in its coordinates while blocks are in the original ones.
    """

    def __init__(
        self, blocks: Sequence[Block], count: int, *, run: BlockMap = map, basis: Tensor | None = None
    ) -> None:
        self.blocks, self.count, self.run, self.basis = blocks, count, run, basis
        self.evaluations = 0

    def __call__(self, weights: Tensor, *, curvature: bool = False) -> Evaluation:
        self.evaluations += 1
        inner = weights if self.basis is None else weights @ self.basis.T

        def evaluate(block: Block) -> tuple[Tensor, ...]:
            return _loss_and_gradient(inner, block(), curvature)

        loss, gradient, variance = 0.0, torch.zeros_like(inner), torch.zeros(0)
        for part_loss, part_gradient, part_variance in self.run(evaluate, self.blocks):
            loss += float(part_loss)
            gradient += part_gradient
            variance = part_variance if not len(variance) else variance + part_variance
        gradient /= self.count
        if self.basis is not None:
            gradient = gradient @ self.basis
        return Evaluation(loss / self.count, gradient, variance / self.count)

    def accuracy_and_loss(self, weights: Tensor) -> tuple[float, float]:
        """Top-1 accuracy and mean loss."""
        inner = weights if self.basis is None else weights @ self.basis.T

        def evaluate(block: Block) -> tuple[Tensor, ...]:
            return _correct_and_loss(inner, block())

        correct, loss = 0, 0.0
        for part_correct, part_loss in self.run(evaluate, self.blocks):
            correct, loss = correct + int(part_correct), loss + float(part_loss)
        return correct / self.count, loss / self.count


def _loss_and_gradient(weights: Tensor, batch: Batch, curvature: bool) -> tuple[Tensor, ...]:
    """Sums over one block of the loss, of the gradient and of P(1 - P)."""
    counts = (batch.labels >= 0).float()[None]
    labels = batch.labels.clamp_min(0)[None]
    scores = batch.scores(weights)
    normalizer = torch.logsumexp(scores, dim=0)
    loss = ((normalizer - scores.gather(0, labels)) * counts).double().sum()
    residual = scores.sub_(normalizer).exp_()
    if batch.scale is not None:  # only streamed blocks hold rows that do not count
        residual *= counts
    variance = (residual - residual.square()).sum(dim=1, keepdim=True) if curvature else torch.zeros(0)
    residual.scatter_add_(0, labels, -counts)
    return loss, batch.gradient(residual, weights.shape[1]), variance


def _correct_and_loss(weights: Tensor, batch: Batch) -> tuple[Tensor, ...]:
    """Sums over one block of right answers and of the loss."""
    scores = batch.scores(weights)
    known = batch.labels >= 0
    own = scores.gather(0, batch.labels.clamp_min(0)[None]).squeeze(0)
    loss = (torch.logsumexp(scores, dim=0) - own)[known].double().sum()
    return (scores.argmax(dim=0) == batch.labels).sum(), loss


def memory_blocks(features: Tensor, labels: Tensor) -> list[Block]:
    """Equal blocks of an in-memory table: a multiple of four of them, whatever the number of threads."""
    count = min(4 * -(-len(features) // 4096), len(features)) if len(features) > 512 else 1
    bounds = np.linspace(0, len(features), count + 1).astype(int)

    def block(start: int, stop: int) -> Batch:
        return Batch(features[start:stop], labels[start:stop])

    return [partial(block, start, stop) for start, stop in pairwise(bounds.tolist())]


def streamed_blocks(features: FeatureSet, labels: Tensor, rows: IntArray) -> list[Block]:
    """Blocks that read the disk when called; rows that are not asked for are read, but do not count."""
    chosen = torch.full((features.count,), -1)
    wanted = torch.from_numpy(rows)
    chosen[wanted] = labels[wanted]

    def block(start: int, stop: int) -> Batch:
        found, scale = features.read_raw(start, stop)
        return Batch(found, chosen[start:stop], scale)

    used = [(start, stop) for start, stop in features.blocks(STREAM_ROWS) if bool((chosen[start:stop] >= 0).any())]
    return [partial(block, start, stop) for start, stop in used]


def with_ones(features: Tensor) -> Tensor:
    """The same rows with a last column of ones, which turns the last weight into a bias."""
    return torch.cat([features, torch.ones(len(features), 1)], dim=1)
