"""Compute a stored result again, in a temporary home, and compare."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from unseen.benchmarks.benchmark import benchmark_of
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UsageError
from unseen.core.files import home as home_folder
from unseen.core.identity import canonical_json, parameters_of
from unseen.core.options import make_options
from unseen.core.records import Cell, Result
from unseen.features import Extraction, Progress
from unseen.run.evaluate import Context, Task, evaluate_group

#: Inputs that users keep in a home, which are no results; of the folder of VTAB all but the runs of its searches.
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
        before, after = self.stored.metrics, self.now.metrics
        names = dict.fromkeys([*before, *after])
        pairs = {name: (before.get(name), after.get(name)) for name in names}
        return {name: pair for name, pair in pairs.items() if not _same(*pair)}

    def conditions(self) -> dict[str, tuple[str, str]]:
        """Return what else differs: protocol, weights, data, versions, device and machine, each before and now."""
        old, new = self.stored.cell, self.now.cell
        (weights, _, data), (new_weights, _, new_data) = old.revision.partition("+"), new.revision.partition("+")
        pairs = {
            "version of the protocol": (old.version, new.version),
            "revision of the weights": (weights, new_weights),
            "revision of the data": (data, new_data),
        }
        before, after = self.stored.environment, self.now.environment
        for name in dict.fromkeys([*before, *after]):
            pairs[name] = (before.get(name, "not recorded"), after.get(name, "not installed"))
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


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


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return one == other or (math.isnan(one) and math.isnan(other))
