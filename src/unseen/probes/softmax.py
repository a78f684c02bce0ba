"""The multinomial logistic loss of one fit, with its gradient, in coordinates that make it quick to minimise.

The optimum of an l2-penalised linear model does not depend on the orthonormal coordinates of its features, and lies in
the span of the training rows. So (1) n rows of d > n dimensions are written in n dimensions without any loss, and (2)
in the eigenbasis of the second moments the Hessian of the logistic loss is close to diagonal, which makes a diagonal
preconditioner a very good one: by Boehning's bound (Ann. Inst. Stat. Math. 1992) H <= V (x) X'X / n. Few rows are
written in their span, many are turned, and rows that do not fit into memory stay on the disk.

Shapes:     c classes; X (n, d) rows; mean (d,); basis (d, r), orthonormal columns; spectrum (r + 1,), the last for the
            bias; W (c, r + 1) weights, the last column the bias; Z = W X' (c, b) scores of a block; P = softmax of Z by
            column
Implements: loss = sum over rows of -s log P[y], gradient = (s (P - Y)) X, summed over blocks of rows, with s a row's
            share in the fit: 1 / its number of rows, or 0 where the fit leaves the row out
Differs:    scores are kept class-major: on CPUs, W X' with few classes runs up to twice as fast as X W'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from unseen.core.arrays import BoolArray, IntArray
from unseen.probes.rows import STREAM_ROWS, FeatureSet, LabelledRows, Workers, rows_fit

# How blocks are run: the builtin `map`, or a pool's ordered map.
BlockMap = Callable[..., Iterable[Any]]

WORTHWHILE = 0.8  # of the dimensions: as many rows are written in their span
_NOISE = 1e-6  # directions with less than this share of the largest variance are rounding
_SCORES = 1 << 20  # of one block: they stay in the processor's cache
_STREAMED_SCORES = 1 << 19  # likewise, beside the rows themselves


@dataclass(frozen=True, eq=False)
class Coordinates:
    """An orthonormal basis around the mean, with the variance along each of its directions."""

    mean: Tensor
    basis: Tensor
    spectrum: Tensor

    def write(self, rows: Tensor) -> Tensor:
        """Return rows (n, d) in these coordinates, with a last column of ones, (n, r + 1)."""
        return _with_ones(torch.addmm(-(self.mean @ self.basis), rows, self.basis))

    def inner(self, weights: Tensor) -> Tensor:
        """Return weights (..., r + 1) as they apply to rows in other coordinates, (..., d + 1)."""
        turned = weights[..., :-1] @ self.basis.T
        return torch.cat([turned, weights[..., -1:] - turned @ self.mean[:, None]], dim=-1)

    def outer(self, gradient: Tensor) -> Tensor:
        """Return the gradient for weights (..., r + 1) from that for `inner` of them."""
        centred = gradient[..., :-1] - gradient[..., -1:] * self.mean
        return torch.cat([centred @ self.basis, gradient[..., -1:]], dim=-1)

    def original(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights (c, d) and biases (c,) for the features themselves."""
        inner = self.inner(weights)
        return inner[:, :-1].contiguous(), inner[:, -1].contiguous()

    def from_original(self, weights: Tensor, bias: Tensor) -> Tensor:
        """Return weights (c, r + 1) in these coordinates, without their part outside the basis."""
        return torch.cat([weights @ self.basis, (bias + weights @ self.mean)[:, None]], dim=1)


def span(rows: Tensor) -> tuple[Coordinates, Tensor]:
    """Return coordinates in which few rows (n, d), n <= d, have n dimensions, and the rows in them, (n, n + 1)."""
    mean = rows.mean(dim=0)
    centred = rows - mean
    values, vectors = torch.linalg.eigh(centred @ centred.T)
    values, vectors = values.flip(0).clamp_min(0.0), vectors.flip(1)
    kept = values > _NOISE * values[0]
    lengths = torch.where(kept, values.sqrt(), 0.0)
    basis = centred.T @ (vectors * torch.where(kept, 1.0 / lengths, 0.0))
    return Coordinates(mean, basis, _with_bias(values / len(rows))), _with_ones(vectors * lengths)


def principal(features: FeatureSet, run: Callable[..., Iterable[tuple[Tensor, Tensor]]] = map) -> Coordinates:
    """Return coordinates of all rows, from one pass over them."""

    def moments(bounds: tuple[int, int]) -> tuple[Tensor, Tensor]:
        block = features.read(*bounds)
        return block.T @ block, block.sum(dim=0, dtype=torch.float64)

    second, total = features.zeros(features.dimension, features.dimension), features.zeros(features.dimension)
    for part, sums in run(moments, list(features.blocks(STREAM_ROWS))):
        second += part
        total += sums
    mean = total / features.count
    values, vectors = torch.linalg.eigh((second / features.count - torch.outer(mean, mean)).float())
    values, vectors = values.flip(0).clamp_min(0.0), vectors.flip(1).contiguous()
    return Coordinates(mean.float(), vectors, _with_bias(values))


def _with_ones(rows: Tensor) -> Tensor:
    """Append a column of ones, which turns the last weight into a bias."""
    return torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)


def _with_bias(spectrum: Tensor) -> Tensor:
    return torch.cat([spectrum, spectrum.new_ones(1)])


_mkldnn_available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
_ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if _mkldnn_available else None


def times_transposed(left: Tensor, right: Tensor) -> Tensor:
    """Compute left @ right.T of two float32 matrices; `right` may itself be a transposed view.

    Torch calls MKL for `mm`, and oneDNN in its compiled graphs only. For a matrix of few rows, as one row per class,
    oneDNN's kernels are 7 to 16 % faster on the processors we measured (100 x 1280 x 1024 on a Zen 4: 2.52 against 2.71
    ms for scores, 2.36 against 2.72 ms for gradients, one thread). Both round in their own order.
    """
    if _ONEDNN is None or left.device.type != "cpu":
        return left @ right.T
    found: Tensor = _ONEDNN(left, right, None, "none", [], "")
    return found


@dataclass(frozen=True, eq=False)
class SoftmaxLoss:
    """The loss of one fit as a function of its weights.

    Attributes:
        rows: (n, r + 1) in the coordinates of the weights, with their column of ones; or features that are read at
            every call, for which the weights are turned.
        frame: the coordinates.
        labels: (n,) class indices.
        shares: (n,) of each row.
        run: maps a function over blocks, in order.
    """

    rows: Tensor | FeatureSet
    frame: Coordinates
    labels: Tensor
    shares: Tensor
    run: BlockMap = map

    def __call__(self, weights: Tensor) -> tuple[float, Tensor, Tensor]:
        streams = isinstance(self.rows, FeatureSet)
        inner = self.frame.inner(weights) if streams else weights
        total: tuple[Tensor, ...] = ()
        for part in self.run(lambda bounds: self._part(inner, *bounds), self._blocks(len(weights))):
            total = tuple(a.add_(b) for a, b in zip(total, part, strict=True)) if total else part
        loss, gradient, variance = total
        return float(loss), self.frame.outer(gradient) if streams else gradient, variance

    def _blocks(self, classes: int) -> list[tuple[int, int]]:
        """Return the bounds of blocks of rows: they depend on the data alone."""
        if isinstance(self.rows, FeatureSet):
            size = max(min(_STREAMED_SCORES // classes, STREAM_ROWS), 256)
            return [bounds for bounds in self.rows.blocks(size) if bool(self.shares[slice(*bounds)].any())]
        pieces = -(-len(self.rows) // max(_SCORES // classes, 256))
        return list(pairwise(len(self.rows) * k // pieces for k in range(pieces + 1)))

    def _part(self, weights: Tensor, start: int, stop: int) -> tuple[Tensor, ...]:
        """Return sums over one block of the losses, of the gradients and of P(1 - P)."""
        batch = self.rows.read(start, stop) if isinstance(self.rows, FeatureSet) else self.rows[start:stop]
        shares, index = self.shares[start:stop], self.labels[None, start:stop]
        scores = scores_of(weights, batch)
        chances = torch.softmax(scores, dim=0, out=scores)
        loss = -(chances.gather(0, index).clamp_min(1e-37).log_() * shares).sum(dtype=torch.float64)
        residual = chances * shares
        variance = residual.sum(dim=1) - torch.linalg.vecdot(residual, chances)
        residual.scatter_add_(0, index, -shares[None])
        gradient = times_transposed(residual, batch.T)
        if batch.shape[1] < weights.shape[1]:
            gradient = torch.cat([gradient, residual.sum(dim=1, keepdim=True)], dim=1)
        return loss, gradient, variance


def scores_of(weights: Tensor, rows: Tensor) -> Tensor:
    """Return (k, b) for weights (k, r + 1) and rows (b, r + 1), or (b, r) without their column of ones."""
    if rows.shape[1] == weights.shape[1]:
        return times_transposed(weights, rows)
    return times_transposed(weights[:, :-1], rows).add_(weights[:, -1:])


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of a draw, for all its fits.

    Attributes:
        rows: as of `SoftmaxLoss`; in memory, those of the draw.
        frame: the coordinates of the weights.
        numbers: (n,) number of each row of the draw among all features.
        labels: (n,) class indices.
        scale: mean square of the centred rows.
    """

    rows: Tensor | FeatureSet
    frame: Coordinates
    numbers: IntArray
    labels: Tensor
    scale: float

    def loss(self, seen: BoolArray, run: BlockMap = map) -> SoftmaxLoss:
        """Return the loss of a fit that sees some of the rows (n,)."""
        mask = torch.from_numpy(seen).to(self.labels.device)
        share = 1.0 / int(seen.sum())
        if not isinstance(self.rows, FeatureSet):
            rows = self.rows if seen.all() else self.rows[mask]
            return SoftmaxLoss(rows, self.frame, self.labels[mask], rows.new_full((len(rows),), share), run)
        places = torch.from_numpy(self.numbers).to(mask.device)
        labels = self.labels.new_zeros(self.rows.count).index_put_((places,), self.labels)
        shares = mask.new_zeros(self.rows.count, dtype=torch.float32).index_put_((places,), mask * share)
        return SoftmaxLoss(self.rows, self.frame, labels, shares, run)

    def scores(self, weights: Tensor, places: IntArray) -> Tensor:
        """Return scores (l, c, m) of some of the rows for weights (l, c, r + 1)."""
        if isinstance(self.rows, FeatureSet):
            weights, rows = self.frame.inner(weights), self.rows.take(self.numbers[places])
        else:
            rows = self.rows[torch.from_numpy(places).to(self.rows.device)]
        return scores_of(weights.flatten(0, 1), rows).view(*weights.shape[:2], len(places))


class TableMaker:
    """Write draws of one feature set in coordinates; the principal ones are computed once for all draws.

    Args:
        data: all rows.
        memory_limit: bytes that the rows of a table may take before they are streamed.
        most: rows of the largest table.
        workers: for the pass that computes the principal coordinates, if a table needs them.
    """

    def __init__(self, data: LabelledRows, memory_limit: int, most: int, workers: Workers) -> None:
        self.data, self.memory_limit = data, memory_limit
        self._principal: Coordinates | None = None
        if not self._spans(most) or self.streams(most):
            run = workers.ordered if data.features.is_on_cpu else map
            self._principal = workers.run(principal, data.features, run)

    def _spans(self, rows: int) -> bool:
        """Return whether that many rows are written in their span."""
        return bool(rows <= WORTHWHILE * self.data.features.dimension)

    def streams(self, rows: int) -> bool:
        """Return whether a draw of that many rows is read again at every pass."""
        return self.data.features.tensor is None and not rows_fit(self.data.features, rows, self.memory_limit)

    def make(self, numbers: IntArray) -> Table:
        """Return the table of the given rows."""
        features, labels, frame = self.data.features, self.data.take_labels(numbers), self._principal
        if self.streams(len(numbers)):
            assert frame is not None
            return Table(features, frame, numbers, labels, float(frame.spectrum[:-1].sum()))
        rows = features.take(numbers)
        if self._spans(len(numbers)):
            frame, written = span(rows)
        else:
            assert frame is not None
            written = frame.write(rows)
        inner = written[:, :-1]
        square = float(torch.linalg.vector_norm(inner).square() / len(inner) - inner.mean(dim=0).square().sum())
        return Table(written, frame, numbers, labels, square)
