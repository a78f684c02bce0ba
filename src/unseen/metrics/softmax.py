"""From logits to probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def softmax(logits: Any) -> npt.NDArray[np.float64]:
    """Probabilities of logits (n, classes), row by row, in double precision."""
    values = np.asarray(logits, dtype=np.float64)
    exponentials = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))
