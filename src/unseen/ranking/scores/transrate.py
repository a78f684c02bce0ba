"""TransRate: mutual information of features and labels, both entropies by coding rate.

Paper:      Huang et al., "Frustratingly easy transferability estimation", ICML 2022 [P]
Shapes:     Z (n, d) centred features; Z_c (n_c, d) those of class c
Implements: R(Z, eps) - R(Z, eps | Y) of [P] with R(Z, eps) = 1/2 log det(I + Z'Z / (n eps)), eps 1e-4
Differs:    classes weigh by their share of the images, as conditional entropy does; the listing in [P] assumes
            classes of one size and takes the plain mean (`balanced=True`). The same where classes have one size.
            The determinant is taken on the smaller side: det(I + Z'Z) = det(I + ZZ').
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import FloatArray
from unseen.ranking.cards import Sizes
from unseen.ranking.inputs import check_features


def transrate(
    features: npt.ArrayLike, labels: npt.ArrayLike, *, epsilon: float = 1e-4, balanced: bool = False
) -> float:
    """Return the coding rate of all features less that within their classes, in nats; higher is better.

    Args:
        epsilon: the distortion that the code may have.
        balanced: take the plain mean over classes.
    """
    rows, known = check_features(features, labels)
    centred = rows - rows.mean(axis=0)
    within = np.array([coding_rate(centred[known.index == c], epsilon) for c in range(known.classes)])
    weights = np.full(known.classes, 1 / known.classes) if balanced else known.counts / len(rows)
    return coding_rate(centred, epsilon) - float(weights @ within)


def coding_rate(rows: FloatArray, epsilon: float) -> float:
    """Return half the log-determinant of I + Z'Z / (n epsilon)."""
    images, dimensions = rows.shape
    gram = rows @ rows.T if images < dimensions else rows.T @ rows
    gram /= images * epsilon
    gram[np.diag_indices_from(gram)] += 1.0
    return 0.5 * float(np.linalg.slogdet(gram)[1])


def cost(s: Sizes) -> float:
    def rate(rows: float) -> float:
        m = min(rows, s.d)
        return 2 * rows * s.d * m + 2 / 3 * m**3

    return rate(s.n) + s.c * rate(s.n / s.c)
