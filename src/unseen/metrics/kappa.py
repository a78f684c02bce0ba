"""Cohen's kappa with quadratic weights: agreement on an ordered scale, beyond chance.

Paper:      Cohen, "Weighted kappa", Psychological Bulletin 1968 [C]; VTAB, Appendix D
Shapes:     O (c, c) observed counts; E (c, c) counts expected from the margins; W_ij = (i - j)^2
Implements: kappa = 1 - sum(W O) / sum(W E)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.metrics.accuracy import paired


def quadratic_kappa(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Agreement of class indices in [-1, 1]: 1 is full agreement, 0 is chance.

    Where labels and predictions are all one and the same class there is nothing to disagree on: 1.
    """
    found, wanted = paired(predictions, labels)
    if not (np.issubdtype(found.dtype, np.integer) and np.issubdtype(wanted.dtype, np.integer)):
        raise DataError(f"kappa needs class indices, found {wanted.dtype} and {found.dtype}.")
    observed = np.mean((found - wanted).astype(np.float64) ** 2)
    # E[(i - j)^2] under independent margins needs their moments alone, not the c x c tables.
    expected = found.var() + wanted.var() + (found.mean() - wanted.mean()) ** 2
    return 1.0 if expected == 0 else float(1 - observed / expected)
