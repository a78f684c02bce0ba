"""The solvers by name, behind one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from unseen.core.errors import UnknownNameError
from unseen.probes.draws import Draw
from unseen.probes.fast import TOLERANCE, fit_fast
from unseen.probes.knn import NEIGHBORS, TEMPERATURE, fit_knn
from unseen.probes.linear import LabelledRows
from unseen.probes.nearest_mean import fit_nearest_mean
from unseen.probes.outcome import Fit
from unseen.probes.paper import fit_paper
from unseen.probes.protocol import Protocol
from unseen.probes.ridge import PENALTIES, fit_ridge
from unseen.probes.rows import MEMORY_LIMIT
from unseen.probes.workers import Workers

SolverName = Literal["fast", "paper", "ridge", "knn", "ncm"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a solver may be told; each reads what concerns it.

    Attributes:
        protocol: ranges, epochs and batches of `paper`, from which `fast` takes its own.
        tolerance: of `fast`.
        penalties: of `ridge`.
        neighbors: values of k for `knn`.
        temperature: of the votes of `knn`.
        memory_limit: bytes that working copies may take before rows are streamed from where they are.
    """

    protocol: Protocol = field(default_factory=Protocol)
    tolerance: float = TOLERANCE
    penalties: Sequence[float] = PENALTIES
    neighbors: Sequence[int] = NEIGHBORS
    temperature: float = TEMPERATURE
    memory_limit: int = MEMORY_LIMIT


_Solver = Callable[[LabelledRows, Sequence[Draw], Workers, Settings], list[Fit]]

SOLVERS: dict[str, _Solver] = {
    "fast": lambda data, draws, workers, s: fit_fast(
        data, draws, workers, s.protocol, tolerance=s.tolerance, memory_limit=s.memory_limit
    ),
    "paper": lambda data, draws, workers, s: fit_paper(data, draws, workers, s.protocol, memory_limit=s.memory_limit),
    "ridge": lambda data, draws, workers, s: fit_ridge(data, draws, workers, penalties=s.penalties),
    "knn": lambda data, draws, workers, s: fit_knn(
        data, draws, workers, neighbors=s.neighbors, temperature=s.temperature
    ),
    "ncm": lambda data, draws, workers, s: fit_nearest_mean(data, draws, workers),
}


def solve(solver: str, data: LabelledRows, draws: Sequence[Draw], workers: Workers, settings: Settings) -> list[Fit]:
    """Fit every draw with the solver of that name."""
    if solver not in SOLVERS:
        raise UnknownNameError("probe solver", solver, SOLVERS)
    return SOLVERS[solver](data, draws, workers, settings)
