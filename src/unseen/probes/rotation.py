"""Coordinates in which the features' second moments are diagonal: lossless, smaller where rows are few, and fast.

An l2-penalised linear model does not care in which orthonormal coordinates its features are written, and its optimum
lies in the span of the training rows. So (1) n rows of d > n dimensions are written in n dimensions without any loss,
and (2) in the eigenbasis of the second moments the Hessian of the logistic loss is close to diagonal, which makes a
diagonal preconditioner a very good one: Boehning's bound (Ann. Inst. Stat. Math. 1992) says H <= V (x) X'X / n.

Shapes:     X (n, d) rows with a last column of ones; basis (d, r), orthonormal columns; spectrum (r,)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unseen.probes.rows import FeatureSet
from unseen.probes.softmax import with_ones
from unseen.probes.workers import Workers

# Rotate in pieces of this many rows, on one thread each.
_PIECE = 2048


@dataclass(frozen=True, eq=False)
class Rotation:
    """An orthonormal basis with the mean square of the features along each of its directions.

    Attributes:
        rows: all rows in the new coordinates, or None where they do not fit into memory.
    """

    basis: Tensor
    spectrum: Tensor
    rows: Tensor | None


def rotate_all(features: FeatureSet, workers: Workers) -> Rotation:
    """The rotation of a whole feature set. Runs on the driver thread."""
    if features.tensor is not None and features.count <= features.dimension:
        rows, basis, spectrum = compress(with_ones(features.tensor))
        return Rotation(basis, spectrum, rows)
    pieces = list(features.blocks(_PIECE))

    def moments(piece: tuple[int, int]) -> Tensor:
        block = with_ones(features.read(*piece))
        return block.T @ block

    total = torch.zeros(features.dimension + 1, features.dimension + 1)
    for part in workers.ordered(moments, pieces):
        total += part
    spectrum, basis = _eigen(total / features.count)
    if features.tensor is None:
        return Rotation(basis, spectrum, None)
    rows = torch.empty(features.count, features.dimension + 1)

    def rotate(piece: tuple[int, int]) -> None:
        torch.addmm(basis[-1], features.read(*piece), basis[:-1], out=rows[slice(*piece)])

    for _ in workers.ordered(rotate, pieces):
        pass
    return Rotation(basis, spectrum, rows)


def compress(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Few rows (n, d), n <= d, in n dimensions without loss: (n, n) rows, (d, n) basis, (n,) spectrum."""
    span, triangle = torch.linalg.qr(rows.T)
    inside = triangle.T
    spectrum, turn = _eigen(inside.T @ inside / len(rows))
    return inside @ turn, span @ turn, spectrum


def _eigen(moments: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, largest first and never negative, and eigenvectors as columns."""
    values, vectors = torch.linalg.eigh(moments)
    return values.flip(0).clamp_min(0.0), vectors.flip(1).contiguous()
