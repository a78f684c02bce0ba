"""Many penalised softmax regressions at once by limited-memory BFGS, each along its own path of penalties.

Every problem is a small state machine. A gradient of all of them is one evaluation; what a problem does with its own
part of it (accept the step, shorten it, go on to the next penalty) depends on nothing but itself. So folds, seeds and
numbers of shots advance together, and none waits for another or changes its bits.

Paper:      Nocedal & Wright, "Numerical Optimization", 2nd ed., Algorithms 7.4 (two-loop recursion) and 7.5 [N]
Shapes:     W (q, c, r) weights of q problems, the last column the bias; D (q, c, r) a positive diagonal
Implements: Eq. (7.20) of [N] in the metric of D, backtracking on the sufficient-decrease condition, Eq. (3.4) of [N];
            D = mean of p(1 - p) per class times the features' spectrum, plus the penalty: the diagonal of the Hessian
            if probabilities and features were uncorrelated
Differs:    curvature pairs survive a change of the penalty from a to b: the loss part of y = H s does not change, so
            y + (b - a) s is exact. The next penalty starts from the last two solutions, extrapolated. Stops by the
            predicted decrease g'Hg / 2, which estimates what is left to gain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

MEMORY = 6  # curvature pairs kept
TOLERANCE = 3e-4
ITERATIONS = 100  # of one penalty, before a problem is left as it is
_DECREASE = 1e-4  # c1 of Eq. (3.4)
_ROUNDING = 2e-6  # of a loss in float32: a step that raises it by no more is no worse
_SMALLEST_LOSS = 1e-7
_SHORTEST_STEP = 1e-2


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Losses and gradients at one point per problem, without any penalty.

    Attributes:
        loss: (q,) float64, mean over a problem's rows.
        gradient: (q, c, r), of the mean.
        variance: (q, c), mean over rows of P(1 - P): the class's share of the Hessian.
    """

    loss: Tensor
    gradient: Tensor
    variance: Tensor


Loss = Callable[[Tensor], Evaluation]


@dataclass(frozen=True, eq=False)
class Solutions:
    """What `follow_paths` found.

    Attributes:
        weights: (l, q, c, r), one solution per penalty and problem.
        settled: (l, q), False where a problem ran out of iterations.
        gradients: how many evaluations of all problems it took.
    """

    weights: Tensor
    settled: Tensor
    gradients: int


def follow_paths(
    loss: Loss, penalties: Tensor, spectrum: Tensor, start: Tensor, *, tolerance: float = TOLERANCE
) -> Solutions:
    """Minimise loss(W) + penalty / 2 |W|^2 (bias excepted) for each problem's penalties, strongest first.

    Args:
        loss: of all problems at once.
        penalties: (q, l), descending.
        spectrum: (q, r) mean squares of the features, 1 for the bias.
        start: (q, c, r).
        tolerance: a problem is settled where the predicted decrease is below this share of its value.
    """
    walk = _Walk(penalties, spectrum, start, tolerance)
    gradients = 0
    while not walk.is_done:
        walk.advance(loss(walk.trial))
        gradients += 1
    return Solutions(walk.found, walk.settled, gradients)


class _Walk:
    """The state of all problems. Row k of every tensor belongs to problem k alone."""

    def __init__(self, penalties: Tensor, spectrum: Tensor, start: Tensor, tolerance: float) -> None:
        q, stages = penalties.shape
        self.penalties, self.spectrum, self.tolerance = penalties, spectrum[:, None, :], tolerance
        self.trial = start.clone()
        self.point = torch.zeros_like(start)
        self.gradient = torch.zeros_like(start)
        self.value = torch.full(
            (q,), torch.inf, dtype=torch.float64, device=start.device
        )  # unpenalised loss at `point`
        self.variance = start.new_zeros(start.shape[:2])
        self.last = torch.zeros_like(start)  # solution of the penalty before
        self.found = start.new_zeros(stages, *start.shape)
        self.settled = torch.ones(stages, q, dtype=torch.bool, device=start.device)
        self.stage = torch.zeros(q, dtype=torch.int64, device=start.device)
        self.tried = torch.zeros_like(self.stage)  # evaluations at this penalty
        self.length = start.new_ones(q)
        self.gain = start.new_zeros(q)
        self.guessing = torch.ones(q, dtype=torch.bool, device=start.device)
        self.diagonal = torch.ones_like(start)
        self.steps = start.new_zeros(MEMORY, *start.shape)
        self.changes = start.new_zeros(MEMORY, *start.shape)
        self.curvatures = start.new_zeros(MEMORY, q)  # 1 / s'y, or 0 for a slot without a pair
        self.oldest = 0
        self.is_done = False

    @property
    def penalty(self) -> Tensor:
        """(q,) of the current stage."""
        last = self.penalties.shape[1] - 1
        return self.penalties.gather(1, self.stage.clamp_max(last)[:, None])[:, 0]

    def advance(self, evaluation: Evaluation) -> None:
        """Judge the trial of each problem, and set out the next one."""
        penalty = self.penalty
        active = self.stage < self.penalties.shape[1]
        accepted = self._judge(evaluation, penalty) & active
        self._remember(evaluation, penalty, accepted)
        self._move(evaluation, accepted)
        self.tried += 1
        # Where a guess was turned down, its stage starts from the point before. A step that was turned down is halved.
        shortened = torch.where(self.guessing | accepted, 1.0, self.length / 2)
        self.guessing = torch.zeros_like(self.guessing)
        stuck = shortened < _SHORTEST_STEP
        self.curvatures *= ~stuck
        self.length = torch.where(stuck, 1.0, shortened)
        fresh = self.tried == 1
        if bool(fresh.any()):
            scaled = self.variance.clamp_min(1e-8)[:, :, None] * self.spectrum
            scaled[..., :-1] += penalty[:, None, None]
            self.diagonal = torch.where(fresh[:, None, None], scaled, self.diagonal)
        slope = self._slope(self.point, self.gradient, penalty)
        direction = self._direction(slope)
        self.gain = _dots(slope, direction)
        whole = self._penalised(self.value, self.point, penalty)
        settled = active & (self.gain <= 2 * self.tolerance * whole)
        given_up = active & ~settled & ((self.tried >= ITERATIONS) | (stuck & (self.curvatures.abs().sum(0) == 0)))
        self.trial = torch.addcmul(self.point, direction, self.length[:, None, None], value=-1.0)
        finished = settled | given_up
        if bool(finished.any()):
            self._next_stage(finished, given_up)

    def _judge(self, evaluation: Evaluation, penalty: Tensor) -> Tensor:
        """Which trials decrease the penalised loss enough, Eq. (3.4); a guess need only be no worse."""
        before = self._penalised(self.value, self.point, penalty)
        after = self._penalised(evaluation.loss, self.trial, penalty)
        wanted = torch.where(self.guessing, 0.0, _DECREASE * self.length * self.gain)
        slack = torch.where(torch.isfinite(before), _ROUNDING * before.abs() + _SMALLEST_LOSS, 0.0)
        return after <= before - wanted + slack

    def _remember(self, evaluation: Evaluation, penalty: Tensor, accepted: Tensor) -> None:
        """Put the pair of the step just taken in the place of the oldest; a step not taken leaves an empty place."""
        known = accepted & torch.isfinite(self.value)
        step = self.trial - self.point
        change = evaluation.gradient - self.gradient
        change[..., :-1].addcmul_(step[..., :-1], penalty[:, None, None])
        product = _dots(step, change)
        usable = known & (product > 1e-8 * _dots(change, change))
        self.steps[self.oldest] = step
        self.changes[self.oldest] = change
        self.curvatures[self.oldest] = torch.where(usable, 1.0 / product, 0.0)
        self.oldest = (self.oldest + 1) % MEMORY

    def _move(self, evaluation: Evaluation, accepted: Tensor) -> None:
        wide = accepted[:, None, None]
        self.point = torch.where(wide, self.trial, self.point)
        self.gradient = torch.where(wide, evaluation.gradient, self.gradient)
        self.variance = torch.where(accepted[:, None], evaluation.variance, self.variance)
        self.value = torch.where(accepted, evaluation.loss, self.value)

    def _direction(self, slope: Tensor) -> Tensor:
        """H g by the two-loop recursion, Algorithm 7.4; empty places have no curvature and change nothing."""
        order = [(self.oldest + k) % MEMORY for k in range(MEMORY)]
        found, weights = slope.clone(), {}
        for place in reversed(order):
            weights[place] = self.curvatures[place] * _dots(self.steps[place], found)
            found.addcmul_(self.changes[place], weights[place][:, None, None], value=-1.0)
        found /= self.diagonal
        found *= self._scale(order)[:, None, None]
        for place in order:
            weight = weights[place] - self.curvatures[place] * _dots(self.changes[place], found)
            found.addcmul_(self.steps[place], weight[:, None, None])
        return found

    def _scale(self, order: list[int]) -> Tensor:
        """gamma of Eq. (7.20) in the metric of D, from the latest pair that each problem has."""
        scale = torch.ones_like(self.length)
        latest = self.changes[order[-1]]
        curvature = self.curvatures[order[-1]]
        size = _dots(latest, latest / self.diagonal) * curvature
        return torch.where(curvature > 0, 1.0 / size, scale)

    def _next_stage(self, finished: Tensor, given_up: Tensor) -> None:
        """Keep the solutions found, and send their problems on to the next penalty from an extrapolated guess."""
        stages = self.penalties.shape[1]
        rows = finished.nonzero()[:, 0]
        self.found[self.stage[rows], rows] = self.point[rows]
        self.settled[self.stage[rows], rows] = ~given_up[rows]
        before = self.penalty
        self.stage = self.stage + finished
        self.tried = torch.where(finished, 0, self.tried)
        self.is_done = bool((self.stage >= stages).all())
        shift = (self.penalty - before)[None, :, None, None]
        self.changes[..., :-1].addcmul_(self.steps[..., :-1], shift)
        guess = 2.0 * self.point - self.last
        wide = finished[:, None, None]
        self.trial = torch.where(wide, guess, self.trial)
        self.last = torch.where(wide, self.point, self.last)
        self.guessing = finished
        products = torch.stack([_dots(s, y) for s, y in zip(self.steps, self.changes, strict=True)])
        renewed = torch.where((self.curvatures > 0) & (products > 0), 1.0 / products, 0.0)
        self.curvatures = torch.where(finished, renewed, self.curvatures)

    def _slope(self, point: Tensor, gradient: Tensor, penalty: Tensor) -> Tensor:
        slope = gradient.clone()
        slope[..., :-1].addcmul_(point[..., :-1], penalty[:, None, None])
        return slope

    def _penalised(self, loss: Tensor, point: Tensor, penalty: Tensor) -> Tensor:
        inner = point[..., :-1]
        return loss + 0.5 * penalty * inner.square().sum(dim=(1, 2))


def _dots(first: Tensor, second: Tensor) -> Tensor:
    """Inner product per problem, (q,)."""
    found: Tensor = torch.linalg.vecdot(first.flatten(1), second.flatten(1))
    return found
