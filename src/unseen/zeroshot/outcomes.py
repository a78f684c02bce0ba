"""Outcomes per test image of a zero-shot method, for its confidence intervals and comparisons with other methods.

Paper:      Xian et al., TPAMI 2018, Eqs. (21), (22)
Shapes:     zsl, ts (n,) images of unseen classes; tr (m,) images of seen classes
Implements: per-class accuracies are means over classes of the outcomes. H is not a mean of outcomes: its per-image
            values are influence values (the delta method), whose mean over classes is H and whose variance is that of
            H. With u of c test classes unseen, an image of an unseen class has H + (c / u) (dH / dts) (outcome - ts)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import BoolArray, FloatArray, IntArray
from unseen.metrics.seen_unseen import mean_per_class
from unseen.stats import (
    Candidate,
    Decision,
    accuracy_interval,
    needed_classes,
    per_class_interval,
    resampling_scale,
    split_interval,
)

_ACCURACIES = ("zsl", "ts", "tr")
_PER_IMAGE = "_per_image"


@dataclass(frozen=True, eq=False)
class ImageOutcomes:
    """Outcomes per test image. Images are ordered by class, so that the number of images per class gives their classes.

    Attributes:
        zsl, ts: whether each image of an unseen class is classified correctly, among unseen and among all classes.
        tr: whether each image of a seen class is classified correctly among all classes; empty without such images.
        unseen_counts, seen_counts: number of test images of each class.
    """

    zsl: BoolArray
    ts: BoolArray
    tr: BoolArray
    unseen_counts: IntArray
    seen_counts: IntArray

    def labels(self, metric: str) -> IntArray:
        """Return the class of each image that a metric is measured on, counted from 0, unseen classes first."""
        both = np.concatenate([self.unseen_counts, self.seen_counts])
        counts = {"tr": self.seen_counts, "zsl": self.unseen_counts, "ts": self.unseen_counts}.get(metric, both)
        return np.repeat(np.arange(len(counts)), counts)

    def values(self, metric: str) -> FloatArray | None:
        """Return one value per image, whose mean over classes is the metric; None if it is unknown."""
        if metric in _ACCURACIES:
            found = np.asarray(getattr(self, metric), np.float64)
        elif metric == "H" and len(self.tr):
            found = self._harmonic()
        else:
            return None
        return found if len(found) else None

    def _harmonic(self) -> FloatArray:
        """Return the influence values of H, from its derivatives with respect to ts and tr."""
        sides = [(self.labels(name), getattr(self, name).astype(np.float64)) for name in ("ts", "tr")]
        (ts, unseen), (tr, seen) = ((mean_per_class(*side), len(np.unique(side[0]))) for side in sides)  # Eq. (21)
        if ts + tr == 0:
            return np.zeros(len(self.ts) + len(self.tr))
        parts = [
            2 * (other / (ts + tr)) ** 2 * (unseen + seen) / classes * (outcomes - mean)
            for (_, outcomes), mean, other, classes in zip(sides, (ts, tr), (tr, ts), (unseen, seen), strict=True)
        ]
        return np.asarray(2 * ts * tr / (ts + tr) + np.concatenate(parts))


def zeroshot_candidate(outcomes: Sequence[ImageOutcomes], metric: str, units: str = "") -> Candidate | None:
    """Return what `stats.decide` takes for a metric: the values per image of one or more seeds on the same images.

    Accuracies have their interval; that of H is the caller's. None if the outcomes do not give the metric.
    """
    name = metric.removesuffix(_PER_IMAGE)
    found = [values for each in outcomes if (values := each.values(name)) is not None]
    per_image = metric != name
    if len(found) < len(outcomes) or not found or (per_image and name not in _ACCURACIES):
        return None
    labels, rows = outcomes[0].labels(name), np.stack(found)
    if per_image:
        return Candidate(outcomes=rows, interval=accuracy_interval(rows), units=units)
    interval = per_class_interval(rows, labels) if name in _ACCURACIES else None
    return Candidate(outcomes=rows, interval=interval, labels=labels, units=units)


def split_candidate(values: npt.ArrayLike, tested: int, pool: int) -> Candidate:
    """Return what `stats.decide` takes for accuracies of random class splits, for a claim about new classes.

    Args:
        values: (n,) one per split, in the same order for all candidates.
        tested: unseen classes of each split.
        pool: classes that they are sampled from.
    """
    found = np.asarray(values, np.float64)
    interval = split_interval(found, tested, pool)
    scale = resampling_scale(len(found), tested, pool)
    return Candidate(outcomes=found, interval=interval, over_classes=True, error_scale=scale)


def split_outcomes(metric: str, values: Mapping[str, npt.ArrayLike], seen: int, tested: int, pool: int) -> FloatArray:
    """Return one value per random class split, whose mean is the metric, for `split_candidate`.

    Two splits share more seen than unseen classes, so that their mean on seen classes is less certain for new classes
    than their spread suggests. Deviations that come from seen classes are scaled by the square root of the ratio of
    both variances. H has influence values, as for images.

    Args:
        metric: zsl, ts, tr or H.
        values: (n,) of each metric, one per split.
        seen, tested: seen and unseen classes of each split.
        pool: classes that the unseen ones are sampled from; the others are always seen.
    """
    found = {name: np.asarray(each, np.float64) for name, each in values.items()}
    mean, count = found[metric].mean(), len(found[metric])
    shared = seen**2 * pool / ((pool - tested) * tested * (seen + tested))
    ratio = np.sqrt((1 + count * shared) / (1 + count * tested / (pool - tested)))
    scales = {"zsl": 1.0, "ts": 1.0, "tr": ratio}
    far = {name: scales[name] * (each - each.mean()) for name, each in found.items() if name in scales}
    if metric == "H":
        ts, tr = found["ts"].mean(), found["tr"].mean()
        total = ts + tr or 1.0
        far[metric] = 2 * (tr / total) ** 2 * far["ts"] + 2 * (ts / total) ** 2 * far["tr"]
    return np.asarray(mean + far[metric])


def class_deviations(values: npt.ArrayLike, tested: int, pool: int) -> FloatArray:
    """Return accuracies of random class splits with the deviation from their mean that single classes would have.

    The mean of `tested` of `pool` classes has the variance (1 - tested / pool) / tested of that of classes.
    """
    found = np.asarray(values, np.float64)
    mean = found.mean()
    return np.asarray(mean + (found - mean) * np.sqrt(tested / (1 - tested / pool)))


def power_statement(
    per_class: Mapping[str, FloatArray], decision: Decision, *, classes: int = 0, splits: int = 0
) -> str:
    """Return whether the classes separate the best candidate from the next, and how many classes would.

    Args:
        per_class: accuracies by candidate, of the same classes, or `class_deviations` of the same splits.
        decision: of the same candidates over classes, or over splits.
        classes: their number, if it is not that of the accuracies.
        splits: number of random splits of these classes; 0 for one split.
    """
    if len(decision.order) < 2:
        return ""
    first, second = decision.order[:2]
    found, classes = decision.pairs[first, second], classes or len(per_class[first])
    what = f"classes in {splits} random splits" if splits else "unseen classes"
    if found.significant:
        return f"{classes} {what} separate {first} from {second}"
    count = needed_classes(per_class[first] - per_class[second])
    needed = f"about {count:,} would (80 % power)" if count else "no number of classes follows from the difference"
    if count is not None and count <= classes:
        needed = "more splits may" if splits else "one comparison alone would, without the correction for several"
    return f"{classes} {what} cannot separate {first} and {second}; {needed}"
