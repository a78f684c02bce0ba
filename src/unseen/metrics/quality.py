"""Quality of features without labels: how many directions they use, and how they spread.

Papers:     Garrido et al., "RankMe", ICML 2023 [R]; Roy & Vetterli, "The effective rank", EUSIPCO 2007 [E];
            Agrawal et al., "α-ReQ", NeurIPS 2022 [A], with the fit of Stringer et al., Nature 2019 [S];
            Wang & Isola, "Understanding contrastive representation learning through alignment and uniformity on the
            hypersphere", ICML 2020 [W]
Shapes:     features (n, d), one row per image
Differs:    `effective_rank` centres the features first by default: a common offset is not a direction
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import FloatArray, FloatingArray
from unseen.core.errors import DataError
from unseen.stats.interval import full_table

_BLOCK = 2048  # rows whose distances to all others are held at once


def rankme(features: ArrayLike, *, epsilon: float = 1e-7) -> float:
    """Return RankMe: the smooth rank of the features, from 1 to min(n, d); higher is better within a family."""
    values = np.linalg.svd(full_table(features), compute_uv=False)
    return _smooth_rank(values / max(float(values.sum()), np.finfo(float).tiny) + epsilon)  # Eq. (1) of [R]


def effective_rank(features: ArrayLike, *, centre: bool = True) -> float:
    """Return the effective rank: e to the entropy of the singular values' shares."""
    matrix = full_table(features)
    values = np.linalg.svd(matrix - matrix.mean(0) if centre else matrix, compute_uv=False)
    known = values[values > 0]  # none if all images are one point
    return _smooth_rank(known / known.sum())  # Eq. (1) to (3) of [E]


def _smooth_rank(shares: FloatingArray) -> float:
    """Return e to the entropy of the shares of the singular values."""
    return float(np.exp(-np.sum(shares * np.log(shares))))


def alpha_req(features: ArrayLike, *, first: int = 4, last: int = 100) -> float:
    """Return α-ReQ: how fast the covariance's eigenvalues decay, λ_j ∝ j^-α; about 1 is good, far more means collapse.

    Args:
        features: (n, d).
        first, last: ranks that the line is fitted over, each weighted by one over its rank as in [S].
    """
    matrix = full_table(features)
    values = np.linalg.svd(matrix - matrix.mean(0), compute_uv=False) ** 2 / max(len(matrix) - 1, 1)
    known = values[values > values.max(initial=0) * 1e-12]  # the rest is rounding
    last = min(last, len(known))
    if last - first < 2:
        raise DataError(
            f"the features have {len(known)} directions that vary; a decay from rank {first} on needs at least "
            f"{first + 2}. Give more images, or a smaller first."
        )
    ranks = np.arange(first, last + 1)
    return -float(np.polyfit(np.log(ranks), np.log(known[first - 1 : last]), 1, w=1 / np.sqrt(ranks))[0])


def uniformity(features: ArrayLike, *, t: float = 2.0) -> float:
    """Return the uniformity loss of [W]: log mean exp(-t distance²) over pairs on the unit sphere; lower is better."""
    rows = _on_sphere(features)
    if len(rows) < 2:
        raise DataError("uniformity is about pairs: at least two images are needed.")
    total = 0.0
    for begin in range(0, len(rows), _BLOCK):
        squared = 2.0 - 2.0 * rows[begin : begin + _BLOCK] @ rows.T
        total += float(np.exp(-t * np.maximum(squared, 0.0)).sum())
    return float(np.log((total - len(rows)) / (len(rows) * (len(rows) - 1))))  # without pairs of one image with itself


def alignment(first: ArrayLike, second: ArrayLike, *, alpha: float = 2.0) -> float:
    """Return the alignment loss of [W]: mean distance^alpha of two views of each image on the sphere; lower is better.

    Args:
        first: (n, d) features of one view.
        second: (n, d) of another view of the same images.
        alpha: the power.
    """
    left, right = _on_sphere(first), _on_sphere(second)
    if left.shape != right.shape:
        raise DataError(f"two views of the same images have one shape; found {left.shape} and {right.shape}.")
    return float(np.mean(np.linalg.norm(left - right, axis=1) ** alpha))


def _on_sphere(features: ArrayLike) -> FloatArray:
    matrix = full_table(features)
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not norms.all():
        raise DataError("features of length 0 have no place on the sphere.")
    return np.asarray(matrix / norms)
