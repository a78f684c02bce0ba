"""One logistic regression per label, for images that have several: all of them at once, with one penalty.

Paper:      Boutell et al., "Learning multi-label scene classification", Pattern Recognition 2004 (binary relevance)
Shapes:     X (n, d) l2-normalised features, centred, scaled to variance 1 on average; Y (n, l) booleans; W (d + 1, l)
Implements: min over W of the mean over rows of the sum over labels of -log p(Y | X W) + penalty / 2 |W|^2 (bias
            excepted), by L-BFGS along a path of penalties, each from the solution of the stronger one. The penalty
            is the one with the least log loss in cross-validation; the path ends where that has risen twice
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from unseen.core.arrays import BoolArray, FloatArray, IntArray
from unseen.core.errors import DataError
from unseen.core.extras import one_thread
from unseen.probes.outcome import TargetFit, Trial
from unseen.probes.rows import FeatureSet, join_rows, prepare_rows

VERSION = 1
FOLDS = 5
PENALTIES = tuple(10.0**k for k in (1.0, 0.5, 0.0, -0.5, -1.0, -1.5, -2.0, -2.5, -3.0, -3.5, -4.0))
_ITERATIONS = 200
_RISES = 2
# Multiplications of a gradient below which threads wait longer than they work.
_THREADS_PAY = 50_000_000


@dataclass(frozen=True, eq=False)
class LabelScores(TargetFit):
    """Probabilities of the test rows, with the search for the penalty.

    Attributes:
        probabilities: (m, l).
        trials: `accuracy` is the share of right decisions at 0.5 on held-out rows.
    """

    probabilities: FloatArray


def evaluate_one_vs_rest(
    train: tuple[object, BoolArray],
    test: object,
    *,
    seed: int = 0,
    validation: tuple[object, BoolArray] | None = None,
    penalties: Sequence[float] = PENALTIES,
    **how: object,
) -> LabelScores:
    """Choose a penalty, fit, and score the test rows.

    Args:
        train: features (n, d) and labels (n, l).
        test: features (m, d).
        seed: of the folds.
        validation: rows to choose the penalty by, instead of folds; the final fit has them too.
        penalties: strongest first, in units of the features' variance.
        how: of `FeatureSet`: `square_root`, `memory_limit`.

    Raises:
        DataError: fewer than three rows, or no label that some have and some have not.
    """
    began, cut = time.perf_counter(), len(train[1])
    features, labels = join_rows(train, validation)
    varied = labels[:cut].any(0) & ~labels[:cut].all(0)
    if len(labels) < 3 or not varied.any():
        raise DataError("several labels need three training images or more, and a label that only some of them have.")
    rows, wanted = prepare_rows(features, test, **how)
    folds = np.random.default_rng(seed).permutation(len(labels)) % min(FOLDS, len(labels))
    if validation is not None:
        folds = np.where(np.arange(len(labels)) < cut, -1, 0)
    with one_thread(labels.size * rows.dimension < _THREADS_PAY):
        trials = _search(rows, labels, folds, penalties)
        best = int(np.argmin(_losses(trials)))
        final = None
        for penalty in penalties[: best + 1]:
            final = _fit(rows, labels, np.ones(len(labels), np.bool_), penalty, final)
        assert final is not None
        probabilities = np.concatenate([final.probabilities(wanted.read(*bounds)) for bounds in wanted.blocks()])
    seconds = time.perf_counter() - began
    return LabelScores(tuple(trials), trials[best].parameters, seconds, len(labels), probabilities)


@dataclass(frozen=True, eq=False)
class _Fit:
    """Weights (d + 1, l) over (x - mean) / scale."""

    weights: FloatArray
    mean: Tensor
    scale: float

    def probabilities(self, block: Tensor) -> FloatArray:
        scores = ((block - self.mean) / self.scale) @ torch.from_numpy(self.weights[:-1]).float()
        return torch.sigmoid(scores.double() + torch.from_numpy(self.weights[-1])).numpy()


def _search(rows: FeatureSet, labels: BoolArray, folds: IntArray, penalties: Sequence[float]) -> list[Trial]:
    """Return a trial per penalty, judged on the held-out rows."""
    held = np.flatnonzero(folds >= 0)
    truth = labels[held]
    fits: dict[int, _Fit] = {}
    trials: list[Trial] = []
    for penalty in penalties:
        found = np.empty(labels.shape)
        for fold in np.unique(folds[held]).tolist():
            fits[fold] = _fit(rows, labels, folds != fold, penalty, fits.get(fold))
            own = np.flatnonzero(folds == fold)
            found[own] = fits[fold].probabilities(rows.take(own))
        table = found[held]
        loss = float(-np.log(np.clip(np.where(truth, table, 1 - table), 1e-7, None)).mean())
        trials.append(Trial({"regularization": penalty}, float(((table >= 0.5) == truth).mean()), loss))
        if len(trials) > _RISES and bool((np.diff(_losses(trials)[-1 - _RISES :]) > 0).all()):
            break
    return trials


def _losses(trials: Sequence[Trial]) -> list[float]:
    return [trial.log_loss or 0.0 for trial in trials]


def _fit(rows: FeatureSet, labels: BoolArray, chosen: BoolArray, penalty: float, start: _Fit | None) -> _Fit:
    """Solve for one penalty, from the solution for a stronger one if there is one."""
    count = int(chosen.sum())
    if start is None:
        mean = sum(block.sum(0) for block, _ in _blocks(rows, chosen, labels)) / count
        spread = sum(float(((block - mean) ** 2).sum()) for block, _ in _blocks(rows, chosen, labels))
        share = (labels[chosen].sum(0) + 0.5) / (count + 1)
        weights = np.zeros((rows.dimension + 1, labels.shape[1]))
        weights[-1] = np.log(share / (1 - share))
        start = _Fit(weights, mean, (spread / count / rows.dimension) ** 0.5 or 1.0)  # type: ignore[arg-type]
    shape, first = start.weights.shape, start

    def scaled() -> Iterator[tuple[Tensor, Tensor]]:
        return (((x - first.mean) / first.scale, y) for x, y in _blocks(rows, chosen, labels))

    prepared = list(scaled()) if rows.tensor is not None else None

    def value(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = torch.from_numpy(flat.reshape(shape))
        small = weights.float()
        loss, gradient = 0.0, torch.zeros(shape, dtype=torch.float64)
        for block, truth in prepared or scaled():
            scores = block @ small[:-1] + small[-1]
            loss += float(torch.nn.functional.softplus(torch.where(truth, -scores, scores)).double().sum())
            off = torch.sigmoid(scores) - truth.float()
            gradient[:-1] += block.T @ off
            gradient[-1] += off.double().sum(0)
        inner = weights[:-1]
        gradient = gradient / count
        gradient[:-1] += penalty * inner
        return loss / count + penalty / 2 * float((inner**2).sum()), gradient.numpy().ravel()

    found = minimize(
        value, first.weights.ravel(), jac=True, method="L-BFGS-B",
        options={"maxiter": _ITERATIONS, "ftol": 1e-7, "gtol": 1e-5},
    )  # fmt: skip
    return _Fit(found.x.reshape(shape), first.mean, first.scale)


def _blocks(rows: FeatureSet, chosen: BoolArray, labels: BoolArray) -> Iterator[tuple[Tensor, Tensor]]:
    for start, stop in rows.blocks():
        own = torch.from_numpy(chosen[start:stop])
        if own.any():
            yield rows.read(start, stop)[own], torch.from_numpy(labels[start:stop])[own]
