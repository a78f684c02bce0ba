"""Kendall's tau-b between scores, for many score vectors at once; of two vectors it is `unseen.stats.kendall_tau`.

Paper:      Kendall, "The treatment of ties in ranking problems", Biometrika 1945
Shapes:     scores (..., m): one value per method; P = m (m - 1) / 2 pairs of methods
Implements: tau_b = (concordant - discordant) / sqrt((P - ties_x) (P - ties_y))
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.stats import kendall_tau as kendall_tau

SignArray = npt.NDArray[np.float32]


def pair_signs(scores: npt.ArrayLike) -> SignArray:
    """(..., P): for every pair of methods which one is ahead: 1, 0 or -1."""
    values = np.asarray(scores, np.float64)
    first, second = np.triu_indices(values.shape[-1], 1)
    return np.sign(values[..., first] - values[..., second]).astype(np.float32)


def tau_of_signs(left: SignArray, right: SignArray) -> npt.NDArray[np.float64]:
    """tau-b from signs (..., P) and (P,). Where either side has only ties it is not defined: NaN."""
    together = (left @ right).astype(np.float64)
    untied = np.abs(left).sum(axis=-1, dtype=np.float64) * np.abs(right).sum(axis=-1, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(untied > 0, together / np.sqrt(untied), np.nan))
