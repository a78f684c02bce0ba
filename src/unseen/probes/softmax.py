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

from unseen.probes.rows import STREAM_ROWS, FeatureSet, IntArray

Block = Callable[[], tuple[Tensor, Tensor]]
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
        blocks: each gives (features (b, d), labels (b,)) when called.
        count: rows in all blocks together.
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
            return _loss_and_gradient(inner, *block(), curvature)

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
        """Top-1 accuracy and mean loss. A negative label, of a class without weights, is wrong and has no loss."""
        inner = weights if self.basis is None else weights @ self.basis.T

        def evaluate(block: Block) -> tuple[Tensor, ...]:
            return _correct_and_loss(inner, *block())

        correct, loss, known = 0, 0.0, 0
        for part_correct, part_loss, part_known in self.run(evaluate, self.blocks):
            correct, loss, known = correct + int(part_correct), loss + float(part_loss), known + int(part_known)
        return correct / self.count, loss / max(known, 1)


def _loss_and_gradient(weights: Tensor, features: Tensor, labels: Tensor, curvature: bool) -> tuple[Tensor, ...]:
    """Sums over one block of the loss, of the gradient and of P(1 - P)."""
    scores = weights @ features.T
    normalizer = torch.logsumexp(scores, dim=0)
    own = scores.gather(0, labels[None]).squeeze(0)
    loss = (normalizer - own).double().sum()
    residual = scores.sub_(normalizer).exp_()
    variance = (residual - residual.square()).sum(dim=1, keepdim=True) if curvature else torch.zeros(0)
    residual.scatter_add_(0, labels[None], torch.full((1, len(labels)), -1.0))
    return loss, residual @ features, variance


def _correct_and_loss(weights: Tensor, features: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
    """Sums over one block of right answers, of the loss, and of rows whose class is known."""
    scores = weights @ features.T
    known = labels >= 0
    own = scores.gather(0, labels.clamp_min(0)[None]).squeeze(0)
    loss = (torch.logsumexp(scores, dim=0) - own)[known].double().sum()
    return (scores.argmax(dim=0) == labels).sum(), loss, known.sum()


def memory_blocks(features: Tensor, labels: Tensor) -> list[Block]:
    """Equal blocks of an in-memory table: a multiple of four of them, whatever the number of threads."""
    count = min(4 * -(-len(features) // 4096), len(features)) if len(features) > 512 else 1
    bounds = np.linspace(0, len(features), count + 1).astype(int)

    def block(start: int, stop: int) -> tuple[Tensor, Tensor]:
        return features[start:stop], labels[start:stop]

    return [partial(block, start, stop) for start, stop in pairwise(bounds.tolist())]


def streamed_blocks(features: FeatureSet, labels: Tensor, rows: IntArray) -> list[Block]:
    """Blocks that read the disk when called and keep only `rows`, with a column of ones for the bias."""
    chosen = torch.zeros(features.count, dtype=torch.bool)
    chosen[torch.from_numpy(rows)] = True

    def block(start: int, stop: int) -> tuple[Tensor, Tensor]:
        keep = chosen[start:stop]
        return with_ones(features.read(start, stop)[keep]), labels[start:stop][keep]

    wanted = [(start, stop) for start, stop in features.blocks(STREAM_ROWS) if bool(chosen[start:stop].any())]
    return [partial(block, start, stop) for start, stop in wanted]


def with_ones(features: Tensor) -> Tensor:
    """The same rows with a last column of ones, which turns the last weight into a bias."""
    return torch.cat([features, torch.ones(len(features), 1)], dim=1)
