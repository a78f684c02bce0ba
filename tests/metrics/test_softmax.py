"""Soft maxima against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from unseen.metrics import log_softmax, softmax


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_scipys(dtype: type) -> None:
    scores = (50 * np.random.default_rng(0).normal(size=(40, 7))).astype(dtype)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(softmax(scores), scipy.special.softmax(scores, axis=1), rtol=tolerance, atol=1e-30)
    np.testing.assert_allclose(log_softmax(scores), scipy.special.log_softmax(scores, axis=1), rtol=tolerance)
    assert softmax(scores).dtype == dtype
    np.testing.assert_allclose(softmax(scores + 1000), softmax(scores), rtol=1e-2 if dtype is np.float32 else 1e-9)
