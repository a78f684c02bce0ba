"""Tables of rows in coordinates in which the features' second moments are diagonal: lossless, small, and fast.

The optimum of an l2-penalised linear model does not depend on the orthonormal coordinates of its features, and lies in
the span of the training rows. So (1) n rows of d > n dimensions are written in n dimensions without any loss, and (2)
in the eigenbasis of the second moments the Hessian of the logistic loss is close to diagonal, which makes a diagonal
preconditioner a very good one: by Boehning's bound (Ann. Inst. Stat. Math. 1992) H <= V (x) X'X / n. Few rows are
written in their span, many are turned or left unchanged, and rows that do not fit into memory stay on the disk.

Shapes:     X (n, d) rows; mean (d,); basis (d, r), orthonormal columns; spectrum (r + 1,), the last for the bias
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from unseen.core.arrays import IntArray
from unseen.probes.rows import STREAM_ROWS, FeatureSet, rows_fit
from unseen.probes.workers import Workers

WORTHWHILE = 0.8  # of the dimensions: as many rows are written in their span
_TURN_WEIGHTS = 4  # rows per dimension from which turning the weights at every pass costs less than turned rows
_SCORES = 1 << 20  # of one block: they stay in the processor's cache
_STREAMED_SCORES = 1 << 19  # likewise, beside the rows themselves
_SMALLEST_PRODUCT = 1 << 20  # below, one batched product of all draws is faster than one each
_NOISE = 1e-6  # directions with less than this share of the largest variance are rounding


@dataclass(frozen=True, eq=False)
class Coordinates:
    """An orthonormal basis around the mean, with the variance along each of its directions."""

    mean: Tensor
    basis: Tensor
    spectrum: Tensor

    def write(self, rows: Tensor) -> Tensor:
        """Return rows (n, d) in these coordinates, with a last column of ones, (n, r + 1)."""
        return _with_ones((rows - self.mean) @ self.basis)

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


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some rows of a table.

    Attributes:
        features: (B or 1, b, d); one column less than the weights have if there is no column of ones.
        scale: (b,) factor of each row, or None.
    """

    features: Tensor
    scale: Tensor | None = None

    def scores(self, weights: Tensor) -> Tensor:
        """Return (B, k, b) for weights (B, k, r)."""
        if self.features.shape[2] == weights.shape[2]:
            return _each(weights, self.features.transpose(1, 2))
        scores = _each(weights[:, :, :-1], self.features.transpose(1, 2))
        if self.scale is not None:
            scores *= self.scale
        return scores.add_(weights[:, :, -1:])

    def gradient(self, residual: Tensor, columns: int) -> Tensor:
        """Return (B, k, columns) for a residual (B, k, b), which is overwritten."""
        if self.features.shape[2] == columns:
            return _each(residual, self.features)
        sums = residual.sum(dim=2, keepdim=True)
        if self.scale is not None:
            residual *= self.scale
        return torch.cat([_each(residual, self.features), sums], dim=2)


def _each(left: Tensor, right: Tensor) -> Tensor:
    """Compute left[b] @ right[b] (or @ right[0]) for every b; the bits of one do not depend on the others."""
    count, rows, inner = left.shape
    if rows * inner * right.shape[2] < _SMALLEST_PRODUCT:
        return torch.bmm(left, right.expand(count, -1, -1))
    if left.device.type != "cpu":
        return left @ right
    if count == 1:
        return times_transposed(left[0], right[0].T)[None]
    shared = len(right) == 1
    return torch.stack([times_transposed(left[b], right[0 if shared else b].T) for b in range(count)])


class Table(ABC):
    """Rows that fits are trained on.

    Attributes:
        turn: coordinates of the weights, if the rows are not written in them.
    """

    turn: Coordinates | None

    @property
    @abstractmethod
    def count(self) -> int: ...

    @abstractmethod
    def blocks(self, width: int) -> list[tuple[int, int]]:
        """Return the bounds of blocks of rows, for scores of `width` columns: they depend on the data alone."""

    @abstractmethod
    def batch(self, start: int, stop: int) -> Batch:
        """Return the rows of a block."""

    def inner(self, weights: Tensor) -> Tensor:
        """Return weights as they apply to the rows of a batch."""
        return weights if self.turn is None else self.turn.inner(weights)

    def outer(self, gradient: Tensor) -> Tensor:
        """Return a gradient in the coordinates of the weights."""
        return gradient if self.turn is None else self.turn.outer(gradient)


@dataclass(frozen=True, eq=False)
class MemoryTable(Table):
    """Rows in memory.

    Attributes:
        rows: (B or 1, n, r) in the coordinates of the weights with their column of ones; or, with `turn`, (1, n, d)
            unchanged.
    """

    rows: Tensor
    turn: Coordinates | None = None

    @property
    def count(self) -> int:
        return self.rows.shape[1]

    def blocks(self, width: int) -> list[tuple[int, int]]:
        size = max(_SCORES // width, 256)
        pieces = -(-self.count // size)
        bounds = [self.count * k // pieces for k in range(pieces + 1)]
        return list(pairwise(bounds))

    def batch(self, start: int, stop: int) -> Batch:
        return Batch(self.rows[:, start:stop].float())


@dataclass(frozen=True, eq=False)
class StreamedTable(Table):
    """Rows that are read from their source at every pass, in order; the weights are turned instead.

    Attributes:
        used: (n,) whether a row is needed; blocks without one are not read.
    """

    features: FeatureSet
    used: Tensor
    turn: Coordinates

    @property
    def count(self) -> int:
        return int(self.features.count)

    def blocks(self, width: int) -> list[tuple[int, int]]:
        size = max(min(_STREAMED_SCORES // width, STREAM_ROWS), 256)
        return [bounds for bounds in self.features.blocks(size) if bool(self.used[slice(*bounds)].any())]

    def batch(self, start: int, stop: int) -> Batch:
        rows, scale = self.features.read_raw(start, stop)
        return Batch(rows[None], scale)


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows of one or several draws.

    Attributes:
        frames: coordinates of each draw, or one for all.
        scales: (B or 1,) mean square of the centred rows.
    """

    table: Table
    frames: tuple[Coordinates, ...]
    scales: Tensor

    @property
    def width(self) -> int:
        """Return the number of columns of the weights, including the bias."""
        return len(self.frames[0].spectrum)

    def coordinates(self, draw: int) -> Coordinates:
        return self.frames[draw if len(self.frames) > 1 else 0]


class ProblemMaker:
    """Write draws of one feature set in coordinates; the principal ones are computed once for all draws.

    Args:
        features: all rows.
        memory_limit: bytes that the rows of a problem may take before they are streamed.
        most: rows of the largest problem.
        workers: for the pass that computes the principal coordinates, if a problem needs them.
    """

    def __init__(self, features: FeatureSet, memory_limit: int, most: int, workers: Workers) -> None:
        self.features, self.memory_limit = features, memory_limit
        self._principal: Coordinates | None = None
        if not self._spans(most) or self.streams(most):
            run = workers.ordered if features.is_on_cpu else map
            self._principal = workers.run(principal, features, run)

    def _spans(self, rows: int) -> bool:
        """Return whether that many rows are written in their span."""
        return bool(rows <= WORTHWHILE * self.features.dimension)

    def streams(self, rows: int) -> bool:
        """Return whether a draw of that many rows is read again at every pass."""
        return self.features.tensor is None and not rows_fit(self.features, rows, self.memory_limit)

    def make(self, rows: Sequence[IntArray]) -> Problem:
        """Make the problem of draws with equally many rows."""
        features, count = self.features, len(rows[0])
        shared = all(part is rows[0] or np.array_equal(part, rows[0]) for part in rows[1:])
        unique = rows[:1] if shared else rows
        if self._spans(count) and not self.streams(count):
            frames, tables = zip(*(span(features.take(part)) for part in unique), strict=True)
            return self._written(torch.stack(tables), frames)
        frame = self._principal
        assert frame is not None
        if self.streams(count):
            used = torch.zeros(features.count, dtype=torch.bool)
            for part in unique:
                used[torch.from_numpy(part)] = True
            return Problem(StreamedTable(features, used, frame), (frame,), frame.spectrum[:-1].sum()[None])
        if count < _TURN_WEIGHTS * features.dimension:
            return self._written(torch.stack([frame.write(features.take(part)) for part in unique]), (frame,))
        everything = features.tensor is not None and shared and count == features.count
        taken = features.read(0, count)[None] if everything else torch.stack([features.take(part) for part in unique])
        scales = torch.stack([_mean_square(table) for table in taken])
        return Problem(MemoryTable(taken.to(features.precision), frame), (frame,), scales)

    def _written(self, tables: Tensor, frames: tuple[Coordinates, ...]) -> Problem:
        """Make the problem of rows that are written in the coordinates of the weights."""
        scales = torch.stack([_mean_square(table[:, :-1]) for table in tables])
        return Problem(MemoryTable(tables.to(self.features.precision)), frames, scales)


def _mean_square(rows: Tensor) -> Tensor:
    """Return the mean square of the centred rows, without a copy of them."""
    total: Tensor = torch.linalg.vector_norm(rows).square()
    return total / len(rows) - rows.mean(dim=0).square().sum()


def _choose() -> Callable[[Tensor, Tensor], Tensor]:
    """Choose the faster of the two libraries in torch for products with a transposed matrix.

    Torch calls MKL for `mm`, and oneDNN in its compiled graphs only. For a matrix of few rows, as one row per class,
    oneDNN's kernels are 7 to 16 % faster on the processors we measured (100 x 1280 x 1024 on a Zen 4: 2.52 against 2.71
    ms for scores, 2.36 against 2.72 ms for gradients, one thread). Both round in their own order.
    """
    namespace = torch.ops.mkldnn
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if available and hasattr(namespace, "_linear_pointwise"):
        product = namespace._linear_pointwise

        def by_onednn(left: Tensor, right: Tensor) -> Tensor:
            found: Tensor = product(left, right, None, "none", [], "")
            return found

        return by_onednn
    return lambda left, right: left @ right.T


_product = _choose()


def times_transposed(left: Tensor, right: Tensor) -> Tensor:
    """Compute left @ right.T of two float32 matrices; `right` may itself be a transposed view."""
    return _product(left, right) if left.device.type == "cpu" else left @ right.T
