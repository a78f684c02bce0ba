"""ALE-tran: ALE whose scores are averaged over a graph of neighbouring images (label propagation).

Paper:      Xian et al., TPAMI 2018, section 3.5 [P]; ALE as in `unseen.zeroshot.ale`; label propagation: Fujiwara &
            Irie, "Efficient label propagation", ICML 2014, as used in Ye & Guo, CVPR 2017
Shapes:     X (n, d) features; S (c, a) class embeddings; points (n, a) images in the space of S; S_0 (n, c) first
            scores
Implements: S_0 from ALE; [P] Eqs. (19), (20): S = (I - alpha L)^-1 S_0 with L = Q^-1/2 M Q^-1/2 over a graph of nearest
            neighbours of the images, projected by W
Differs:    the unlabelled images are those that `scores` receives. In the generalized setting [P] has those of unseen
            classes; here all test images are alike. sigma, which [P] does not state, is the root of half the mean
            distance to a neighbour, so that a typical weight is exp(-1). I - alpha L is positive definite: conjugate
            gradients on all columns at once solve it without an inverse
Expected:   [P], Fig. 8, PS: aPY 45.5 (ALE 37.1 there)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.sparse.linalg import cg

from unseen.zeroshot.ale import ALE
from unseen.zeroshot.method import FloatArray, Params, Scored, ZeroShotMethod, group_by, nearest, parameters

_TOLERANCE = 1e-6


@parameters
class PropagatingMethod(ZeroShotMethod):
    """A method whose scores are propagated; a subclass implements `_points_and_scores`.

    Args:
        neighbours: of an image in the graph.
        alpha: how much neighbours count against the image's own scores, from 0 to less than 1.
    """

    neighbours: int = 10
    alpha: float = 0.9

    transductive = True
    scoring_params: ClassVar[tuple[str, ...]] = ("neighbours", "alpha")

    def _points_and_scores(self, X: FloatArray, S: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the images in the space of class embeddings, and their scores before the propagation."""
        raise NotImplementedError

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        ((_, scores),) = self._settings_scores(X, S, [{}])
        return scores

    def _settings_scores(self, X: FloatArray, S: FloatArray, settings: Sequence[Params]) -> Scored:
        for shared, own in group_by(settings, ("neighbours", "alpha")).items():
            points, first = self.set_params(**dict(shared))._points_and_scores(X, S)
            # Only differences between classes matter: a constant per image must not be propagated.
            first = first - first.mean(1, keepdims=True)
            tried = [(each.get("neighbours", self.neighbours), each.get("alpha", self.alpha)) for each in own]
            yield from zip(own, propagate(points, first, tried), strict=True)  # Eqs. (19), (20)


@parameters
class ALETran(PropagatingMethod, ALE, key="ALE-tran"):
    """Transductive attribute label embedding."""

    def _points_and_scores(self, X: FloatArray, S: FloatArray) -> tuple[FloatArray, FloatArray]:
        return X @ self.W_.astype(X.dtype), ALE._scores(self, X, S)


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
    """Return (I - alpha L)^-1 first by conjugate gradients."""
    system = eye_array(len(first), format="csr") - alpha * L
    return np.column_stack([cg(system, column, column, rtol=_TOLERANCE)[0] for column in first.T])  # Eq. (20)
