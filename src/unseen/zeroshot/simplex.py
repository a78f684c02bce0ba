"""The simplex: vectors with entries >= 0 that sum to 1, as mixtures of classes are.

Paper:      Duchi, Shalev-Shwartz, Singer & Chandra, "Efficient projections onto the l1-ball", ICML 2008
Shapes:     rows (n, c)
"""

from __future__ import annotations

import numpy as np

from unseen.zeroshot.method import FloatArray


def project_to_simplex(rows: FloatArray) -> FloatArray:
    """Each row moved to the nearest point with entries >= 0 that sum to 1."""
    ordered = -np.sort(-rows, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1
    places = np.arange(1, rows.shape[1] + 1)
    kept = (ordered - excess / places > 0).sum(1)
    shift = excess[np.arange(len(rows)), kept - 1] / kept
    return np.asarray(np.maximum(rows - shift[:, None], 0))
