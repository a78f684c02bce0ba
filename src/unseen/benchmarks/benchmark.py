"""What a benchmark is: it plans the cells of a protocol, and evaluates a group of them.

A group holds the cells of one model on one dataset. They are evaluated together because they share work: features are
read once, and a probe fits all seeds and shots over the same matrices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Protocol

from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.records import Cell, MethodCard, Result
from unseen.core.registry import Registry


class Benchmark(Protocol):
    """A protocol. Its instances hold its options; they are frozen and made from a study's table."""

    name: ClassVar[str]
    question: ClassVar[str]
    paper: ClassVar[str]

    def plan(self, model: str, dataset: str) -> list[Cell]:
        """The cells of one model on one dataset, in the order in which they should be shown."""

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> list[Result]:
        """One result per cell; all cells are of one model and one dataset."""


BENCHMARKS: Registry[type[Benchmark]] = Registry("benchmark", "unseen.benchmarks")
BENCHMARKS.add("probe", "unseen.benchmarks.probe.protocol:ProbeBenchmark")
BENCHMARKS.add("cog", "unseen.benchmarks.cog.protocol:CogBenchmark")
BENCHMARKS.add("cog-finetune", "unseen.benchmarks.cog.finetune:CogFinetuneBenchmark")
BENCHMARKS.add("zsl", "unseen.benchmarks.zsl.protocol:ZslBenchmark")
BENCHMARKS.add("vtab", "unseen.benchmarks.vtab.protocol:VtabBenchmark")
BENCHMARKS.add("neucrab", "unseen.benchmarks.rank.neucrab:NeucrabBenchmark")


def benchmark_cards() -> list[MethodCard]:
    """Every benchmark, as `unseen ls tasks` shows it."""
    kinds = {name: BENCHMARKS.get(name) for name in BENCHMARKS}
    return [
        MethodCard(id=name, name=kind.question, group="benchmark", paper=kind.paper) for name, kind in kinds.items()
    ]


def make_benchmark(name: str, options: Mapping[str, Any]) -> Benchmark:
    """A benchmark from its name and the options in a study; an unknown option is named, with suggestions."""
    kind = BENCHMARKS.get(name)
    known = getattr(kind, "__dataclass_fields__", {})
    for option in options:
        if option not in known:
            raise UnknownNameError(f"option of benchmark {name!r}", option, known)
    try:
        return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in options.items()})
    except TypeError as error:
        raise UsageError(f"benchmark {name!r}: {error}") from error


def group_cells(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Neighbouring cells of one benchmark, model and dataset, together."""
    return [list(group) for _, group in groupby(cells, key=lambda c: (c.benchmark, c.model, c.dataset))]
