"""GBC: how much the classes overlap, as Gaussians, by Bhattacharyya's coefficient.

Paper:      Pandy et al., "Transferability estimation using Bhattacharyya class separability", CVPR 2022 [P]
Shapes:     f (n, d) features; mu (c, d), var (c, d) mean and variance per class
Implements: Eq. (3) to (5) of [P]: -sum over ordered pairs of classes of exp(-D_B), spherical or diagonal Gaussians
Differs:    variances are at least 1e-4 of the average variance, where a class of equal features would have none
            (public copies floor at 1e-4, for features of any scale). For spherical Gaussians the log term of
            Eq. (5) is that of determinants, so d times the log of the variances; the authors' release adds it once.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from unseen.core.errors import UnknownNameError
from unseen.ranking.cards import Sizes, gram_flops
from unseen.ranking.inputs import check_features, one_thread_if_small
from unseen.ranking.spectrum import principal_components

#: [P] reduces features to this many dimensions by PCA: in thousands every pair of classes is infinitely far apart.
DIMENSIONS = 64
_VARIANCE_FLOOR = 1e-4


@one_thread_if_small
def gbc(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    gaussian: Literal["spherical", "diagonal"] = "spherical",
    dimensions: int | None = DIMENSIONS,
) -> float:
    """Return minus the summed overlap of all pairs of classes; at most 0, higher is better.

    Args:
        gaussian: one variance per class, or one per class and dimension.
        dimensions: of the PCA that comes first; None means no PCA.
    """
    if gaussian not in ("spherical", "diagonal"):
        raise UnknownNameError("Gaussian", gaussian, ("spherical", "diagonal"))
    rows, known = check_features(features, labels)
    if dimensions is not None:
        rows = principal_components(rows, count=dimensions)
    means = known.means(rows)
    variances = known.means((rows - means[known.index]) ** 2)
    if gaussian == "spherical":
        variances = np.repeat(variances.mean(axis=1, keepdims=True), rows.shape[1], axis=1)
    variances = np.maximum(variances, _VARIANCE_FLOOR * rows.var(axis=0).mean())
    overlap = 0.0
    for first in range(known.classes - 1):
        others = slice(first + 1, None)
        shared = (variances[first] + variances[others]) / 2
        logs = np.log(shared) - (np.log(variances[first]) + np.log(variances[others])) / 2
        distances = ((means[first] - means[others]) ** 2 / shared).sum(axis=1) / 8 + logs.sum(axis=1) / 2  # Eq. (5)
        overlap += 2 * float(np.exp(-distances).sum())  # Eq. (3) counts both (i, j) and (j, i)
    return -overlap


def cost(s: Sizes) -> float:
    return gram_flops(s) + 4 * s.c * s.c * min(s.d, DIMENSIONS)
