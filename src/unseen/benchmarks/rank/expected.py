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
               training-set sizes show b if all classes grow together, and classes of different sizes show b if one
               class grows alone; both are shrunk towards the b that is usual at this accuracy [E]. Classes are
               weighted by their shares, shrunk towards equal shares as far as chance explains that their counts differ
               [E]: otherwise a class that was sampled often would have both a large weight and many training images
            3. the interval: mid-P with an effective number of images, smaller than the number of images because fits
               share training images [N], and because groups, weights and the extrapolation add to the error
Differs:    an image is evaluated at the penalty that the images of the other folds choose; for `logistic` by fits that
            each held its own fold out, because a search for every fold would cost five times as much
Expected:   docs/evidence/rank.md, made by bench/rank_calibration.py
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from unseen.benchmarks.rank.details import EXPECTED, RankDetails
from unseen.core.arrays import AnyArray, FloatArray, IntArray
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.data.dataset import CLASS, NUMBER
from unseen.ranking.cards import FEATURES, LBFGS_STEPS, ScoreCard, Sizes
from unseen.ranking.inputs import check_labels, check_rows
from unseen.ranking.ridge import ClassTask, Crossed, LabelTask, ValueTask, check_targets, cross_validate, random_folds
from unseen.stats import Candidate, Interval
from unseen.stats.means import Mean, estimate_mean, share_interval, t_interval

#: n x d x classes from which ridge regression takes the place of the logistic one.
LARGEST = 1 << 33
_FOLDS = 5
_DEFAULT = 10.0**-4.5  # penalty
LEVEL = 0.95
#: Factor on the standard error of a difference of two candidates.
SCATTER = 1.25
#: Factor on the standard error of a value: it grows for few images, with which the fit and its penalty vary as well.
SPREAD, FEW, FEW_PER_CLASS = 1.3, 10.0, 0.15
#: Usual gain b of accuracy p, where accuracy is a - b m^(-1/2) for m training images per class [C], and its standard
#: deviation, both in units of p (1 - p).
GAIN, GAIN_ERROR = 1.8, 0.25
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
    if kind == CLASS:
        check_rows(features)
        index, classes = (known := check_labels(targets, len(features))).index, known.classes
    else:
        rows, columns = check_targets(features, targets)
        index, classes = np.zeros(len(rows), np.int64), 1
        if kind != NUMBER and not np.isin(columns, (0.0, 1.0)).all():
            raise DataError("several labels per image are columns of 0 and 1; other values were found.")
    joined, copies = near_duplicates(features, groups)
    if kind == CLASS:
        outcomes, folds, crossed = _class_outcomes(features, index, classes, joined, seed)
    else:
        folds = random_folds(len(rows), seed, joined if len(np.unique(joined)) < len(joined) else None)
        crossed = cross_validate(rows, folds, ValueTask(columns) if kind == NUMBER else LabelTask(columns))
        outcomes = crossed.outcomes
    units = np.unique(np.stack([index, joined, folds]), axis=1)  # a group counts once in each class
    per_fold = np.zeros((classes, int(folds.max()) + 2), np.int64)
    np.add.at(per_fold, (units[0], units[2]), 1)
    seen = per_fold.sum(axis=1)[index] - np.where(folds < 0, 0, per_fold[index, folds])
    outcomes = np.where(seen > 0, outcomes, np.nan)
    held = per_fold.sum(axis=0)
    ratio = 1.0 - float((held[:-1] ** 2).sum() / (held.sum() * held[:-1].sum()))  # the last column is in every fit
    return Outcomes(outcomes, index, joined, seen, ratio, *_gain(crossed, joined), copies)


def _class_outcomes(
    features: AnyArray, index: IntArray, classes: int, groups: IntArray, seed: int
) -> tuple[FloatArray, IntArray, Crossed]:
    """Return whether each image is classified correctly, the folds, and the outcomes of ridge regression."""
    from unseen.probes import evaluate, sampling, solvers, workers  # they load torch, which planning does not need
    from unseen.probes.rows import FeatureSet

    folds, fits = sampling.draw_folds(index, seed, groups, every=True)
    if fits < 2:
        raise DataError(
            "no class has two images that are not near-duplicates or of one group, so cross-validation is impossible. "
            "Add images, or use fewer classes."
        )
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    unit = (features / np.maximum(lengths, 1e-12)).astype(np.float32)
    crossed = cross_validate(unit, folds.astype(np.int64), ClassTask(index, classes), index)
    if features.size * classes >= LARGEST:
        return crossed.outcomes, folds.astype(np.int64), crossed
    data = evaluate.labelled(FeatureSet(np.asarray(features), "features"), index)
    (draw,) = sampling.draw_rows(index, seed=seed)
    draw = replace(draw, final=np.arange(len(index)), folds=folds)
    with workers.Workers() as pool:
        (fit,) = solvers.solve("logistic", data, [draw], pool, solvers.Settings(power=1.0))
    estimate = fit.estimate
    assert estimate is not None and estimate.rows is not None and estimate.correct is not None
    penalties = [float(trial.parameters["regularization"]) for trial in fit.trials]
    fold_of, hits = folds[estimate.rows], np.full(len(index), np.nan)
    for fold in range(fits):
        held = fold_of == fold
        chosen = sampling.choose_penalty(estimate.correct[:, ~held], penalties, _DEFAULT)
        hits[estimate.rows[held]] = estimate.correct[chosen, held]
    return hits, folds.astype(np.int64), crossed


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

    from unseen.data.duplicates.search import near_pairs

    n = len(features)
    rows = np.asarray(features, np.float32) - features.mean(axis=0, dtype=np.float64).astype(np.float32)
    if n > _MANY and rows.shape[1] > 2 * _PROJECTED:
        rows = rows @ np.random.default_rng(17).normal(size=(rows.shape[1], _PROJECTED)).astype(np.float32)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    pairs = near_pairs(rows, threshold=-1.0, most=NEIGHBOURS)
    distance = np.maximum(1.0 - pairs.similarity.astype(np.float64), 0.0)
    ends, both = np.concatenate([pairs.first, pairs.second]), np.concatenate([distance, distance])
    order = np.lexsort((both, ends))
    starts = np.searchsorted(ends[order], np.arange(n))
    last = np.minimum(starts + NEIGHBOURS, np.append(starts[1:], len(ends))) - 1
    scale = both[order][last]
    scale = np.maximum(scale, np.median(scale))  # of more copies than neighbours, all neighbours are copies
    near = NEAR * min(1.0, (rows.shape[1] / FULL) ** 3)
    limit = np.minimum(near * np.minimum(scale[pairs.first], scale[pairs.second]), WITHIN)
    copied = distance <= np.maximum(limit, _EQUAL)
    if features.shape[1] < FULL // 4:
        copied &= (features[pairs.first] == features[pairs.second]).all(axis=1)
    links = [np.stack([pairs.first[copied], pairs.second[copied]])]
    copies = len(np.unique(links[0][1]))
    if groups is not None:
        own = np.unique(groups, return_index=True, return_inverse=True)
        links.append(np.stack([np.arange(n), own[1][own[2].reshape(-1)]]))
    a, b = np.concatenate(links, axis=1)
    joined = connected_components(coo_array((np.ones(len(a)), (a, b)), shape=(n, n)), directed=False)[1]
    return joined.astype(np.int64), copies


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
    own, own_error = shrunk_gain(mean, *_own_gain(values, fitted), usual=(2 * GAIN, 4 * GAIN_ERROR))
    extrapolated = values + gain * together + own * alone
    counts = np.bincount(index, minlength=classes).astype(np.float64)
    seen = counts > 0
    accuracy = np.bincount(index, extrapolated, classes) / np.maximum(counts, 1)
    shares = np.full(classes, 1 / classes) if balanced else class_shares(sizes, found.index)
    if not seen.all():  # a class of one group has no outcome: it is a class like the others, with one training image
        weights = shares[seen] / shares[seen].sum()
        accuracy[~seen] = max(weights @ accuracy[seen] - own * float(weights @ (1 - sizes[seen] ** -0.5)), 0.0)
    # New images may have classes that no image here has: a share of `new` (Good & Turing) if the images are a random
    # sample, none if the classes were chosen. Half of it is assumed.
    new = 0.0 if balanced else float((sizes == 1).sum() / max(sizes.sum(), 1))
    value = float(shares @ accuracy) * (1 - new / 2)
    weight = (shares / np.maximum(counts, 1))[index]
    of_group = np.bincount(np.unique(found.groups[known], return_inverse=True)[1].reshape(-1), weight)
    size = float(of_group.sum() ** 2 / (of_group**2).sum()) / spread(len(values), len(values) / classes) ** 2
    variance = float(values.var()) or 1 / len(values)
    alone_sum = float(weight @ alone) + float(shares[~seen].sum())
    extra = (float(weight @ together) * error) ** 2 + (alone_sum * own_error) ** 2 + (new * value) ** 2 / 12
    return (min(max(value, 0.0), 1.0) if bounded else value), size / (1 + size * extra / variance)


def _own_gain(values: FloatArray, fitted: IntArray) -> tuple[float, float]:
    """Return the slope of outcomes in -m^(-1/2) over images whose classes have m training images, and its error."""
    steps = -(fitted**-0.5)
    away = steps - steps.mean()
    total = float(away @ away)
    if total < 1e-9:
        return math.nan, math.inf
    slope = float(away @ values) / total
    rest = values - values.mean() - slope * away
    return slope, math.sqrt(float((away**2) @ (rest**2))) / total


def shrunk_gain(
    mean: float, gain: float, error: float, usual: tuple[float, float] = (GAIN, GAIN_ERROR)
) -> tuple[float, float]:
    """Return the gain b, shrunk towards the usual one at this accuracy, and its standard error [E]."""
    prior, prior_error = (each * mean * (1 - mean) for each in usual)
    if not math.isfinite(error):
        return prior, prior_error
    weight = prior_error**2 / (prior_error**2 + error**2) if prior_error else 0.0
    return weight * gain + (1 - weight) * prior, math.sqrt(weight) * error


def class_shares(sizes: IntArray, index: IntArray) -> FloatArray:
    """Return the shares of classes among new images, from the number of groups of each class [E].

    The variance of the counts beyond that of a multinomial sample with equal shares is that of the shares. Classes that
    no image has count with 0 images; their number is estimated as f1^2 / (2 f2) for f1 classes of one and f2 of two
    groups (Chao, "Nonparametric estimation of the number of classes in a population", 1984).
    """
    ones, twos = int((sizes == 1).sum()), int((sizes == 2).sum())
    every = len(sizes) + ones**2 / (2 * max(twos, 1))
    mean = float(sizes.sum()) / every
    beyond = float((sizes.astype(np.float64) ** 2).sum()) / every - mean**2 - mean
    weight = max(beyond, 0.0) / (max(beyond, 0.0) + mean)
    shares = np.bincount(index, minlength=len(sizes)) / len(index) * weight + (1 - weight) / every
    return np.asarray(shares / shares.sum())


def spread(images: int, per_class: float) -> float:
    """Return the factor on the standard error of a value."""
    return SPREAD + FEW / max(images, 20) + FEW_PER_CLASS / per_class


# ---- what is stored, and what is compared ----------------------------------------------------------------------------

#: Signs of `written_hits`.
_WRONG, _RIGHT, _UNKNOWN = "01-"


def written_hits(parts: FloatArray, index: IntArray, total: int) -> str | tuple[float | None, ...]:
    """Return the outcome of every image of the split: "1" right, "0" wrong, "-" not evaluated; numbers for scores."""
    placed = np.full(total, np.nan)
    placed[index] = parts
    if np.isin(placed[np.isfinite(placed)], (0.0, 1.0)).all():
        return "".join(_UNKNOWN if value != value else _RIGHT if value else _WRONG for value in placed.tolist())
    return tuple(None if value != value else round(value, 6) for value in placed.tolist())


def read_hits(written: str | Sequence[float | None]) -> FloatArray:
    """Return the outcomes that `written_hits` wrote; NaN for images that were not evaluated."""
    return np.asarray([math.nan if value is None or value == _UNKNOWN else float(value) for value in written])


def written_numbers(numbers: IntArray) -> str:
    """Return numbers from 0 as a text: class or group of every image, compressed."""
    return base64.b64encode(zlib.compress(numbers.astype("<u4").tobytes())).decode()


def read_numbers(written: str) -> IntArray:
    """Return the numbers that `written_numbers` wrote."""
    return np.frombuffer(zlib.decompress(base64.b64decode(written)), "<u4").astype(np.int64)


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
    if not found:
        return {}
    rows = {name: read_hits(details.hits) for name, details in found.items()}
    shared = np.isfinite(np.stack(list(rows.values()))).all(axis=0)
    estimated = {}
    for name, details in found.items():
        classes = read_numbers(details.labels) if details.balanced else None
        every = np.isfinite(rows[name])
        value = details.expected
        whole = estimate_mean(rows[name][every], None if classes is None else classes[every]).value
        labels, own = None if classes is None else classes[shared], rows[name][shared]
        mean = estimate_mean(own, labels).value
        outcomes = _moved(own, mean, (whole if value is None else value) - whole)
        size = details.size or len(own) / spread(len(own), math.inf) ** 2  # results of older versions have no size
        interval = expected_interval(estimate_mean(outcomes, labels).value, size, own)
        scale = SCATTER * math.sqrt(len(own) / details.units) if details.units else SCATTER
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
    return estimates({"": details})[""] if metric == "score" and len(results) == 1 and details.hits else None


def expected_accuracy(features: ArrayLike, labels: ArrayLike, *, seed: int = 0) -> float:
    """Return the expected accuracy of a linear head on new images of the same classes."""
    return expect(cross_validated(np.asarray(features), np.asarray(labels), CLASS, seed=seed))[0]


def _cost(s: Sizes) -> float:
    return 4 * _FOLDS * 0.8 * s.n * s.m * s.c * LBFGS_STEPS + 2 * s.n * s.d * s.m


CARD = ScoreCard(
    EXPECTED,
    "Linear probe, cross-validated",
    FEATURES,
    expected_accuracy,
    _cost,
    seeded=True,
    version=2,
    notes="the expected accuracy of the answer",
)
