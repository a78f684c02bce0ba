"""The accuracy that a linear head on all images will have on new ones, with its confidence interval.

Papers:     Hastie, Tibshirani & Friedman, "The Elements of Statistical Learning", 2nd ed., 7.10 (cross-validation)
            Nadeau & Bengio, "Inference for the generalization error", Machine Learning 2003 [N]
            Efron & Morris, "Data analysis using Stein's estimator and its generalizations", JASA 1975 [E]
            Cortes et al., "Learning curves: asymptotic values and rate of convergence", NeurIPS 1993 [C]
Shapes:     X (n, d) features; y (n,) classes, (n,) values or (n, t) labels in {0, 1}; outcomes (n,): 1 or 0 (right or
            wrong), or a score, of each image when its fold was held out
Implements: 1. outcomes: whether the `logistic` probe of `unseen.probes` gets an image right when its fold is held out;
               from LARGEST multiplications on, ridge regression onto class indicators. For values
               1 - (y - found)^2 / var(y), whose mean is R^2, and for several labels the precision at every right label
               averaged over the image's own, both by ridge (`unseen.ranking.ridge`). Groups and near-duplicates are in
               one fold
            2. the value: outcomes are averaged per class. A class of m images was predicted by fits on fewer of its
               images: its accuracy is extrapolated to m along the learning curve a - b m^(-1/2) [C]. Fits on two
               training-set sizes show b if all classes grow together; it is shrunk towards the b that is usual at this
               accuracy [E]. If one class grows alone, b is larger: the others do not become better. Classes are
               weighted by their shares, shrunk towards equal shares as far as chance explains that their counts differ
               [E]: otherwise a class that was sampled often would have both a large weight and many training images
            3. the interval: mid-P with an effective number of images, smaller than the number of images because fits
               share training images [N], and because groups, weights and the extrapolation add to the error
Differs:    the penalty of a held-out fold is chosen by fits that did not see it, on images of a neighbouring fold: fits
            without two folds, which cost half as much as a search for every fold. With two folds (two images of a
            class at most) there is no such fit, and the penalty is the usual one for so many images and classes
Expected:   docs/evidence/rank.md, made by bench/rank_calibration.py
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from unseen.benchmarks.rank.details import RankDetails
from unseen.core.arrays import AnyArray, FloatArray, IntArray
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.data.dataset import CLASS, NUMBER
from unseen.ranking.cards import LBFGS_STEPS, Sizes
from unseen.ranking.inputs import check_labels, check_rows, proportional_folds
from unseen.ranking.ridge import (
    FOLDS,
    Crossed,
    Smaller,
    check_targets,
    class_task,
    cross_validate,
    label_task,
    nested,
    value_task,
)
from unseen.stats import Candidate, Interval
from unseen.stats.means import Mean, estimate_mean, share_interval, t_interval

if TYPE_CHECKING:
    from unseen.probes.sampling import Estimate

#: n x d x classes from which ridge regression takes the place of the logistic one.
LARGEST = 1 << 33
#: Up to so many classes, folds have the classes in proportion, rather than equal sizes.
FEW_CLASSES = 5
LEVEL = 0.95
#: Factor on the standard error of a difference of two candidates.
SCATTER = 1.25
#: Factor on the standard error of a value (`spread`): a constant, and what errors, few images and few per class add.
WIDTH = (0.85, 0.6, 20.0, 1.0)
#: Usual gain b of accuracy p, where accuracy is a - b m^(-1/2) for m training images per class [C], and its standard
#: deviation, both in units of p (1 - p).
GAIN, GAIN_ERROR = 1.8, 0.25
#: How many times as much a class gains if it grows alone.
ALONE = 3.0
#: Largest distance (1 - cosine) of near-duplicates, relative to that of the NEIGHBOURS-th neighbour (for features of
#: FULL dimensions or more), and in all.
NEAR, WITHIN = 0.2, 0.1
NEIGHBOURS, FULL = 5, 32
#: Dimensions of the random projection in which near-duplicates among many images are searched.
_PROJECTED, _MANY = 128, 5000
_EQUAL = 1e-6


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Cross-validated outcomes of one candidate.

    Attributes:
        outcomes: (n,) of each image; NaN if every fit has seen it, or none has seen its class.
        index: (n,) class of each image; zeros if targets are not classes.
        groups: (n,) group of each image: images of a group are in one fold.
        seen: (n,) groups of the image's class (all groups without classes) that the fit on the other folds has seen.
        ratio: mean share of all groups that a fit has seen.
        gain, gain_error: mean gain of outcomes per doubling of the training images, and its standard error; NaN and
            infinity if it could not be measured.
        copies: number of images that are near-duplicates of another one.
    """

    outcomes: FloatArray
    index: IntArray
    groups: IntArray
    seen: IntArray
    ratio: float
    gain: float = math.nan
    gain_error: float = math.inf
    copies: int = 0


def cross_validated(
    features: AnyArray, targets: AnyArray, kind: str, *, seed: int = 0, groups: IntArray | None = None
) -> Outcomes:
    """Return the outcome of every image by a linear head that was fitted without the image's fold.

    Args:
        features: (n, d).
        targets: (n,) classes, (n,) or (n, t) values, or (n, t) labels in {0, 1}.
        kind: of the targets.
        seed: of the folds.
        groups: (n,) such as the video of each frame; near-duplicates are added to them.

    Raises:
        DataError: constant or non-finite features, or no class of two groups.
    """
    from unseen.probes.sampling import draw_folds  # torch, which planning does not need

    if kind == CLASS:
        check_rows(features)
        index, classes = (known := check_labels(targets, len(features))).index, known.classes
    else:
        rows, columns = check_targets(features, targets)
        index, classes = np.zeros(len(rows), np.int64), 1
        if kind != NUMBER and not np.isin(columns, (0.0, 1.0)).all():
            raise DataError("several labels per image are columns of 0 and 1; other values were found.")
    joined, copies = near_duplicates(features, groups)
    if classes <= FEW_CLASSES and len(np.unique(joined)) == len(joined):
        folds = proportional_folds(index, FOLDS, seed)
    else:
        folds = draw_folds(index, seed, joined, every=True)[0].astype(np.int64)
    if folds.max() < 1:
        raise DataError(
            "no class has two images that are not near-duplicates or of one group, so cross-validation is impossible. "
            "Add images, or use fewer classes."
        )
    if kind != CLASS:
        crossed = cross_validate(rows, folds, (value_task if kind == NUMBER else label_task)(columns))
    elif features.size * classes >= LARGEST:
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        unit = (features / np.maximum(lengths, 1e-12)).astype(np.float32)
        crossed = cross_validate(unit, folds, class_task(index, classes), index)
    else:
        crossed = _class_outcomes(features, index, folds, seed)
    units = np.unique(np.stack([index, joined, folds]), axis=1)  # a group counts once in each class
    per_fold = np.zeros((classes, int(folds.max()) + 2), np.int64)
    np.add.at(per_fold, (units[0], units[2]), 1)
    seen = per_fold.sum(axis=1)[index] - np.where(folds < 0, 0, per_fold[index, folds])
    outcomes = np.where(seen > 0, crossed.outcomes, np.nan)
    held = per_fold.sum(axis=0)
    ratio = 1.0 - float((held[:-1] ** 2).sum() / (held.sum() * held[:-1].sum()))  # the last column is in every fit
    return Outcomes(outcomes, index, joined, seen, ratio, *_gain(crossed, joined), copies)


def _class_outcomes(features: AnyArray, index: IntArray, folds: IntArray, seed: int) -> Crossed:
    """Return whether each image is classified correctly by a logistic fit on the other folds."""
    from unseen.probes import evaluate, logistic, rows, sampling, solvers  # torch, which planning does not need
    from unseen.probes.rows import FeatureSet

    fits, count = int(folds.max()) + 1, len(index)
    data = evaluate.labelled(FeatureSet(np.asarray(features), "features"), index)
    # Fits without two neighbouring folds choose the penalty of each of them on images of the other.
    pairs = [[(k, (k + 1) % fits) for k in range(start, start + fits - 1, 2)] for start in (0, 1) if fits > 2]
    without = [np.full(count, sampling.TRAINS_ONLY) for _ in pairs]
    for held, some in zip(without, pairs, strict=True):
        for number, pair in enumerate(some):
            held[np.isin(folds, pair)] = number
    (draw,) = sampling.draw_rows(index, seed=seed)
    draws = [replace(draw, final=np.arange(count), folds=held.astype(np.int8)) for held in (folds, *without)]
    with rows.Workers() as pool:
        whole, *fitted = solvers.solve("logistic", data, draws, pool, solvers.Settings(power=1.0))
    right, *tried = (_placed(fit.estimate, count) for fit in (whole, *fitted))
    smaller = [
        Smaller([k for k in range(fits) if k not in pair], np.where(np.isin(folds, pair), held, np.nan))
        for held, some in zip(tried, pairs, strict=True)
        for pair in some
    ]
    penalties = [float(trial.parameters["regularization"]) for trial in whole.trials]
    usual = logistic.default_penalty(count, int(index.max()) + 1)

    def choose(values: FloatArray) -> int:
        if not values.size:  # two folds: no fit leaves both out
            return int(np.abs(np.log(np.asarray(penalties) / usual)).argmin())
        return sampling.choose_penalty(values > 0, penalties, usual)

    return nested(folds, index, smaller, lambda fold, place: right[place, folds == fold], choose)


def _placed(estimate: Estimate | None, count: int) -> FloatArray:
    """Return outcomes (l, n) of an estimate; NaN for rows that it did not hold out."""
    assert estimate is not None and estimate.rows is not None and estimate.correct is not None
    found = np.full((len(estimate.correct), count), np.nan)
    found[:, estimate.rows] = estimate.correct
    return found


def _gain(crossed: Crossed, groups: IntArray) -> tuple[float, float]:
    """Return the gain per unit of m^(-1/2), and its standard error over groups."""
    steps = float(crossed.steps.sum())
    if steps <= 0:
        return math.nan, math.inf
    gains = np.where(crossed.steps > 0, crossed.gains, 0.0)
    gain = float(gains.sum()) / steps
    index = np.unique(groups, return_inverse=True)[1].reshape(-1)
    rest = np.bincount(index, gains - gain * crossed.steps)
    return gain, float(np.sqrt((rest**2).sum())) / steps


def near_duplicates(features: AnyArray, groups: IntArray | None = None) -> tuple[IntArray, int]:
    """Return the group of each image, near-duplicates in one, and the number of images that duplicate another one.

    Two images are near-duplicates if the distance of their centred features is small beside the distance of other
    neighbours. On photographs this finds copies that were shrunk and encoded again. Features of few dimensions have
    near neighbours by chance, so that there only equal rows count.

    Args:
        features: (n, d).
        groups: (n,) given groups; near-duplicates join them.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from sklearn.neighbors import NearestNeighbors  # planning needs none of them

    def components(first: IntArray, second: IntArray) -> tuple[int, AnyArray]:
        return connected_components(coo_array((np.ones(len(first)), (first, second)), shape=(n, n)), directed=False)

    n, width = features.shape
    rows = np.asarray(features, np.float32) - features.mean(axis=0, dtype=np.float64).astype(np.float32)
    if n > _MANY and width > 2 * _PROJECTED:
        rows = rows @ np.random.default_rng(17).normal(size=(width, _PROJECTED)).astype(np.float32)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    count = min(NEIGHBOURS, n - 1)
    distance, place = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(rows).kneighbors()
    distance = distance**2 / 2
    scale = distance[:, -1]
    scale = np.maximum(scale, np.median(scale))  # of more copies than neighbours, all neighbours are copies
    first, second = np.repeat(np.arange(n), count), place.ravel()
    near = NEAR * min(1.0, (rows.shape[1] / FULL) ** 3)
    limit = np.minimum(near * np.minimum(scale[first], scale[second]), WITHIN)
    copied = distance.ravel() <= np.maximum(limit, _EQUAL)
    if width < FULL // 4:
        copied &= (features[first] == features[second]).all(axis=1)
    links = np.stack([first[copied], second[copied]])
    joined, index = components(*links)
    if groups is not None:
        begins, group = np.unique(groups, return_index=True, return_inverse=True)[1:]
        _, index = components(*np.append(links, [np.arange(n), begins[group.reshape(-1)]], axis=1))
    return index.astype(np.int64), n - joined


# ---- the value -------------------------------------------------------------------------------------------------------


def expect(found: Outcomes, *, balanced: bool = False) -> tuple[float, float]:
    """Return the expected value on new images, and the effective number of images of its confidence interval.

    Args:
        found: the outcomes.
        balanced: weight all classes equally, instead of by their shares.
    """
    known = np.isfinite(found.outcomes)
    values, index, fitted = found.outcomes[known], found.index[known], found.seen[known]
    bounded = bool(values.min() >= 0 and values.max() <= 1)
    classes = int(found.index.max()) + 1
    sizes = np.bincount(np.unique(np.stack([found.index, found.groups]), axis=1)[0], minlength=classes)
    mean = min(max(float(values.mean()), 0.0), 1.0)
    gain, error = shrunk_gain(mean, found.gain, found.gain_error)
    # From the fits to all images in two steps: an own class as small as the others have become, then all larger.
    level = np.maximum(sizes[index] * found.ratio, 1.0)
    together, alone = level**-0.5 - sizes[index] ** -0.5, fitted**-0.5 - level**-0.5
    usual, own_error = shrunk_gain(mean, math.nan, math.inf)
    own = ALONE * usual
    extrapolated = values + gain * together + own * alone
    counts = np.bincount(index, minlength=classes).astype(np.float64)
    seen = counts > 0
    accuracy = np.bincount(index, extrapolated, classes) / np.maximum(counts, 1)
    shares, counted = (np.full(classes, 1 / classes), 0.0) if balanced else class_shares(sizes, found.index)
    if not seen.all():  # a class of one group has no outcome: it is a class like the others, with one training image
        weights = shares[seen] / shares[seen].sum()
        accuracy[~seen] = max(weights @ accuracy[seen] - own * float(weights @ (1 - sizes[seen] ** -0.5)), 0.0)
    # New images may have classes that no image here has: a share of `new` (Good & Turing) if the images are a random
    # sample, none if the classes were chosen. Half of it is assumed.
    new = 0.0 if balanced else float((sizes == 1).sum() / max(sizes.sum(), 1))
    value = float(shares @ accuracy) * (1 - new / 2)
    weight = (shares / np.maximum(counts, 1))[index]
    first, units = np.unique(found.groups[known], return_index=True, return_inverse=True)[1:]
    of_group = np.bincount(units.reshape(-1), weight)
    size = float(of_group.sum() ** 2 / (of_group**2).sum()) / spread(len(values), len(values) / classes, value) ** 2
    means = np.bincount(units.reshape(-1), values) / np.bincount(units.reshape(-1))
    size /= counted + (1 - counted) * _within(means, index[first], float(values.var()))
    variance = float(values.var()) or 1 / len(values)
    alone_sum = float(weight @ alone) + float(shares[~seen].sum())
    extra = (float(weight @ together) * error) ** 2 + (alone_sum * own_error) ** 2 + (new * value) ** 2 / 12
    return (min(max(value, 0.0), 1.0) if bounded else value), size / (1 + size * extra / variance)


def _within(means: FloatArray, index: IntArray, variance: float) -> float:
    """Return the variance of groups within their classes, relative to that of all images.

    Classes that are easy or hard add nothing to the error of a mean in which every class has a fixed weight. One coin
    flip of variance on both sides keeps the ratio near 1 for few errors.
    """
    count = np.bincount(index)
    rest = float((means**2).sum() - (np.bincount(index, means) ** 2 / np.maximum(count, 1)).sum())
    return (rest + 1) / (variance * (len(means) - int((count > 0).sum())) + 1)


def shrunk_gain(mean: float, gain: float, error: float) -> tuple[float, float]:
    """Return the gain b, shrunk towards the usual one at this accuracy, and its standard error [E]."""
    prior, prior_error = (each * mean * (1 - mean) for each in (GAIN, GAIN_ERROR))
    if not math.isfinite(error):
        return prior, prior_error
    weight = prior_error**2 / (prior_error**2 + error**2) if prior_error else 0.0
    return weight * gain + (1 - weight) * prior, math.sqrt(weight) * error


def class_shares(sizes: IntArray, index: IntArray) -> tuple[FloatArray, float]:
    """Return the shares of classes among new images, from the number of groups of each class [E].

    The second value is the weight of the counts in them; the rest are equal shares.

    The variance of the counts beyond that of a multinomial sample with equal shares is that of the shares. Classes that
    no image has count with 0 images; their number is estimated as f1^2 / (2 f2) for f1 classes of one and f2 of two
    groups (Chao, "Nonparametric estimation of the number of classes in a population", 1984).
    """
    ones, twos = int((sizes == 1).sum()), int((sizes == 2).sum())
    every = len(sizes) + ones**2 / (2 * max(twos, 1))
    mean = float(sizes.sum()) / every
    beyond = float((sizes.astype(np.float64) ** 2).sum()) / every - mean**2 - mean
    # James and Stein's factor: the counts of two or three classes do not show how much shares vary.
    chance = max(len(sizes) - 3, 0) / max(len(sizes) - 1, 1) * mean / (max(beyond, 0.0) + mean)
    weight = 1 - chance
    shares = np.bincount(index, minlength=len(sizes)) / len(index) * weight + (1 - weight) / every
    return np.asarray(shares / shares.sum()), weight


def spread(images: int, per_class: float, value: float, width: tuple[float, float, float, float] = WIDTH) -> float:
    """Return the factor on the standard error of a value.

    Fits and their penalties vary, too: more if images are near a boundary, above all for few images or few of a class.
    The factor is at least 1, that of a fit that does not vary.
    """
    constant, errors, few, few_per_class = width
    wrong = min(max(1 - value, 0.0), 1.0)
    return max(constant + (errors + (few / max(images, 12)) ** 2) * wrong + few_per_class / per_class, 1.0)


# ---- what is stored, and what is compared ----------------------------------------------------------------------------


def packed(values: FloatArray | IntArray, index: IntArray, total: int) -> str:
    """Return one number per image of a split as text; NaN for images that are not in `index`."""
    placed = np.full(total, np.nan, "<f4")
    placed[index] = values
    return base64.b64encode(zlib.compress(placed.tobytes())).decode()


def unpacked(text: str) -> FloatArray:
    """Return the numbers that `packed` wrote."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<f4").astype(np.float64)


def expected_interval(value: float, size: float, outcomes: FloatArray) -> Interval:
    """Return the expected value on new images with its 95 % confidence interval.

    No other code turns outcomes into an interval: text, table, JSON, report and Python show this one.

    Args:
        value: expected.
        size: effective number of images.
        outcomes: (m,) those that are known.
    """
    n = len(outcomes)
    if outcomes.min() >= 0 and outcomes.max() <= 1:
        return share_interval(Mean(value, value * (1 - value) / size, size), n, LEVEL, "mid-P, extrapolated")
    error = math.sqrt(float(outcomes.var(ddof=1)) / size)
    return t_interval(value, error, n - 1, n=n, level=LEVEL, method="Student's t, extrapolated")


def estimates(found: Mapping[str, RankDetails]) -> dict[str, Candidate]:
    """Return what `stats.decide` compares, by name, over the images for which every candidate has an outcome.

    The outcomes of a candidate are moved so that their mean is its expected value: a part of the errors (for a lower
    value, of the correct predictions) is removed from each.
    """
    rows = {name: unpacked(details.outcomes) for name, details in found.items()}
    shared = np.isfinite([*rows.values()]).all(axis=0)
    estimated = {}
    for name, details in found.items():
        own, labels = rows[name][shared], unpacked(details.labels)[shared] if details.balanced else None
        mean = estimate_mean(own, labels).value
        value = mean if details.expected is None else details.expected
        interval = expected_interval(value, details.size or len(own), own)
        scale = SCATTER * math.sqrt(len(own) / (details.units or len(own)))
        outcomes = _moved(own, mean, value - mean)
        estimated[name] = Candidate(outcomes, interval, labels=labels, units="held-out images", error_scale=scale)
    return estimated


def _moved(outcomes: FloatArray, mean: float, shift: float) -> FloatArray:
    """Return outcomes whose mean is larger by `shift`, within the bounds 0 and 1 if they are."""
    if outcomes.min() < 0 or outcomes.max() > 1:
        return outcomes + shift
    if shift >= 0:
        return outcomes + (1 - outcomes) * (min(shift / (1 - mean), 1.0) if mean < 1 else 0.0)
    return outcomes * max(1 + shift / mean, 0.0) if mean > 0 else outcomes


def rank_candidate(results: Sequence[Result], metric: str) -> Candidate | None:
    """Return the expected accuracy of one result with its interval and outcomes; None for any other score."""
    details = RankDetails.read(results[0].details)
    return estimates({"": details})[""] if metric == "score" and len(results) == 1 and details.outcomes else None


def expected_accuracy(features: ArrayLike, labels: ArrayLike, *, seed: int = 0) -> float:
    """Return the expected accuracy of a linear head on new images of the same classes."""
    return expect(cross_validated(np.asarray(features), np.asarray(labels), CLASS, seed=seed))[0]


def cost(s: Sizes) -> float:
    return 4 * FOLDS * 0.8 * s.n * s.m * s.c * LBFGS_STEPS + 2 * s.n * s.d * s.m
