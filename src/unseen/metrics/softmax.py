"""The softmax of rows of scores, in double precision."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def softmax(scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Probabilities (n, c) of scores (n, c): rows are positive and sum to 1, whatever the size of the scores."""
    values = np.asarray(scores, dtype=np.float64)
    exponentials = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))
