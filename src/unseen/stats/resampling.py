"""The bootstrap and the jackknife: errors of statistics that have no simpler formula.

Papers:     Efron & Tibshirani, "An Introduction to the Bootstrap", 1993
Shapes:     w (r, n): how often each of r resamples contains each image; a statistic maps w to (r,)
Implements: samples with replacement
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import FloatArray
from unseen.core.errors import DataError

Statistic = Callable[[FloatArray], FloatArray]

_AT_ONCE = 200  # resamples in memory


def bootstrap(
    statistic: Statistic, n: int, *, counts: ArrayLike | None = None, resamples: int = 2000, seed: int = 0
) -> FloatArray:
    """Return (resamples,) values of a statistic on resampled images.

    Args:
        statistic: maps weights (r, u) to (r,) values.
        n: number of images.
        counts: (u,) number of images of each kind, where equal images are counted instead of listed; the weights are
            then those of the kinds. By default every image is its own kind.
    """
    kinds = np.ones(n) if counts is None else np.asarray(counts, np.float64)
    if n < 1 or kinds.sum() != n:
        raise DataError(f"a bootstrap needs images, whose kinds add up to them; found {n} images.")
    generator = np.random.default_rng(seed)
    sizes = [min(_AT_ONCE, resamples - done) for done in range(0, resamples, _AT_ONCE)]
    return np.concatenate(
        [statistic(generator.multinomial(n, kinds / n, size=size).astype(np.float64)) for size in sizes]
    )


def jackknife_error(without: FloatArray) -> float:
    """Return the standard error of a statistic from its values (n,) without each of the images."""
    n = len(without)
    return float(np.sqrt(((without - without.mean()) ** 2).sum() * (n - 1) / n))
