"""The `logistic` solver, the default: l2-penalised softmax regression, converged, its penalty chosen by folds.

Paper:      Hastie, Tibshirani & Friedman, "The Elements of Statistical Learning", 2nd ed., Section 4.4 (the model) and
            7.10 (cross-validation)
Shapes:     X (n, d) rows of unit length, centred; W (c, d) weights, b (c,) biases; t the mean square of centred rows
Implements: argmin of the mean log loss + penalty t / 2 |W|^2, the bias free, for thirteen penalties, on all folds of
            all seeds as one tensor problem (lbfgs.py) in the eigenbasis of the rows (coordinates.py); the penalty by
            the rule of sampling.py; the chosen one again on all rows, from the mean of the folds' solutions; a
            temperature from the held-out rows. A dataset's own validation rows, if it has them, are the only fold.
Differs:    from scikit-learn's LogisticRegressionCV, which takes the most accurate C = 1 / (penalty t n), in the rule
            of choice and in that a fold's penalty does not grow because it has fewer rows
Expected:   docs/probes.md, made by bench/probe_cells.py
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from unseen.core.arrays import BoolArray, IntArray
from unseen.probes.coordinates import Problem, ProblemMaker, StreamedTable
from unseen.probes.lbfgs import Solutions, follow_paths
from unseen.probes.outcome import Fit, LinearModel, Trial, training_accuracy
from unseen.probes.rows import LabelledRows
from unseen.probes.sampling import (
    FOLDS,
    TRAINS_ONLY,
    Draw,
    Estimate,
    choose_penalty,
    draw_folds,
    estimate_accuracy,
    fit_temperature,
)
from unseen.probes.softmax import LEFT_OUT, BlockMap, FoldLoss
from unseen.probes.solvers import Settings
from unseen.probes.workers import Workers

RAISED_ROWS = 100  # below, features are not raised to a power: it gained nothing
PENALTIES = Settings().regularizations
_SIDE_BY_SIDE = 1 << 19  # scores of draws that advance as one problem
_WHOLE_MACHINE = 1 << 29  # multiplications per gradient from which one draw takes all threads
_SEARCH_TOLERANCE = 10  # times that of the final fit: which penalty is chosen does not need more
_TEMPERATURE_ROWS = 20_000


def default_penalty(rows: int, classes: int) -> float:
    """Return the penalty that is preferred where held-out rows do not distinguish several: n penalty = 1 / (5 c).

    Ten images of five classes need 10^-2, thousands of a hundred classes 10^-6.
    """
    return float(min(max(0.2 / (rows * classes), PENALTIES[-1]), PENALTIES[0]))


def fit_logistic(data: LabelledRows, draws: Sequence[Draw], workers: Workers, settings: Settings) -> list[Fit]:
    """Choose a penalty and fit, for every draw; the search is ten times coarser than the final fit.

    Features without a negative value, scaled to unit length, are raised to a power for draws of RAISED_ROWS rows.
    """
    features, power, memory_limit = data.features, settings.power, settings.memory_limit
    chosen = tuple(sorted(settings.regularizations, reverse=True))
    may_raise = power != 1.0 and features.power == 1.0 and features.normalize and not features.is_signed
    raised = {draw for draw in draws if may_raise and len(draw.final) >= RAISED_ROWS}
    found: dict[Draw, Fit] = {}
    if plain := [draw for draw in draws if draw not in raised]:
        found |= _fit(_Solver(data, chosen, settings.tolerance, 1.0), plain, workers, memory_limit)
    if raised:
        rows = replace(data, features=features.raised(power, memory_limit))
        solver = _Solver(rows, chosen, settings.tolerance, power)
        found |= _fit(solver, [draw for draw in draws if draw in raised], workers, memory_limit)
    return [found[draw] for draw in draws]


def _fit(solver: _Solver, draws: Sequence[Draw], workers: Workers, memory_limit: int) -> dict[Draw, Fit]:
    """Fit all draws of one solver, small ones side by side."""
    began, data = time.perf_counter(), solver.data
    on_cpu = data.features.is_on_cpu
    most = max(len(draw.final) + len(draw.validation) * draw.own_validation for draw in draws)
    maker = solver.maker = ProblemMaker(data.features, memory_limit, most, workers)
    shared = (time.perf_counter() - began) / len(draws)
    found: list[tuple[Draw, Fit]] = []
    waiting: list[tuple[list[Draw], Future[list[Fit]]]] = []
    for job in _jobs(data, draws):
        if on_cpu and _multiplications(data, job[0]) < _WHOLE_MACHINE and not maker.streams(len(job[0].final)):
            waiting.append((job, workers.submit(solver.fit, job, map)))
        else:
            found += zip(job, workers.run(solver.fit, job, workers.ordered if on_cpu else map), strict=True)
    for job, future in waiting:
        found += zip(job, future.result(), strict=True)
    return {draw: replace(fit, seconds=fit.seconds + shared) for draw, fit in found}


def _jobs(data: LabelledRows, draws: Sequence[Draw]) -> Iterator[list[Draw]]:
    """Yield groups of draws that advance as one problem: small ones of the same size together, large ones alone.

    Rows that are streamed are read once for all draws that use all of them.
    """
    groups: dict[tuple[object, ...], list[Draw]] = {}
    for draw in draws:
        groups.setdefault((draw.shots, len(draw.tuning), len(draw.validation), len(draw.final)), []).append(draw)
    for group in groups.values():
        rows = len(group[0].final)
        together = data.features.tensor is None and rows == data.features.count
        size = len(group) if together else max(_SIDE_BY_SIDE // (FOLDS * data.classes * rows), 1)
        yield from (group[start : start + size] for start in range(0, len(group), size))


def _multiplications(data: LabelledRows, draw: Draw) -> int:
    """Return the multiplications of one gradient on all folds."""
    return int(2 * FOLDS * data.classes * len(draw.final) * min(len(draw.final), data.features.dimension))


@dataclass(frozen=True, eq=False)
class _Plan:
    """Rows of the search, the fold that holds each of them out, and the number of folds."""

    rows: IntArray
    folds: npt.NDArray[np.int8]
    fits: int


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The penalty that the held-out rows choose, and the folds' mean solution for it."""

    penalty: float
    trials: tuple[Trial, ...] = ()
    temperature: float = 1.0
    estimate: Estimate | None = None
    start: Tensor | None = None


class _Solver:
    """Fits the draws of one job at a time."""

    maker: ProblemMaker

    def __init__(self, data: LabelledRows, penalties: tuple[float, ...], tolerance: float, power: float) -> None:
        self.data, self.penalties, self.tolerance, self.power = data, penalties, tolerance, power
        counts = torch.bincount(data.labels, minlength=data.classes).double().cpu().numpy()
        self.shares = counts / counts.sum()

    def fit(self, draws: Sequence[Draw], run: BlockMap) -> list[Fit]:
        """Choose the penalty of each draw and fit it again on all its rows."""
        began = time.perf_counter()
        chosen, fitted, solved = self._solved(draws, run)
        models = [self._model(fitted, k, solved.weights[-1, k], found.temperature) for k, found in enumerate(chosen)]
        notes = [
            "" if done else f"the final fit did not converge; {training_accuracy(model, self.data, draw.final)}"
            for done, model, draw in zip(solved.settled[-1].tolist(), models, draws, strict=True)
        ]
        seconds = (time.perf_counter() - began) / len(draws)
        return [
            Fit(model, found.trials, {"regularization": found.penalty}, seconds, note, found.estimate)
            for model, note, found in zip(models, notes, chosen, strict=True)
        ]

    @torch.inference_mode()  # thousands of small operations: a fifth of their time is what autograd would keep
    def _solved(self, draws: Sequence[Draw], run: BlockMap) -> tuple[list[_Chosen], Problem, Solutions]:
        plans = [self._plan(draw) for draw in draws]
        problem = self.maker.make([plan.rows for plan in plans])
        chosen = [_Chosen(default_penalty(len(draws[0].final), self.data.classes))] * len(draws)
        if plans[0].fits:
            chosen = self._search(problem, plans, draws, run)
        final = [_Plan(d.final, np.full(len(d.final), TRAINS_ONLY, np.int8), 1) for d in draws]
        nested = all(plan.rows is draw.final for plan, draw in zip(plans, draws, strict=True))
        fitted = problem if nested else self.maker.make([plan.rows for plan in final])
        starts = [self._start(found, problem, fitted, place) for place, found in enumerate(chosen)]
        # Without folds to start from, begin with a few stronger penalties: half as many gradients as from zero.
        ways = [[p for p in self.penalties[::2] if p > found.penalty and found.start is None] for found in chosen]
        wanted = [[*way, found.penalty] for way, found in zip(ways, chosen, strict=True)]
        return chosen, fitted, self._solve(fitted, final, wanted, torch.stack(starts), run, self.tolerance)[1]

    def _plan(self, draw: Draw) -> _Plan:
        if draw.own_validation:
            folds = np.full(len(draw.tuning) + len(draw.validation), TRAINS_ONLY, np.int8)
            folds[len(draw.tuning) :] = 0
            return _Plan(np.concatenate([draw.tuning, draw.validation]), folds, 1)
        if draw.folds is not None:
            return _Plan(draw.final, draw.folds, int(draw.folds.max()) + 1)
        labels = self.data.take_labels(draw.final).cpu().numpy()
        return _Plan(draw.final, *draw_folds(labels, draw.seed))

    def _solve(
        self,
        problem: Problem,
        plans: Sequence[_Plan],
        penalties: Sequence[Sequence[float]],
        start: Tensor,
        run: BlockMap,
        tolerance: float,
    ) -> tuple[FoldLoss, Solutions]:
        """Solve all fits of all draws along their penalties, from `start` (B K, c, r)."""
        fits = plans[0].fits
        folds, labels = np.stack([p.folds for p in plans]), torch.stack([self.data.take_labels(p.rows) for p in plans])
        if isinstance(problem.table, StreamedTable):  # has all rows: those of no plan do not count
            folds = np.full((len(plans), problem.table.count), LEFT_OUT, np.int8)
            for line, plan in zip(folds, plans, strict=True):
                line[plan.rows] = plan.folds
            labels = self.data.labels.expand(len(plans), -1)
        loss = FoldLoss(problem.table, labels, torch.from_numpy(folds).to(labels.device), fits, self.data.classes, run)
        wanted = torch.tensor(penalties, device=labels.device) * problem.scales.expand(len(plans))[:, None]
        spectrum = torch.stack([problem.coordinates(draw).spectrum for draw in range(len(plans))])
        return loss, follow_paths(
            loss.apart(),
            wanted.repeat_interleave(fits, dim=0),
            spectrum.repeat_interleave(fits, dim=0),
            start,
            tolerance=tolerance,
        )

    def _search(self, problem: Problem, plans: Sequence[_Plan], draws: Sequence[Draw], run: BlockMap) -> list[_Chosen]:
        """Follow the path of penalties on every fold, and choose by the held-out rows."""
        fits, classes = plans[0].fits, self.data.classes
        start = torch.zeros(len(plans) * fits, classes, problem.width, device=self.data.labels.device)
        tolerance = _SEARCH_TOLERANCE * self.tolerance
        loss, path = self._solve(problem, plans, [self.penalties] * len(plans), start, run, tolerance)
        judged = _judge(loss, path.weights)
        chosen = []
        for place, draw in enumerate(draws):
            correct, log_losses, labels, rows = judged[place]
            default = default_penalty(len(draw.final), self.data.classes)
            best = choose_penalty(correct, self.penalties, default)
            own = slice(place * fits, (place + 1) * fits)
            settled = path.settled[:, own].all(dim=1).tolist()
            trials = tuple(
                Trial({"regularization": penalty}, float(right.mean()), loss_found, "" if done else "not converged")
                for penalty, right, loss_found, done in zip(self.penalties, correct, log_losses, settled, strict=True)
            )
            temperature = fit_temperature(*_held_out(loss, path.weights[best], place))
            estimate = replace(self._estimate(draw, correct[best], labels, plans[place]), rows=rows, correct=correct)
            mean = path.weights[best, own].mean(dim=0)
            chosen.append(_Chosen(self.penalties[best], trials, temperature, estimate, mean))
        return chosen

    def _estimate(self, draw: Draw, correct: BoolArray, labels: IntArray, plan: _Plan) -> Estimate:
        """Return the cross-validated accuracy, for a population like the images that were sampled from."""
        rows, everything = len(plan.rows), len(self.data.labels)
        accuracy, error = estimate_accuracy(
            correct, labels, self.shares, rows=rows, fits=plan.fits, drawn=rows / everything
        )
        few = isinstance(draw.shots, int) and draw.shots < FOLDS and not draw.own_validation
        return Estimate(accuracy, error, len(correct), int(draw.shots) - 1 if few else None)

    def _start(self, found: _Chosen, searched: Problem, fitted: Problem, place: int) -> Tensor:
        """Return the starting point of a draw's final fit: (c, r) in its own coordinates."""
        if found.start is None:
            return torch.zeros(self.data.classes, fitted.width, device=self.data.labels.device)
        if searched is fitted:
            return found.start
        return fitted.coordinates(place).from_original(*searched.coordinates(place).original(found.start))

    def _model(self, problem: Problem, place: int, weights: Tensor, temperature: float) -> LinearModel:
        original, bias = problem.coordinates(place).original(weights)
        return LinearModel(original.cpu(), bias.cpu(), temperature, self.power)


def _judge(loss: FoldLoss, weights: Tensor) -> list[tuple[BoolArray, list[float], IntArray, IntArray]]:
    """Return per draw whether each held-out row is right (l, m), log losses (l,), and the rows' classes and numbers."""
    parts: list[list[tuple[Tensor, Tensor, Tensor, Tensor]]] = [[] for _ in loss.folds]
    for draw, rows, scores in loss.held_scores(weights):
        labels = loss.labels[draw, rows]
        own = scores.gather(2, labels.expand(len(weights), -1)[:, :, None])[:, :, 0]
        lost = (torch.logsumexp(scores, dim=2) - own).sum(dim=1, dtype=torch.float64)
        parts[draw].append(((scores.argmax(dim=2) == labels).cpu(), lost.cpu(), labels.cpu(), rows.cpu()))
    found = []
    for own_parts in parts:
        correct = torch.cat([part[0] for part in own_parts], dim=1)
        mean = torch.stack([part[1] for part in own_parts]).sum(dim=0) / correct.shape[1]
        classes, numbers = (torch.cat([part[k] for part in own_parts]).numpy() for k in (2, 3))
        found.append((correct.numpy(), mean.tolist(), classes, numbers))
    return found


def _held_out(loss: FoldLoss, weights: Tensor, wanted: int) -> tuple[Tensor, Tensor]:
    """Return scores (m, c) and classes (m,) of one draw's held-out rows, or of many of them."""
    scores, labels, count = [], [], 0
    for draw, rows, found in loss.held_scores(weights[None]):
        if draw == wanted:
            scores.append(found[0])
            labels.append(loss.labels[draw, rows])
            count += len(rows)
            if count >= _TEMPERATURE_ROWS:
                break
    return torch.cat(scores), torch.cat(labels)
