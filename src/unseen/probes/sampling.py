"""Which images tune, validate and train: published splits, few-shot samples, and folds of cross-validation.

Papers:     Sariyildiz et al., "Concept generalization in visual representation learning", ICCV 2021 [P],
            Section 3.4.3 and supplement B.2; the order of random numbers follows the authors' released source;
            Breiman et al., "Classification and Regression Trees", 1984, Section 3.4.3 (the rule of one standard error);
            Guo et al., "On calibration of modern neural networks", ICML 2017, Section 4.2 (temperature);
            Nadeau & Bengio, "Inference for the generalization error", Machine Learning 2003 (the estimate's error);
            Cochran, "Sampling techniques", 1977, Section 2.6 (the finite population correction)
Implements: per class a random order of its images, the last 20 % validate; N shots for tuning are sampled from the
            other 80 %, N shots for the final fit are sampled again from all of train [P];
            five folds, stratified; N folds with one image per class where the largest class has N < 5 images; one fold
            of a fifth from HOLD_OUT_ROWS rows; none where every class has a single image
Differs:    a class of 2 to 4 images still gives one to validation (20 % rounded down would be none); a class of one
            image only trains, and where that is so of every class nothing validates; a class with fewer than N images
            gives all it has; among penalties within one standard error of the best, the error being that of the paired
            difference, the one nearest a default is taken, not the strongest
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from unseen.core.arrays import BoolArray, FloatArray, IntArray
from unseen.core.errors import UsageError
from unseen.probes.solvers import SEEDS
from unseen.stats import Interval

Shots = int | Literal["all"]

FOLDS = 5
HOLD_OUT_ROWS = 5000
TRAINS_ONLY = -1  # the fold of a row that every fit sees

_SPLIT, _TUNING, _FINAL, _FOLDS = range(4)  # streams of a run's seed
_PARTS = 5  # one of them validates
_SHARPEST, _FLATTEST = 0.25, 20.0  # temperatures


@dataclass(frozen=True, eq=False)
class Draw:
    """Row numbers of one run.

    Attributes:
        tuning: rows that candidates are fitted on.
        validation: rows that candidates are compared on.
        final: rows that the chosen setting is fitted on.
        own_validation: whether the dataset has the validation split.
        folds: (n,) the fold that holds each of the final rows out, TRAINS_ONLY for none; None with own validation rows.
    """

    seed: int
    shots: Shots
    tuning: IntArray
    validation: IntArray
    final: IntArray
    own_validation: bool = False
    folds: npt.NDArray[np.int8] | None = None


def draw_rows(
    labels: IntArray,
    *,
    seed: int,
    shots: Sequence[Shots] = ("all",),
    validation_start: int | None = None,
    groups: IntArray | None = None,
) -> list[Draw]:
    """Return the draws of one seed, one per number of shots, over one common validation split.

    Args:
        labels: class index per row.
        seed: of all draws.
        shots: images per class, or "all".
        validation_start: rows from here on are the dataset's own validation split, used unchanged.
        groups: (n,) group of each row, such as the frames of one video: a group is not divided between folds, nor
            between tuning and validation rows.
    """
    own = validation_start is not None
    if validation_start is None:
        tuning, validation = _split(labels, np.random.default_rng([seed, _SPLIT]), groups)
    else:
        tuning, validation = np.arange(validation_start), np.arange(validation_start, len(labels))
    everything = np.arange(len(labels))
    draws = []
    for count in shots:
        if count == "all":
            # Nothing is sampled for a final fit on all rows, so that its folds do not depend on the seed either.
            draw = Draw(seed, count, tuning, validation, everything, own)
            draws.append(_with_folds(draw, labels, groups, SEEDS[0]))
            continue
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise UsageError(f"shots are whole numbers from 1, or 'all'; found {count!r}.")
        few = tuning[_few(labels[tuning], count, np.random.default_rng([seed, _TUNING]))]
        final = _few(labels, count, np.random.default_rng([seed, _FINAL]))
        draws.append(_with_folds(Draw(seed, count, few, validation, final, own), labels, groups, seed))
    return draws


def _with_folds(draw: Draw, labels: IntArray, groups: IntArray | None, seed: int) -> Draw:
    """Return the draw with folds that keep groups together, unless the dataset has validation rows."""
    if draw.own_validation:
        return draw
    own = None if groups is None else groups[draw.final]
    return replace(draw, folds=draw_folds(labels[draw.final], seed, own)[0])


def _split(
    labels: IntArray, generator: np.random.Generator, groups: IntArray | None = None
) -> tuple[IntArray, IntArray]:
    """Return rows to tune on and rows to validate on."""
    if groups is not None:
        folds = group_folds(labels, groups, _PARTS, generator)
        return np.flatnonzero(folds != 0), np.flatnonzero(folds == 0)
    tuning, validation = [], []
    for rows in _by_class(labels):
        order = rows[generator.permutation(len(rows))]
        held = min(max(len(rows) // _PARTS, 1), len(rows) - 1)
        tuning.append(order[: len(rows) - held])
        validation.append(order[len(rows) - held :])
    return np.concatenate(tuning), np.concatenate(validation)


def _few(labels: IntArray, count: int, generator: np.random.Generator) -> IntArray:
    """Return positions of `count` random images per class. A larger count includes the images of a smaller one."""
    return np.concatenate([rows[generator.permutation(len(rows))[:count]] for rows in _by_class(labels)])


def _by_class(labels: IntArray) -> list[IntArray]:
    """Return the rows of each class, classes ascending, rows ascending."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def draw_folds(
    labels: IntArray, seed: int, groups: IntArray | None = None, *, every: bool = False
) -> tuple[npt.NDArray[np.int8], int]:
    """Return the fold that holds each row out (TRAINS_ONLY for a class's only image), and the number of fits.

    Args:
        labels: class index per row.
        seed: of the run.
        groups: (n,) group of each row; rows of a group are held out together.
        every: hold out every fold, also of more than HOLD_OUT_ROWS rows.
    """
    generator = np.random.default_rng([seed, _FOLDS])
    if groups is None or len(np.unique(groups)) == len(groups):
        folds = _class_folds(labels, generator)
    else:
        folds = group_folds(labels, groups, FOLDS, generator)
    if len(labels) >= HOLD_OUT_ROWS and not every:
        folds[folds > 0] = TRAINS_ONLY
    return folds, int(folds.max()) + 1


def _class_folds(labels: IntArray, generator: np.random.Generator) -> npt.NDArray[np.int8]:
    """Return stratified folds of single rows."""
    folds, parts = np.full(len(labels), TRAINS_ONLY, np.int8), min(FOLDS, int(np.bincount(labels).max()))
    # Each class begins at the fold after the last one's end, so that folds stay equal in size.
    begin = 0
    for rows in _by_class(labels):
        if len(rows) > 1:
            folds[rows[generator.permutation(len(rows))]] = (np.arange(len(rows)) + begin) % parts
            begin += len(rows)
    return folds


def group_folds(labels: IntArray, groups: IntArray, parts: int, generator: np.random.Generator) -> npt.NDArray[np.int8]:
    """Return folds that divide no group, with classes in proportion as far as the groups allow.

    Groups are assigned from the largest to the smallest: each to the fold that has the fewest rows of its classes, then
    the fewest rows. There are no more folds than the class of most groups has groups. A group all of whose classes
    occur in no other group is in every fit.
    """
    index = np.unique(groups, return_inverse=True)[1].reshape(-1)
    pairs = np.unique(np.stack([index, labels]), axis=1)
    spread = np.bincount(pairs[1], minlength=int(labels.max()) + 1)  # groups of each class
    parts = min(parts, int(spread.max()))
    folds = np.full(len(labels), TRAINS_ONLY, np.int8)
    if parts < 2:
        return folds
    order, sizes = np.argsort(index, kind="stable"), np.bincount(index)
    rows = np.split(order, np.cumsum(sizes)[:-1])
    load, total = np.zeros((len(spread), parts)), np.zeros(parts)
    shuffled = generator.permutation(len(rows))
    for group in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        own, counts = np.unique(labels[rows[group]], return_counts=True)
        if (spread[own] > 1).any():
            fold = int(np.lexsort((total, counts @ load[own]))[0])
            folds[rows[group]] = fold
            load[own, fold] += counts
            total[fold] += len(rows[group])
    return folds


def choose_penalty(correct: BoolArray, penalties: Sequence[float], default: float) -> int:
    """Return the position of the penalty nearest the default among those within one paired standard error of the best.

    Args:
        correct: (l, m), per penalty and held-out row, whether it was classified correctly.
        penalties: (l,).
        default: preferred where the rows do not distinguish penalties.
    """
    distance = np.abs(np.log(np.asarray(penalties) / default))
    right = correct.astype(np.float64)
    accuracy = right.mean(axis=1)
    best = min(np.flatnonzero(accuracy == accuracy.max()), key=lambda place: distance[place])
    difference = right[best] - right
    error = difference.std(axis=1, ddof=1) / math.sqrt(correct.shape[1]) if correct.shape[1] > 1 else 0.0
    equal = difference.mean(axis=1) <= error + 1e-12  # one row of difference is one standard error exactly
    return int(min(np.flatnonzero(equal), key=lambda place: (distance[place], -accuracy[place])))


def fit_temperature(scores: Tensor, labels: Tensor) -> float:
    """Return the temperature T that minimises the log loss of softmax(scores / T), by Newton's method on 1 / T.

    Args:
        scores: (m, c) of rows that the model has not seen.
        labels: (m,).
    """
    scores = scores.double()
    own = scores.gather(1, labels[:, None])[:, 0].mean()
    sharpness = 1.0
    for _ in range(30):
        chances = torch.softmax(scores * sharpness, dim=1)
        mean = (chances * scores).sum(dim=1)
        slope = float(mean.mean() - own)
        curvature = float(((chances * scores.square()).sum(dim=1) - mean.square()).mean())
        # At most a factor of two per step, because a flat start would overshoot.
        moved = sharpness - slope / max(curvature, 1e-12)
        moved = min(max(moved, sharpness / 2, 1 / _FLATTEST), sharpness * 2, 1 / _SHARPEST)
        if abs(moved - sharpness) < 1e-6 * sharpness:
            break
        sharpness = moved
    return 1.0 / sharpness


@dataclass(frozen=True, slots=True)
class Estimate:
    """Cross-validated accuracy of a probe, from its own training images.

    Attributes:
        accuracy: of held-out rows, in [0, 1], classes weighted by their share in the images that were sampled from.
        standard_error: of it.
        images: number of held-out rows.
        shots: images per class that the fits behind it saw, below five shots: one less than the final fit; else None.
        rows, correct: the held-out rows (m,), by their position among those of the draw, and per penalty, strongest
            first, whether each was classified correctly (l, m).
    """

    accuracy: float
    standard_error: float
    images: int
    shots: int | None = None
    rows: IntArray | None = field(default=None, compare=False, repr=False)
    correct: BoolArray | None = field(default=None, compare=False, repr=False)


def estimate_accuracy(
    correct: BoolArray, labels: IntArray, shares: FloatArray, *, rows: int, fits: int, drawn: float = 0.0
) -> tuple[float, float]:
    """Return the accuracy and its standard error for a population with the given shares of classes.

    The error is that of a stratified sample, its variance v raised to v (1 + (1 - f / 2) K m / t) for K fits on t rows
    each that are tested on m others. Folds share most of their training rows: the sampled images move all of them
    together, and the final fit once more, which a sum over held-out rows does not show. That is the correction of
    Nadeau and Bengio: 2.25 v for five folds, 1.25 v for one fifth. It accounts for sampling, so it shrinks with the
    share f of all images that was sampled, as the error of a sample from a finite population does; half of it stays, as
    all images are a sample themselves. bench/probe_coverage.py measures its coverage.

    Args:
        correct: (n,) per held-out row.
        labels: (n,) class of each.
        shares: (c,) of the population; classes without held-out rows are not counted.
        rows: of the search, held out or not.
        fits: K.
        drawn: f.
    """
    counts = np.bincount(labels, minlength=len(shares)).astype(np.float64)
    seen = counts > 0
    weights = np.where(seen, shares, 0.0) / shares[seen].sum()
    hits = np.bincount(labels, correct, minlength=len(shares))
    rate = np.divide(hits, counts, out=np.zeros_like(hits), where=seen)
    accuracy = min(float(weights @ rate), 1.0)  # weights may sum to a little more than 1
    # The rate of a class with few images is uncertain: shrink it towards the mean of all by one image.
    smooth = (hits + accuracy) / (counts + 1.0)
    variance = np.divide(weights**2 * smooth * (1.0 - smooth), counts, out=np.zeros_like(hits), where=seen).sum()
    overlap = len(correct) / (rows - len(correct) / fits)  # K m / t
    return accuracy, math.sqrt(float(variance) * (1.0 + (1.0 - drawn / 2) * overlap))


def prediction_interval(expected: float, error: float, images: int) -> Interval:
    """Return the 95 % prediction interval of the accuracy on new images: 1.96 sqrt(error^2 + p (1 - p) / images)."""
    spread = expected * (1.0 - expected) / images
    half = 1.96 * math.sqrt(error**2 + spread)
    return Interval(expected, max(expected - half, 0.0), min(expected + half, 1.0))
