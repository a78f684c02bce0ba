"""The `fast` solver: the answer of the published search without its thirty trainings.

Paper:      the protocol of Sariyildiz et al., ICCV 2021, whose answer it reproduces
Implements: the path of gradient descent in a few implicit steps (path.py), each by L-BFGS (lbfgs.py) in the
            eigenbasis of the features (rotation.py), on the same tuning, validation and final rows as `paper`; where
            all rows fit into one batch, the published gradient descent itself (descent.py)
Differs:    from `paper`: weight decay is left at zero, as the search's optimum hardly depends on it; learning rates
            are bracketed and refined along the path instead of sampled; the path ends at HIGHEST_RATE, because beyond
            it the noise of SGD's batches takes away what a longer walk gains
Expected:   within 0.3 points of `paper` on average over five seeds; see bench/probe.py
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unseen.errors import DataError
from unseen.probes.descent import descend, search_rates
from unseen.probes.draws import Draw
from unseen.probes.linear import LabelledRows, LinearModel
from unseen.probes.outcome import Fit, Trial, best_trial
from unseen.probes.path import Walker, follow_path, search_path
from unseen.probes.protocol import Protocol
from unseen.probes.rotation import Rotation, compress, rotate_all
from unseen.probes.rows import WORKING_COPIES, IntArray
from unseen.probes.sgd import Setting, TrainingRows, train
from unseen.probes.softmax import BlockMap, SoftmaxLoss, memory_blocks, streamed_blocks, with_ones
from unseen.probes.workers import Workers

TOLERANCE = 3e-4
HIGHEST_RATE = 10**1.75
_QUARTERS = 3  # quarter-decade steps at the end of the path; before them it takes half-decades
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

    def timed(draw: Draw, run: BlockMap) -> Fit:
        start = time.perf_counter()
        model, trials = solver.fit(draw, run)
        chosen = trials[best_trial(trials)].parameters
        return Fit(model, tuple(trials), chosen, shared + time.perf_counter() - start)

    small = {i: workers.submit(timed, draw, map) for i, draw in enumerate(draws) if len(draw.final) <= _SMALL_RUN}
    large = {i: workers.run(timed, draws[i], workers.ordered) for i in range(len(draws)) if i not in small}
    return [large[i] if i in large else small[i].result() for i in range(len(draws))]


class _FastSolver:
    """Fits one draw at a time over a common rotation."""

    def __init__(
        self, data: LabelledRows, rotation: Rotation, protocol: Protocol, tolerance: float, memory_limit: int
    ) -> None:
        self.data, self.rotation, self.protocol = data, rotation, protocol
        self.tolerance, self.memory_limit = tolerance, memory_limit

    def fit(self, draw: Draw, run: BlockMap) -> tuple[LinearModel, Sequence[Trial]]:
        """The tuned classifier of one draw, and the sweep that tuned it."""
        if len(draw.tuning) <= self.protocol.batch_size:
            return self._fit_by_descent(draw)
        tuning = self._coordinates(draw.tuning, run)
        path = search_path(
            Walker(tuning.loss, tuning.spectrum, self.tolerance),
            self._loss(draw.validation, run, tuning.turn),
            self._rates(),
            self.protocol.training_time(len(draw.tuning)),
            self.data.classes,
        )
        if draw.final is draw.tuning:
            return self._model(path.weights[-1], tuning.turn), path.trials
        final = self._coordinates(draw.final, run)
        walker = Walker(final.loss, final.spectrum, self.tolerance)
        span = self.protocol.training_time(len(draw.final))
        weights = follow_path(walker, path, span, known=draw.nested and final.turn is tuning.turn)
        return self._model(weights, final.turn), path.trials

    def _fit_by_descent(self, draw: Draw) -> tuple[LinearModel, Sequence[Trial]]:
        """Tune on rows that fit into one batch."""
        rows = self._rows(draw.tuning)
        validation = self._rows(draw.validation)
        assert rows is not None  # a batch always fits
        if validation is None:
            raise DataError(
                f"{len(draw.validation)} validation images do not fit into memory. Raise memory_limit, or validate on "
                "fewer images."
            )
        turn = None
        if len(rows) < rows.shape[1]:
            rows, turn, _ = compress(rows)
            validation = validation @ turn
        labels = self._labels(draw.validation)
        trials, solved = search_rates(
            rows, self._labels(draw.tuning), validation, labels, self.data.classes, self.protocol
        )
        rate = trials[best_trial(trials)].parameters["lr"]
        if draw.final is draw.tuning:
            return self._model(solved[rate], turn), trials
        return self._final_descent(draw, rate), trials

    def _final_descent(self, draw: Draw, rate: float) -> LinearModel:
        """The chosen learning rate on the final rows: full batches while they fit into one, batches of SGD beyond."""
        if len(draw.final) > self.protocol.batch_size:
            stream = torch.Generator().manual_seed(draw.seed)
            return train(TrainingRows(self.data, draw.final), Setting(rate, 0.0), self.protocol, stream).model
        rows = self._rows(draw.final)
        assert rows is not None
        turn = None
        if len(rows) < rows.shape[1]:
            rows, turn, _ = compress(rows)
        return self._model(descend(rows, self._labels(draw.final), self.data.classes, [rate], self.protocol)[0], turn)

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
        if WORKING_COPIES * 4 * len(rows) * self.data.features.dimension > self.memory_limit:
            return None
        return with_ones(self.data.features.take(rows)) @ self.rotation.basis

    def _labels(self, rows: IntArray) -> Tensor:
        return self.data.labels[torch.from_numpy(rows)]

    def _model(self, weights: Tensor, turn: Tensor | None) -> LinearModel:
        """Weights and bias in the original coordinates."""
        turned = weights if turn is None else weights @ turn.T
        original = turned @ self.rotation.basis.T
        return LinearModel(original[:, :-1].contiguous(), original[:, -1].contiguous())
