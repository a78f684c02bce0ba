"""The softmax of rows, against scipy, and where plain exponentials would overflow."""

from __future__ import annotations

import numpy as np
import scipy.special

from unseen.metrics.softmax import softmax


def test_it_is_scipys() -> None:
    scores = np.random.default_rng(0).normal(scale=5, size=(40, 7))
    np.testing.assert_allclose(softmax(scores), scipy.special.softmax(scores, axis=1), rtol=1e-13)


def test_half_precision_in_double_precision_out() -> None:
    found = softmax(np.array([[60000, 0], [-60000, -60000]], dtype=np.float16))
    assert found.dtype == np.float64
    assert found.tolist() == [[1.0, 0.0], [0.5, 0.5]]
