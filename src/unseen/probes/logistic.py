"""The `logistic` solver, the default: l2-penalised softmax regression, converged, its penalty chosen by folds.

Papers:     Hastie, Tibshirani & Friedman, "The Elements of Statistical Learning", 2nd ed., Section 4.4 (the model) and
            7.10 (cross-validation);
            Nocedal & Wright, "Numerical Optimization", 2nd ed., Algorithms 7.4 (two-loop recursion) and 7.5 [N]
Shapes:     X (n, d) rows of unit length, centred; W (c, d) weights, b (c,) biases; t the mean square of centred rows;
            in `follow_path` W (c, r) weights, the last column the bias; D (c, r) a positive diagonal
Implements: argmin of the mean log loss + penalty t / 2 |W|^2, the bias free, for thirteen penalties, on every fold
            in the eigenbasis of the rows (softmax.py); the penalty by the rule of sampling.py; the chosen one again on
            all rows, from the mean of the folds' solutions; a temperature from the held-out rows. A dataset's own
            validation rows, if it has them, are the only fold. Each fit is limited-memory BFGS along the path of
            penalties: Eq. (7.20) of [N] in the metric of D, backtracking on the sufficient-decrease condition, Eq.
            (3.4) of [N]; D = mean of p(1 - p) per class times the features' spectrum, plus the penalty: the diagonal
            of the Hessian if probabilities and features were uncorrelated
Differs:    from scikit-learn's LogisticRegressionCV, which takes the most accurate C = 1 / (penalty t n), in the rule
            of choice and in that a fold's penalty does not grow because it has fewer rows. From [N]: curvature pairs
            survive a change of the penalty from a to b: the loss part of y = H s does not change, so y + (b - a) s is
            exact. Rejected steps leave their pairs too, because the loss is convex. The next penalty starts from the
            last two solutions, extrapolated. Stops by the predicted decrease g'Hg / 2, which estimates the remaining
            decrease.
Expected:   docs/probes.md, made by bench/probe_cells.py
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from unseen.core.arrays import BoolArray, IntArray
from unseen.probes.outcome import Fit, LinearModel, Trial, training_accuracy
from unseen.probes.rows import STREAM_ROWS, LabelledRows, Workers
from unseen.probes.sampling import (
    FOLDS,
    TRAINS_ONLY,
    Draw,
    Estimate,
    Shots,
    choose_penalty,
    estimate_accuracy,
    fit_temperature,
)
from unseen.probes.softmax import BlockMap, Table, TableMaker
from unseen.probes.solvers import Settings

RAISED_ROWS = 100  # below, features are not raised to a power: it gained nothing
PENALTIES = Settings().regularizations
_WHOLE_MACHINE = 1 << 29  # multiplications per gradient of all folds from which one draw takes all threads
_SEARCH_TOLERANCE = 10  # times that of the final fit: which penalty is chosen does not need more
_TEMPERATURE_ROWS = 20_000
_JUDGED = 1 << 23  # scores at a time

MEMORY = 4  # curvature pairs kept
ITERATIONS = 100  # of one penalty, before it is given up
_DECREASE = 1e-4  # c1 of Eq. (3.4)
_ROUNDING = 2e-6  # of a loss in float32: a step that raises it by no more is no worse
_SMALLEST_LOSS = 1e-7
_SHORTER = 0.8  # factor of a step that was rejected: the pair learned from it shortens the next one too
_SHORTEST_STEP = 0.2

#: From weights (c, r) to the mean loss, its gradient (c, r) and the mean of P(1 - P) (c,), the classes' share of the
#: Hessian; without any penalty.
Loss = Callable[[Tensor], tuple[float, Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class Path:
    """Result of `follow_path`.

    Attributes:
        weights: (l, c, r), one solution per penalty.
        settled: (l,) False where the iterations ran out.
        gradients: how many evaluations it took.
    """

    weights: Tensor
    settled: list[bool]
    gradients: int


def follow_path(
    loss: Loss, penalties: Sequence[float], spectrum: Tensor, start: Tensor, *, tolerance: float = 1e-4
) -> Path:
    """Minimise loss(W) + penalty / 2 |W|^2 (bias excepted) for every penalty.

    Args:
        loss: of the rows of the fit.
        penalties: descending.
        spectrum: (r,) mean squares of the features, 1 for the bias.
        start: (c, r).
        tolerance: a fit is settled where the predicted decrease is below this share of its value.
    """
    walk = _Walk(loss, spectrum, start, tolerance)
    settled, weights = [], []
    for penalty in penalties:
        settled.append(walk.solve(penalty))
        weights.append(walk.point)
    return Path(torch.stack(weights), settled, walk.gradients)


class _Walk:
    """The state of a fit between two gradients."""

    def __init__(self, loss: Loss, spectrum: Tensor, start: Tensor, tolerance: float) -> None:
        self.evaluate, self.spectrum, self.tolerance = loss, spectrum, tolerance
        self.penalised = torch.ones_like(spectrum)  # columns of the weights, the bias excepted
        self.penalised[-1] = 0.0
        self.guess, self.last = start, torch.zeros_like(start)
        self.point, self.slope = start, torch.zeros_like(start)  # the gradient with that of the penalty
        self.loss, self.square = math.inf, 0.0  # at `point`, without the penalty; |W|^2 there
        self.variance = start.new_zeros(len(start))
        self.penalty, self.gradients = 0.0, 0
        self.pairs: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=MEMORY)  # s, y and 1 / s'y

    @property
    def value(self) -> float:
        """Return the penalised loss at `point`."""
        return self.loss + 0.5 * self.penalty * self.square

    def solve(self, penalty: float) -> bool:
        """Move to the solution of the next penalty; return whether it was reached."""
        self._change_penalty(penalty)
        trial, length, gain = self.guess, 1.0, 0.0
        diagonal = trial
        for tried in range(ITERATIONS):
            # A guess need only be no worse; if it is rejected, its stage starts from the point before.
            variance, accepted = self._move(trial, _DECREASE * length * gain)
            if not tried:
                self.variance = variance if accepted else self.variance
                diagonal = torch.outer(self.variance.clamp_min(1e-8), self.spectrum) + self._wide
            length = 1.0 if accepted or not tried else length * _SHORTER
            if stuck := length < _SHORTEST_STEP:
                self.pairs.clear()
                length = 1.0
            direction = self._direction(diagonal)
            gain = _dot(self.slope, direction)
            if gain <= 2 * self.tolerance * self.value:
                return True
            if stuck:
                return False
            trial = torch.sub(self.point, direction, alpha=length)
        return False

    def _change_penalty(self, penalty: float) -> None:
        """Extrapolate the solutions to a guess, and adapt the curvature pairs."""
        shift = (penalty - self.penalty) * self.penalised
        self.penalty, self._wide = penalty, penalty * self.penalised
        if not self.gradients:
            return
        self.slope.addcmul_(self.point, shift)
        self.guess = torch.sub(self.point, self.last, alpha=0.5).mul_(2.0)
        self.last = self.point
        changed = [(step, change.addcmul_(step, shift)) for step, change, _ in self.pairs]
        self.pairs.clear()
        self.pairs.extend((s, y, 1.0 / product) for s, y in changed if (product := _dot(s, y)) > 0)

    def _move(self, trial: Tensor, wanted: float) -> tuple[Tensor, bool]:
        """Move to a trial that decreases the penalised loss enough, Eq. (3.4); return its variance, and whether."""
        loss, gradient, variance = self.evaluate(trial)
        slope = gradient.addcmul_(trial, self._wide)
        self.gradients += 1
        square = _dot(trial, trial) - float(trial[:, -1].square().sum())
        after, before = loss + 0.5 * self.penalty * square, self.value
        accepted = after <= before - wanted + _ROUNDING * abs(before) + _SMALLEST_LOSS
        if self.loss < math.inf:
            step, change = trial - self.point, slope - self.slope
            product = _dot(step, change)
            if product > 1e-8 * _dot(change, change):
                self.pairs.append((step, change, 1.0 / product))
        if accepted:
            self.point, self.slope, self.loss, self.square = trial, slope, loss, square
        return variance, accepted

    def _direction(self, diagonal: Tensor) -> Tensor:
        """Compute H g by the two-loop recursion, Algorithm 7.4."""
        found, weights = self.slope.clone(), []
        for step, change, curvature in reversed(self.pairs):
            weights.append(curvature * _dot(step, found))
            found.sub_(change, alpha=weights[-1])
        found /= diagonal
        if self.pairs:  # gamma of Eq. (7.20) in the metric of D, from the latest pair
            _, change, curvature = self.pairs[-1]
            found /= _dot(change, change / diagonal) * curvature
        for (step, change, curvature), weight in zip(self.pairs, reversed(weights), strict=True):
            found.add_(step, alpha=weight - curvature * _dot(change, found))
        return found


def _dot(first: Tensor, second: Tensor) -> float:
    return float(torch.dot(first.view(-1), second.view(-1)))


def default_penalty(rows: int, classes: int) -> float:
    """Return the penalty that is preferred where held-out rows do not distinguish several: n penalty = 1 / (5 c).

    Ten images of five classes need 10^-2, thousands of a hundred classes 10^-6.
    """
    return float(min(max(0.2 / (rows * classes), PENALTIES[-1]), PENALTIES[0]))


def fit_logistic(data: LabelledRows, draws: Sequence[Draw], workers: Workers, settings: Settings) -> list[Fit]:
    """Choose a penalty and fit, for every draw; the search is ten times coarser than the final fit.

    Features without a negative value, scaled to unit length, are raised to a power for draws of RAISED_ROWS rows. Draws
    of the same rows and folds, such as all seeds on all images, are fitted once.
    """
    first: dict[tuple[Shots, bytes, bytes], Draw] = {}
    wanted = [
        first.setdefault((d.shots, d.final.tobytes(), (d.tuning if d.folds is None else d.folds).tobytes()), d)
        for d in draws
    ]
    features, power = data.features, settings.power
    may_raise = power != 1.0 and features.power == 1.0 and features.normalize and not features.is_signed
    found: dict[Draw, Fit] = {}
    for raised in (False, True):
        chosen = [draw for draw in first.values() if raised == (may_raise and len(draw.final) >= RAISED_ROWS)]
        if chosen:
            rows = replace(data, features=features.raised(power, settings.memory_limit)) if raised else data
            found |= _Solver(rows, settings, power if raised else 1.0).fit_all(chosen, workers)
    return [replace(found[draw], seconds=found[draw].seconds / wanted.count(draw)) for draw in wanted]


@dataclass(frozen=True, eq=False)
class _Plan:
    """Rows of the search, the fold that holds each of them out, and the number of folds."""

    rows: IntArray
    folds: npt.NDArray[np.int8]
    fits: int


class _Held(NamedTuple):
    """The path of one fold, and per penalty whether the rows (m,) that it holds out are right and their log loss."""

    path: Path
    places: IntArray
    correct: BoolArray
    lost: Tensor


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The penalty that the held-out rows choose, and the folds' mean solution for it."""

    penalty: float
    trials: tuple[Trial, ...] = ()
    temperature: float = 1.0
    estimate: Estimate | None = None
    start: Tensor | None = None


class _Solver:
    """Fits the draws of one feature set."""

    maker: TableMaker

    def __init__(self, data: LabelledRows, settings: Settings, power: float) -> None:
        self.data, self.settings, self.power = data, settings, power
        self.penalties = tuple(sorted(settings.regularizations, reverse=True))
        counts = torch.bincount(data.labels, minlength=data.classes).double().cpu().numpy()
        self.shares = counts / counts.sum()

    def fit_all(self, draws: Sequence[Draw], workers: Workers) -> dict[Draw, Fit]:
        """Fit all draws: small ones side by side, large ones with all threads."""
        began, data = time.perf_counter(), self.data
        on_cpu = data.features.is_on_cpu
        most = max(len(draw.final) + len(draw.validation) * draw.own_validation for draw in draws)
        self.maker = TableMaker(data, self.settings.memory_limit, most, workers)
        shared = (time.perf_counter() - began) / len(draws)
        found: dict[Draw, Fit] = {}
        waiting: dict[Draw, Future[Fit]] = {}
        for draw in draws:
            count = len(draw.final)
            multiplications = 2 * FOLDS * data.classes * count * min(count, data.features.dimension)
            if on_cpu and multiplications < _WHOLE_MACHINE and not self.maker.streams(count):
                waiting[draw] = workers.submit(self.fit, draw, map)
            else:
                found[draw] = workers.run(self.fit, draw, workers.ordered if on_cpu else map)
        found |= {draw: future.result() for draw, future in waiting.items()}
        return {draw: replace(fit, seconds=fit.seconds + shared) for draw, fit in found.items()}

    def fit(self, draw: Draw, run: BlockMap) -> Fit:
        """Choose the penalty of a draw and fit it again on all its rows."""
        began = time.perf_counter()
        plan = _plan(draw)
        table = self.maker.make(plan.rows)
        found = self._search(table, plan, draw, run) if plan.fits else None
        found = found or _Chosen(default_penalty(len(draw.final), self.data.classes))
        fitted = table if plan.rows is draw.final else self.maker.make(draw.final)
        # Without folds to start from, begin with a few stronger penalties: half as many gradients as from zero.
        way = [p for p in self.penalties[::2] if p > found.penalty and found.start is None]
        start = self._start(found, table, fitted)
        seen = np.ones(len(draw.final), np.bool_)
        path = self._path(fitted, seen, [*way, found.penalty], start, run)
        weights, bias = (part.cpu() for part in fitted.frame.original(path.weights[-1]))
        model = LinearModel(weights, bias, found.temperature, self.power)
        note = ""
        if not path.settled[-1]:
            note = f"the final fit did not converge; {training_accuracy(model, self.data, draw.final)}"
        seconds = time.perf_counter() - began
        return Fit(model, found.trials, {"regularization": found.penalty}, seconds, note, found.estimate)

    @torch.inference_mode()  # thousands of small operations: a fifth of their time is what autograd would keep
    def _path(
        self, table: Table, seen: BoolArray, penalties: Sequence[float], start: Tensor | None, run: BlockMap
    ) -> Path:
        """Solve one fit along its penalties: from a start for the final fit, else from zero and more coarsely."""
        spectrum, tolerance = table.frame.spectrum, self.settings.tolerance
        if start is None:
            start, tolerance = spectrum.new_zeros(self.data.classes, len(spectrum)), _SEARCH_TOLERANCE * tolerance
        wanted = [penalty * table.scale for penalty in penalties]
        return follow_path(table.loss(seen, run), wanted, spectrum, start, tolerance=tolerance)

    def _search(self, table: Table, plan: _Plan, draw: Draw, run: BlockMap) -> _Chosen:
        """Follow the path of penalties on every fold, and choose by the held-out rows."""
        alone = plan.fits == 1

        def follow(fold: int) -> _Held:
            path = self._path(table, plan.folds != fold, self.penalties, None, run if alone else map)
            return self._judge(table, path, np.flatnonzero(plan.folds == fold))

        found: list[_Held] = list((map if alone else run)(follow, range(plan.fits)))
        correct = np.concatenate([each.correct for each in found], axis=1)
        places = np.concatenate([each.places for each in found])
        losses = torch.stack([each.lost for each in found]).sum(dim=0) / len(places)
        best = choose_penalty(correct, self.penalties, default_penalty(len(draw.final), self.data.classes))
        settled = zip(*(each.path.settled for each in found), strict=True)
        trials = tuple(
            Trial({"regularization": penalty}, float(right.mean()), loss, "" if all(done) else "not converged")
            for penalty, right, loss, done in zip(self.penalties, correct, losses.tolist(), settled, strict=True)
        )
        shown = [each.places[:_TEMPERATURE_ROWS] for each in found]
        scores = [table.scores(each.path.weights[[best]], own)[0].T for each, own in zip(found, shown, strict=True)]
        temperature = fit_temperature(torch.cat(scores), table.labels[np.concatenate(shown)])
        mean = torch.stack([each.path.weights[best] for each in found]).mean(dim=0)
        labels = table.labels.cpu().numpy()[places]
        accuracy, error = estimate_accuracy(
            correct[best],
            labels,
            self.shares,
            rows=len(plan.rows),
            fits=plan.fits,
            drawn=len(plan.rows) / len(self.data.labels),
        )
        few = isinstance(draw.shots, int) and draw.shots < FOLDS and not draw.own_validation
        estimate = Estimate(accuracy, error, len(places), int(draw.shots) - 1 if few else None, places, correct)
        return _Chosen(self.penalties[best], trials, temperature, estimate, mean)

    @torch.inference_mode()
    def _judge(self, table: Table, path: Path, places: IntArray) -> _Held:
        """Score the rows that a fit has not seen, some at a time."""
        size = min(max(_JUDGED // path.weights[:, :, 0].numel(), 256), STREAM_ROWS)
        correct, lost = [], path.weights.new_zeros(len(path.weights), dtype=torch.float64)
        for begin in range(0, len(places), size):
            part = places[begin : begin + size]
            scores, labels = table.scores(path.weights, part), table.labels[part]
            own = scores.gather(1, labels.expand(len(scores), 1, -1))[:, 0]
            lost += (torch.logsumexp(scores, dim=1) - own).sum(dim=1, dtype=torch.float64)
            correct.append((scores.argmax(dim=1) == labels).cpu().numpy())
        return _Held(path, places, np.concatenate(correct, axis=1), lost.cpu())

    def _start(self, found: _Chosen, searched: Table, fitted: Table) -> Tensor:
        """Return the starting point (c, r + 1) of the final fit, in its own coordinates."""
        if found.start is None:
            return fitted.frame.spectrum.new_zeros(self.data.classes, len(fitted.frame.spectrum))
        if searched is fitted:
            return found.start
        return fitted.frame.from_original(*searched.frame.original(found.start))


def _plan(draw: Draw) -> _Plan:
    if draw.folds is not None:
        return _Plan(draw.final, draw.folds, int(draw.folds.max()) + 1)
    folds = np.full(len(draw.tuning) + len(draw.validation), TRAINS_ONLY, np.int8)
    folds[len(draw.tuning) :] = 0
    return _Plan(np.concatenate([draw.tuning, draw.validation]), folds, 1)
