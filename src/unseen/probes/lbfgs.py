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
            y + (b - a) s is exact. Steps that were turned down leave their pairs too. The next penalty starts from the
            last two solutions, extrapolated. Stops by the predicted decrease g'Hg / 2, which estimates the remaining
            decrease.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

MEMORY = 4  # curvature pairs kept
ITERATIONS = 100  # of one penalty, before a problem is given up
_DECREASE = 1e-4  # c1 of Eq. (3.4)
_ROUNDING = 2e-6  # of a loss in float32: a step that raises it by no more is no worse
_SMALLEST_LOSS = 1e-7
_SHORTER = 0.8  # factor of a step that was rejected: the pair learned from it shortens the next one too
_SHORTEST_STEP = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Losses and gradients at one point per problem, without any penalty.

    Attributes:
        loss: (q,) float64, mean over a problem's rows.
        gradient: (q, c, r), of the mean.
        variance: (q, c), mean over rows of P(1 - P), the class's share of the Hessian; empty if not requested.
    """

    loss: Tensor
    gradient: Tensor
    variance: Tensor


#: Takes weights (q, c, r), and whether the variance is needed.
Loss = Callable[[Tensor, bool], Evaluation]


@dataclass(frozen=True, eq=False)
class Solutions:
    """Result of `follow_paths`.

    Attributes:
        weights: (l, q, c, r), one solution per penalty and problem.
        settled: (l, q), False where a problem ran out of iterations.
        gradients: how many evaluations of all problems it took.
    """

    weights: Tensor
    settled: Tensor
    gradients: int


def follow_paths(
    loss: Loss, penalties: Tensor, spectrum: Tensor, start: Tensor, *, tolerance: float = 1e-4
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
        walk.advance(loss(walk.trial, bool(walk.guessing.any())))
        gradients += 1
    return Solutions(walk.found, walk.settled, gradients)


class _Walk:
    """The state of all problems. Row k of every tensor belongs to problem k alone."""

    def __init__(self, penalties: Tensor, spectrum: Tensor, start: Tensor, tolerance: float) -> None:
        count, stages = penalties.shape
        self.penalties, self.spectrum, self.tolerance = penalties, spectrum[:, None, :], tolerance
        self.penalised = torch.ones_like(self.spectrum)  # columns of the weights, the bias excepted
        self.penalised[..., -1] = 0.0
        self.trial = start.clone()
        self.point, self.gradient, self.last = (torch.zeros_like(start) for _ in range(3))
        self.loss = penalties.new_full((count,), torch.inf, dtype=torch.float64)  # at `point`, without the penalty
        self.square = penalties.new_zeros(count)  # |W|^2 at `point`, the bias excepted
        self.variance = start.new_zeros(start.shape[:2])
        self.found = start.new_zeros(stages, *start.shape)
        self.settled = torch.ones(stages, count, dtype=torch.bool, device=start.device)
        self.stage = torch.zeros(count, dtype=torch.int64, device=start.device)
        self.tried = torch.zeros_like(self.stage)  # evaluations at this penalty
        self.length, self.gain = penalties.new_ones(count), penalties.new_zeros(count)
        self.guessing = torch.ones(count, dtype=torch.bool, device=start.device)
        self.diagonal = torch.ones_like(start)
        self.steps, self.changes = (start.new_zeros(MEMORY, *start.shape) for _ in range(2))
        self.curvatures = penalties.new_zeros(MEMORY, count)  # 1 / s'y, or 0 for a place without a pair
        self.oldest = 0
        self.is_done = False

    @property
    def penalty(self) -> Tensor:
        """Return the penalties (q,) of the current stage."""
        last = self.penalties.shape[1] - 1
        return self.penalties.gather(1, self.stage.clamp_max(last)[:, None])[:, 0]

    def advance(self, evaluation: Evaluation) -> None:
        """Accept or reject the trial of each problem, and choose the next one."""
        penalty = self.penalty
        wide = penalty[:, None, None] * self.penalised
        active = self.stage < self.penalties.shape[1]
        accepted = self._judge(evaluation, penalty, wide) & active
        self.tried += 1
        # A guess that was turned down leaves its stage to start from the point before; a step is shortened.
        shortened = torch.where(self.guessing | accepted, 1.0, self.length * _SHORTER)
        self.guessing = torch.zeros_like(self.guessing)
        stuck = shortened < _SHORTEST_STEP
        self.curvatures *= ~stuck
        self.length = torch.where(stuck, 1.0, shortened)
        self._precondition(self.tried == 1, wide)
        slope = torch.addcmul(self.gradient, self.point, wide)
        direction = self._direction(slope)
        self.gain = _dots(slope, direction)
        value = self.loss + 0.5 * penalty * self.square
        settled = active & (self.gain <= 2 * self.tolerance * value)
        given_up = active & ~settled & ((self.tried >= ITERATIONS) | (stuck & (self.curvatures.sum(0) == 0)))
        self.trial = torch.addcmul(self.point, direction, self.length[:, None, None], value=-1.0)
        finished = settled | given_up
        if bool(finished.any()):
            self._next_stage(finished, given_up)

    def _judge(self, evaluation: Evaluation, penalty: Tensor, wide: Tensor) -> Tensor:
        """Move to the trials that decrease the penalised loss enough, Eq. (3.4); a guess need only be no worse."""
        square = self._square(self.trial)
        before = self.loss + 0.5 * penalty * self.square
        after = evaluation.loss + 0.5 * penalty * square
        wanted = torch.where(self.guessing, 0.0, _DECREASE * self.length * self.gain)
        known = torch.isfinite(before)
        slack = torch.where(known, _ROUNDING * before.abs() + _SMALLEST_LOSS, 0.0)
        accepted = after <= before - wanted + slack
        active = self.stage < self.penalties.shape[1]
        accepted &= active
        self._remember(evaluation, wide, active & known)
        if bool(accepted.all()):
            self.point, self.gradient = self.trial, evaluation.gradient
        else:
            chosen = accepted[:, None, None]
            self.point = torch.where(chosen, self.trial, self.point)
            self.gradient = torch.where(chosen, evaluation.gradient, self.gradient)
        if len(evaluation.variance):  # taken by problems that need it: others must not change what a problem does
            self.variance = torch.where((accepted & self.guessing)[:, None], evaluation.variance, self.variance)
        self.loss = torch.where(accepted, evaluation.loss, self.loss)
        self.square = torch.where(accepted, square, self.square)
        return accepted

    def _remember(self, evaluation: Evaluation, wide: Tensor, valid: Tensor) -> None:
        """Put the pair of the step just tried in the place of the oldest: the loss is convex, so that a step which was
        turned down tells of its curvature as well as any other."""
        step = torch.sub(self.trial, self.point, out=self.steps[self.oldest])
        change = torch.sub(evaluation.gradient, self.gradient, out=self.changes[self.oldest])
        change.addcmul_(step, wide)
        product = _dots(step, change)
        usable = valid & (product > 1e-8 * _dots(change, change))
        self.curvatures[self.oldest] = torch.where(usable, 1.0 / product, 0.0)
        self.oldest = (self.oldest + 1) % MEMORY

    def _precondition(self, fresh: Tensor, wide: Tensor) -> None:
        """Renew D for the problems that begin with a penalty."""
        for row in fresh.nonzero()[:, 0].tolist():
            variance = self.variance[row].clamp_min(1e-8)
            torch.addcmul(wide[row], variance[:, None], self.spectrum[row], out=self.diagonal[row])

    def _direction(self, slope: Tensor) -> Tensor:
        """Compute H g by the two-loop recursion, Algorithm 7.4; empty places have no curvature and change nothing."""
        order = [(self.oldest + k) % MEMORY for k in range(MEMORY)]
        found, weights = slope.clone(), {}
        for place in reversed(order):
            weights[place] = self.curvatures[place] * _dots(self.steps[place], found)
            found.addcmul_(self.changes[place], weights[place][:, None, None], value=-1.0)
        found /= self.diagonal
        found *= self._scale(order[-1])[:, None, None]
        for place in order:
            weight = weights[place] - self.curvatures[place] * _dots(self.changes[place], found)
            found.addcmul_(self.steps[place], weight[:, None, None])
        return found

    def _scale(self, latest: int) -> Tensor:
        """Return gamma of Eq. (7.20) in the metric of D, from the latest pair where there is one."""
        change, curvature = self.changes[latest], self.curvatures[latest]
        size = _dots(change, change / self.diagonal) * curvature
        return torch.where(curvature > 0, 1.0 / size, 1.0)

    def _next_stage(self, finished: Tensor, given_up: Tensor) -> None:
        """Store the solutions found, and start their problems at the next penalty from an extrapolated guess."""
        before, stages = self.penalty, self.stage.tolist()
        self.stage, self.guessing = self.stage + finished, finished
        self.tried = torch.where(finished, 0, self.tried)
        self.is_done = bool((self.stage >= self.penalties.shape[1]).all())
        shift = (self.penalty - before)[:, None, None] * self.penalised
        for row in finished.nonzero()[:, 0].tolist():  # in place: gathered copies cost more than a gradient
            self.found[stages[row], row] = self.point[row]
            self.settled[stages[row], row] = ~given_up[row]
            torch.sub(self.point[row], self.last[row], alpha=0.5, out=self.trial[row]).mul_(2.0)
            self.last[row] = self.point[row]
            steps, changes = self.steps[:, row], self.changes[:, row]
            changes.addcmul_(steps, shift[row])
            products = _dots(steps, changes)
            kept = (self.curvatures[:, row] > 0) & (products > 0)
            self.curvatures[:, row] = torch.where(kept, 1.0 / products, 0.0)

    def _square(self, weights: Tensor) -> Tensor:
        """Return |W|^2 per problem, without the bias."""
        bias = weights[..., -1]
        return _dots(weights, weights) - (bias * bias).sum(dim=1)


def _dots(first: Tensor, second: Tensor) -> Tensor:
    """Return the inner product per problem, (q,)."""
    found: Tensor = torch.linalg.vecdot(first.flatten(1), second.flatten(1))
    return found
