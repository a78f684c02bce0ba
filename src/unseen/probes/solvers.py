"""The solvers by name, their hyper-parameters, and the published training protocols as numbers.

Papers:     Sariyildiz et al., ICCV 2021 [C], Section 3.4.3 and supplement B.2, and the authors' released source;
            Zhai et al., "A Large-scale Study of Representation Learning with the Visual Task Adaptation Benchmark",
            2019 [V], Appendix I
Implements: `Protocol` of [C]: 30 trials, lr log-uniform in [1e-1, 1e2], wd log-uniform in [1e-12, 1e-4], SGD with
            momentum 0.9, batches of 1024, 100 epochs, a cosine schedule whose factor comes from the epoch before;
            `StepSchedule` of [V]: x 0.1 after 1/3 and 2/3 of the training time, "and one more time shortly before the
            end": at 9/10, where the authors' released script has its last step; the warm-up, which the text leaves
            open, is that of the script (task_adaptation, run_all_tasks.sh): 80 of 1,000 steps, from a rate of 0

Importing this module does not import torch; a solver is imported when it is used.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.records import MethodCard
from unseen.core.registry import load_object

if TYPE_CHECKING:
    from unseen.probes.outcome import Fit
    from unseen.probes.rows import LabelledRows, Workers
    from unseen.probes.sampling import Draw

SolverName = Literal["logistic", "paper", "ridge", "knn", "ncm", "fast"]

SEEDS = (22, 37, 45, 77, 93)
SHOTS = (1, 2, 4, 8, 16, 32, 64, 128, "all")

_DECAYS = (1 / 3, 2 / 3, 9 / 10)  # shares of the training time
_SHARE_OF_MEMORY = 4


def machine_memory() -> int:
    """Return the bytes of memory that this process may use: the machine's, or those of its container."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 8 << 30
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            whole = min(whole, int(Path(path).read_text(encoding="ascii")))
    return whole


#: Bytes that working copies may take before rows are streamed: a quarter of the machine's memory.
MEMORY_LIMIT = machine_memory() // _SHARE_OF_MEMORY


@dataclass(frozen=True, slots=True)
class Protocol:
    """Hyper-parameters of the published probe."""

    trials: int = 30
    epochs: int = 100
    batch_size: int = 1024
    momentum: float = 0.9
    lowest_lr: float = 1e-1
    highest_lr: float = 1e2
    lowest_wd: float = 1e-12
    highest_wd: float = 1e-4

    def factor(self, epoch: int) -> float:
        """Return the factor of the learning rate in an epoch: epochs 0 and 1 both run at the full rate."""
        return 0.5 * (1.0 + math.cos(math.pi * max(epoch - 1, 0) / self.epochs))


@dataclass(frozen=True, slots=True)
class StepSchedule:
    """Factor of the learning rate at each step of fine-tuning: linear warm-up, then steps down.

    Attributes:
        steps: model updates in all.
        warmup: steps over which the factor grows linearly from 0 to 1.
    """

    steps: int
    warmup: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or not 0 <= self.warmup <= self.steps:
            raise UsageError(
                f"a schedule of {self.steps} steps with {self.warmup} of warm-up: at least one step is needed, and the "
                "warm-up must fit into them."
            )

    def factor(self, step: int) -> float:
        """Return the factor of the learning rate at step `step`, counted from 0."""
        grown = min(1.0, step / self.warmup) if self.warmup else 1.0
        passed = sum(step >= share * self.steps for share in _DECAYS)
        return float(grown * 0.1**passed)


def default_warmup(steps: int) -> int:
    """Return the warm-up of the authors' script: 80 steps of 1,000, 200 of 2,500."""
    return round(0.08 * steps)


@dataclass(frozen=True, slots=True)
class Settings:
    """Solver hyper-parameters; each solver reads its own.

    Attributes:
        protocol: ranges, epochs and batches of `paper`.
        regularizations: penalties of `logistic`, as shares of the features' variance.
        tolerance: of `logistic`: a fit ends where the predicted decrease is below this share of its loss.
        power: exponent that `logistic` applies to features without negative values, if a run has RAISED_ROWS rows.
        penalties: of `ridge`.
        neighbors: values of k for `knn`.
        temperature: of the votes of `knn`.
        memory_limit: bytes that working copies may take before rows are streamed from where they are.
    """

    protocol: Protocol = field(default_factory=Protocol)
    regularizations: Sequence[float] = tuple(10.0 ** (-1 - k / 2) for k in range(13))
    tolerance: float = 1e-4
    power: float = 0.75
    penalties: Sequence[float] = tuple(10.0 ** (k / 2) for k in range(-14, 1))
    neighbors: Sequence[int] = (1, 5, 10, 20, 50, 100, 200)
    temperature: float = 0.07
    memory_limit: int = MEMORY_LIMIT


@dataclass(frozen=True, slots=True)
class Solver:
    """A way to fit draws.

    Attributes:
        fit: "module:function" below `unseen.probes`.
        version: raised with every change that moves one of its numbers.
    """

    fit: str
    version: int


#: Version 1 of `logistic` was the walk along gradient descent that the name "fast" stood for; 2 ended its fits at 1e-5;
#: 3 did not raise features to a power and had 10^-4.5 as its default penalty; in 4 the folds of all images
#: depended on the seed.
SOLVERS: dict[str, Solver] = {
    "logistic": Solver("logistic:fit_logistic", 5),
    "paper": Solver("paper:fit_paper", 1),
    "ridge": Solver("ridge:fit_ridge", 1),
    "knn": Solver("knn:fit_knn", 1),
    "ncm": Solver("knn:fit_nearest_mean", 1),
}
#: Former names of solvers.
ALIASES = {"fast": "logistic"}


def solver_name(name: str) -> str:
    """Return the name of a solver, with an alias resolved.

    Raises:
        UnknownNameError: there is no such solver.
    """
    found = ALIASES.get(name, name)
    if found not in SOLVERS:
        raise UnknownNameError("probe solver", name, SOLVERS)
    return found


def solver_version(name: str) -> int:
    """Return the version of a solver: results of different versions are not comparable."""
    return SOLVERS[solver_name(name)].version


def solve(solver: str, data: LabelledRows, draws: Sequence[Draw], workers: Workers, settings: Settings) -> list[Fit]:
    """Fit every draw with the solver of that name."""
    fit: Callable[[LabelledRows, Sequence[Draw], Workers, Settings], list[Fit]]
    fit = load_object(f"unseen.probes.{SOLVERS[solver_name(solver)].fit}")
    return fit(data, draws, workers, settings)


_COG = "Sariyildiz et al., Concept generalization in visual representation learning, ICCV 2021"

#: The probes as `unseen ls methods` lists them.
PROBE_CARDS = (
    MethodCard(
        "logistic",
        "Logistic regression, converged, its penalty chosen by 5-fold cross-validation",
        "probe",
        notes="the default; `fast` is an older name of it",
    ),
    MethodCard("paper", "SGD with a search over learning rate and weight decay", "probe", "cog", _COG, "as published"),
    MethodCard("ridge", "Ridge regression on one-hot targets", "probe", notes="closed form, one eigendecomposition"),
    MethodCard("knn", "k nearest neighbours by cosine", "probe", notes="temperature-weighted, k chosen on validation"),
    MethodCard("ncm", "Nearest class mean by cosine", "probe", notes="nothing to tune"),
)
