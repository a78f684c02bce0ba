"""Which rows are left out in turn, the penalty that they choose, and what they promise of other images.

Paper:      Breiman et al., "Classification and Regression Trees", 1984, Section 3.4.3 (the rule of one standard error);
            Guo et al., "On calibration of modern neural networks", ICML 2017, Section 4.2 (temperature);
            Nadeau & Bengio, "Inference for the generalization error", Machine Learning 2003 (the estimate's error);
            Cochran, "Sampling techniques", 1977, Section 2.6 (the finite population correction)
Implements: five folds, stratified; N folds with one image per class where the largest class has N < 5 images; one fold
            of a fifth from HOLD_OUT_ROWS rows; none where every class has a single image
Differs:    among penalties within one standard error of the best, the error being that of the paired difference, the
            one nearest a default is taken, not the strongest
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from unseen.probes.rows import IntArray
from unseen.probes.softmax import TRAINS_ONLY
from unseen.stats import Interval

FOLDS = 5
HOLD_OUT_ROWS = 5000
_FOLD_STREAM = 3  # of a run's seed: its draws have the first three
_SHARPEST, _FLATTEST = 0.25, 20.0  # temperatures

BoolArray = npt.NDArray[np.bool_]


def draw_folds(labels: IntArray, seed: int) -> tuple[npt.NDArray[np.int8], int]:
    """The fold that leaves each row out (TRAINS_ONLY for a class's only image), and how many fits there are.

    Args:
        labels: class index per row.
        seed: of the run.
    """
    counts = np.bincount(labels)
    largest = int(counts.max())
    folds = np.full(len(labels), TRAINS_ONLY, np.int8)
    if largest < 2:
        return folds, 0
    parts = min(FOLDS, largest)
    generator = np.random.default_rng([seed, _FOLD_STREAM])
    # Classes begin at fold after fold, so that folds stay equal in size however few images a class has.
    begin = 0
    for name in np.flatnonzero(counts > 1):
        rows = np.flatnonzero(labels == name)
        folds[rows[generator.permutation(len(rows))]] = (np.arange(len(rows)) + begin) % parts
        begin += len(rows)
    if len(labels) >= HOLD_OUT_ROWS:
        folds[folds > 0] = TRAINS_ONLY
        return folds, 1
    return folds, parts


def choose_penalty(correct: BoolArray, penalties: Sequence[float], default: float) -> int:
    """Position of the penalty nearest the default among those within one paired standard error of the best.

    Args:
        correct: (l, m), per penalty and left-out row, whether it was classified correctly.
        penalties: (l,).
        default: the one to keep to where the rows cannot tell.
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
    """The temperature T that minimises the log loss of softmax(scores / T), by Newton's method on 1 / T.

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
        # A move of at most a factor of two, so that a flat start does not throw it out.
        moved = sharpness - slope / max(curvature, 1e-12)
        moved = min(max(moved, sharpness / 2, 1 / _FLATTEST), sharpness * 2, 1 / _SHARPEST)
        if abs(moved - sharpness) < 1e-6 * sharpness:
            break
        sharpness = moved
    return 1.0 / sharpness


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a probe's own training images say about its accuracy on other images like them.

    Attributes:
        accuracy: of left-out rows, in [0, 1], classes weighted by their share in the images that were drawn from.
        standard_error: of it.
        images: left-out rows that it comes from.
        shots: images per class that the fits behind it saw, below five shots: one less than the final fit; else None.
        rows, correct: the left-out rows (m,), by their place among those of the draw, and per penalty, strongest first,
            whether each was right (l, m).
    """

    accuracy: float
    standard_error: float
    images: int
    shots: int | None = None
    rows: IntArray | None = field(default=None, compare=False, repr=False)
    correct: BoolArray | None = field(default=None, compare=False, repr=False)


def estimate_accuracy(
    correct: BoolArray, labels: IntArray, shares: npt.NDArray[np.float64], *, rows: int, fits: int, drawn: float = 0.0
) -> tuple[float, float]:
    """Accuracy and its standard error for a population with the given shares of classes.

    The error is that of a stratified sample, its variance v raised to v (1 + (1 - f / 2) K m / t) for K fits on t rows
    each that are tested on m others. Folds share most of their training rows: which images were drawn moves all of them
    together, and the final fit once more, which a sum over left-out rows cannot see. That is the correction of Nadeau
    and Bengio: 2.25 v for five folds, 1.25 v for one fifth. It stands for the draw, so that less of it is left the
    larger the share f of all images that was drawn, as with the error of a sample from a finite population; half of it
    stays, as all images are a sample themselves. bench/probe_coverage.py counts how it holds.

    Args:
        correct: (n,) per left-out row.
        labels: (n,) class of each.
        shares: (c,) of the population; classes without left-out rows are not counted.
        rows: of the search, left out or not.
        fits: K.
        drawn: f.
    """
    counts = np.bincount(labels, minlength=len(shares)).astype(np.float64)
    seen = counts > 0
    weights = np.where(seen, shares, 0.0) / shares[seen].sum()
    hits = np.bincount(labels, correct, minlength=len(shares))
    rate = np.divide(hits, counts, out=np.zeros_like(hits), where=seen)
    accuracy = min(float(weights @ rate), 1.0)  # weights may sum to a little more than 1
    # Few images of a class say little of its own spread: each class's rate is drawn towards the mean of all by one.
    smooth = (hits + accuracy) / (counts + 1.0)
    variance = np.divide(weights**2 * smooth * (1.0 - smooth), counts, out=np.zeros_like(hits), where=seen).sum()
    overlap = len(correct) / (rows - len(correct) / fits)  # K m / t
    return accuracy, math.sqrt(float(variance) * (1.0 + (1.0 - drawn / 2) * overlap))


def prediction_interval(expected: float, error: float, images: int) -> Interval:
    """Return the 95 % prediction interval of the accuracy on new images: 1.96 sqrt(error^2 + p (1 - p) / images)."""
    spread = expected * (1.0 - expected) / images
    half = 1.96 * math.sqrt(error**2 + spread)
    return Interval(expected, max(expected - half, 0.0), min(expected + half, 1.0))
