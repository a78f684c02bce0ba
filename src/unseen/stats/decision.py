"""The decision rule: which candidates differ significantly, and which may be the best.

Papers:     Hsu, "Simultaneous confidence intervals for all distances from the best", Annals of Statistics 1981 [H];
            Holm, 1979 (see `difference`)
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.stats.difference import holm, paired_differences, unpaired_difference
from unseen.stats.interval import Difference, FloatArray, Interval, check_level, groups_of, no_interval, per_image
from unseen.stats.means import accuracy_interval, estimate_mean, mean_interval, per_class_interval
from unseen.stats.quantiles import normal_quantile

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
        error_scale: factor on the standard errors of differences, for outcomes of cross-validation, whose fits share
            training images. The given `interval` includes such a factor already.
    """

    outcomes: npt.ArrayLike | None = None
    interval: Interval | None = None
    value: float = math.nan
    labels: npt.ArrayLike | None = None
    units: str = ""
    complete: bool = True
    reason: str = ""
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


class _Pairs(Mapping[tuple[str, str], Difference]):
    """Differences stored in one direction and readable in both."""

    def __init__(self, stored: Mapping[tuple[str, str], Difference]) -> None:
        self._stored = stored

    def __getitem__(self, pair: tuple[str, str]) -> Difference:
        found = self._stored.get(pair)
        return found if found is not None else self._stored[pair[1], pair[0]].reversed()

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return (pair for first, second in self._stored for pair in ((first, second), (second, first)))

    def __len__(self) -> int:
        return 2 * len(self._stored)


@dataclass(frozen=True, eq=False)
class _Entry:
    """A complete candidate with its per-image values, if it has them."""

    name: str
    interval: Interval
    values: FloatArray | None = field(default=None, repr=False)
    labels: npt.NDArray[np.int64] | None = field(default=None, repr=False)
    images: tuple[str, int, bytes] | None = None  # equal for candidates that are compared image by image
    shares: bool = True  # whether the outcomes of all candidates on these images lie between 0 and 1
    over_images: Interval | None = None  # the interval of the outcomes alone, if a scale widens `interval`

    @property
    def error(self) -> float:
        """Standard error over images that corresponds to the width of the interval."""
        width = self.over_images or self.interval
        return (width.high - width.low) / (2 * normal_quantile((1 + width.level) / 2))


def decide(
    correct: Mapping[str, npt.ArrayLike | Interval | Candidate],
    *,
    level: float = 0.95,
    labels: npt.ArrayLike | None = None,
    higher_is_better: bool = True,
    error_scale: float = 1.0,
    seed: int = 0,
) -> Decision:
    """Decide which candidates differ, and which may be the best.

    Args:
        correct: by name: outcomes (n,) or (seeds, n), where arrays of equal length are of the same images; an
            `Interval`; a single number, about which no claim is made; or a `Candidate`.
        level: the confidence level.
        labels: (n,) class of each image, if the values are means of per-class accuracies.
        higher_is_better: the direction of the values.
        error_scale: factor on the standard error of every difference; the largest of this and of
            `Candidate.error_scale` is used for all.
        seed: of the samples behind `possibly_best`, `behind` and `best_share`.
    """
    check_level(level)
    entries: list[_Entry] = []
    incomplete: dict[str, str] = {}
    for name, given in correct.items():
        candidate = _candidate(given, labels)
        error_scale = max(error_scale, candidate.error_scale)
        entry = _entry(name, candidate, level) if candidate.complete else None
        if entry is None or not math.isfinite(entry.interval.value):
            incomplete[name] = candidate.reason or ("incomplete" if not candidate.complete else "no finite value")
        else:
            entries.append(entry)
    other_scores = {e.images for e in entries if not e.shares}
    entries = [replace(e, shares=e.images not in other_scores) for e in entries]
    sign = 1.0 if higher_is_better else -1.0
    entries.sort(key=lambda e: (-sign * e.interval.value, e.name))
    tested = [e for e in entries if e.interval.known]
    stored = _compare_all(entries, error_scale)
    pairs = _Pairs(stored)
    joint = _joint(tested, pairs, sign, error_scale, seed)
    better = {e.name: 0 for e in tested}
    worse = dict(better)
    for (first, second), found in stored.items():  # the first has the better value, or the same
        if found.significant:
            better[second] += 1
            worse[first] += 1
    able = [e.name for e in tested if e.name in joint.able and not better[e.name]]
    return Decision(
        order=tuple(e.name for e in entries),
        possibly_best=tuple(able) if len(tested) > 1 else (),
        pairs=pairs,
        intervals={e.name: e.interval for e in entries},
        behind=joint.behind,
        places={e.name: (1 + better[e.name], len(tested) - worse[e.name]) for e in tested},
        best_share=joint.shares,
        untested=tuple(e.name for e in entries if not e.interval.known),
        incomplete=incomplete,
        level=level,
    )


def _candidate(given: npt.ArrayLike | Interval | Candidate, labels: npt.ArrayLike | None) -> Candidate:
    if isinstance(given, Candidate):
        return given if given.labels is not None or labels is None else replace(given, labels=labels)
    if isinstance(given, Interval):
        return Candidate(interval=given)
    if np.ndim(given) == 0:
        return Candidate(value=float(np.asarray(given)))
    return Candidate(outcomes=given, labels=labels)


def _entry(name: str, candidate: Candidate, level: float) -> _Entry:
    interval = candidate.interval
    if interval is not None and interval.known and interval.level != level:
        raise DataError(f"{name}: the interval has the level {interval.level}, the decision {level}; use one level.")
    if candidate.outcomes is None or (interval is not None and not interval.known):  # no interval, no claim
        return _Entry(name, interval or no_interval(candidate.value, _NO_INTERVAL, level=level))
    values = per_image(candidate.outcomes, what=f"outcomes of {name}")
    groups = None if candidate.labels is None else groups_of(candidate.labels, len(values))[0]
    own = _own_interval(values, groups, level) if interval is None or candidate.error_scale != 1 else None
    interval = interval or own
    assert interval is not None
    mean = estimate_mean(values, groups).value
    if abs(mean - interval.value) > _HALF_PRECISION * max(1.0, abs(interval.value)):
        raise DataError(f"{name}: the outcomes have the mean {mean:g}, the interval the value {interval.value:g}.")
    images = candidate.units, len(values), b"" if groups is None else groups.tobytes()
    return _Entry(name, interval, values, groups, images, bool(values.min() >= 0 and values.max() <= 1), own)


def _own_interval(values: FloatArray, groups: npt.NDArray[np.int64] | None, level: float) -> Interval:
    if values.min() < 0 or values.max() > 1:
        if groups is not None:
            raise DataError("means over classes need outcomes between 0 and 1; give other scores an interval.")
        return mean_interval(values, level=level)
    return accuracy_interval(values, level=level) if groups is None else per_class_interval(values, groups, level=level)


def _compare_all(entries: Sequence[_Entry], error_scale: float) -> dict[tuple[str, str], Difference]:
    """Compare every two candidates, the better first, with p-values adjusted over all of them."""
    stored: dict[tuple[str, str], Difference] = {}
    for place, one in enumerate(entries):
        others = entries[place + 1 :]
        for other, found in zip(others, _compare(one, others, error_scale), strict=True):
            stored[one.name, other.name] = found
    tested = [pair for pair, found in stored.items() if not math.isnan(found.p)]
    for pair, p in zip(tested, holm([stored[pair].p for pair in tested]), strict=True):
        stored[pair] = replace(stored[pair], adjusted_p=p)
    return stored


def _compare(one: _Entry, others: Sequence[_Entry], error_scale: float) -> list[Difference]:
    """Compare a candidate with others."""
    paired = [i for i, e in enumerate(others) if one.images is not None and e.images == one.images]
    distinct = set(range(len(others))) - set(paired)
    found = {i: unpaired_difference(one.interval, others[i].interval, error_scale=error_scale) for i in distinct}
    if not paired or one.values is None or one.images is None:
        return [found[i] for i in range(len(others))]
    values = np.stack([v for i in paired if (v := others[i].values) is not None])
    compared = paired_differences(
        one.values - values,
        shares=one.shares,
        level=one.interval.level,
        labels=one.labels,
        error_scale=error_scale,
    )
    found |= dict(zip(paired, compared, strict=True))
    return [found[i] for i in range(len(others))]


@dataclass(frozen=True)
class _Joint:
    able: frozenset[str]
    behind: Mapping[str, Interval]
    shares: Mapping[str, float]


def _joint(entries: Sequence[_Entry], pairs: _Pairs, sign: float, error_scale: float, seed: int) -> _Joint:
    """Multiple comparisons with the best [H]."""
    if len(entries) < 2:
        return _Joint(frozenset(e.name for e in entries), {}, {e.name: 1.0 for e in entries})
    level, names = entries[0].interval.level, [e.name for e in entries]
    covariance = _covariance(entries) * error_scale**2
    generator = np.random.default_rng(np.random.SeedSequence([seed, 16]))
    samples = generator.multivariate_normal(np.zeros(len(names)), covariance, size=_SAMPLES, method="eigh")
    single = normal_quantile((1 + level) / 2)
    variances = np.diag(covariance)
    able, behind = set(), {}
    for place, name in enumerate(names):
        errors = np.sqrt(np.maximum(variances + variances[place] - 2 * covariance[place], 0.0))
        others = np.flatnonzero((errors > 1e-9) & (np.arange(len(names)) != place))
        critical = single
        if len(others) > 1:
            largest = ((samples[:, others] - samples[:, [place]]) / errors[others]).max(axis=1)
            critical = max(single, float(np.quantile(largest, (1 + level) / 2)))
        if all(_score(pairs[other, name]) <= critical for other in names[:place]):
            able.add(name)
        if place:
            (lead,) = _compare(entries[0], [entries[place]], error_scale * critical / single)
            lead = lead if sign > 0 else lead.reversed()
            behind[name] = Interval(lead.value, lead.low, lead.high, level, lead.n, f"simultaneous, {lead.method}")
    sampled = sign * np.array([e.interval.value for e in entries]) + samples
    first = sampled >= sampled.max(axis=1, keepdims=True) - 1e-12
    shares = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
    return _Joint(frozenset(able), behind, dict(zip(names, map(float, shares), strict=True)))


def _covariance(entries: Sequence[_Entry]) -> FloatArray:
    """Return the covariance of the errors of all values: images that candidates share move them together."""
    errors = np.array([e.error for e in entries])
    correlation = np.eye(len(entries))
    for images in dict.fromkeys(e.images for e in entries if e.images is not None):
        rows = [i for i, e in enumerate(entries) if e.images == images]
        correlation[np.ix_(rows, rows)] = _correlation(
            np.stack([v for i in rows if (v := entries[i].values) is not None])
        )
    return np.asarray(correlation * np.outer(errors, errors))


def _correlation(values: FloatArray) -> FloatArray:
    """Return correlations over images; 0 where a candidate has the same outcome on all images."""
    away = values - values.mean(axis=1, keepdims=True)
    norms = np.sqrt((away**2).sum(axis=1))
    scaled = np.divide(away, norms[:, None], out=np.zeros_like(away), where=norms[:, None] > 0)
    found = scaled @ scaled.T
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def _score(difference: Difference) -> float:
    """Return the size of a difference on the scale of the normal distribution."""
    return -normal_quantile(max(difference.p, 1e-300) / 2)
