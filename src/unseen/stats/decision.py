"""The decision rule: which candidates differ significantly, and which may be the best.

Papers:     Hsu, "Simultaneous confidence intervals for all distances from the best", Annals of Statistics 1981 [H];
            Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 1979
Shapes:     outcomes (n,) or (seeds, n) per candidate
Implements: every pair is compared by `paired_difference` where both candidates have outcomes on the same images, else
            by `unpaired_difference` of their intervals. A pair is significant if its p-value, adjusted by Holm over all
            pairs, is below 1 - level. A candidate is possibly the best unless another candidate leads it by more than
            chance allows [H]: z > q, with q the 1 - (1 - level) / 2 quantile of the largest of its differences
            when all candidates are equal, or unless it is significantly worse than another. With two
            candidates both rules agree
Differs:    from [H]: the joint distribution of the differences is normal with the covariance of the outcomes, sampled
            4,000 times, instead of that of independent samples
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import FloatArray, IntArray
from unseen.core.errors import DataError
from unseen.stats.difference import paired_differences, unpaired_difference
from unseen.stats.interval import Difference, Interval, check_level, groups_of, no_interval, normal_quantile, per_image
from unseen.stats.means import accuracy_interval, class_interval, estimate_mean, mean_interval, per_class_interval

_SAMPLES = 4000
_NO_INTERVAL = "only a value is known"
#: Results store outcomes other than right and wrong in half precision, so that their mean is a little off the value.
_HALF_PRECISION = 2.0**-10


@dataclass(frozen=True, eq=False)
class Candidate:
    """One candidate of a decision: give `outcomes`, or `interval`, or `value`.

    Attributes:
        outcomes: (n,) or (seeds, n): 0/1 per image, or per-image scores whose mean is the value.
        interval: the value with its interval, without outcomes or in place of the interval of their mean.
        value: the value alone: it is ordered, and no claim is made about it.
        labels: (n,) class (or task) of each image, if the value is the mean over classes (tasks) of their means.
        units: identifies the images, such as a digest of the data. Candidates with equal `units` and numbers of
            images are compared image by image.
        complete: False for a candidate that lacks a part of the evaluation: it is listed and never ranked.
        reason: what an incomplete candidate lacks.
        over_classes: whether the outcomes are accuracies of classes (or of class splits, with an `interval`), one each,
            for a claim about new classes: they are compared by the paired t-test, and have the interval of
            `class_interval` by default.
        error_scale: factor on the standard errors of differences, for outcomes of cross-validation, whose fits share
            training images; the largest of all candidates is used. The given `interval` includes such a factor already.
    """

    outcomes: ArrayLike | None = None
    interval: Interval | None = None
    value: float = math.nan
    labels: ArrayLike | None = None
    units: str = ""
    complete: bool = True
    reason: str = ""
    over_classes: bool = False
    error_scale: float = 1.0


@dataclass(frozen=True)
class Decision:
    """What the outcomes support.

    Attributes:
        order: all complete candidates, best value first; equal values in the order of their names.
        possibly_best: the candidates, best value first, that may be the best; empty where no two candidates can be
            compared.
        pairs: by (first, second), every two complete candidates, in both directions.
        intervals: the own interval of every complete candidate.
        behind: how much each candidate is behind the first of `order` that has an interval, with simultaneous limits:
            limits that exclude 0 exclude the candidate from `possibly_best`.
        places: the range of ranks of each candidate that has an interval: from 1 + the number of significantly better
            candidates to the number of those that are not significantly worse.
        best_share: the share of samples of all values within their errors in which each candidate comes first.
        untested: candidates without an interval: ordered by value, no claim is made.
        incomplete: candidates that are not ranked, with the reason.
        level: the confidence level; 1 - level bounds the probability of any false claim over all pairs.
    """

    order: tuple[str, ...]
    possibly_best: tuple[str, ...]
    pairs: Mapping[tuple[str, str], Difference]
    intervals: Mapping[str, Interval]
    behind: Mapping[str, Interval]
    places: Mapping[str, tuple[int, int]]
    best_share: Mapping[str, float]
    untested: tuple[str, ...]
    incomplete: Mapping[str, str]
    level: float

    @property
    def best(self) -> str | None:
        """The only candidate that may be the best; None if there are several, or an untested one is ahead of it."""
        if len(self.possibly_best) != 1 or self.order[0] != self.possibly_best[0]:
            return None
        return self.order[0]

    def mark(self, name: str) -> Literal["", "best", "tied"]:
        """Return how a table marks a candidate: as the best, as statistically tied for the first place, or not."""
        if name not in self.possibly_best or self.order[0] not in self.possibly_best:
            return ""
        return "best" if len(self.possibly_best) == 1 else "tied"


@dataclass(frozen=True, eq=False)
class _Entry:
    """A complete candidate with its per-image values, if it has them.

    Attributes:
        images: equal for candidates that are compared image by image.
        shares: whether the outcomes of all candidates on these images lie between 0 and 1.
        error: standard error over images that corresponds to the width of the interval.
    """

    name: str
    interval: Interval
    values: FloatArray | None = None
    labels: IntArray | None = None
    images: tuple[str, int, bytes] | None = None
    shares: bool = True
    error: float = math.nan


def decide(
    correct: Mapping[str, ArrayLike | Interval | Candidate],
    *,
    level: float = 0.95,
    higher_is_better: bool = True,
    seed: int = 0,
) -> Decision:
    """Decide which candidates differ, and which may be the best.

    Args:
        correct: by name: outcomes (n,) or (seeds, n), where arrays of equal length are of the same images; an
            `Interval`; a single number, about which no claim is made; or a `Candidate`.
        level: the confidence level.
        higher_is_better: the direction of the values.
        seed: of the samples behind `possibly_best`, `behind` and `best_share`.
    """
    check_level(level)
    entries: list[_Entry] = []
    incomplete: dict[str, str] = {}
    candidates = {name: _candidate(outcomes) for name, outcomes in correct.items()}
    error_scale = max((candidate.error_scale for candidate in candidates.values()), default=1.0)
    for name, candidate in candidates.items():
        entry = _entry(name, candidate, level) if candidate.complete else None
        if entry is None or not math.isfinite(entry.interval.value):
            incomplete[name] = candidate.reason or ("incomplete" if not candidate.complete else "no finite value")
        else:
            entries.append(entry)
    other_scores = {e.images for e in entries if not e.shares}
    sign = 1.0 if higher_is_better else -1.0
    entries = [replace(e, shares=e.images not in other_scores) for e in entries]
    entries.sort(key=lambda e: (-sign * e.interval.value, e.name))
    tested = [e for e in entries if e.interval.known]
    stored = _compare_all(entries, error_scale)
    better, worse = Counter[str](), Counter[str]()
    for (first, second), found in stored.items():  # the first has the better value, or the same
        if found.significant:
            better[second] += 1
            worse[first] += 1
    able, behind, shares = _compare_with_best(tested, stored, sign, error_scale, seed)
    return Decision(
        order=tuple(e.name for e in entries),
        possibly_best=tuple(name for name in able if not better[name]),
        pairs=stored | {(second, first): found.reversed() for (first, second), found in stored.items()},
        intervals={e.name: e.interval for e in entries},
        behind=behind,
        places={e.name: (1 + better[e.name], len(tested) - worse[e.name]) for e in tested},
        best_share=shares,
        untested=tuple(e.name for e in entries if not e.interval.known),
        incomplete=incomplete,
        level=level,
    )


def _candidate(outcomes: ArrayLike | Interval | Candidate) -> Candidate:
    if isinstance(outcomes, Candidate):
        return outcomes
    if isinstance(outcomes, Interval):
        return Candidate(interval=outcomes)
    if np.ndim(outcomes) == 0:
        return Candidate(value=float(np.asarray(outcomes)))
    return Candidate(outcomes=outcomes)


def _entry(name: str, candidate: Candidate, level: float) -> _Entry:
    interval, values, groups, images = candidate.interval, None, None, None
    if interval is not None and interval.known and interval.level != level:
        raise DataError(f"{name}: the interval has the level {interval.level}, the decision {level}; use one level.")
    own, shares = interval or no_interval(candidate.value, _NO_INTERVAL, level=level), True
    if candidate.outcomes is not None and (interval is None or interval.known):  # no interval, no claim
        values = per_image(candidate.outcomes, what=f"outcomes of {name}")
        groups = None if candidate.labels is None else groups_of(candidate.labels, len(values))[0]
        images = candidate.units, len(values), b"" if groups is None else groups.tobytes()
        shares = not candidate.over_classes and bool(values.min() >= 0 and values.max() <= 1)
        if candidate.over_classes and interval is None:
            interval = own = class_interval(values, level=level)
        if interval is None or candidate.error_scale != 1:  # a scale widens `interval`, not the interval of outcomes
            if groups is not None and not shares:
                raise DataError("means over classes need outcomes between 0 and 1; give other scores an interval.")
            images_of = accuracy_interval if shares else mean_interval
            own = images_of(values, level=level) if groups is None else per_class_interval(values, groups, level=level)
        interval = interval or own
        mean = estimate_mean(values, groups).value
        if abs(mean - interval.value) > _HALF_PRECISION * max(1.0, abs(interval.value)):
            raise DataError(f"{name}: the outcomes have the mean {mean:g}, the interval the value {interval.value:g}.")
    error = (own.high - own.low) / (2 * normal_quantile((1 + level) / 2))
    return _Entry(name, interval or own, values, groups, images, shares, error)


def _compare_all(entries: Sequence[_Entry], error_scale: float) -> dict[tuple[str, str], Difference]:
    """Compare every two candidates, the better first, with p-values adjusted over all of them."""
    stored: dict[tuple[str, str], Difference] = {}
    for place, one in enumerate(entries):
        for other, found in _compare(one, entries[place + 1 :], error_scale).items():
            stored[one.name, other] = found
    tested = [pair for pair, found in stored.items() if not math.isnan(found.p)]
    for pair, p in zip(tested, holm([stored[pair].p for pair in tested]), strict=True):
        stored[pair] = replace(stored[pair], adjusted_p=p)
    return stored


def _compare(one: _Entry, others: Sequence[_Entry], error_scale: float) -> dict[str, Difference]:
    """Compare a candidate with others, by their names."""
    found: dict[str, Difference] = {}
    paired: dict[str, FloatArray] = {}
    for other in others:
        if one.values is not None and other.values is not None and one.images == other.images:
            paired[other.name] = one.values - other.values
        else:
            found[other.name] = unpaired_difference(one.interval, other.interval, error_scale=error_scale)
    if paired:
        differences = paired_differences(
            np.stack(list(paired.values())),
            shares=one.shares,
            level=one.interval.level,
            labels=one.labels,
            error_scale=error_scale,
        )
        found |= dict(zip(paired, differences, strict=True))
    return found


def _compare_with_best(
    entries: Sequence[_Entry],
    pairs: Mapping[tuple[str, str], Difference],
    sign: float,
    error_scale: float,
    seed: int,
) -> tuple[list[str], dict[str, Interval], dict[str, float]]:
    """Return who may be the best, how far the others are behind, and how often each comes first [H]."""
    names = [e.name for e in entries]
    if len(entries) < 2:
        return [], {}, dict.fromkeys(names, 1.0)
    level, single = entries[0].interval.level, normal_quantile((1 + entries[0].interval.level) / 2)
    covariance = _covariance(entries) * error_scale**2
    generator = np.random.default_rng(np.random.SeedSequence([seed, 16]))
    samples = generator.multivariate_normal(np.zeros(len(names)), covariance, size=_SAMPLES, method="eigh")
    variances = np.diag(covariance)
    able, behind = [], {}
    for place, name in enumerate(names):
        errors = np.sqrt(np.maximum(variances + variances[place] - 2 * covariance[place], 0.0))
        others = np.flatnonzero((errors > 1e-9) & (np.arange(len(names)) != place))
        critical = single
        if len(others) > 1:
            largest = ((samples[:, others] - samples[:, [place]]) / errors[others]).max(axis=1)
            critical = max(single, float(np.quantile(largest, (1 + level) / 2)))
        scores = [-normal_quantile(max(pairs[other, name].p, 1e-300) / 2) for other in names[:place]]
        if all(score <= critical for score in scores):
            able.append(name)
        if place:
            lead = _compare(entries[0], [entries[place]], error_scale * critical / single)[name]
            lead = lead if sign > 0 else lead.reversed()
            behind[name] = Interval(lead.value, lead.low, lead.high, level, lead.n, f"simultaneous, {lead.method}")
    sampled = sign * np.array([e.interval.value for e in entries]) + samples
    first = sampled >= sampled.max(axis=1, keepdims=True) - 1e-12
    shares = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
    return able, behind, dict(zip(names, shares.tolist(), strict=True))


def _covariance(entries: Sequence[_Entry]) -> FloatArray:
    """Return the covariance of the errors of all values: images that candidates share move them together."""
    errors = np.array([e.error for e in entries])
    correlation = np.eye(len(entries))
    for images in {e.images for e in entries if e.images is not None}:
        rows = [i for i, e in enumerate(entries) if e.images == images]
        values = np.stack([v for i in rows if (v := entries[i].values) is not None])
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 if all outcomes are the same
            correlation[np.ix_(rows, rows)] = np.nan_to_num(np.corrcoef(values))
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation * np.outer(errors, errors))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values: the probability of any false rejection stays below the level of each."""
    order = np.argsort(p_values, kind="stable")
    steps = np.arange(len(order), 0, -1) * np.asarray(p_values, np.float64)[order]
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(p) for p in adjusted]
