"""The bootstrap and the jackknife: errors of statistics that have no simpler formula.

Papers:     Efron & Tibshirani, "An Introduction to the Bootstrap", 1993;
            Rao & Wu, "Resampling inference with complex survey data", JASA 1988 [R]
Shapes:     w (r, n): how often each of r resamples contains each image; a statistic maps w to (r,)
Implements: samples with replacement; within strata m - 1 of m images with the weight m / (m - 1) [R], which keeps the
            variance of strata of few images. Images that are alone in their stratum form one stratum together
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.stats.interval import FloatArray, Interval, groups_of, no_interval
from unseen.stats.means import Mean, share_interval

Statistic = Callable[[FloatArray], FloatArray]

_AT_ONCE = 200  # resamples in memory


def bootstrap(
    statistic: Statistic,
    n: int,
    *,
    counts: npt.ArrayLike | None = None,
    strata: npt.ArrayLike | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> FloatArray:
    """Return (resamples,) values of a statistic on resampled images.

    Args:
        statistic: maps weights (r, u) to (r,) values.
        n: number of images.
        counts: (u,) number of images of each kind, where equal images are counted instead of listed; the weights are
            then those of the kinds. By default every image is its own kind.
        strata: (n,) group within which images are resampled; not together with `counts`.
    """
    if n < 1 or (counts is not None and (strata is not None or int(np.sum(counts)) != n)):
        raise DataError(f"a bootstrap needs images, whose kinds or strata add up to them; found {n} images.")
    generator = np.random.default_rng(seed)
    found = []
    for size in (min(_AT_ONCE, resamples - done) for done in range(0, resamples, _AT_ONCE)):
        if strata is not None:
            weights = np.zeros((size, n))
            for rows in _strata(strata, n):
                drawn = max(len(rows) - 1, 1)
                part = generator.multinomial(drawn, np.full(len(rows), 1 / len(rows)), size=size)
                weights[:, rows] = part * (len(rows) / drawn)
        else:
            kinds = np.ones(n) if counts is None else np.asarray(counts, np.float64)
            weights = generator.multinomial(n, kinds / n, size=size).astype(np.float64)
        found.append(statistic(weights))
    return np.concatenate(found)


def bootstrap_share_interval(
    statistic: Statistic,
    n: int,
    *,
    size: float,
    level: float = 0.95,
    strata: npt.ArrayLike | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Return the interval of a statistic from 0 to 1: mid-P with the effective sample size of the bootstrap variance.

    Args:
        size: number of 0/1 outcomes that the statistic has the information of at least; it gives the interval its
            width where the statistic is the same on all resamples.
    """
    value = float(statistic(np.ones((1, n)))[0])
    values = bootstrap(statistic, n, strata=strata, resamples=resamples, seed=seed)
    values = values[np.isfinite(values)]
    if len(values) < resamples / 2 or not np.isfinite(value):
        return no_interval(value, "the statistic is not defined on most resamples", level=level, n=n)
    found = share_interval(Mean(value, float(values.var(ddof=1)), size), n, level)
    return Interval(found.value, found.low, found.high, level, n, "mid-P with bootstrap variance")


def jackknife_error(without: FloatArray) -> float:
    """Return the standard error of a statistic from its values (n,) without each of the images."""
    n = len(without)
    return float(np.sqrt(((without - without.mean()) ** 2).sum() * (n - 1) / n))


def _strata(labels: npt.ArrayLike, n: int) -> Iterator[npt.NDArray[np.int64]]:
    index, counts = groups_of(labels, n)
    for group in np.flatnonzero(counts > 1):
        yield np.flatnonzero(index == group)
    alone = np.flatnonzero(counts[index] == 1)
    if len(alone):
        yield alone
