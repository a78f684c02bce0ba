"""Average precision of images with several labels, with a confidence interval of its mean over labels.

Shapes:     truth (n, l) booleans, scores (n, l); w (r, n) how often each resample contains each image
Implements: average precision = sum over ranks of the precision at the rank times the recall gained there, images of
            equal score taken together; the interval is mid-P with the jackknife variance over images, to which
            the square of the jackknife bias is added: average precision of few images is too large on average
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.stats.interval import FloatArray, Interval, check_level, no_interval
from unseen.stats.means import Mean, share_interval
from unseen.stats.resampling import jackknife_error

BoolArray = npt.NDArray[np.bool_]

#: With fewer images of the rarest label the interval does not keep its level (bench/coverage.py).
FEWEST_POSITIVES = 5
_GROUPS = 100  # of images that the jackknife leaves out, if there are more images


def mean_average_precision_interval(truth: npt.ArrayLike, scores: npt.ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the mean over labels of their average precision, with its confidence interval over test images."""
    wanted, given = np.asarray(truth, bool), np.asarray(scores, np.float64)
    if wanted.ndim != 2 or wanted.shape != given.shape or not wanted.size:
        raise DataError(f"truth and scores need the shape (images, labels); found {wanted.shape} and {given.shape}.")
    n, positives = len(wanted), wanted.sum(axis=0)
    known = positives > 0
    if not known.any():
        return no_interval(float("nan"), "no image has a label", level=check_level(level), n=n)
    wanted, given, positives = wanted[:, known], given[:, known], positives[known]

    def statistic(w: FloatArray) -> FloatArray:
        return mean_known(average_precisions(wanted, given, w))

    value = float(statistic(np.ones((1, n)))[0])
    if positives.min() < FEWEST_POSITIVES:
        reason = f"every label needs {FEWEST_POSITIVES} test images or more for an interval that covers its level"
        return no_interval(value, reason, level=check_level(level), n=n)
    groups = np.random.default_rng(0).permutation(n) % min(n, _GROUPS)
    without = statistic((groups != np.arange(groups.max() + 1)[:, None]).astype(np.float64))
    bias = (len(without) - 1) * (float(without.mean()) - value)
    size = len(positives) ** 2 / float((1 / positives).sum())
    found = share_interval(Mean(value, jackknife_error(without) ** 2 + bias**2, size), n, level)
    return Interval(found.value, found.low, found.high, level, n, "mid-P with jackknife variance")


def average_precisions(truth: BoolArray, scores: FloatArray, w: FloatArray) -> FloatArray:
    """Return (r, l) average precision per label; NaN where a label has no image."""
    found = np.full((len(w), truth.shape[1]), np.nan)
    for label in range(truth.shape[1]):
        order = np.argsort(-scores[:, label], kind="stable")
        ordered = scores[order, label]
        ends = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)  # the last of each run of equal scores
        weights = w[:, order]
        hits = np.cumsum(weights * truth[order, label], axis=1)[:, ends]
        seen = np.cumsum(weights, axis=1)[:, ends]
        gained = np.diff(hits, axis=1, prepend=0)
        total = hits[:, -1]
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = np.where(seen > 0, hits / seen, 0)
            found[:, label] = np.where(total > 0, (precision * gained).sum(1) / total, np.nan)
    return found


def mean_known(values: FloatArray) -> FloatArray:
    """Return the mean over the labels that are not NaN, per row; NaN where all are."""
    known = np.isfinite(values)
    count = known.sum(1)
    return np.asarray(np.where(count > 0, np.where(known, values, 0).sum(1) / np.maximum(count, 1), np.nan))
