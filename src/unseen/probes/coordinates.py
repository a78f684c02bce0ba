"""Coordinates in which the features' second moments are diagonal: lossless, smaller where rows are few, and fast.

An l2-penalised linear model does not care in which orthonormal coordinates its features are written, and its optimum
lies in the span of the training rows. So (1) n rows of d > n dimensions are written in n dimensions without any loss,
and (2) in the eigenbasis of the second moments the Hessian of the logistic loss is close to diagonal, which makes a
diagonal preconditioner a very good one: Boehning's bound (Ann. Inst. Stat. Math. 1992) says H <= V (x) X'X / n.

Shapes:     X (n, d) rows; mean (d,); basis (d, r), orthonormal columns; spectrum (r + 1,), the last for the bias
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from unseen.probes.rows import STREAM_ROWS, FeatureSet

_NOISE = 1e-6  # directions with less than this share of the largest variance are rounding


@dataclass(frozen=True, eq=False)
class Coordinates:
    """An orthonormal basis around the mean, with the variance along each of its directions."""

    mean: Tensor
    basis: Tensor
    spectrum: Tensor

    def write(self, rows: Tensor) -> Tensor:
        """Rows (n, d) in these coordinates, with a last column of ones, (n, r + 1)."""
        return _with_ones((rows - self.mean) @ self.basis)

    def inner(self, weights: Tensor) -> Tensor:
        """Weights (..., r + 1) as they apply to rows that are not written in these coordinates, (..., d + 1)."""
        turned = weights[..., :-1] @ self.basis.T
        return torch.cat([turned, weights[..., -1:] - turned @ self.mean[:, None]], dim=-1)

    def outer(self, gradient: Tensor) -> Tensor:
        """The gradient for weights (..., r + 1) from that for `inner` of them."""
        centred = gradient[..., :-1] - gradient[..., -1:] * self.mean
        return torch.cat([centred @ self.basis, gradient[..., -1:]], dim=-1)

    def original(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Weights (c, d) and biases (c,) for features as they were."""
        inner = self.inner(weights)
        return inner[:, :-1].contiguous(), inner[:, -1].contiguous()

    def from_original(self, weights: Tensor, bias: Tensor) -> Tensor:
        """Weights (c, r + 1) in these coordinates; what lies outside them is left away."""
        return torch.cat([weights @ self.basis, (bias + weights @ self.mean)[:, None]], dim=1)


def span(rows: Tensor) -> tuple[Coordinates, Tensor]:
    """Coordinates in which few rows (n, d), n <= d, have n dimensions, and the rows in them, (n, n + 1)."""
    mean = rows.mean(dim=0)
    centred = rows - mean
    values, vectors = torch.linalg.eigh(centred @ centred.T)
    values, vectors = values.flip(0).clamp_min(0.0), vectors.flip(1)
    kept = values > _NOISE * values[0]
    lengths = torch.where(kept, values.sqrt(), 0.0)
    basis = centred.T @ (vectors * torch.where(kept, 1.0 / lengths, 0.0))
    return Coordinates(mean, basis, _with_bias(values / len(rows))), _with_ones(vectors * lengths)


def principal(features: FeatureSet, run: Callable[..., Iterable[tuple[Tensor, Tensor]]] = map) -> Coordinates:
    """Coordinates of all rows, from one pass over them."""

    def moments(bounds: tuple[int, int]) -> tuple[Tensor, Tensor]:
        block = features.read(*bounds)
        return block.T @ block, block.sum(dim=0, dtype=torch.float64)

    second = torch.zeros(features.dimension, features.dimension, dtype=torch.float64, device=features.device)
    total = torch.zeros(features.dimension, dtype=torch.float64, device=features.device)
    for part, sums in run(moments, list(features.blocks(STREAM_ROWS))):
        second += part
        total += sums
    mean = total / features.count
    values, vectors = torch.linalg.eigh((second / features.count - torch.outer(mean, mean)).float())
    values, vectors = values.flip(0).clamp_min(0.0), vectors.flip(1).contiguous()
    return Coordinates(mean.float(), vectors, _with_bias(values))


def _with_ones(rows: Tensor) -> Tensor:
    """The same rows with a last column of ones, which turns the last weight into a bias."""
    return torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)


def _with_bias(spectrum: Tensor) -> Tensor:
    return torch.cat([spectrum, spectrum.new_ones(1)])
