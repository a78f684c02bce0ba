"""The protocol: tune on validation classes, refit on all seen classes, test on unseen and on seen ones.

Paper:      Xian et al., TPAMI 2018, sections 5.2, 5.3, 6 [P]; Chao et al., ECCV 2016 (calibrated stacking) [C]
Shapes:     X (n, d) features; S (c, a) class embeddings
Implements: hyper-parameters by the mean per-class top-1 over folds of classes, or on one fold (Fig. 3 of [P]); refit on
            trainval; Eqs. (21), (22). Calibrated stacking subtracts a constant from the scores of seen classes: a
            given one, or the one with the best H on the folds, where a fifth of the images of each training class is
            held out. It is off unless asked for
Differs:    [P] does not say how its three folds are joined into one choice: ours is the mean accuracy over them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from unseen.core.errors import DataError, UsageError
from unseen.metrics.accuracy import per_class_accuracy, top_k_correct
from unseen.metrics.zeroshot import harmonic_mean, mean_per_class
from unseen.zeroshot.catalogue import load_method
from unseen.zeroshot.grids import grid_of
from unseen.zeroshot.method import FloatArray, IntArray, ZeroShotMethod
from unseen.zeroshot.problem import Fold, Images, Problem

TOP_K = (5, 10)
_BLOCK_VALUES = 50_000_000  # scores held at once
_CALIBRATION_STEPS = 101
# On fewer features than this, threads of linear algebra wait for one another longer than they work.
_THREADS_PAY = 4_000_000


@dataclass(frozen=True)
class Tuning:
    """What was tried on validation classes.

    Attributes:
        trials: every setting with `value`, its mean accuracy over folds, and `values`, one per fold.
        grid: the settings themselves, in the same order.
    """

    trials: tuple[Mapping[str, Any], ...]
    grid: tuple[Mapping[str, Any], ...]

    def best(self, folds: Sequence[int] | None = None) -> Mapping[str, Any]:
        """The setting with the greatest mean accuracy over some folds, by default all; of equals the first."""
        if len(self.grid) == 1:
            return self.grid[0]
        values = np.asarray([trial["values"] for trial in self.trials], np.float64)
        means = values[:, list(folds) if folds is not None else slice(None)].mean(1)
        return self.grid[int(np.argmax(np.where(np.isfinite(means), means, -1)))]


@dataclass(frozen=True)
class Evaluation:
    """What came of a method on a problem; fractions in full precision.

    Attributes:
        metrics: `zsl` per-class top-1 among unseen classes, `zsl_top5`, `zsl_top10`; `ts`, `tr`, `H` among all
            classes; the same per image (`zsl_per_image`, ...).
        best: the setting that was chosen.
        per_class: accuracy per unseen class, among unseen classes.
        calibration: what was subtracted from the scores of seen classes, 0 by default.
        timings: seconds of tuning, fitting and testing.
    """

    metrics: Mapping[str, float]
    tuning: Tuning
    best: Mapping[str, Any]
    per_class: Mapping[str, float]
    calibration: float = 0.0
    timings: Mapping[str, float] = field(default_factory=dict)


def evaluate_method(
    method: str | ZeroShotMethod,
    problem: Problem,
    *,
    name: str = "",
    grid: Sequence[Mapping[str, Any]] | str = "full",
    folds: Sequence[int] | None = None,
    calibration: float | str = 0.0,
    test: Problem | None = None,
    tuning: Tuning | None = None,
) -> Evaluation:
    """Tune, refit and test one method.

    Args:
        method: a name, or an estimator whose parameters are the defaults.
        name: what messages call it; by default what its card does.
        problem: features as the method is to see them (see `Problem.normalised`).
        grid: settings to try, or which of the method's own grids: "full" or "quick".
        folds: positions of the folds to tune on; all by default.
        calibration: subtracted from the scores of seen classes among all classes; "auto" tunes it on the folds.
        test: another problem over the same classes to test on, trained and tuned on the first (Table 4).
        tuning: of an earlier call over all folds, to choose from without trying again.
    """
    estimator = _estimator(method)
    settings = grid_of(estimator, grid) if isinstance(grid, str) else [dict(setting) for setting in grid]
    if strange := sorted({key for setting in settings for key in setting} - set(estimator.get_params())):
        called = name or estimator.card.id or type(estimator).__name__
        raise UsageError(f"{called} has no parameter {strange[0]!r}; it has {', '.join(estimator.get_params())}.")
    chosen = range(len(problem.folds)) if folds is None else folds
    with threadpool_limits(1 if problem.train.X.size < _THREADS_PAY else None, user_api="blas"):
        began = perf_counter()
        tuning = tuning or tune(estimator, problem, settings, problem.folds)
        best = tuning.best(chosen)
        fitted = _fresh(estimator, best)
        subtracted = (
            _tune_calibration(fitted, problem, [problem.folds[i] for i in chosen])
            if calibration == "auto"
            else float(calibration)
        )
        tuned = perf_counter()
        fitted.fit(problem.train.X, problem.train.y, problem.S)
        trained = perf_counter()
        target = _same_classes(problem, test)
        metrics, per_class = _test(fitted, target, problem.seen, subtracted)
        timings = {"tune": tuned - began, "fit": trained - tuned, "test": perf_counter() - trained}
    return Evaluation(metrics, tuning, best, per_class, subtracted, timings)


def tune(method: ZeroShotMethod, problem: Problem, grid: Sequence[Mapping[str, Any]], folds: Sequence[Fold]) -> Tuning:
    """Per-class top-1 on the validation classes of each fold for every setting; test images are not touched."""
    if not folds:
        raise DataError("tuning needs at least one fold of classes.")
    if len(grid) == 1:
        return Tuning(({**grid[0], "value": float("nan"), "values": []},), tuple(grid))
    values = np.full((len(grid), len(folds)), np.nan)
    place = {id(setting): i for i, setting in enumerate(grid)}
    for column, fold in enumerate(folds):
        train, val = problem.train.of(fold.train), problem.train.of(fold.val)
        for setting, scores in method.grid_scores(train.X, train.y, problem.S, val.X, problem.S[fold.val], grid):
            found = fold.val[_argmax(scores)]
            values[place[id(setting)], column] = mean_per_class(val.y, found == val.y)
    means = values.mean(1)
    trials = tuple(
        {**setting, "value": float(mean), "values": row.tolist()}
        for setting, mean, row in zip(grid, means, values, strict=True)
    )
    return Tuning(trials, tuple(grid))


def _estimator(method: str | ZeroShotMethod) -> ZeroShotMethod:
    if isinstance(method, str):
        return load_method(method)()
    return method


def _fresh(method: ZeroShotMethod, params: Mapping[str, Any]) -> ZeroShotMethod:
    from sklearn.base import clone

    fresh: ZeroShotMethod = clone(method).set_params(**params)
    return fresh


def _same_classes(problem: Problem, test: Problem | None) -> Problem:
    if test is None:
        return problem
    if list(test.class_names) != list(problem.class_names):
        raise DataError("a model can be tested on another dataset only if it has the same classes in the same order.")
    if len(both := np.intersect1d(problem.seen, test.unseen)):
        raise DataError(f"{test.class_names[both[0]]!r} is a test class there and a training class here.")
    return test


def _test(
    method: ZeroShotMethod, problem: Problem, seen: IntArray, calibration: float
) -> tuple[dict[str, float], dict[str, float]]:
    unseen = problem.unseen
    new = problem.test_unseen
    metrics: dict[str, float] = {}
    predicted, top = _predictions(method, new, problem.S, unseen, keep=[k for k in TOP_K if k < len(unseen)])
    metrics["zsl"] = mean_per_class(new.y, predicted == new.y)  # Eq. (21)
    metrics |= {f"zsl_top{k}": mean_per_class(new.y, correct) for k, correct in top.items()}
    metrics["zsl_per_image"] = float((predicted == new.y).mean())
    per_class = per_class_accuracy(new.y, predicted, unseen)
    named = {problem.class_names[c]: float(v) for c, v in zip(unseen, per_class, strict=True)}
    # Seen and unseen images go in together: a transductive method is not told which are which.
    everything = Images(np.concatenate([new.X, problem.test_seen.X]), np.concatenate([new.y, problem.test_seen.y]))
    among = np.union1d(seen, unseen)
    handicap = np.where(np.isin(among, seen), calibration, 0.0)
    predicted, _ = _predictions(method, everything, problem.S, among, handicap=handicap)
    right = predicted == everything.y
    metrics["ts"] = mean_per_class(new.y, right[: len(new)])
    metrics["ts_per_image"] = float(right[: len(new)].mean())
    if len(problem.test_seen):
        metrics["tr"] = mean_per_class(problem.test_seen.y, right[len(new) :])
        metrics["tr_per_image"] = float(right[len(new) :].mean())
        metrics["H"] = harmonic_mean(metrics["tr"], metrics["ts"])  # Eq. (22)
    return metrics, named


def _predictions(
    method: ZeroShotMethod,
    images: Images,
    S: FloatArray,
    classes: IntArray,
    *,
    handicap: FloatArray | None = None,
    keep: Sequence[int] = (),
) -> tuple[IntArray, dict[int, Any]]:
    """The best class per image, and for each k whether the label is among the k best."""
    block = len(images) if method.transductive else max(1, _BLOCK_VALUES // len(classes))
    predicted, top = [], {k: [] for k in keep}  # type: ignore[var-annotated]
    for start in range(0, len(images), block):
        scores = method.scores(images.X[start : start + block], S[classes])
        if handicap is not None:
            scores = scores - handicap
        predicted.append(classes[_argmax(scores)])
        for k in keep:
            top[k].append(top_k_correct(images.y[start : start + block], scores, classes, k))
    return np.concatenate(predicted), {k: np.concatenate(parts) for k, parts in top.items()}


def _argmax(scores: FloatArray) -> IntArray:
    """A setting that diverges has scores that are not numbers: its images count as the first class."""
    return np.asarray(np.argmax(np.where(np.isnan(scores), -np.inf, scores), axis=1))


def _calibration(asked: float | str, method: ZeroShotMethod, problem: Problem, folds: Sequence[Fold]) -> float:
    return _tune_calibration(method, problem, folds) if asked == "auto" else float(asked)


def _tune_calibration(method: ZeroShotMethod, problem: Problem, folds: Sequence[Fold]) -> float:
    """The constant with the best mean H over folds, a fifth of each training class's images being held out [C]."""
    gaps = []
    for fold in folds:
        train, new = problem.train.of(fold.train), problem.train.of(fold.val)
        held = np.zeros(len(train), bool)
        for c in fold.train:
            rows = np.flatnonzero(train.y == c)
            held[rows[: len(rows) // 5]] = True
        fitted = _fresh(method, {}).fit(train.X[~held], train.y[~held], problem.S)
        both = Images(np.concatenate([new.X, train.X[held]]), np.concatenate([new.y, train.y[held]]))
        among = np.union1d(fold.train, fold.val)
        scores = np.asarray(fitted.scores(both.X, problem.S[among]), np.float64)
        gaps.append((scores, among, np.isin(among, fold.train), both.y, len(new)))
    finite = np.concatenate([_leads(scores, old) for scores, _, old, _, _ in gaps])
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return 0.0
    candidates = np.unique(np.append(np.quantile(finite, np.linspace(0, 1, _CALIBRATION_STEPS)), 0.0))
    means = [np.mean([_harmonic(c, *gap) for gap in gaps]) for c in candidates]
    return float(candidates[int(np.argmax(means))])


def _leads(scores: FloatArray, old: Any) -> FloatArray:
    """By how much the best seen class leads over the best unseen one."""
    with np.errstate(invalid="ignore"):
        return np.asarray(scores[:, old].max(1) - scores[:, ~old].max(1))


def _harmonic(constant: float, scores: FloatArray, among: IntArray, old: Any, y: IntArray, new: int) -> float:
    right = among[_argmax(scores - constant * old)] == y
    if new == len(y):
        return mean_per_class(y, right)
    return harmonic_mean(mean_per_class(y[:new], right[:new]), mean_per_class(y[new:], right[new:]))
