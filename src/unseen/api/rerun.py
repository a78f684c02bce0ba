"""Compute a stored result again, in a temporary home, and compare."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from unseen.benchmarks.benchmark import benchmark_of
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UsageError
from unseen.core.files import home as home_folder
from unseen.core.identity import canonical_json, make_options, parameters_of
from unseen.core.records import Cell, Result
from unseen.features import Extraction, Progress
from unseen.run.evaluate import Context, Task, evaluate_group

V = TypeVar("V")

#: Inputs that users keep in a home, which are not results; of the folder of VTAB all but the runs of its searches.
_INPUTS = ("weights", "data", "cog-levels.json")
_VTAB, _RUNS = "vtab", "runs"


@dataclass(frozen=True)
class Rerun:
    """A stored result and the one that was computed now."""

    stored: Result
    now: Result

    @property
    def identical(self) -> bool:
        """Whether every metric has the same bits, or both failed for the same reason."""
        return not self.metrics() and self.stored.error == self.now.error

    def metrics(self) -> dict[str, tuple[float | None, float | None]]:
        """Return the metrics that differ: the stored value and the present one; None if there is none."""
        return _differences(self.stored.metrics, self.now.metrics)

    def conditions(self) -> dict[str, tuple[str | None, str | None]]:
        """Return what else differs: protocol, weights, data, versions, device and machine, each before and now."""
        return _differences(*map(_conditions, (self.stored, self.now)))


def _conditions(result: Result) -> dict[str, str]:
    weights, _, data = result.cell.revision.partition("+")
    revisions = {"revision of the weights": weights, "revision of the data": data}
    return {"version of the protocol": result.cell.version, **revisions, **result.environment}


def _differences(before: Mapping[str, V], after: Mapping[str, V]) -> dict[str, tuple[V | None, V | None]]:
    pairs = {name: (before.get(name), after.get(name)) for name in [*before, *after]}
    return {name: pair for name, pair in pairs.items() if repr(pair[0]) != repr(pair[1])}  # NaN is NaN


def rerun(
    result: Result,
    *,
    home: Path | str | None = None,
    files: Path | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> Rerun:
    """Compute a stored result again: extract the features and evaluate the cell in a temporary home.

    Args:
        home: where weights and data may lie that the user keeps in a home; the user's by default.
        files: folder with the files that options of the result name; the current one by default.
        device: where networks run.

    Raises:
        UnseenError: the model, the data, a file or the protocol does not exist any more.
    """
    cell = result.cell
    for name in (cell.model, cell.dataset):
        if name.startswith(("object:", "given:")):
            raise UsageError(f"{name!r} was an object of a Python program, which cannot be loaded by its name.")
    benchmark = benchmark_of(cell, files)
    given = cell.parameters.get("extraction", {})
    how = make_options(Extraction, {**given, "device": device}, source=f"extraction of cell {cell.id}")
    with _temporary_home(home_folder(home)) as folder:
        bench = Workbench(folder, how=how, progress=progress)
        revision = bench.revision(cell.model, cell.dataset, benchmark.other_datasets())
        planned = [each for each in benchmark.plan(cell.model, cell.dataset) if _question(each) == _question(cell)]
        if not planned:
            raise UsageError(
                f"{cell.benchmark} of this version of unseen has no cell with the parameters of {cell.id}."
            )
        parameters = {**planned[0].parameters, **({"extraction": parameters_of(how)} if given else {})}
        now = replace(planned[0], revision=revision, parameters=parameters)
        context = Context(bench, lambda _result: None)
        done = evaluate_group(Task(folder, "rerun", how, benchmark, (now,)), context)
    return Rerun(result, done.results[0])


@contextmanager
def _temporary_home(home: Path) -> Iterator[Path]:
    """Make a home without features and results; what the user keeps in `home` is linked."""
    with tempfile.TemporaryDirectory(prefix="unseen-rerun-") as folder:
        new = Path(folder)
        (new / _VTAB).mkdir()
        inputs = [home / name for name in _INPUTS]
        inputs += [path for path in (home / _VTAB).glob("*") if path.name != _RUNS]
        for path in inputs:
            if path.exists():
                (new / path.relative_to(home)).symlink_to(path.resolve())
        yield new


def _question(cell: Cell) -> str:
    return canonical_json({name: value for name, value in cell.parameters.items() if name != "extraction"})
