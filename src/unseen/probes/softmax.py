"""Multinomial logistic losses of many fits at once, with their gradients, summed over blocks of rows.

Shapes:     B draws, K fits of each (one per fold), c classes, n rows; W (B K, c, r) weights, the last column the bias;
            Z = W X' (c, b) scores of a block; P = softmax of Z by column
Implements: loss = sum over rows of -s log P[y], gradient = (s (P - Y)) X, with s a row's share in a fit: 1 / its number
            of rows, or 0 where the fit leaves the row out
Differs:    scores are kept class-major: on CPUs, W X' with few classes runs up to twice as fast as X W'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unseen.probes.coordinates import Batch, MemoryTable, Table, times_transposed
from unseen.probes.lbfgs import Evaluation

# How blocks are run: the builtin `map`, or a pool's ordered map.
BlockMap = Callable[..., Iterable[tuple[Tensor, ...]]]

LEFT_OUT = -2  # the fold of a row that is in no fit
_APART_CLASSES = 48  # from so many on, a product of one fit's own rows is faster than one of all fits and all rows
_APART_ROWS = 1 << 23  # values of the rows that may be written twice for it


@dataclass(frozen=True, eq=False)
class FoldLoss:
    """The losses of B x K fits as a function of their weights.

    Attributes:
        table: the rows.
        labels: (B, n) class indices.
        folds: (B, n) int8: the fold that holds a row out, TRAINS_ONLY, or LEFT_OUT.
        fits: K; fit k sees all rows but those of fold k.
        classes: how many there are.
        run: maps a function over blocks, in order.
    """

    table: Table
    labels: Tensor
    folds: Tensor
    fits: int
    classes: int
    run: BlockMap = map

    def __call__(self, weights: Tensor, curvature: bool = True) -> Evaluation:
        draws, columns = len(self.folds), weights.shape[2]
        # Draw by draw: a product with several of them would round otherwise than with one.
        inner = torch.stack([self.table.inner(own) for own in weights.view(draws, self.fits * self.classes, columns)])
        shares = self.shares  # made here, once, and not by several threads
        parts = self.run(lambda bounds: self._part(inner, bounds, shares, curvature), self._blocks)
        loss, gradient, variance = _sum(parts)
        return Evaluation(
            loss.view(-1),
            torch.stack([self.table.outer(own) for own in gradient]).view(weights.shape),
            variance.view(-1, self.classes),
        )

    def apart(self) -> ApartLoss | FoldLoss:
        """Return the same losses, computed fit by fit over its own rows, if that is faster."""
        table = self.table
        if (
            not isinstance(table, MemoryTable)
            or table.turn is not None
            or table.rows.dtype != torch.float32
            or table.rows.device.type != "cpu"
            or table.rows.numel() > _APART_ROWS
            or self.fits < 2
            or self.classes < _APART_CLASSES
            or bool((self.folds < 0).any())
        ):
            return self
        order = torch.argsort(self.folds, dim=1, stable=True)
        ends = [torch.bincount(own.long(), minlength=self.fits).cumsum(0).tolist() for own in self.folds]
        rows = [table.rows[k if len(table.rows) > 1 else 0, own].repeat(2, 1) for k, own in enumerate(order)]
        labels = [self.labels[k, own].repeat(2) for k, own in enumerate(order)]
        return ApartLoss(rows, labels, ends, self.classes, self.run)

    @cached_property
    def shares(self) -> Tensor:
        """Return (B, K, 1, n): 1 / the number of its rows for the rows of a fit, 0 for the others."""
        fits = torch.arange(self.fits, device=self.folds.device)[:, None]
        seen = (self.folds[:, None] > LEFT_OUT) & (self.folds[:, None] != fits)
        return (seen / seen.sum(dim=2, keepdim=True))[:, :, None]

    @cached_property
    def _blocks(self) -> Sequence[tuple[int, int]]:
        return self.table.blocks(self.fits * self.classes)

    def _part(self, weights: Tensor, bounds: tuple[int, int], every: Tensor, curvature: bool) -> tuple[Tensor, ...]:
        """Return sums over one block of the losses, of the gradients and of P(1 - P)."""
        start, stop = bounds
        batch, size = self.table.batch(start, stop), stop - start
        shares = every[:, :, :, start:stop]
        index = self.labels[:, None, None, start:stop].expand(-1, self.fits, -1, -1)
        scores = batch.scores(weights).view(len(self.folds), self.fits, self.classes, size)
        chances = torch.softmax(scores, dim=2, out=scores)
        right = chances.gather(2, index).clamp_min(1e-37).log_()
        loss = (right * shares).sum(dim=(2, 3), dtype=torch.float64).neg_()
        residual = chances * shares
        variance = residual.sum(dim=3) - torch.linalg.vecdot(residual, chances) if curvature else loss.new_empty(0)
        residual.scatter_add_(2, index, -shares)
        flat = residual.view(len(self.folds), -1, size)
        return loss, batch.gradient(flat, weights.shape[2]), variance

    def held_scores(self, weights: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield scores of held-out rows by the fits that held them out, a block at a time.

        Args:
            weights: (l, B K, c, r) for l settings.

        Yields:
            The draw, row numbers (m,) and scores (l, m, c).
        """
        settings, draws = len(weights), len(self.folds)
        inner = self.table.inner(weights.view(settings, draws, self.fits * self.classes, -1))
        inner = inner.view(settings, draws, self.fits, self.classes, -1)
        for start, stop in self.table.blocks(settings * self.classes):
            folds = self.folds[:, start:stop]
            if not bool((folds >= 0).any()):
                continue
            batch = self.table.batch(start, stop)
            for draw in range(draws):
                for fit in range(self.fits):
                    rows = (folds[draw] == fit).nonzero()[:, 0]
                    if len(rows):
                        own = batch.features[draw if len(batch.features) > 1 else 0][rows]
                        scale = None if batch.scale is None else batch.scale[rows]
                        chosen = inner[:, draw, fit].reshape(1, settings * self.classes, -1)
                        found = Batch(own[None], scale).scores(chosen).view(settings, self.classes, -1)
                        yield draw, rows + start, found.transpose(1, 2)


@dataclass(frozen=True, eq=False)
class ApartLoss:
    """The losses of a `FoldLoss`, each fit over its own rows: a fifth less work with five folds, a half with two.

    Attributes:
        rows: per draw (2 n, r), sorted by fold and written twice, so that the rows of a fit are contiguous.
        labels: per draw (2 n,).
        ends: per draw, where the rows of each fold end.
    """

    rows: list[Tensor]
    labels: list[Tensor]
    ends: list[list[int]]
    classes: int
    run: BlockMap

    def __call__(self, weights: Tensor, curvature: bool = True) -> Evaluation:
        fits = len(self.ends[0])
        parts = self.run(lambda k: self._part(weights[k], k // fits, k % fits, curvature), range(len(weights)))
        loss, gradient, variance = (torch.stack(part) for part in zip(*parts, strict=True))
        return Evaluation(loss, gradient, variance if curvature else loss.new_empty(0))

    def _part(self, weights: Tensor, draw: int, fit: int, curvature: bool) -> tuple[Tensor, ...]:
        """Return loss, gradient and mean of P(1 - P) of one fit."""
        ends, count = self.ends[draw], self.ends[draw][-1]
        seen = slice(ends[fit], count + (ends[fit - 1] if fit else 0))
        rows, index = self.rows[draw][seen], self.labels[draw][None, seen]
        share = 1.0 / rows.shape[0]
        scores = times_transposed(weights, rows)
        chances = torch.softmax(scores, dim=0, out=scores)
        loss = chances.gather(0, index).clamp_min(1e-37).log_().sum(dtype=torch.float64) * -share
        residual = chances * share
        variance = residual.sum(dim=1) - torch.linalg.vecdot(residual, chances) if curvature else loss
        residual.scatter_add_(0, index, residual.new_full((), -share).expand(index.shape))
        return loss, times_transposed(residual, rows.T), variance


def _sum(parts: Iterable[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Return the sums of all entries, added in order."""
    total: tuple[Tensor, ...] = ()
    for part in parts:
        total = tuple(a.add_(b) for a, b in zip(total, part, strict=True)) if total else part
    return total
