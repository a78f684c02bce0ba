"""Scores that compare the candidates with one another: their terms are scaled to the range of the pool, then added."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.ranking.inputs import FloatArray


def add_scaled(terms: npt.ArrayLike, signs: Sequence[float]) -> FloatArray:
    """Each column of `terms` (models, terms) scaled to [0, 1] over the models, times its sign, summed.

    A term that is equal for all models adds 0.
    """
    values = np.asarray(terms, dtype=np.float64)
    if values.ndim != 2 or len(values) < 2:
        raise DataError(
            f"a score that is relative to the pool needs at least two models; found {len(np.atleast_1d(values))}. "
            "Add a candidate, or choose a score that stands on its own, such as nleep or logme."
        )
    low, span = values.min(axis=0), np.ptp(values, axis=0)
    scaled = np.divide(values - low, span, out=np.zeros_like(values), where=span > 0)
    return np.asarray(scaled @ np.asarray(signs, dtype=np.float64))
