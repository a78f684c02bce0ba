"""Intervals of generalized zero-shot learning: the area under the seen-unseen curve.

Papers:     Chao et al., "An empirical study and analysis of generalized zero-shot learning for object recognition in
            the wild", ECCV 2016 (AUSUC);
            DeLong, DeLong & Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating
            characteristic curves", Biometrics 1988 [D]
Shapes:     leads, right, labels, of_seen (n,)
Implements: AUSUC as a two-sample U-statistic. For an image of an unseen class, its component is the per-class accuracy
            on seen classes at the constant at which the image becomes right, and the other way round for images of seen
            classes; the mean of the components over classes is the area on both sides, and the variance of
            the area is the sum of the variances of both means [D]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.stats.interval import FloatArray, Interval
from unseen.stats.means import Mean, estimate_mean, share_interval


def area_components(
    leads: npt.ArrayLike, right: npt.ArrayLike, labels: npt.ArrayLike, of_seen: npt.ArrayLike
) -> FloatArray:
    """Return (n,) components of AUSUC: their mean over the classes of either kind is the area.

    Args:
        leads: by how much the best seen class leads over the best unseen one.
        right: whether the best class of the image's own kind is the right one.
        labels: classes of the images.
        of_seen: which images are of seen classes.
    """
    lead, hit, kind = np.asarray(leads, np.float64), np.asarray(right, bool), np.asarray(of_seen, bool)
    names = np.asarray(labels)
    if lead.ndim != 1 or not lead.shape == hit.shape == kind.shape == names.shape or kind.all() or not kind.any():
        raise DataError("AUSUC needs one lead, outcome, label and kind per image, and images of both kinds.")
    weight = np.zeros(len(lead))
    for side in (False, True):
        _, index, counts = np.unique(names[kind == side], return_inverse=True, return_counts=True)
        weight[kind == side] = hit[kind == side] / counts[index] / len(counts)
    components = np.zeros(len(lead))
    components[~kind] = hit[~kind] * _share_beyond(lead[~kind], lead[kind], weight[kind])
    components[kind] = hit[kind] * _share_beyond(-lead[kind], -lead[~kind], weight[~kind])
    return components


def seen_unseen_area_interval(
    leads: npt.ArrayLike,
    right: npt.ArrayLike,
    labels: npt.ArrayLike,
    of_seen: npt.ArrayLike,
    *,
    level: float = 0.95,
) -> Interval:
    """Return AUSUC with its confidence interval over test images of these classes; arguments as `area_components`."""
    components = area_components(leads, right, labels, of_seen)
    kind, names = np.asarray(of_seen, bool), np.asarray(labels)
    unseen, seen = (estimate_mean(components[side], names[side]) for side in (~kind, kind))
    size, excess = min(unseen.size, seen.size), max(unseen.excess, seen.excess)
    mean = Mean(unseen.value, unseen.variance + seen.variance, size, excess)
    found = share_interval(mean, len(components), level)
    return Interval(found.value, found.low, found.high, level, len(components), "mid-P with DeLong's variance")


def _share_beyond(at: FloatArray, leads: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the total weight of the leads above each value; equal finite leads count half."""
    order = np.argsort(leads, kind="stable")
    above = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
    strictly = above[np.searchsorted(leads[order], at, side="right")]
    at_least = above[np.searchsorted(leads[order], at, side="left")]
    return np.asarray(np.where(np.isfinite(at), (strictly + at_least) / 2, strictly))
