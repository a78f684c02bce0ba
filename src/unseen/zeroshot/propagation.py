"""Label propagation: scores averaged over a graph of neighbouring images.

Paper:      Fujiwara & Irie, "Efficient label propagation", ICML 2014; as used in Ye & Guo, CVPR 2017
Shapes:     points (n, a) images in the space of class embeddings; S_0 (n, c) first scores
Implements: GBU Eqs. (19), (20): S = (I - alpha L)^-1 S_0 with L = Q^-1/2 M Q^-1/2 over a graph of nearest neighbours
Differs:    sigma, which GBU does not give, is by default the root of half the mean distance to a neighbour, so that a
            typical weight is exp(-1). I - alpha L is positive definite: conjugate gradients on all columns at once
            solve it without an inverse
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array, diags_array

from unseen.zeroshot.method import FloatArray
from unseen.zeroshot.novelty import nearest

_TOLERANCE = 1e-6
_MOST_STEPS = 500


def propagate(
    points: FloatArray, first: FloatArray, settings: Sequence[tuple[int, float]], *, sigma: float | None = None
) -> list[FloatArray]:
    """Return propagated scores for each (neighbours, alpha); settings with as many neighbours share a graph."""
    graphs: dict[int, csr_array] = {}
    found = []
    for neighbours, alpha in settings:
        k = min(neighbours, len(points) - 1)
        if k >= 1 and k not in graphs:
            graphs[k] = laplacian(points, k, sigma)
        found.append(solve(graphs[k], first.astype(np.float64), alpha) if k >= 1 else first)
    return found


def laplacian(points: FloatArray, k: int, sigma: float | None = None) -> csr_array:
    """Return L of the graph that joins two images if one is among the k nearest neighbours of the other."""
    squared, index = nearest(points.astype(np.float64), points.astype(np.float64), k, skip_self=True)
    distances = np.sqrt(squared)
    width = sigma if sigma is not None else float(np.sqrt(distances.mean() / 2)) or 1.0
    weights = np.exp(-distances / (2 * width**2))  # Eq. (19)
    rows = np.repeat(np.arange(len(points)), k)
    one_way = csr_array((weights.ravel(), (rows, index.ravel())), shape=(len(points), len(points)))
    M = one_way.maximum(one_way.T)
    degree = np.asarray(M.sum(axis=1)).ravel()
    scale = diags_array(1 / np.sqrt(np.maximum(degree, np.finfo(np.float64).tiny)))
    return csr_array(scale @ M @ scale)


def solve(L: csr_array, first: FloatArray, alpha: float) -> FloatArray:
    """Return (I - alpha L)^-1 first by conjugate gradients on all columns at once."""
    x = first.copy()
    r = first - (x - alpha * (L @ x))
    p = r.copy()
    rr = (r * r).sum(0)
    enough = (_TOLERANCE**2) * np.maximum((first * first).sum(0), np.finfo(np.float64).tiny)
    for _ in range(_MOST_STEPS):
        if (rr <= enough).all():
            break
        Ap = p - alpha * (L @ p)
        step = rr / np.maximum((p * Ap).sum(0), np.finfo(np.float64).tiny)
        x += step * p
        r -= step * Ap
        rr_next = (r * r).sum(0)
        p = r + (rr_next / np.maximum(rr, np.finfo(np.float64).tiny)) * p
        rr = rr_next
    return x  # Eq. (20)
