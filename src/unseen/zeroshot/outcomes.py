"""Outcomes per test image of a zero-shot method, for its confidence intervals and comparisons with other methods.

Paper:      Xian et al., TPAMI 2018, Eqs. (21), (22)
Shapes:     zsl, ts (n,) images of unseen classes; tr (m,) images of seen classes; areas (n + m,)
Implements: per-class accuracies are means over classes of the outcomes. H and AUSUC are not means of outcomes: their
            per-image values are influence values (the delta method), whose mean over classes is the metric and whose
            variance is that of the metric. With u of c test classes unseen, an image of an unseen class has
            H + (c / u) (dH / dts) (outcome - ts)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unseen.stats import Candidate, Decision, accuracy_interval, needed_classes, per_class_interval

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_ACCURACIES = ("zsl", "ts", "tr")
_PER_IMAGE = "_per_image"


@dataclass(frozen=True, eq=False)
class ImageOutcomes:
    """Outcomes per test image. Images are ordered by class, so that the number of images per class gives their classes.

    Attributes:
        zsl, ts: whether each image of an unseen class is classified correctly, among unseen and among all classes.
        tr: whether each image of a seen class is classified correctly among all classes; empty without such images.
        unseen_counts, seen_counts: number of test images of each class.
        areas: components of AUSUC (`stats.area_components`), images of unseen classes first; empty without a curve.
        area: AUSUC, if `areas` are rounded; by default their mean.
    """

    zsl: BoolArray
    ts: BoolArray
    tr: BoolArray
    unseen_counts: IntArray
    seen_counts: IntArray
    areas: FloatArray
    area: float | None = None

    @property
    def consistent(self) -> bool:
        """Whether there is one outcome per image."""
        unseen, seen = int(self.unseen_counts.sum()), int(self.seen_counts.sum())
        sizes = [len(each) for each in (self.zsl, self.ts, self.tr)]
        return unseen > 0 and sizes == [unseen, unseen, seen] and len(self.areas) in (0, unseen + seen)

    def labels(self, metric: str) -> IntArray:
        """Return the class of each image that a metric is measured on, counted from 0, unseen classes first."""
        counts = {"tr": self.seen_counts, "zsl": self.unseen_counts, "ts": self.unseen_counts}.get(metric)
        counts = np.concatenate([self.unseen_counts, self.seen_counts]) if counts is None else counts
        return np.repeat(np.arange(len(counts)), counts)

    def values(self, metric: str) -> FloatArray | None:
        """Return one value per image, whose mean over classes is the metric; None if it is unknown."""
        if metric in _ACCURACIES:
            found = np.asarray(getattr(self, metric), np.float64)
        elif metric == "H" and len(self.tr):
            found = self._harmonic()
        elif metric == "AUSUC" and len(self.areas):
            found = self._influence(self.areas, 1.0, 1.0, value=self.area)
        else:
            return None
        return found if len(found) else None

    def _harmonic(self) -> FloatArray:
        ts, tr = (_mean(getattr(self, name), self.labels(name)) for name in ("ts", "tr"))
        total = ts + tr
        slopes = (2 * tr**2 / total**2, 2 * ts**2 / total**2) if total > 0 else (0.0, 0.0)
        value = 2 * ts * tr / total if total > 0 else 0.0
        return self._influence(np.concatenate([self.ts, self.tr]), *slopes, value=value)

    def _influence(
        self, outcomes: npt.NDArray[np.generic], of_unseen: float, of_seen: float, value: float | None = None
    ) -> FloatArray:
        """Return influence values of a function of both means over classes, from its two derivatives."""
        labels = self.labels("")
        unseen, seen = len(self.unseen_counts), len(self.seen_counts)
        found = np.empty(len(labels))
        for side, slope, classes in ((labels < unseen, of_unseen, unseen), (labels >= unseen, of_seen, seen)):
            mean = _mean(outcomes[side], labels[side])
            found[side] = slope * (unseen + seen) / classes * (outcomes[side].astype(np.float64) - mean)
            value = mean if value is None else value
        return found + (value or 0.0)


def zeroshot_candidate(outcomes: Sequence[ImageOutcomes], metric: str, units: str = "") -> Candidate | None:
    """Return what `stats.decide` takes for a metric: the values per image of one or more seeds on the same images.

    Accuracies have their interval; that of H and AUSUC is the caller's. None if the outcomes do not give the metric.
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


def class_candidate(accuracies: npt.ArrayLike, units: str = "") -> Candidate:
    """Return what `stats.decide` takes for accuracies of unseen classes, for a claim about new classes."""
    return Candidate(outcomes=np.asarray(accuracies, np.float64), over_classes=True, units=units)


def power_statement(per_class: Mapping[str, FloatArray], decision: Decision) -> str:
    """Return whether the classes separate the best candidate from the next, and how many classes would.

    Args:
        per_class: accuracies by candidate, of the same classes.
        decision: of the same candidates over classes.
    """
    if len(decision.order) < 2:
        return ""
    first, second = decision.order[:2]
    found, classes = decision.pairs[first, second], len(per_class[first])
    if found.significant:
        return f"{classes} unseen classes separate {first} from {second}"
    count = needed_classes(per_class[first] - per_class[second])
    needed = f"about {count:,} would (80 % power)" if count else "no number of classes follows from the difference"
    if count is not None and count <= classes:
        needed = "one comparison alone would, without the correction for several"
    return f"{classes} unseen classes cannot separate {first} and {second}; {needed}"


def _mean(outcomes: npt.NDArray[np.generic], labels: IntArray) -> float:
    """Return the mean over classes of the mean outcome. Eq. (21)."""
    _, index = np.unique(labels, return_inverse=True)
    return float((np.bincount(index, outcomes.astype(np.float64)) / np.bincount(index)).mean())
