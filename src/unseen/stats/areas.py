"""Areas under curves with confidence intervals: average precision, and the seen-unseen curve of zero-shot learning.

Papers:     Chao et al., "An empirical study and analysis of generalized zero-shot learning for object recognition in
            the wild", ECCV 2016 (AUSUC);
            DeLong, DeLong & Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating
            characteristic curves", Biometrics 1988 [D]
Shapes:     truth (n, l) booleans, scores (n, l); w (r, n) how often each resample contains each image; leads, right,
            labels, of_seen (n,)
Implements: average precision = sum over ranks of the precision at the rank times the recall gained there, images of
            equal score taken together; the interval of its mean over labels is mid-P with the jackknife variance over
            images, to which the square of the jackknife bias is added: average precision of few images is too large
            on average. AUSUC as a two-sample U-statistic: for an image of an unseen class, its component is the
            per-class accuracy on seen classes at the constant at which the image becomes right, and the other way round
            for images of seen classes; the mean of the components over classes is the area on both sides, and the
            variance of the area is the sum of the variances of both means [D]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import BoolArray, FloatArray
from unseen.core.errors import DataError
from unseen.stats.interval import LEVEL, Interval, groups_of, no_interval, same_length
from unseen.stats.means import Mean, estimate_mean, share_interval
from unseen.stats.resampling import jackknife_error

#: With fewer images of the rarest label the interval does not keep its level (bench/coverage.py).
FEWEST_POSITIVES = 5
_GROUPS = 100  # of images that the jackknife leaves out, if there are more images


def mean_average_precision_interval(truth: ArrayLike, scores: ArrayLike) -> Interval:
    """Return the mean over labels of their average precision, with its confidence interval over test images."""
    labelled, values = np.asarray(truth, bool), np.asarray(scores, np.float64)
    if labelled.ndim != 2 or labelled.shape != values.shape or not labelled.size:
        shapes = f"{labelled.shape} and {values.shape}"
        raise DataError(f"truth and scores need the shape (images, labels); found {shapes}.")
    n, known = len(labelled), labelled.any(axis=0)
    if not known.any():
        return no_interval(float("nan"), "no image has a label", n=n)
    labelled, values = labelled[:, known], values[:, known]
    positives = labelled.sum(axis=0)

    def statistic(w: FloatArray) -> FloatArray:
        return np.asarray(np.nanmean(average_precisions(labelled, values, w), axis=1))

    value = float(statistic(np.ones((1, n)))[0])
    if positives.min() < FEWEST_POSITIVES:
        reason = f"every label needs {FEWEST_POSITIVES} test images or more for an interval that covers its level"
        return no_interval(value, reason, n=n)
    groups = np.random.default_rng(0).permutation(n) % min(n, _GROUPS)
    without = statistic((groups != np.arange(groups.max() + 1)[:, None]).astype(np.float64))
    bias = (len(without) - 1) * (float(without.mean()) - value)
    size = len(positives) ** 2 / float((1 / positives).sum())
    mean = Mean(value, jackknife_error(without) ** 2 + bias**2, size)
    return share_interval(mean, n, LEVEL, "mid-P with jackknife variance")


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
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = np.where(seen > 0, hits / seen, 0)
            found[:, label] = (precision * gained).sum(1) / hits[:, -1]
    return found


def area_components(leads: ArrayLike, right: ArrayLike, labels: ArrayLike, of_seen: ArrayLike) -> FloatArray:
    """Return (n,) components of AUSUC: their mean over the classes of either kind is the area.

    Args:
        leads: by how much the best seen class leads over the best unseen one.
        right: whether the best class of the image's own kind is the right one.
        labels: classes of the images.
        of_seen: which images are of seen classes.
    """
    lead, kind, weight = accuracy_shares(leads, right, labels, of_seen)
    components = np.zeros(len(lead))
    for side, sign in ((~kind, 1.0), (kind, -1.0)):
        components[side] = (weight[side] > 0) * _share_beyond(sign * lead[side], sign * lead[~side], weight[~side])
    return components


def accuracy_shares(
    leads: ArrayLike, right: ArrayLike, labels: ArrayLike, of_seen: ArrayLike
) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Return the leads, which images are of seen classes, and what each image adds to the per-class accuracy."""
    lead, hit, names, kind = same_length(leads, right, labels, of_seen)
    kind = kind.astype(bool)
    if kind.all() or not kind.any():
        raise DataError("AUSUC needs images of seen and of unseen classes, both kinds; all are of one kind.")
    weight = np.zeros(len(lead))
    for side in (kind, ~kind):
        index, counts = groups_of(names[side], int(side.sum()))
        weight[side] = hit[side] / counts[index] / len(counts)
    return lead.astype(np.float64), kind, weight


def seen_unseen_area_interval(
    leads: ArrayLike,
    right: ArrayLike,
    labels: ArrayLike,
    of_seen: ArrayLike,
) -> Interval:
    """Return AUSUC with its confidence interval over test images of these classes; arguments as `area_components`."""
    components = area_components(leads, right, labels, of_seen)
    kind, names = np.asarray(of_seen, bool), np.asarray(labels)
    unseen, seen = (estimate_mean(components[side], names[side]) for side in (~kind, kind))
    size, excess = min(unseen.size, seen.size), max(unseen.excess, seen.excess)
    mean = Mean(unseen.value, unseen.variance + seen.variance, size, excess)
    return share_interval(mean, len(components), LEVEL, "mid-P with DeLong's variance")


def _share_beyond(at: FloatArray, leads: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the total weight of the leads above each value; equal finite leads count half."""
    order = np.argsort(leads, kind="stable")
    above = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
    strictly = above[np.searchsorted(leads[order], at, side="right")]
    at_least = above[np.searchsorted(leads[order], at, side="left")]
    return np.asarray(np.where(np.isfinite(at), (strictly + at_least) / 2, strictly))
