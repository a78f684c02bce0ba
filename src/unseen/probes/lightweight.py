"""Linear evaluation as VTAB does it: SGD with momentum on frozen features, four settings, chosen on validation rows.

Paper:      Zhai et al., 2019 [P], Appendix K: the hyper-parameters of the lightweight sweep (Appendix I), with the
            linear layer alone to be trained
Shapes:     X (n, d) features with a last column of ones; A (n, c) dual weights, W = X' A; G = X X'; Y (n, c) one-hot
Implements: V <- 0.9 V + D (softmax(G A) - Y) / B,  A <- A - lr V, where D counts the rows of the batch. This is SGD on
            W from zero, step for step, because every gradient X' R lies in the span of the rows: the product with G
            replaces two products with X, and nothing is gathered
Differs:    nothing but rounding
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from unseen.core.arrays import IntArray
from unseen.core.errors import DataError
from unseen.probes.outcome import LinearModel, Trial
from unseen.probes.rows import Workers
from unseen.probes.sgd import BatchOrder
from unseen.probes.solvers import StepSchedule, default_warmup

MOMENTUM = 0.9
_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class LinearSetting:
    """One training of the linear layer."""

    learning_rate: float
    steps: int
    batch_size: int = 512


#: The lightweight sweep of [P].
LIGHTWEIGHT = tuple(LinearSetting(rate, steps) for steps in (2500, 10_000) for rate in (0.1, 0.01))


def sweep_linear(
    train: tuple[object, npt.ArrayLike],
    validation: tuple[object, npt.ArrayLike],
    classes: int,
    settings: Sequence[LinearSetting] = LIGHTWEIGHT,
    *,
    seed: int = 0,
) -> tuple[Trial, ...]:
    """Train every setting on the training rows; return accuracies on the validation rows, in the order of `settings`.

    Args:
        train: features (n, d) and class indices.
        validation: the same of the validation rows.
        classes: how many there are.
    """
    rows, held = np.asarray(validation[0], np.float32), np.asarray(validation[1])
    models = _train_all(train, classes, [(setting, seed) for setting in settings])
    trials = []
    for setting, model in zip(settings, models, strict=True):
        finite = bool(torch.isfinite(model.weights).all())
        accuracy = float(np.mean(predict(model, rows) == held)) if finite else 0.0
        trials.append(Trial(asdict(setting), accuracy, error="" if finite else "diverged"))
    return tuple(trials)


def fit_linear(
    train: tuple[object, npt.ArrayLike], classes: int, setting: LinearSetting, seeds: Sequence[int]
) -> list[LinearModel]:
    """Train one classifier per seed with one setting."""
    return _train_all(train, classes, [(setting, seed) for seed in seeds])


def predict(model: LinearModel, rows: Any) -> IntArray:
    """Return the class index per row; rows may be a store on disk, and are read a block at a time."""
    found = [
        model.scores(torch.from_numpy(np.array(rows[start : start + _BLOCK], np.float32))).argmax(dim=1).numpy()
        for start in range(0, len(rows), _BLOCK)
    ]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _train_all(
    train: tuple[Any, npt.ArrayLike], classes: int, runs: Sequence[tuple[LinearSetting, int]]
) -> list[LinearModel]:
    features, labels = train[0], torch.from_numpy(np.array(train[1], np.int64))
    if len(features) != len(labels) or not len(labels):
        raise DataError(f"{len(features)} rows of features and {len(labels)} labels: one label per row is needed.")
    if int(labels.max()) >= classes:
        raise DataError(f"a label is {int(labels.max())}, but there are {classes} classes, counted from 0.")
    rows = torch.from_numpy(np.array(features[0 : len(labels)], np.float32))
    gram, targets = rows @ rows.T + 1, functional.one_hot(labels, classes).T.contiguous().float()
    counts = _all_counts(len(labels), runs)

    def one(setting: LinearSetting, seed: int) -> LinearModel:
        weights = _train_dual(gram, targets, setting, counts[setting.batch_size, seed])
        return LinearModel(weights @ rows, weights.sum(dim=1))

    with Workers() as workers:
        # The longest first, so that no thread is alone with it at the end.
        ranked = sorted(range(len(runs)), key=lambda k: -runs[k][0].steps)
        running = {k: workers.submit(one, *runs[k]) for k in ranked}
        return [running[k].result() for k in range(len(runs))]


def _all_counts(count: int, runs: Sequence[tuple[LinearSetting, int]]) -> dict[tuple[int, int], Tensor]:
    """Return the batches of all steps by batch size and seed: settings of one seed have the same ones."""
    steps = max(setting.steps for setting, _ in runs)
    keys = {(setting.batch_size, seed) for setting, seed in runs}
    return {key: torch.from_numpy(BatchOrder(count, *key).counts(steps)) for key in keys}


def _train_dual(gram: Tensor, targets: Tensor, setting: LinearSetting, counts: Tensor) -> Tensor:
    """Return dual weights (c, n), transposed: few rows times a square matrix is five times faster than the reverse."""
    schedule = StepSchedule(setting.steps, default_warmup(setting.steps))
    weights, velocity, scores = torch.zeros_like(targets), torch.zeros_like(targets), torch.empty_like(targets)
    for step in range(setting.steps):
        share = counts[step] / setting.batch_size
        torch.mm(weights, gram, out=scores)  # the Gram matrix is its own transpose
        residual = torch.softmax(scores, dim=0).sub_(targets).mul_(share)
        velocity.mul_(MOMENTUM).add_(residual)
        weights.sub_(velocity, alpha=setting.learning_rate * schedule.factor(step))
    return weights
