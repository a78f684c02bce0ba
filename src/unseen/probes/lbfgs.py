"""Limited-memory BFGS for a smooth loss plus a quadratic penalty, preconditioned and warm from one penalty to the next.

Paper:      Nocedal & Wright, "Numerical Optimization", 2nd ed., Algorithms 7.4 (two-loop recursion) and 7.5 [N]
Shapes:     W (c, d) weights; g gradient; H0 = gamma / D with D (c, d) a positive diagonal
Implements: Eq. (7.20) of [N] in the metric of D, backtracking on the sufficient-decrease condition, Eq. (3.4) of [N]
Differs:    curvature pairs survive a change of the penalty from a to b: the loss part of y = H s does not change, so
            y + (b - a) s is exact. Stops by the predicted decrease g'Hg / 2, which bounds what is left to gain.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from unseen.probes.softmax import Evaluation, SoftmaxLoss

MEMORY = 10  # curvature pairs kept
_DECREASE = 1e-4  # c1 of Eq. (3.4)
_SHORTEST_STEP = 1e-3


@dataclass(eq=False)
class History:
    """The latest curvature pairs, oldest first: s = change of weights, y = change of the penalised gradient."""

    steps: list[Tensor] = field(default_factory=list)
    changes: list[Tensor] = field(default_factory=list)

    def add(self, step: Tensor, change: Tensor) -> None:
        """Keep a pair whose curvature is positive; drop the oldest beyond MEMORY."""
        if _dot(step, change) <= 1e-8 * _dot(change, change):
            return
        self.steps.append(step)
        self.changes.append(change)
        if len(self.steps) > MEMORY:
            del self.steps[0], self.changes[0]

    def clear(self) -> None:
        self.steps.clear()
        self.changes.clear()

    def shift(self, difference: float) -> None:
        """Account for a penalty that is stronger by `difference`; drop pairs that rounding leaves without curvature."""
        kept = History()
        for step, change in zip(self.steps, self.changes, strict=True):
            kept.add(step, change.add_(step, alpha=difference))
        self.steps, self.changes = kept.steps, kept.changes

    def direction(self, gradient: Tensor, diagonal: Tensor) -> Tensor:
        """H g by the two-loop recursion, Algorithm 7.4."""
        found = gradient.clone()
        curvatures = [1.0 / _dot(s, y) for s, y in zip(self.steps, self.changes, strict=True)]
        weights = []
        for step, change, rho in zip(self.steps[::-1], self.changes[::-1], curvatures[::-1], strict=True):
            weights.append(rho * _dot(step, found))
            found.sub_(change, alpha=weights[-1])
        found /= diagonal
        if self.steps:
            latest = self.changes[-1]
            found *= 1.0 / (curvatures[-1] * _dot(latest, latest / diagonal))  # Eq. (7.20), in the metric of D
        for step, change, rho, weight in zip(self.steps, self.changes, curvatures, weights[::-1], strict=True):
            found.add_(step, alpha=weight - rho * _dot(change, found))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Weights with the loss there."""

    weights: Tensor
    evaluation: Evaluation

    def value(self, penalty: float, centre: Tensor) -> float:
        """Loss plus penalty / 2 times the squared distance from `centre`."""
        return self.evaluation.loss + 0.5 * penalty * float((self.weights - centre).double().square().sum())

    def slope(self, penalty: float, centre: Tensor) -> Tensor:
        """Gradient of `value`."""
        return torch.add(self.evaluation.gradient, self.weights - centre, alpha=penalty)


def minimize(
    loss: SoftmaxLoss,
    start: Point,
    penalty: float,
    centre: Tensor,
    diagonal: Tensor,
    history: History,
    *,
    tolerance: float,
    iterations: int = 200,
) -> Point:
    """Minimise loss(W) + penalty / 2 |W - centre|^2.

    Args:
        loss: the smooth part.
        start: where to start, already evaluated.
        penalty: weight of the quadratic part.
        centre: (c, d), where the quadratic part is zero.
        diagonal: D, an estimate of the Hessian's diagonal.
        history: curvature pairs of this penalty from earlier runs; it grows here.
        tolerance: stop where the predicted decrease is below this share of the value.
        iterations: stop after so many, converged or not.
    """
    point, value, slope = start, start.value(penalty, centre), start.slope(penalty, centre)
    for _ in range(iterations):
        direction = history.direction(slope, diagonal)
        gain = _dot(slope, direction)
        if gain <= 2 * tolerance * value:
            break
        moved = _backtrack(loss, point, value, penalty, centre, direction, gain)
        if moved is None:
            if not history.steps:  # rounding hides any further decrease
                break
            history.clear()
            continue
        next_slope = moved.slope(penalty, centre)
        history.add(moved.weights - point.weights, next_slope - slope)
        point, value, slope = moved, moved.value(penalty, centre), next_slope
    return point


def _backtrack(
    loss: SoftmaxLoss, point: Point, value: float, penalty: float, centre: Tensor, direction: Tensor, gain: float
) -> Point | None:
    """The first of the steps 1, 1/2, 1/4 ... that decreases enough, or None."""
    length = 1.0
    while length >= _SHORTEST_STEP:
        weights = point.weights - length * direction
        trial = Point(weights, loss(weights))
        if trial.value(penalty, centre) <= value - _DECREASE * length * gain:  # Eq. (3.4)
            return trial
        length /= 2
    return None


def _dot(first: Tensor, second: Tensor) -> float:
    return float(torch.dot(first.reshape(-1), second.reshape(-1)))
