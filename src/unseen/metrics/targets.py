"""How good are predicted numbers, and scores of several labels per image? With intervals over test images.

Papers:     Efron & Tibshirani, "An Introduction to the Bootstrap", 1993 (percentile interval)
            Schapire & Singer, "BoosTexter", Machine Learning 2000 (label ranking average precision)
Shapes:     y (n,) numbers, p (n,) predictions; Y (n, l) booleans, S (n, l) scores; w (r, n) how often each resample
            has each image
Implements: R^2 = 1 - sum (y - p)^2 / sum (y - mean y)^2; average precision is that of `unseen.stats`
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from unseen.stats import Interval
from unseen.stats.average_precision import average_precisions as average_precisions
from unseen.stats.average_precision import mean_known as mean_known

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_RESAMPLES = 2000
_AT_ONCE = 200  # resamples in memory


def resampled(
    measure: Callable[[FloatArray], FloatArray], images: int, *, level: float = 0.95, seed: int = 0
) -> Interval:
    """The interval of a measure of weighted images: its value is that of weights 1.

    Args:
        measure: (r, n) weights -> (r,) values; NaN where a resample has none.
    """
    rng = np.random.default_rng(seed)
    share = np.full(images, 1 / images)
    found = [
        measure(rng.multinomial(images, share, size=_AT_ONCE).astype(np.float64)) for _ in range(_RESAMPLES // _AT_ONCE)
    ]
    values = np.concatenate(found)
    value = float(measure(np.ones((1, images)))[0])
    values = values[np.isfinite(values)]
    if not len(values):
        return Interval(value, float("nan"), float("nan"), level)
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high), level)


def r_squared(y: FloatArray, p: FloatArray, w: FloatArray) -> FloatArray:
    """(r,) share of the variance that predictions explain; below 0 where the mean would have done better."""
    mean = (w @ y) / w.sum(1)
    whole = w @ y**2 - w.sum(1) * mean**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(whole > 0, 1 - (w @ (y - p) ** 2) / whole, np.nan))


def mean_absolute_error(y: FloatArray, p: FloatArray, w: FloatArray) -> FloatArray:
    """(r,) in the unit of the numbers."""
    return np.asarray((w @ np.abs(y - p)) / w.sum(1))


def correlation(y: FloatArray, p: FloatArray, w: FloatArray) -> FloatArray:
    """(r,) Pearson's; of ranks it is Spearman's."""
    total = w.sum(1)
    y, p = y - y.mean(), p - p.mean()
    along, across = (w @ y) / total, (w @ p) / total
    both = (w @ (y * p)) / total - along * across
    spread = ((w @ y**2) / total - along**2) * ((w @ p**2) / total - across**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(spread > 1e-300, both / np.sqrt(np.maximum(spread, 1e-300)), np.nan))


def f1_scores(truth: BoolArray, said: BoolArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(r,) F1 of each label averaged over those that occur, and F1 of all decisions together."""
    hit, wrong, missed = w @ (truth & said), w @ (~truth & said), w @ (truth & ~said)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(hit + missed > 0, 2 * hit / (2 * hit + wrong + missed), np.nan)
        total = 2 * hit.sum(1) / (2 * hit + wrong + missed).sum(1)
    return mean_known(each), np.asarray(total)


def label_ranking_precision(truth: BoolArray, scores: FloatArray) -> FloatArray:
    """(n,) per image: of what is ranked at least as high as each of its labels, the share that are its labels.

    1 for an image without labels, or with all of them.
    """
    found = np.ones(len(truth))
    for i in np.flatnonzero(truth.any(1) & ~truth.all(1)):
        own = scores[i, truth[i]]
        among = (own[None, :] >= own[:, None]).sum(1)
        above = (scores[i][None, :] >= own[:, None]).sum(1)
        found[i] = float((among / above).mean())
    return found
