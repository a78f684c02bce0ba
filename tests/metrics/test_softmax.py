"""softmax: against scipy, and where a plain exponential would overflow."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from unseen.metrics.softmax import softmax


def test_softmax_is_scipys_and_does_not_overflow() -> None:
    logits = np.random.default_rng(0).normal(0, 5, (7, 4)).astype(np.float32)
    assert softmax(logits) == pytest.approx(scipy.special.softmax(logits.astype(np.float64), axis=1))
    assert softmax([[1000.0, 1000.0], [-1000.0, 0.0]]).tolist() == [[0.5, 0.5], [0.0, 1.0]]
