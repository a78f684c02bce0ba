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
        model = _solve(_moments(data, draw.final), [DEFAULT_PENALTY])[0]
        return Fit(model, (), {"regularization": DEFAULT_PENALTY}, time.perf_counter() - began)
    tuning = _moments(data, draw.tuning)
    models = _solve(tuning, penalties)
    trials = [Trial({"regularization": p}, a) for p, a in zip(penalties, _accuracies(models, data, draw), strict=True)]
    best = best_trial(trials)
    is_fitted = draw.final is draw.tuning
    model = models[best] if is_fitted else _solve(_moments(data, draw.final), [penalties[best]])[0]
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


def _solve(moments: _Moments, penalties: Sequence[float]) -> list[Ridge]:
    """The closed form for every penalty."""
    spectrum, basis = torch.linalg.eigh(moments.second)
    inside = basis.T @ moments.cross
    models = []
    for penalty in penalties:
        weights = basis @ (inside / (spectrum.clamp_min(0.0) + penalty)[:, None])
        bias = moments.target_mean - moments.mean @ weights
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
