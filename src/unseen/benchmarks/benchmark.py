"""Benchmarks: options, the cells that they plan, and the evaluation of a group of cells.

A benchmark is a frozen dataclass; its fields are its options. All of them are parameters of its cells, except fields
with `option(neutral="why it changes no number")`. A field with `axis="seed"` makes one cell per value. If a protocol
computes other numbers, raise its `version`.

A group contains the cells of one model on one dataset. They are evaluated together because they share work: features
are read once, and a probe fits all seeds and shots over the same matrices.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from unseen.core.errors import DataError, UnseenError
from unseen.core.files import read_toml
from unseen.core.identity import Values, check_options, make_options, option, parameters_of, plain, with_content
from unseen.core.records import Cell, MethodCard, Result
from unseen.data.load import resolve_dataset
from unseen.features.manifest import Extraction
from unseen.results.info import BENCHMARKS as BENCHMARKS
from unseen.results.info import NO_INFO, BenchmarkInfo, info_of

if TYPE_CHECKING:
    from unseen.benchmarks.workbench import Wanted, Workbench
    from unseen.data import Dataset


#: Kinds of labels, and the advice if a benchmark does not take them.
_KINDS = {
    "class": ("one class", "Give it to probe, or to another benchmark of classes."),
    "several": ("several labels", "pick=LABEL in its name selects one of them; probe takes all."),
    "number": ("a number", "bins=5 in its name cuts them into classes; probe takes numbers."),
}


@dataclass(frozen=True)
class Benchmark(ABC):
    """A protocol with its options, as a study's `[benchmarks.NAME]`, a command line or Python gives them."""

    #: Registry name.
    name: ClassVar[str]
    #: Title, question, metrics and citations.
    info: ClassVar[BenchmarkInfo] = NO_INFO
    #: Raised whenever the same cell gets another number.
    version: ClassVar[int] = 1

    only: tuple[str, ...] = option(
        (), dataset=True, neutral="it chooses datasets", help="Datasets of a study to run it on; all by default."
    )

    def __post_init__(self) -> None:
        check_options(self)

    @abstractmethod
    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        """Yield one result per cell, each as soon as it is known; all cells are of one model and one dataset."""

    def features(self, cells: Sequence[Cell], bench: Workbench) -> Sequence[Wanted]:
        """Return the features that `evaluate` will read, so that all workers extract them first, part by part.

        If it returns none, `evaluate` extracts them in the one worker of the group.
        """
        return ()

    def counted(self, cells: Sequence[Cell], bench: Workbench) -> Sequence[tuple[str | Dataset, str]]:
        """Return the datasets and splits whose images `--dry-run` counts, also if `evaluate` extracts them."""
        return [(each.dataset, each.split) for each in self.features(cells, bench)]

    def divide(self, cells: Sequence[Cell], bench: Workbench) -> Sequence[Sequence[Cell]]:
        """Return the parts of a group that workers evaluate and store one by one; the whole group by default."""
        return [cells]

    def pieces(self, cells: Sequence[Cell], bench: Workbench) -> Sequence[Mapping[str, object]]:
        """Return independent parts of a group's work that any worker can do now, as JSON values.

        The run calls this again when all are done, until there are no new ones; then it calls `evaluate`, which reads
        their files under `bench.home` and does missing parts itself. A benchmark with quick groups has none.
        """
        return ()

    def do_piece(self, piece: Mapping[str, object], cells: Sequence[Cell], bench: Workbench) -> None:
        """Do one part; `evaluate` repeats and reports a failure."""
        raise NotImplementedError

    def check(self, dataset: Dataset) -> None:  # noqa: B027 - optional; any dataset is accepted by default
        """Raise a `DataError` if the benchmark cannot run on a dataset; called before anything is extracted."""

    def suited(self, dataset: Dataset) -> Benchmark:
        """Return the variant of this benchmark for the dataset's kind of labels.

        Raises:
            DataError: if it has none.
        """
        if dataset.target in self.info.targets:
            return self
        what, advice = _KINDS[dataset.target]
        raise DataError(f"{dataset.id!r} has {what} per image, which {self.name} does not take. {advice}")

    def components(self, point: Mapping[str, object]) -> Mapping[str, int]:
        """Return the versions of the solvers, methods or scores that a cell's number depends on."""
        return {}

    def idle(self) -> Collection[str]:
        """Return the fields that change no number given the others, such as the length of an unused search."""
        return ()

    def points(self, dataset: str) -> list[Values]:
        """Return what distinguishes the cells on one dataset, in the order in which they are shown."""
        axes = {str(f.metadata["axis"]): getattr(self, f.name) for f in fields(self) if f.metadata.get("axis")}
        return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]

    def other_datasets(self) -> list[str]:
        """Return the datasets that options name; their revisions are part of a cell's revision."""
        named = [getattr(self, f.name) for f in fields(self) if f.metadata.get("dataset") and not f.metadata["neutral"]]
        return [name for value in named for name in ([value] if isinstance(value, str) else value) if name]

    def plan(self, model: str, dataset: str) -> list[Cell]:
        """Return the cells of one model on one dataset; none if `only` excludes it."""
        if self.only and dataset not in self.only:
            return []
        shared = parameters_of(self, leave_out=self.idle())
        return [
            Cell(self.name, model, dataset, {**shared, **plain(point)}, version=self._version(point))
            for point in self.points(dataset)
        ]

    def _version(self, point: Mapping[str, object]) -> str:
        used = [f"{name}.{number}" for name, number in sorted(self.components(point).items())]
        return " ".join([str(self.version), *used])


def benchmark_cards() -> list[MethodCard]:
    """Return a card of every benchmark, as `unseen ls benchmarks` shows it, with the reason if one cannot be loaded."""
    cards = []
    for name, kind in BENCHMARKS.entries():
        if isinstance(kind, UnseenError):
            cards.append(MethodCard(id=name, group="plug-in", notes=getattr(kind, "reason", str(kind))))
            continue
        info = info_of(name)
        paper = next((key for key in info.citations if key in references()), "")
        cards.append(
            MethodCard(id=name, name=info.question, group="benchmark", paper=paper, notes=f"unseen {info.command}")
        )
    return cards


def make_benchmark(
    name: str, options: Mapping[str, object], *, source: str = "", base: Path | None = None, texts: bool = False
) -> Benchmark:
    """Return a benchmark from its name and its options; errors name an unknown or ill-typed option.

    Args:
        source: origin of the options, for error messages.
        base: folder that files behind options are relative to.
        texts: whether numbers may be written as texts, as a command line gives them.
    """
    kind = BENCHMARKS.get(name)
    made = make_options(kind, options, source=source or f"benchmark {name!r}", base=base, texts=texts)
    for f in fields(made):
        if f.metadata.get("dataset") and (value := getattr(made, f.name)):
            many = isinstance(value, tuple)
            found = tuple(resolve_dataset(each, base or Path()) for each in (value if many else (value,)))
            changed: Values = {f.name: found if many else found[0]}
            made = replace(made, **changed)
    return made


def group_cells(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Group neighbouring cells of one benchmark, model and dataset."""
    return [list(group) for _, group in groupby(cells, key=lambda c: (c.benchmark, c.model, c.dataset))]


# ---- the command that computes a cell again --------------------------------------------------------------------------
# It states every axis of the cell and every option that differs from the default. Only the name of a file behind an
# option is known. Some commands also compute other cells, for example all levels of a CoG.


def command_of(cell: Cell) -> str:
    """Return the command line that computes a cell; "" if its benchmark is not installed."""
    try:
        kind = BENCHMARKS.get(cell.benchmark)
    except UnseenError:  # a plug-in that is missing or broken
        return ""
    info, parameters = info_of(cell.benchmark), dict(cell.parameters)
    extraction = parameters.pop("extraction", {})
    words = ["unseen", *info.command.split(), cell.dataset, "--models", cell.model]
    words += _options(kind, info.cell_options(parameters))
    words += _options(Extraction, extraction if isinstance(extraction, Mapping) else {})
    return shlex.join(words)


def benchmark_of(cell: Cell, base: Path | None = None) -> Benchmark:
    """Return the benchmark with the options that plan a cell.

    Args:
        base: folder with the files that options name; a cell keeps the name and the digest of a file.

    Raises:
        UnseenError: the benchmark does not exist or does not take these options any more; a file is missing or has
            another content.
    """
    kind = BENCHMARKS.get(cell.benchmark)
    parameters = info_of(cell.benchmark).cell_options(cell.parameters)
    options: Values = {}
    for field in fields(kind):
        axis = field.metadata.get("axis")
        if (axis or field.name) not in parameters:
            continue
        value = parameters[axis or field.name]
        if field.metadata.get("file") and isinstance(value, str) and "@" in value:
            path = ((base or Path()) / value.rpartition("@")[0]).resolve()
            if not path.is_file() or with_content(path) != value:
                raise DataError(f"the result was computed with a file {value!r}, which is not in {path.parent}.")
            value = str(path)
        options[field.name] = [value] if axis else value
    return make_benchmark(cell.benchmark, options, source=f"cell {cell.id}")


def _options(kind: type, parameters: Mapping[str, object]) -> list[str]:
    """Return the options of a dataclass that give these parameters; defaults are left out, except for axes."""
    words: list[str] = []
    for field in fields(kind):
        axis = field.metadata.get("axis")
        name = axis or field.name
        if name not in parameters or not (axis or parameters[name] != plain(field.default)):
            continue
        words += _written(f"--{field.name.replace('_', '-')}", parameters[name], several=bool(axis))
    return words


def _written(option: str, value: object, *, several: bool) -> list[str]:
    if isinstance(value, bool):
        return [option if value else option.replace("--", "--no-", 1)]
    values = value if isinstance(value, list | tuple) else [value]
    texts = [str(each).partition("@")[0] if isinstance(each, str) else f"{each}" for each in values]
    if several or isinstance(value, list | tuple):
        # The parser reads a single number as a count.
        return [option, ",".join(texts) + ("," if len(texts) == 1 and texts[0].isdecimal() else "")]
    return [option, *texts]


@cache
def references() -> Mapping[str, Mapping[str, Any]]:
    """Return the citations that are known in full, by key."""
    return read_toml("unseen.benchmarks", "references.toml")


def citations_of(cell: Cell) -> list[str]:
    """Return what to cite for the protocol of a cell, and for its method or score, as lines of text."""
    info = info_of(cell.benchmark)
    cited = [references().get(each, {}).get("text", each) for each in info.citations]
    return [each for each in [*cited, *cell_citations(cell)] if each]


def cell_citations(cell: Cell) -> Sequence[str]:
    """Return what to cite for the method or score of a cell."""
    try:
        return info_of(cell.benchmark).cell_citations(cell.parameters)
    except (UnseenError, KeyError):  # a method of a plug-in that is missing, or a result that names none
        return ()
