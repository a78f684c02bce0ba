"""What a benchmark is: options, the cells they plan, and how a group of cells is evaluated.

A benchmark is a frozen dataclass; its fields are its options. What a cell is asked follows from *all* of them: a field
is left out of the cells' parameters only by `option(neutral="why it changes no number")`. A field with `axis="seed"`
makes one cell per value. Change what a protocol computes, and raise its `version`.

A group holds the cells of one model on one dataset. They are evaluated together because they share work: features are
read once, and a probe fits all seeds and shots over the same matrices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from unseen.core.errors import DataError, UnseenError
from unseen.core.identity import option, parameters_of, plain
from unseen.core.options import check_options, make_options
from unseen.core.records import Cell, MethodCard, Result
from unseen.core.registry import Registry
from unseen.data.load import resolve_dataset
from unseen.results.styles import MetricStyle, declare_styles

if TYPE_CHECKING:
    from unseen.benchmarks.workbench import Wanted, Workbench
    from unseen.data import Dataset


#: Kinds of labels, and what makes classes of them in a table.
_KINDS = {
    "class": ("one class", "Give it to probe, or to another benchmark of classes."),
    "several": ("several labels", "pick=LABEL in its name asks for one of them; probe takes all."),
    "number": ("a number", "bins=5 in its name cuts them into classes; probe takes numbers."),
}

#: Images to train on below which nobody needs to be told how long it takes.
WORTH_MEASURING = 20_000


@dataclass(frozen=True)
class Expectation:
    """What the work of a group will take on one worker, said before it begins.

    Attributes:
        seconds: at most.
        memory, disk: bytes, at most, while it runs.
        images: to train on, counted as often as they are shown.
        per_second: of them, as measured here.
    """

    seconds: float
    memory: int
    disk: int
    images: int
    per_second: float

    @staticmethod
    def joined(parts: Sequence[Expectation]) -> Expectation:
        """One after the other."""
        most = {name: max(getattr(part, name) for part in parts) for name in ("memory", "disk")}
        total = {name: sum(getattr(part, name) for part in parts) for name in ("seconds", "images")}
        return Expectation(**most, **total, per_second=min(part.per_second for part in parts))


@dataclass(frozen=True)
class Benchmark(ABC):
    """A protocol with its options, as a study's `[benchmarks.NAME]`, a command line or Python gives them."""

    #: Registry name; the question it answers; the paper it follows ("cog", "gbu", "vtab", "neucrab", or "").
    name: ClassVar[str]
    question: ClassVar[str]
    paper: ClassVar[str] = ""
    #: Raised whenever the same question gets another number.
    version: ClassVar[int] = 1
    #: "module:function" that makes the section of the page from results (`unseen.reports.blocks.SectionBuilder`).
    section: ClassVar[str] = "unseen.reports.scores:scores_section"
    #: What the command line calls it: "probe" is `unseen probe DATA`, "cog run" is `unseen cog run DATA`.
    command: ClassVar[str] = ""
    #: How metrics of its own are shown, the one to judge by first; `unseen.results.styles` has the common ones.
    metrics: ClassVar[tuple[MetricStyle, ...]] = ()
    #: What it can learn of images: "class", "several" labels, a "number" (`unseen.data.dataset.Target`).
    targets: ClassVar[tuple[str, ...]] = ("class",)

    only: tuple[str, ...] = option(
        (), dataset=True, neutral="it chooses datasets", help="Datasets of a study that it is for; all by default."
    )

    def __post_init__(self) -> None:
        check_options(self)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.metrics and "name" in vars(cls):
            declare_styles(cls.name, cls.metrics)

    @abstractmethod
    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        """Yield one result per cell, each as soon as it is known; all cells are of one model and one dataset."""

    def features(self, cells: Sequence[Cell], bench: Workbench) -> Sequence[Wanted]:
        """The features that `evaluate` will read, for all workers to extract side by side, part by part, before it.

        A benchmark that says nothing here extracts in `evaluate`, by the one worker that has the group.
        """
        return ()

    def pieces(self, cells: Sequence[Cell], bench: Workbench) -> Sequence[Mapping[str, Any]]:
        """Independent parts of a group's work that can be done now, each by any worker, as JSON values.

        They are asked for again when all are done, until there are no new ones; then comes `evaluate`, which finds
        what they left under `bench.home` and does itself what is missing. A benchmark whose groups are quick, or do
        not fall into parts, has none.
        """
        return ()

    def do_piece(self, piece: Mapping[str, Any], cells: Sequence[Cell], bench: Workbench) -> None:
        """Do one part; a failure here is met again, and told, by `evaluate`."""
        raise NotImplementedError

    def expect(self, cells: Sequence[Cell], bench: Workbench) -> Expectation | None:
        """What a group will take, where that is worth a measurement of some seconds; None where it is not."""
        return None

    def check(self, dataset: Dataset) -> None:  # noqa: B027 - any dataset will do unless a benchmark says otherwise
        """Raise a `DataError` where the benchmark cannot be run on a dataset; called before anything is extracted."""

    def suited(self, dataset: Dataset) -> Benchmark:
        """The benchmark that asks this one's question of a dataset: itself, unless labels are of another kind.

        Raises:
            DataError: it has no answer for such labels.
        """
        if dataset.target in self.targets:
            return self
        what, advice = _KINDS[dataset.target]
        raise DataError(f"{dataset.id!r} has {what} per image, which {self.name} does not take. {advice}")

    def components(self, point: Mapping[str, Any]) -> Mapping[str, int]:
        """Solvers, methods or scores that a cell's number comes from, with their versions."""
        return {}

    def idle(self) -> Collection[str]:
        """Fields that change no number beside the present values of the others, such as the length of a search that
        is not made."""
        return ()

    def points(self, dataset: str) -> list[dict[str, Any]]:
        """What tells the cells on one dataset apart, in the order in which they should be shown."""
        axes = {str(f.metadata["axis"]): getattr(self, f.name) for f in fields(self) if f.metadata.get("axis")}
        return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]

    def other_datasets(self) -> list[str]:
        """Datasets that options name: what they hold is part of what a cell is."""
        named = [getattr(self, f.name) for f in fields(self) if f.metadata.get("dataset") and not f.metadata["neutral"]]
        return [name for value in named for name in ([value] if isinstance(value, str) else value) if name]

    def plan(self, model: str, dataset: str) -> list[Cell]:
        """The cells of one model on one dataset; none where the benchmark is not for it."""
        if self.only and dataset not in self.only:
            return []
        shared = parameters_of(self, leave_out=self.idle())
        return [
            Cell(self.name, model, dataset, {**shared, **plain(point)}, version=self._version(point))
            for point in self.points(dataset)
        ]

    def _version(self, point: Mapping[str, Any]) -> str:
        used = [f"{name}.{number}" for name, number in sorted(self.components(point).items())]
        return " ".join([str(self.version), *used])


BENCHMARKS: Registry[type[Benchmark]] = Registry("benchmark", "unseen.benchmarks")
BENCHMARKS.add("probe", "unseen.benchmarks.probe.protocol:ProbeBenchmark")
BENCHMARKS.add("regression", "unseen.benchmarks.probe.targets:RegressionBenchmark")
BENCHMARKS.add("multilabel", "unseen.benchmarks.probe.targets:MultilabelBenchmark")
BENCHMARKS.add("cog", "unseen.benchmarks.cog.protocol:CogBenchmark")
BENCHMARKS.add("cog-finetune", "unseen.benchmarks.cog.finetune:CogFinetuneBenchmark")
BENCHMARKS.add("zsl", "unseen.benchmarks.zsl.protocol:ZslBenchmark")
BENCHMARKS.add("clip", "unseen.benchmarks.clip.protocol:ClipBenchmark")
BENCHMARKS.add("vtab", "unseen.benchmarks.vtab.protocol:VtabBenchmark")
BENCHMARKS.add("rank", "unseen.benchmarks.rank.protocol:RankBenchmark")


def find_command(command: str) -> str | None:
    """The benchmark whose class says that the command line calls it so; one that cannot be loaded says nothing."""
    for name in BENCHMARKS:
        try:
            if BENCHMARKS.get(name).command == command:
                return name
        except Exception:  # noqa: BLE001, S112 - whatever a plug-in raises when it is imported
            continue
    return None


def benchmark_cards() -> list[MethodCard]:
    """Every benchmark, as `unseen ls benchmarks` shows it; a plug-in that cannot be loaded says so."""
    cards = []
    for name, kind in BENCHMARKS.entries():
        if isinstance(kind, UnseenError):
            cards.append(MethodCard(id=name, group="plug-in", notes=getattr(kind, "reason", str(kind))))
            continue
        cards.append(
            MethodCard(
                id=name, name=kind.question, group="benchmark", paper=kind.paper, notes=f"unseen {kind.command or name}"
            )
        )
    return cards


def load_styles(benchmarks: Iterable[str]) -> None:
    """Load benchmarks by name, for how their metrics are to be shown."""
    for name in benchmarks:
        with suppress(Exception):  # a plug-in that is gone or broken must not hide its results
            BENCHMARKS.get(name)


def make_benchmark(
    name: str, options: Mapping[str, Any], *, source: str = "", base: Path | None = None, texts: bool = False
) -> Benchmark:
    """A benchmark from its name and its options; an unknown or ill-typed one is named, with suggestions.

    Args:
        source: where the options stand, for error messages.
        base: folder that files behind options are relative to.
        texts: whether numbers may be written as texts, as a command line gives them.
    """
    kind = BENCHMARKS.get(name)
    made = make_options(kind, options, source=source or f"benchmark {name!r}", base=base, texts=texts)
    for f in fields(made):
        if f.metadata.get("dataset") and (value := getattr(made, f.name)):
            many = isinstance(value, tuple)
            found = tuple(resolve_dataset(each, base or Path()) for each in (value if many else (value,)))
            made = replace(made, **{f.name: found if many else found[0]})  # type: ignore[arg-type]
    return made


def group_cells(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Neighbouring cells of one benchmark, model, dataset and version, together."""
    return [list(group) for _, group in groupby(cells, key=lambda c: (c.benchmark, c.model, c.dataset))]
