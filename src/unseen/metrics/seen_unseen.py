"""Zero-shot learning: per-class accuracy, the harmonic mean H, and the seen-unseen curve with its area.

Papers:     Chao, Changpinyo, Gong & Sha, "An empirical study and analysis of generalized zero-shot learning for object
            recognition in the wild", ECCV 2016 [P]; Xian et al., TPAMI 2018 [X], section 5.3
Shapes:     scores (n, c) of images against all classes; seen (c,) which of them were trained on; labels, correct,
            leads, right (n,)
Implements: Eq. (21) and (22) of [X];
            section 4.2 of [P]: a constant gamma is subtracted from the scores of seen classes; as it grows, accuracy on
            unseen classes (ts, per class, GBU Eq. (21)) rises and that on seen classes (tr) falls. AUSUC is the area
            under tr over ts
Differs:    [P] tries constants. An image changes sides at one constant, its lead, so that sorting the leads gives every
            point of the curve. A classifier that rules classes out (scores of -inf) has leads that no constant changes:
            its curve ends before the axes, and the area is that of the points it can reach
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import AnyArray, BoolArray, FloatArray
from unseen.core.errors import DataError
from unseen.metrics.accuracy import class_means
from unseen.stats import Interval, harmonic_mean_interval, per_class_interval
from unseen.stats.areas import accuracy_shares

#: One accuracy, or an array of them.
Accuracy = TypeVar("Accuracy", float, FloatArray)


def harmonic_mean(first: Accuracy, second: Accuracy) -> Accuracy:
    """Return 2 a b / (a + b) of two accuracies, fractions or percentages; 0 where both are 0. Eq. (22)."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if (a < 0).any() or (b < 0).any():
        raise DataError("a harmonic mean of accuracies needs values of 0 or more; a negative one was found.")
    found = 2 * a * b / np.where(a + b > 0, a + b, 1)
    return cast(Accuracy, found if found.ndim else float(found))


def mean_per_class(labels: ArrayLike, correct: ArrayLike) -> float:
    """Return the mean over the classes in `labels` of the share of their images that are `correct`. Eq. (21)."""
    return float(class_means(labels, correct)[1].mean())


def mean_per_class_interval(labels: ArrayLike, correct: ArrayLike, *, level: float = 0.95) -> Interval:
    """Return `mean_per_class` with its confidence interval over test images (`stats.per_class_interval`)."""
    return per_class_interval(correct, labels, level=level)


def harmonic_interval(
    first: tuple[ArrayLike, ArrayLike], second: tuple[ArrayLike, ArrayLike], *, level: float = 0.95
) -> Interval:
    """Return H of two sets of images, each as (labels, correct), with its interval (`stats.harmonic_mean_interval`)."""
    parts = [per_class_interval(correct, labels, level=level) for labels, correct in (first, second)]
    return harmonic_mean_interval(*parts)


@dataclass(frozen=True, eq=False)
class SeenUnseenCurve:
    """Points in the order of a growing constant.

    Attributes:
        ts, tr: per-class accuracy on images of unseen and of seen classes, among all classes.
        gamma: the constants at which the next point begins: one fewer than there are points.
    """

    ts: FloatArray
    tr: FloatArray
    gamma: FloatArray

    @property
    def area(self) -> float:
        """AUSUC."""
        ts, tr = np.append(0.0, self.ts), np.append(self.tr[0], self.tr)  # from the axis on
        return float((np.diff(ts) * (tr[1:] + tr[:-1]) / 2).sum())


def seen_leads(scores: AnyArray, seen: BoolArray) -> FloatArray:
    """Return (n,) by how much the best seen class leads over the best unseen one; 0 where neither has a score."""
    values = np.where(np.isnan(scores), -np.inf, scores)
    with np.errstate(invalid="ignore"):
        leads = values[:, seen].max(1) - values[:, ~seen].max(1)
    return np.where(np.isnan(leads), 0.0, leads).astype(np.float64)


def seen_unseen_outcomes(
    scores: AnyArray, labels: AnyArray, classes: AnyArray, seen: BoolArray
) -> tuple[FloatArray, BoolArray]:
    """Return the lead of each image, and whether the best class of its own kind is the right one.

    Large arrays may be given in blocks of rows; concatenate the results.
    """
    if not seen.any() or seen.all():
        raise DataError("a seen-unseen curve needs candidates of both kinds; all are of one.")
    values = np.where(np.isnan(scores), -np.inf, scores)
    known, new = classes[seen], classes[~seen]
    best = np.where(np.isin(labels, known), known[values[:, seen].argmax(1)], new[values[:, ~seen].argmax(1)])
    return seen_leads(values, seen), np.asarray(best == labels)


def seen_unseen_curve(leads: ArrayLike, right: ArrayLike, labels: ArrayLike, of_seen: ArrayLike) -> SeenUnseenCurve:
    """Return the whole curve.

    Args:
        leads, right: of `seen_unseen_outcomes`.
        labels: classes of the images.
        of_seen: which images are of seen classes.
    """
    lead, kind, weight = accuracy_shares(leads, right, labels, of_seen)
    gamma = np.unique(lead[np.isfinite(lead)])
    at = np.searchsorted(gamma, lead) + (lead > -np.inf)  # leads of -inf fall to 0, of inf behind the last
    # Point k lies between the leads k and k + 1: unseen images with smaller leads are right, seen ones with greater.
    gained, lost = (np.bincount(at[side], weight[side], len(gamma) + 2) for side in (~kind, kind))
    ts: FloatArray = np.cumsum(gained, dtype=np.float64)
    return SeenUnseenCurve(ts[:-1], np.maximum((lost.sum() - np.cumsum(lost))[:-1], 0.0), gamma)
