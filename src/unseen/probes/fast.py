"""The `fast` solver: the answer of the published search for little more than one of its thirty-one trainings.

Paper:      the protocol of Sariyildiz et al., ICCV 2021, whose answer it reproduces
Implements: the search: the path of gradient descent in a few implicit steps (path.py), each by L-BFGS (lbfgs.py) in the
            eigenbasis of the features (rotation.py); where all rows fit into one batch, the published gradient descent
            itself (descent.py) in the directions that hold 95 % of the variance. Same tuning, validation and final
            rows as `paper`. The final fit: the published training with the learning rate found, on all rows.
Differs:    from `paper`: weight decay is left at zero, as the search's optimum hardly depends on it; learning rates
            are bracketed and refined instead of sampled; the path ends at HIGHEST_RATE, because beyond it the noise of
            SGD's batches takes away what a longer walk gains. Rows that do not fit into memory are not read a hundred
            times: the final fit then walks the path again.
Expected:   within 0.3 points of `paper` on average over five seeds, or inside their noise; see bench/probe.py
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unseen.core.errors import DataError
from unseen.probes.descent import search_rates
from unseen.probes.draws import Draw
from unseen.probes.linear import LabelledRows, LinearModel
from unseen.probes.outcome import Fit, Trial, best_trial
from unseen.probes.path import PathResult, Walker, follow_path, search_path
from unseen.probes.protocol import Protocol
from unseen.probes.rotation import Rotation, compress, rotate_all
from unseen.probes.rows import IntArray, rows_fit
from unseen.probes.sgd import Setting, TrainingRows, train
from unseen.probes.softmax import BlockMap, SoftmaxLoss, memory_blocks, streamed_blocks, with_ones
from unseen.probes.workers import Workers

TOLERANCE = 3e-4
HIGHEST_RATE = 75.0
_QUARTERS = 3  # quarter-decade steps at the end of the path; before them it takes half-decades
_VARIANCE = 0.95  # that a search within one batch looks at
# Runs of fewer rows are too small to be cut into blocks: they run side by side instead.
_SMALL_RUN = 2048


@dataclass(frozen=True, eq=False)
class _Coordinates:
    """How one fit's rows are written: `turn` leads from the common rotation on to fewer dimensions, if at all."""

    loss: SoftmaxLoss
    spectrum: Tensor
    turn: Tensor | None = None


def fit_fast(
    data: LabelledRows,
    draws: Sequence[Draw],
    workers: Workers,
    protocol: Protocol,
    *,
    tolerance: float = TOLERANCE,
    memory_limit: int,
) -> list[Fit]:
    """Tune and fit one classifier per draw.

    Args:
        data: all rows that the draws speak of.
        draws: the runs.
        workers: threads to use.
        protocol: gives the range of learning rates and the training time.
        tolerance: of each implicit step, as a share of the loss.
        memory_limit: bytes that a run's own rows may take before they are streamed.
    """
    began = time.perf_counter()
    rotation = workers.run(rotate_all, data.features, workers)
    shared = (time.perf_counter() - began) / len(draws)
    solver = _FastSolver(data, rotation, protocol, tolerance, memory_limit)

    def tune(draw: Draw, run: BlockMap) -> _Tuned:
        start = time.perf_counter()
        found = solver.tune(draw, run)
        return replace(found, seconds=shared + time.perf_counter() - start)

    def finish(draw: Draw, tuned: _Tuned, run: BlockMap) -> Fit:
        start = time.perf_counter()
        model = solver.finish(draw, tuned, run)
        return Fit(model, tuned.trials, {"lr": tuned.rate}, tuned.seconds + time.perf_counter() - start)

    small = {i: workers.submit(tune, draw, map) for i, draw in enumerate(draws) if len(draw.final) <= _SMALL_RUN}
    tuned = [workers.run(tune, draw, workers.ordered) if i not in small else None for i, draw in enumerate(draws)]
    ready = [known or small[i].result() for i, known in enumerate(tuned)]
    # A training runs on one thread, so that several go side by side; a walk over streamed rows takes all threads.
    side_by_side = {i: workers.submit(finish, draw, ready[i], map) for i, draw in enumerate(draws) if solver.fits(draw)}
    return [
        side_by_side[i].result() if i in side_by_side else workers.run(finish, draw, ready[i], workers.ordered)
        for i, draw in enumerate(draws)
    ]


@dataclass(frozen=True, eq=False)
class _Tuned:
    """What a search found: the learning rate, every trial, and the path to it where it walked one."""

    rate: float
    trials: tuple[Trial, ...]
    path: PathResult | None = None
    turn: Tensor | None = None
    seconds: float = 0.0


class _FastSolver:
    """Fits one draw at a time over a common rotation."""

    def __init__(
        self, data: LabelledRows, rotation: Rotation, protocol: Protocol, tolerance: float, memory_limit: int
    ) -> None:
        self.data, self.rotation, self.protocol = data, rotation, protocol
        self.tolerance, self.memory_limit = tolerance, memory_limit

    def fits(self, draw: Draw) -> bool:
        """Whether the rows of the final fit fit into memory."""
        return rows_fit(self.data.features, len(draw.final), self.memory_limit)

    def tune(self, draw: Draw, run: BlockMap) -> _Tuned:
        """Search the learning rate."""
        if len(draw.tuning) <= self.protocol.batch_size:
            return self._tune_in_one_batch(draw)
        tuning = self._coordinates(draw.tuning, run)
        path = search_path(
            Walker(tuning.loss, tuning.spectrum, self.tolerance),
            self._loss(draw.validation, run, tuning.turn),
            self._rates(),
            self.protocol.training_time(len(draw.tuning)),
            self.data.classes,
        )
        return _Tuned(path.schedule[-1], path.trials, path, tuning.turn)

    def finish(self, draw: Draw, tuned: _Tuned, run: BlockMap) -> LinearModel:
        """Fit all rows with the learning rate found."""
        if tuned.path is None or self.fits(draw):
            rows = TrainingRows(self.data, draw.final, self.memory_limit)
            stream = torch.Generator().manual_seed(draw.seed)
            return train(rows, Setting(tuned.rate, 0.0), self.protocol, stream).model
        final = self._coordinates(draw.final, run)
        walker = Walker(final.loss, final.spectrum, self.tolerance)
        span = self.protocol.training_time(len(draw.final))
        weights = follow_path(walker, tuned.path, span, known=draw.nested and final.turn is tuned.turn)
        return self._model(weights, final.turn)

    def _tune_in_one_batch(self, draw: Draw) -> _Tuned:
        """Search on rows that fit into one batch."""
        rows, validation = self._rows(draw.tuning), self._rows(draw.validation)
        assert rows is not None  # a batch always fits
        if validation is None:
            raise DataError(
                f"{len(draw.validation)} validation images do not fit into memory. Raise memory_limit, or validate on "
                "fewer images."
            )
        kept = _directions(self.rotation.spectrum)
        rows, validation = rows[:, :kept].contiguous(), validation[:, :kept]
        if len(rows) < kept:
            rows, turn, _ = compress(rows)
            validation = validation @ turn
        trials = search_rates(
            rows,
            self._labels(draw.tuning),
            validation,
            self._labels(draw.validation),
            self.data.classes,
            self.protocol,
        )
        return _Tuned(trials[best_trial(trials)].parameters["lr"], tuple(trials))

    def _rates(self) -> list[float]:
        """Learning rates of the path, ascending: half-decades at first, quarters where the best one usually lies."""
        highest = min(HIGHEST_RATE, self.protocol.highest_lr)
        rates = [highest / 10 ** (k / 4) for k in range(_QUARTERS + 1)]
        while rates[-1] / 10**0.5 > 0.999 * self.protocol.lowest_lr:
            rates.append(rates[-1] / 10**0.5)
        return rates[::-1]

    def _coordinates(self, rows: IntArray, run: BlockMap) -> _Coordinates:
        """The training loss over `rows`, in fewer dimensions where the rows span far fewer."""
        turned = self._rows(rows) if 2 * len(rows) <= len(self.rotation.spectrum) else None
        if turned is None:
            return _Coordinates(self._loss(rows, run, None), self.rotation.spectrum)
        inside, turn, spectrum = compress(turned)
        return _Coordinates(SoftmaxLoss(memory_blocks(inside, self._labels(rows)), len(rows), run=run), spectrum, turn)

    def _loss(self, rows: IntArray, run: BlockMap, turn: Tensor | None) -> SoftmaxLoss:
        """The mean loss over `rows` in the common rotation, turned further where asked."""
        turned = self._rows(rows)
        if turned is None:
            basis = self.rotation.basis if turn is None else self.rotation.basis @ turn
            blocks = streamed_blocks(self.data.features, self.data.labels, rows)
            return SoftmaxLoss(blocks, len(rows), run=run, basis=basis)
        inside = turned if turn is None else turned @ turn
        return SoftmaxLoss(memory_blocks(inside, self._labels(rows)), len(rows), run=run)

    def _rows(self, rows: IntArray) -> Tensor | None:
        """Rows in the common rotation, or None where they do not fit into memory."""
        if self.rotation.rows is not None:
            everything = len(rows) == len(self.rotation.rows) and bool((rows[1:] > rows[:-1]).all())
            return self.rotation.rows if everything else self.rotation.rows.index_select(0, torch.from_numpy(rows))
        if not rows_fit(self.data.features, len(rows), self.memory_limit):
            return None
        return with_ones(self.data.features.take(rows)) @ self.rotation.basis

    def _labels(self, rows: IntArray) -> Tensor:
        return self.data.labels[torch.from_numpy(rows)]

    def _model(self, weights: Tensor, turn: Tensor | None) -> LinearModel:
        """Weights and bias in the original coordinates."""
        turned = weights if turn is None else weights @ turn.T
        original = turned @ self.rotation.basis.T
        return LinearModel(original[:, :-1].contiguous(), original[:, -1].contiguous())


def _directions(spectrum: Tensor) -> int:
    """How many directions hold the variance to look at; the first, the mean of all features, is not counted in it."""
    held = spectrum[1:].cumsum(0) / spectrum[1:].sum().clamp_min(1e-30)
    return min(2 + int((held < _VARIANCE).sum()), len(spectrum))
