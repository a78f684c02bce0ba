"""The solvers by name, behind one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from unseen.core.errors import UnknownNameError
from unseen.probes import knn, logistic, nearest_mean, paper, ridge
from unseen.probes.draws import Draw
from unseen.probes.lbfgs import TOLERANCE
from unseen.probes.linear import LabelledRows
from unseen.probes.outcome import Fit
from unseen.probes.protocol import Protocol
from unseen.probes.rows import MEMORY_LIMIT
from unseen.probes.workers import Workers

SolverName = Literal["logistic", "paper", "ridge", "knn", "ncm", "fast"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a solver may be told; each reads what concerns it.

    Attributes:
        protocol: ranges, epochs and batches of `paper`.
        regularizations: penalties of `logistic`, as shares of the features' variance.
        tolerance: of `logistic`.
        power: that `logistic` raises features without negative values to, where a run has RAISED_ROWS rows.
        penalties: of `ridge`.
        neighbors: values of k for `knn`.
        temperature: of the votes of `knn`.
        memory_limit: bytes that working copies may take before rows are streamed from where they are.
    """

    protocol: Protocol = field(default_factory=Protocol)
    regularizations: Sequence[float] = logistic.PENALTIES
    tolerance: float = TOLERANCE
    power: float = logistic.POWER
    penalties: Sequence[float] = ridge.PENALTIES
    neighbors: Sequence[int] = knn.NEIGHBORS
    temperature: float = knn.TEMPERATURE
    memory_limit: int = MEMORY_LIMIT


@dataclass(frozen=True, slots=True)
class Solver:
    """A way to fit draws.

    Attributes:
        version: goes up with every change that moves a number that it gives.
    """

    fit: Callable[[LabelledRows, Sequence[Draw], Workers, Settings], list[Fit]]
    version: int


SOLVERS: dict[str, Solver] = {
    "logistic": Solver(
        lambda data, draws, workers, s: logistic.fit_logistic(
            data,
            draws,
            workers,
            penalties=s.regularizations,
            tolerance=s.tolerance,
            power=s.power,
            memory_limit=s.memory_limit,
        ),
        logistic.VERSION,
    ),
    "paper": Solver(
        lambda data, draws, workers, s: paper.fit_paper(data, draws, workers, s.protocol, memory_limit=s.memory_limit),
        paper.VERSION,
    ),
    "ridge": Solver(
        lambda data, draws, workers, s: ridge.fit_ridge(data, draws, workers, penalties=s.penalties), ridge.VERSION
    ),
    "knn": Solver(
        lambda data, draws, workers, s: knn.fit_knn(
            data, draws, workers, neighbors=s.neighbors, temperature=s.temperature
        ),
        knn.VERSION,
    ),
    "ncm": Solver(
        lambda data, draws, workers, s: nearest_mean.fit_nearest_mean(data, draws, workers), nearest_mean.VERSION
    ),
}
#: Names that solvers had before.
ALIASES = {"fast": "logistic"}


def solver_name(name: str) -> str:
    """The name of a solver, an alias resolved; an error that lists them where there is none."""
    found = ALIASES.get(name, name)
    if found not in SOLVERS:
        raise UnknownNameError("probe solver", name, SOLVERS)
    return found


def solver_version(name: str) -> int:
    """The version of the solver of that name: results of different versions are not to be mixed."""
    return SOLVERS[solver_name(name)].version


def solve(solver: str, data: LabelledRows, draws: Sequence[Draw], workers: Workers, settings: Settings) -> list[Fit]:
    """Fit every draw with the solver of that name."""
    return SOLVERS[solver_name(solver)].fit(data, draws, workers, settings)
