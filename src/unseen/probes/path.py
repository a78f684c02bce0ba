"""The path that gradient descent takes, walked in a few large implicit steps by L-BFGS.

Early-stopped training is the regularisation that the published search tunes: a higher learning rate means a longer
walk down the loss from the origin. Explicit steps need hundreds of gradients per learning rate. An implicit step of
length h, W' = argmin loss(W) + |W - W_k|^2 / (2 h), may be as long as one likes, costs three to five gradients from a
good guess, and its end is the start of the next: one walk gives every learning rate.

Papers:     Rockafellar, "Monotone operators and the proximal point algorithm", 1976 (the implicit step);
            Ali, Kolter & Tibshirani, "A continuous-time view of early stopping", AISTATS 2019 (how a single step from
            the origin, which is the usual l2 path, differs)
Shapes:     W (c, r) weights in rotated coordinates; D (c, r) diagonal of the preconditioner
Implements: D = mean of p(1 - p) per class times the features' spectrum, plus 1 / h: the diagonal of the Hessian if
            probabilities and features were uncorrelated
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from unseen.probes.lbfgs import History, Point, minimize
from unseen.probes.outcome import Trial, best_trial
from unseen.probes.softmax import SoftmaxLoss

# The next move is about this share of the last one, per unit of logarithmic time.
_EXTRAPOLATION = 0.9
# Give up the walk after so many points in a row that are worse in accuracy and in log loss.
_PATIENCE = 2


@dataclass(eq=False)
class Walker:
    """Takes implicit steps, each from what the ones before have learned of the curvature.

    Args:
        loss: the training loss.
        spectrum: (r,) mean squares of the features.
        tolerance: see `lbfgs.minimize`.
    """

    loss: SoftmaxLoss
    spectrum: Tensor
    tolerance: float
    _history: History = field(default_factory=History)
    _penalty: float | None = None

    def step(self, origin: Point | Tensor, length: float, guess: Tensor | None = None) -> Point:
        """The point that gradient flow reaches from `origin` after the time `length`, in one implicit step.

        Args:
            origin: where to start; bare weights are evaluated first.
            length: time of the step.
            guess: where it might end.
        """
        penalty = 1.0 / length
        if self._penalty is not None:
            self._history.shift(penalty - self._penalty)
        self._penalty = penalty
        centre = origin.weights if isinstance(origin, Point) else origin
        candidates = [origin] if isinstance(origin, Point) else []
        if guess is not None or not candidates:
            trial = centre if guess is None else guess
            candidates.append(Point(trial, self.loss(trial, curvature=True)))
        start = min(candidates, key=lambda point: point.value(penalty, centre))
        diagonal = candidates[-1].evaluation.variance * self.spectrum + penalty
        return minimize(self.loss, start, penalty, centre, diagonal, self._history, tolerance=self.tolerance)


@dataclass(frozen=True, eq=False)
class PathResult:
    """What a search found.

    Attributes:
        best: position of the chosen trial.
        schedule: learning rates on the way to the chosen one, which is the last.
        weights: the weights at each of them.
    """

    trials: tuple[Trial, ...]
    best: int
    schedule: tuple[float, ...]
    weights: tuple[Tensor, ...]


def search_path(
    walker: Walker, validation: SoftmaxLoss, rates: Sequence[float], time: float, classes: int
) -> PathResult:
    """Walk until validation is past its peak, then refine around the best point.

    Args:
        walker: over the tuning rows.
        validation: loss over the validation rows; accuracy decides, its mean loss among those within one standard
            error of the best.
        rates: learning rates, ascending and in geometric progression.
        time: training time per unit of learning rate.
        classes: rows of the weights.
    """
    search = _Search(walker, validation, time, torch.zeros(classes, len(walker.spectrum)))
    origin: Point | Tensor = search.solved[0.0]
    older, last = 0.0, 0.0
    for rate in rates:
        move = search.solved[last] - search.solved[older]
        origin = search.attempt(rate, last, origin, search.solved[last] + _EXTRAPOLATION * move)
        older, last = last, rate
        if _past_the_peak(search.trials):
            break
    search.refine()
    return search.result()


class _Search:
    """Points that were tried: their weights, their trials, and the way from the origin to each."""

    def __init__(self, walker: Walker, validation: SoftmaxLoss, time: float, origin: Tensor) -> None:
        self.walker, self.validation, self.time = walker, validation, time
        self.trials: list[Trial] = []
        self.solved: dict[float, Tensor] = {0.0: origin}
        self.ways: dict[float, tuple[float, ...]] = {0.0: ()}

    def attempt(self, rate: float, before: float, origin: Point | Tensor, guess: Tensor) -> Point:
        """Step from the learning rate `before`, whose point is `origin`, on to `rate`."""
        point = self.walker.step(origin, (rate - before) * self.time, guess)
        accuracy, log_loss = self.validation.accuracy_and_loss(point.weights)
        self.trials.append(Trial({"lr": rate}, accuracy, log_loss))
        self.solved[rate], self.ways[rate] = point.weights, (*self.ways[before], rate)
        return point

    def best(self) -> int:
        """Position of the trial to choose: what accuracy cannot tell apart, log loss does."""
        return best_trial(self.trials, self.validation.count)

    def refine(self) -> None:
        """Try the geometric middles between the best learning rate and its neighbours."""
        tried = sorted(self.solved)[1:]
        place = tried.index(self.trials[self.best()].parameters["lr"])
        for low, high in pairwise(tried[max(place - 1, 0) : place + 2]):
            middle = (self.solved[low] + self.solved[high]) / 2
            self.attempt(math.sqrt(low * high), low, self.solved[low], middle)

    def result(self) -> PathResult:
        best = self.best()
        way = self.ways[self.trials[best].parameters["lr"]]
        return PathResult(tuple(self.trials), best, way, tuple(self.solved[rate] for rate in way))


def follow_path(walker: Walker, result: PathResult, time: float, *, known: bool) -> Tensor:
    """Walk the chosen schedule again over other rows.

    Args:
        walker: over the rows of the final fit.
        result: the search.
        time: training time per unit of learning rate, of the final fit.
        known: whether these rows contain those of the search, so that its moves may serve as guesses.
    """
    before = older = torch.zeros(len(result.weights[0]), len(walker.spectrum))
    origin: Point | Tensor = before
    last = 0.0
    for position, rate in enumerate(result.schedule):
        if known:
            earlier = result.weights[position - 1] if position else torch.zeros_like(before)
            guess = before + (result.weights[position] - earlier)
        else:
            guess = before + _EXTRAPOLATION * (before - older)
        origin = walker.step(origin, (rate - last) * time, guess)
        older, before, last = before, origin.weights, rate
    return before


def _past_the_peak(trials: Sequence[Trial]) -> bool:
    """Whether the latest trials are all worse than the best one, by accuracy and by log loss."""
    best = best_trial(trials)
    if best >= len(trials) - _PATIENCE:
        return False
    top = trials[best]
    return all(
        trial.accuracy < top.accuracy and (trial.log_loss or 0.0) > (top.log_loss or 0.0)
        for trial in trials[-_PATIENCE:]
    )
