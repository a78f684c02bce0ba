"""Rows in the coordinates that suit them: few rows in their span, many turned or as they are, the rest on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unseen.probes.coordinates import Coordinates, principal, span
from unseen.probes.rows import FeatureSet, IntArray, rows_fit
from unseen.probes.softmax import MemoryTable, StreamedTable, Table
from unseen.probes.workers import Workers

# From so many rows per dimension on, turning the weights at every pass is cheaper than a turned copy of the rows.
_TURN_WEIGHTS = 4
# Rows are written in their span where that saves this share of the dimensions.
_WORTHWHILE = 0.8


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows of one or several draws. What is given once is the same for all draws.

    Attributes:
        frames: coordinates of each draw, or of all.
        scales: (B or 1,) mean square of the centred rows.
    """

    table: Table
    frames: tuple[Coordinates, ...]
    scales: Tensor

    @property
    def width(self) -> int:
        """Columns of the weights, the bias included."""
        return len(self.frames[0].spectrum)

    def coordinates(self, draw: int) -> Coordinates:
        return self.frames[draw if len(self.frames) > 1 else 0]

    def spectrum(self, draws: int) -> Tensor:
        """(draws, r + 1)."""
        return torch.stack([self.coordinates(draw).spectrum for draw in range(draws)])

    def traces(self, draws: int) -> Tensor:
        """(draws,)."""
        return self.scales.expand(draws)


class ProblemMaker:
    """Writes draws of one feature set in coordinates; the principal ones are found once for all of them.

    Args:
        features: all rows.
        memory_limit: bytes that the rows of a problem may take before they are streamed.
        most: rows of the largest problem to come.
        workers: for the pass that finds the principal coordinates, where a problem will need them.
    """

    def __init__(self, features: FeatureSet, memory_limit: int, most: int, workers: Workers) -> None:
        self.features, self.memory_limit = features, memory_limit
        self._principal: Coordinates | None = None
        if not self._spans(most) or self.streams(most):
            run = workers.ordered if features.is_on_cpu else map
            self._principal = workers.run(principal, features, run)

    def _spans(self, rows: int) -> bool:
        """Whether so many rows are written in their span."""
        return bool(rows <= _WORTHWHILE * self.features.dimension)

    def streams(self, rows: int) -> bool:
        """Whether a draw of so many rows is read again at every pass."""
        return self.features.tensor is None and not rows_fit(self.features, rows, self.memory_limit)

    def make(self, rows: Sequence[IntArray]) -> Problem:
        """The problem of draws with as many rows each."""
        features, count = self.features, len(rows[0])
        shared = all(part is rows[0] or np.array_equal(part, rows[0]) for part in rows[1:])
        unique = rows[:1] if shared else rows
        if self.streams(count):
            return self._streamed(unique)
        if self._spans(count):
            written = [span(features.take(part)) for part in unique]
            frames, tables = zip(*written, strict=True)
            return _turned(torch.stack(tables), frames, features.precision)
        assert self._principal is not None
        if count < _TURN_WEIGHTS * features.dimension:
            frame = self._principal
            return _turned(
                torch.stack([frame.write(features.take(part)) for part in unique]), (frame,), features.precision
            )
        everything = features.tensor is not None and shared and count == features.count
        taken = features.read(0, count)[None] if everything else torch.stack([features.take(part) for part in unique])
        scales = torch.stack([_mean_square(table) for table in taken])
        return Problem(MemoryTable(taken.to(features.precision), self._principal), (self._principal,), scales)

    def _streamed(self, rows: Sequence[IntArray]) -> Problem:
        assert self._principal is not None
        used = torch.zeros(self.features.count, dtype=torch.bool)
        for part in rows:
            used[torch.from_numpy(part)] = True
        table = StreamedTable(self.features, used, self._principal)
        return Problem(table, (self._principal,), self._principal.spectrum[:-1].sum()[None])


def _turned(tables: Tensor, frames: tuple[Coordinates, ...], precision: torch.dtype) -> Problem:
    scales = torch.stack([_mean_square(table[:, :-1]) for table in tables])
    return Problem(MemoryTable(tables.to(precision)), frames, scales)


def _mean_square(rows: Tensor) -> Tensor:
    """Of the centred rows, without a copy of them."""
    total: Tensor = torch.linalg.vector_norm(rows).square()
    return total / len(rows) - rows.mean(dim=0).square().sum()
