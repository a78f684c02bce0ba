"""Ridge regression onto class indicators, in closed form: one eigendecomposition serves every penalty.

Paper:      Hoerl & Kennard, "Ridge regression", Technometrics 1970; as a few-shot probe with targets +1 and -1 it is
            used by Kolesnikov et al., "Big Transfer", ECCV 2020
Shapes:     X (n, d) centred features; Y (n, c) targets in {-1, 1}, centred; G = X'X / n = U diag(s) U'
Implements: W(l) = U diag(1 / (s + l)) U' X'Y / n for all penalties l, the bias from the means
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unseen.probes.draws import Draw
from unseen.probes.linear import LabelledRows, LinearModel
from unseen.probes.outcome import Fit, Trial, best_trial
from unseen.probes.rows import STREAM_ROWS, IntArray
from unseen.probes.workers import Workers

VERSION = 1
PENALTIES = tuple(10.0 ** (k / 2) for k in range(-14, 1))
_FEW = 0.8  # of the dimensions: as many rows are solved in their span
DEFAULT_PENALTY = 1e-2  # where no row can be held out to choose one


@dataclass(frozen=True, eq=False)
class _Moments:
    """Sums over rows, in float64: they are small whatever the number of rows."""

    count: int
    mean: Tensor  # (d,)
    target_mean: Tensor  # (c,)
    second: Tensor  # (d, d), centred, divided by n
    cross: Tensor  # (d, c), centred, divided by n


@dataclass(frozen=True, eq=False)
class Ridge(LinearModel):
    """A linear model whose scores estimate +1 for the right class and -1 for the others."""

    def probabilities(self, scores: Tensor) -> Tensor:
        # A score of +1 against -1 is read as a sure answer; a softmax of the regression itself would be nearly flat.
        return torch.softmax(scores * 4.0, dim=1)


def fit_ridge(
    data: LabelledRows, draws: Sequence[Draw], workers: Workers, *, penalties: Sequence[float] = PENALTIES
) -> list[Fit]:
    """Choose a penalty on the validation rows and solve again on the final rows, for every draw."""
    futures = [workers.submit(_fit, data, draw, penalties) for draw in draws]
    return [future.result() for future in futures]


def _fit(data: LabelledRows, draw: Draw, penalties: Sequence[float]) -> Fit:
    began = time.perf_counter()
    if not len(draw.validation):  # one image per class: nothing can be held out
        model = _solve(data, draw.final, [DEFAULT_PENALTY])[0]
        return Fit(model, (), {"regularization": DEFAULT_PENALTY}, time.perf_counter() - began)
    models = _solve(data, draw.tuning, penalties)
    trials = [Trial({"regularization": p}, a) for p, a in zip(penalties, _accuracies(models, data, draw), strict=True)]
    best = best_trial(trials)
    is_fitted = draw.final is draw.tuning
    model = models[best] if is_fitted else _solve(data, draw.final, [penalties[best]])[0]
    return Fit(model, tuple(trials), trials[best].parameters, time.perf_counter() - began)


def _moments(data: LabelledRows, rows: IntArray) -> _Moments:
    """First and second moments of features and targets over `rows`."""
    dimension, classes, count = data.features.dimension, data.classes, len(rows)
    second = torch.zeros(dimension, dimension, dtype=torch.float64, device=data.features.device)
    sums = torch.zeros(classes, dimension, dtype=torch.float64, device=data.features.device)
    for start in range(0, count, STREAM_ROWS):
        part = rows[start : start + STREAM_ROWS]
        block = data.features.take(part)
        second += block.T @ block
        sums.index_add_(0, data.take_labels(part), block.double())
    per_class = torch.bincount(data.take_labels(rows), minlength=classes).double()
    mean = sums.sum(dim=0) / count
    target_mean = 2.0 * per_class / count - 1.0
    second = second / count - torch.outer(mean, mean)
    cross = (2.0 * sums.T - sums.sum(dim=0)[:, None]) / count - torch.outer(mean, target_mean)
    return _Moments(count, mean, target_mean, second, cross)


def _solve(data: LabelledRows, rows: IntArray, penalties: Sequence[float]) -> list[Ridge]:
    """The closed form for every penalty; few rows in their span."""
    if len(rows) <= _FEW * data.features.dimension:
        return _solve_few(data.features.take(rows).double(), data.take_labels(rows), data.classes, penalties)
    moments = _moments(data, rows)
    spectrum, basis = torch.linalg.eigh(moments.second)
    return _models(spectrum, basis, basis.T @ moments.cross, moments.mean, moments.target_mean, penalties)


def _solve_few(rows: Tensor, labels: Tensor, classes: int, penalties: Sequence[float]) -> list[Ridge]:
    """W(l) = X' V diag(1 / (s + l)) V' Y / n with X X' / n = V diag(s) V', (n, n): the same W from fewer dimensions."""
    targets = 2.0 * torch.nn.functional.one_hot(labels, classes).double() - 1.0
    mean, target_mean = rows.mean(dim=0), targets.mean(dim=0)
    centred = rows - mean
    spectrum, vectors = torch.linalg.eigh(centred @ centred.T / len(rows))
    inside = vectors.T @ (targets - target_mean) / len(rows)
    return _models(spectrum, centred.T @ vectors, inside, mean, target_mean, penalties)


def _models(
    spectrum: Tensor, basis: Tensor, inside: Tensor, mean: Tensor, target_mean: Tensor, penalties: Sequence[float]
) -> list[Ridge]:
    models = []
    for penalty in penalties:
        weights = basis @ (inside / (spectrum.clamp_min(0.0) + penalty)[:, None])
        bias = target_mean - mean @ weights
        models.append(Ridge(weights.T.float().contiguous().cpu(), bias.float().cpu()))
    return models


def _accuracies(models: Sequence[LinearModel], data: LabelledRows, draw: Draw) -> list[float]:
    """Validation accuracy of every model, reading the rows once."""
    correct = [0] * len(models)
    for start in range(0, len(draw.validation), STREAM_ROWS):
        part = draw.validation[start : start + STREAM_ROWS]
        block, labels = data.features.take(part).cpu(), data.take_labels(part).cpu()
        for position, model in enumerate(models):
            correct[position] += int((model.scores(block).argmax(dim=1) == labels).sum())
    return [count / len(draw.validation) for count in correct]
