"""The protocol: tune on validation classes, refit on all seen classes, test on unseen and on seen ones.

Paper:      Xian et al., TPAMI 2018, sections 5.2, 5.3, 6 [P]; Chao et al., ECCV 2016 (calibrated stacking) [C]
Shapes:     X (n, d) features; S (c, a) class embeddings
Implements: hyper-parameters by the mean per-class top-1 over folds of classes, or on one fold (Fig. 3 of [P]); refit on
            trainval; Eqs. (21), (22). A method that is `tuned_by` H has its validation images among the training
            classes too, of which a fifth of the images is held out. Calibrated stacking subtracts a constant from the
            scores of seen classes: a fixed one, or the one with the best H on the folds, with images held out in the
            same way. It is off by default. The seen-unseen curve and its area [C] need no constant
Differs:    [P] does not say how its three folds are joined into one choice: ours is the mean accuracy over them
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from unseen.core.errors import DataError
from unseen.data.sources.features import check_classes
from unseen.metrics.accuracy import per_class_accuracy, top_k_correct
from unseen.metrics.seen_unseen import (
    harmonic_mean,
    mean_per_class,
    seen_leads,
    seen_unseen_outcomes,
)
from unseen.stats import (
    Interval,
    accuracy_interval,
    harmonic_mean_interval,
    per_class_interval,
    seen_unseen_area_interval,
)
from unseen.zeroshot.catalogue import grid_of, make_method
from unseen.zeroshot.method import FloatArray, IntArray, Params, ZeroShotMethod
from unseen.zeroshot.outcomes import ImageOutcomes
from unseen.zeroshot.problem import Fold, Images, Problem

TOP_K = (5, 10)
_BLOCK_VALUES, _BLOCK_FEATURES = 16_000_000, 64_000_000  # scores and features that are in memory at once
_CALIBRATION_STEPS = 101
# On fewer features than this, threads of linear algebra wait for one another longer than they work.
_THREADS_PAY = 4_000_000


@dataclass(frozen=True)
class Tuning:
    """The settings that were tried on validation classes, and their accuracies.

    Attributes:
        trials: every setting with `value`, its mean accuracy over folds, `values`, one per fold, and `error` if its
            scores were not numbers.
        grid: the settings themselves, in the same order.
    """

    trials: tuple[Params, ...]
    grid: tuple[Params, ...]

    def on(self, folds: Sequence[int]) -> list[Params]:
        """Return the trials with `value` as the mean over some folds."""
        return [
            {**t, "value": float(np.mean([t["values"][i] for i in folds]))} if t["values"] else t for t in self.trials
        ]

    def best(self, folds: Sequence[int] | None = None) -> Params:
        """Return the first setting with the greatest mean accuracy over some folds, by default all."""
        trials = self.trials if folds is None else self.on(folds)
        values = np.asarray([trial["value"] for trial in trials], np.float64)
        return self.grid[int(np.argmax(np.where(np.isfinite(values), values, -1)))]


@dataclass(frozen=True)
class Evaluation:
    """The result of a method on a problem; fractions in full precision.

    Attributes:
        metrics: `zsl` per-class top-1 among unseen classes, `zsl_top5`, `zsl_top10`; `ts`, `tr`, `H` among all
            classes, for the 5 and 10 best too (`H_top5`, ...); `AUSUC`, the area under the seen-unseen curve; the
            same per image (`zsl_per_image`, ...).
        intervals: the 95 % confidence interval of every metric, over test images.
        outcomes: per test image; what `stats.decide` compares methods by.
        best: the setting that was chosen.
        per_class: accuracy per unseen class, among unseen classes.
        calibration: what was subtracted from the scores of seen classes, 0 by default.
        seconds: of tuning, fitting and testing.
    """

    tuning: Tuning
    best: Params
    calibration: float
    seconds: float
    intervals: Mapping[str, Interval]
    per_class: Mapping[str, float]
    outcomes: ImageOutcomes

    @property
    def metrics(self) -> dict[str, float]:
        """The value of every metric."""
        return {metric: interval.value for metric, interval in self.intervals.items()}


def evaluate_method(
    method: str | ZeroShotMethod,
    problem: Problem,
    *,
    grid: Sequence[Params] | str = "full",
    folds: Sequence[int] | None = None,
    calibration: float | str = 0.0,
    test: Problem | None = None,
    tuning: Tuning | None = None,
) -> Evaluation:
    """Tune, refit and test one method.

    Args:
        method: a name, or an estimator whose parameters are the defaults.
        problem: with scaled features (see `Problem.normalised`).
        grid: settings to try, or which of the method's own grids: "full" or "quick".
        folds: positions of the folds to tune on; all by default.
        calibration: subtracted from the scores of seen classes among all classes; "auto" tunes it on the folds.
        test: another problem over the same classes to test on, trained and tuned on the first (Table 4).
        tuning: of an earlier call over all folds, to choose from without trying again.
    """
    estimator = make_method(method) if isinstance(method, str) else method
    settings = grid_of(type(estimator), grid) if isinstance(grid, str) else [dict(setting) for setting in grid]
    if test is not None:
        if list(test.class_names) != list(problem.class_names):
            raise DataError("a model can be tested on another dataset only if both have the same classes in one order.")
        check_classes({"trainval": problem.train.y, "test_unseen": test.test_unseen.y}, test.class_names)
    chosen = range(len(problem.folds)) if folds is None else folds
    with threadpool_limits(1 if math.prod(problem.train.X.shape) < _THREADS_PAY else None, user_api="blas"):
        began = perf_counter()
        tuning = tuning or tune(estimator, problem, settings)
        best = tuning.best(chosen)
        fitted: ZeroShotMethod = clone(estimator).set_params(**best)
        auto = calibration == "auto"
        subtracted = _tune_calibration(fitted, problem, chosen) if auto else float(calibration)
        fitted.fit(problem.train.X, problem.train.y, problem.S)
        tested = _test(fitted, test or problem, problem.seen, subtracted)
    return Evaluation(tuning, best, subtracted, perf_counter() - began, *tested)


def tune(method: ZeroShotMethod, problem: Problem, grid: Sequence[Params]) -> Tuning:
    """Evaluate each setting on each fold by the criterion of the method, without test images."""
    if not problem.folds:
        raise DataError("tuning needs at least one fold of classes.")
    if len(grid) == 1:
        return Tuning(({**grid[0], "value": float("nan"), "values": []},), tuple(grid))
    values = np.full((len(grid), len(problem.folds)), np.nan)
    diverged = [False] * len(grid)
    place = {id(setting): i for i, setting in enumerate(grid)}
    for column, fold in enumerate(problem.folds):
        trial = Trial.make(problem, fold, generalized=method.tuned_by == "H")
        candidates = problem.S[trial.among]
        for setting, scores in method.grid_scores(
            trial.train.X, trial.train.y, problem.S, trial.tested.X, candidates, grid
        ):
            values[place[id(setting)], column] = trial.value(scores)
            diverged[place[id(setting)]] |= not bool(np.isfinite(scores).any(axis=1).all())
    trials = tuple(
        {**setting, "value": float(row.mean()), "values": row.tolist()}
        | ({"error": "scores are not finite"} if failed else {})
        for setting, row, failed in zip(grid, values, diverged, strict=True)
    )
    return Tuning(trials, tuple(grid))


@dataclass(frozen=True, eq=False)
class Trial:
    """Data of one fold; in the generalized setting with held-out images of its training classes.

    Attributes:
        tested: images of the validation classes, then those that were held out.
        among: candidate classes.
        new: how many of `tested` are of validation classes.
    """

    train: Images
    tested: Images
    among: IntArray
    new: int

    @classmethod
    def make(cls, problem: Problem, fold: Fold, *, generalized: bool) -> Trial:
        train, new = problem.train.of(fold.train), problem.train.of(fold.val)
        if not generalized:
            return cls(train, new, fold.val, len(new))
        held = np.zeros(len(train), bool)
        for c in fold.train:
            rows = np.flatnonzero(train.y == c)
            held[rows[: len(rows) // 5]] = True
        both = Images(np.concatenate([new.X, train.X[held]]), np.concatenate([new.y, train.y[held]]))
        return cls(Images(train.X[~held], train.y[~held]), both, np.union1d(fold.train, fold.val), len(new))

    def value(self, scores: FloatArray) -> float:
        """Return the per-class accuracy, or H if images were held out."""
        y, right = self.tested.y, self.among[_argmax(scores)] == self.tested.y
        if self.new == len(y):
            return mean_per_class(y, right)
        return harmonic_mean(
            mean_per_class(y[: self.new], right[: self.new]), mean_per_class(y[self.new :], right[self.new :])
        )


def _test(
    method: ZeroShotMethod, problem: Problem, seen: IntArray, calibration: float
) -> tuple[dict[str, Interval], dict[str, float], ImageOutcomes]:
    """Return the metrics with their intervals, the accuracy per unseen class and the outcomes.

    AUSUC is missing without seen test images, and for a method that rules out all seen or all unseen classes, because
    no constant changes its predictions.
    """
    unseen, new, old = problem.unseen, problem.test_unseen, problem.test_seen
    alone = score_images(method.scores, new, problem.S, unseen, whole=method.transductive)
    per_class = per_class_accuracy(new.y, alone.best, unseen)
    # Seen and unseen images are tested together: a transductive method does not know which are which.
    everything = new.join(old)
    among = np.union1d(seen, unseen)
    known = np.where(np.isin(among, seen), calibration, np.nan)
    found = score_images(method.scores, everything, problem.S, among, seen=known, whole=method.transductive)
    of_new = {k: right[: len(new)] for k, right in found.right.items()}
    of_old = {k: right[len(new) :] for k, right in found.right.items()}
    intervals = {**_accuracies("zsl", new.y, alone.right), **_accuracies("ts", new.y, of_new)}
    if len(old):
        intervals |= _accuracies("tr", old.y, of_old)
        for end in ("", *(f"_top{k}" for k in found.right if k > 1)):  # Eq. (22)
            intervals[f"H{end}"] = harmonic_mean_interval(intervals[f"ts{end}"], intervals[f"tr{end}"])
        if np.isfinite(found.leads).any():
            of_seen = np.arange(len(everything)) >= len(new)
            intervals["AUSUC"] = seen_unseen_area_interval(found.leads, found.right_of_kind, everything.y, of_seen)
    by_class, also = np.argsort(new.y, kind="stable"), np.argsort(old.y, kind="stable")
    outcomes = ImageOutcomes(
        zsl=alone.right[1][by_class],
        ts=of_new[1][by_class],
        tr=of_old[1][also],
        unseen_counts=np.unique(new.y, return_counts=True)[1],
        seen_counts=np.unique(old.y, return_counts=True)[1],
    )
    names = (problem.class_names[c] for c in unseen)
    return intervals, dict(zip(names, per_class.tolist(), strict=True)), outcomes


def _accuracies(name: str, y: IntArray, right: Mapping[int, Any]) -> dict[str, Interval]:
    """Return Eq. (21) for each k, and the accuracy per image, with their intervals."""
    found = {name if k == 1 else f"{name}_top{k}": per_class_interval(each, y) for k, each in right.items()}
    return found | {f"{name}_per_image": accuracy_interval(right[1])}


@dataclass(frozen=True, eq=False)
class ScoredImages:
    """Per image: the best class; for each k whether the label is among the k best; for the seen-unseen curve."""

    best: IntArray
    right: dict[int, Any]
    leads: Any = ()
    right_of_kind: Any = ()


def score_images(
    score: Callable[[FloatArray, FloatArray], FloatArray],
    images: Images,
    S: FloatArray,
    classes: IntArray,
    *,
    seen: FloatArray | None = None,
    whole: bool = False,
) -> ScoredImages:
    """Classify images among some classes, block by block: memory grows neither with images x classes nor features.

    Args:
        score: from features and class embeddings to (n, c) scores.
        classes: rows of S, the candidates.
        seen: what to subtract from the scores of each seen class, NaN for an unseen one; also returns the leads.
        whole: whether all images are scored at once.
    """
    block = max(1, min(_BLOCK_VALUES // len(classes), _BLOCK_FEATURES // images.X.shape[1]))
    block = len(images) if whole else block
    ks = [k for k in TOP_K if k < len(classes)]
    parts: list[tuple[Any, ...]] = []
    for start in range(0, len(images), block):
        y = images.y[start : start + block]
        scores = score(images.X[start : start + block], S[classes])
        sides: tuple[Any, ...] = ()
        if seen is not None:
            sides = seen_unseen_outcomes(scores, y, classes, ~np.isnan(seen))
            scores = scores - np.nan_to_num(seen) if np.nansum(np.abs(seen)) else scores
        best = classes[_argmax(scores)]
        parts.append((best, best == y, *(top_k_correct(y, scores, classes, k) for k in ks), *sides))
    best, first, *rest = (np.concatenate(column) for column in zip(*parts, strict=True))
    return ScoredImages(best, {1: first, **dict(zip(ks, rest, strict=False))}, *rest[len(ks) :])


def _argmax(scores: FloatArray) -> IntArray:
    """Return the best class per image; scores of a setting that diverged are NaN and count as the lowest."""
    return np.asarray(np.argmax(np.where(np.isnan(scores), -np.inf, scores), axis=1))


def _tune_calibration(method: ZeroShotMethod, problem: Problem, folds: Sequence[int]) -> float:
    """Return the constant with the best mean H over folds, with a fifth of the training images held out [C]."""
    tried: list[tuple[Trial, FloatArray, Any]] = []
    for fold in (problem.folds[i] for i in folds):
        trial = Trial.make(problem, fold, generalized=True)
        fitted = clone(method).fit(trial.train.X, trial.train.y, problem.S)
        scores = np.asarray(fitted.scores(trial.tested.X, problem.S[trial.among]), np.float64)
        tried.append((trial, scores, np.isin(trial.among, fold.train)))
    leads = np.concatenate([seen_leads(scores, old) for _, scores, old in tried])
    leads = leads[np.isfinite(leads)]
    if not len(leads):
        return 0.0
    candidates = np.unique(np.append(np.quantile(leads, np.linspace(0, 1, _CALIBRATION_STEPS)), 0.0))
    means = [np.mean([trial.value(scores - c * old) for trial, scores, old in tried]) for c in candidates]
    return float(candidates[int(np.argmax(means))])
