"""Soft maxima over rows, for numpy arrays: one place, so that every caller is safe from overflow in the same way.

Shapes:     scores (n, c)
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Float = TypeVar("Float", bound=np.floating[Any])


def softmax(scores: npt.NDArray[Float]) -> npt.NDArray[Float]:
    """(n, c) exp(s) over its sum per row, in the precision of the scores."""
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def log_softmax(scores: npt.NDArray[Float]) -> npt.NDArray[Float]:
    """(n, c) the logarithm of `softmax`, without taking one of a 0."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
