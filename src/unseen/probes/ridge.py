"""Ridge regression onto class indicators, in closed form: one eigendecomposition serves every penalty.

Paper:      Hoerl & Kennard, "Ridge regression", Technometrics 1970; as a few-shot probe with targets +1 and -1 it is
            used by Kolesnikov et al., "Big Transfer", ECCV 2020
Shapes:     X (n, d) centred features; Y (n, c) targets in {-1, 1}, centred; G = X'X / n = U diag(s) U'
Implements: W(l) = U diag(1 / (s + l)) U' X'Y / n for all penalties l, the bias from the means
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unseen.core.arrays import IntArray
from unseen.probes.outcome import Fit, LinearModel, best_trial, each_draw, try_candidates
from unseen.probes.rows import LabelledRows
from unseen.probes.sampling import Draw
from unseen.probes.softmax import WORTHWHILE
from unseen.probes.solvers import Settings

DEFAULT_PENALTY = 1e-2  # where no row can be held out to choose one


@dataclass(frozen=True, eq=False)
class Ridge(LinearModel):
    """A linear model whose scores estimate +1 for the right class and -1 for the others."""

    def probabilities(self, scores: Tensor) -> Tensor:
        # A score of +1 against -1 is read as a sure answer; a softmax of the regression itself would be nearly flat.
        return torch.softmax(scores * 4.0, dim=1)


@each_draw
def fit_ridge(data: LabelledRows, draw: Draw, settings: Settings) -> Fit:
    """Choose a penalty on the validation rows and solve again on the final rows."""
    penalties = settings.penalties
    if not len(draw.validation):  # one image per class: nothing can be held out
        model = _solve(data, draw.final, [DEFAULT_PENALTY])[0]
        return Fit(model, (), {"regularization": DEFAULT_PENALTY})
    models = _solve(data, draw.tuning, penalties)
    trials = try_candidates(
        data, draw, "regularization", penalties, lambda block: [model.scores(block.cpu()) for model in models]
    )
    best = best_trial(trials)
    model = _solve(data, draw.final, [penalties[best]])[0]
    return Fit(model, trials, trials[best].parameters)


def _solve(data: LabelledRows, rows: IntArray, penalties: Sequence[float]) -> list[Ridge]:
    """Return the closed form for every penalty; few rows are solved in their span."""
    if len(rows) <= WORTHWHILE * data.features.dimension:
        # W(l) = X' V diag(1 / (s + l)) V' Y / n with X X' / n = V diag(s) V', (n, n): the same W from fewer dimensions.
        table = data.features.take(rows).double()
        targets = 2.0 * torch.nn.functional.one_hot(data.take_labels(rows), data.classes).double() - 1.0
        mean, target_mean = table.mean(dim=0), targets.mean(dim=0)
        centred = table - mean
        spectrum, vectors = torch.linalg.eigh(centred @ centred.T / len(rows))
        basis, inside = centred.T @ vectors, vectors.T @ (targets - target_mean) / len(rows)
    else:
        mean, target_mean, second, cross = _moments(data, rows)
        spectrum, basis = torch.linalg.eigh(second)
        inside = basis.T @ cross
    models = []
    for penalty in penalties:
        weights = basis @ (inside / (spectrum.clamp_min(0.0) + penalty)[:, None])
        bias = target_mean - mean @ weights
        models.append(Ridge(weights.T.float().contiguous().cpu(), bias.float().cpu()))
    return models


def _moments(data: LabelledRows, rows: IntArray) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return means of features (d,) and targets (c,), centred second (d, d) and cross moments (d, c), in float64."""
    dimension, classes, count = data.features.dimension, data.classes, len(rows)
    second, sums = data.features.zeros(dimension, dimension), data.features.zeros(classes, dimension)
    for block, labels in data.blocks(rows):
        second += block.T @ block
        sums.index_add_(0, labels, block.double())
    per_class = torch.bincount(data.take_labels(rows), minlength=classes).double()
    mean = sums.sum(dim=0) / count
    target_mean = 2.0 * per_class / count - 1.0
    cross = (2.0 * sums.T - sums.sum(dim=0)[:, None]) / count - torch.outer(mean, target_mean)
    return mean, target_mean, second / count - torch.outer(mean, mean), cross
