"""The one orchestrator: a study file becomes a plan of cells, the cells become results.

    study.toml ─► Study ─► plan ─► cells ─► (extract, evaluate) ─► results database

A cell's identity covers the model's revision and the dataset's fingerprint, so that a second run skips exactly what is
done and still true: another checkpoint under the same path, or one more image in a folder, is another cell.
"""

from __future__ import annotations

import tomllib
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

from unseen.backbones import backbone_revision, check_backbone
from unseen.benchmarks import Workbench, group_cells, make_benchmark
from unseen.core.errors import DiskFullError, StudyError, UnseenError, closest
from unseen.core.records import Cell, Result, digest
from unseen.engines import Engine
from unseen.features import Extraction, NoProgress, Progress
from unseen.results import ResultsDatabase, capture_environment

_TABLES = ("name", "title", "models", "datasets", "benchmarks", "extraction")


@dataclass(frozen=True)
class Study:
    """Models x datasets x benchmarks.

    Attributes:
        name: results are filed under it.
        title: heads the report.
        benchmarks: name to options.
        extraction: how features are made.
    """

    name: str
    models: tuple[str, ...]
    datasets: tuple[str, ...]
    benchmarks: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"probe": {}})
    extraction: Extraction = field(default_factory=Extraction)
    title: str = ""

    @classmethod
    def read(cls, path: Path) -> Study:
        """The study in a TOML file; `folder:` and `file:` paths in it are relative to the file."""
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise StudyError(f"no study file at {path}.") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise StudyError(f"{path} is not a TOML file: {error}.") from error
        return cls.parse(values, source=str(path), base=path.parent)

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, source: str = "study", base: Path | None = None) -> Study:
        """The study in a table such as a TOML file gives."""
        _check_keys(values, _TABLES, source)
        benchmarks = values.get("benchmarks", {"probe": {}})
        if not isinstance(benchmarks, Mapping) or not all(isinstance(v, Mapping) for v in benchmarks.values()):
            raise StudyError(f"{source}: write each benchmark as a table, [benchmarks.probe].")
        for name, options in benchmarks.items():
            make_benchmark(name, options)
        extraction = values.get("extraction", {})
        _check_keys(extraction, [f.name for f in fields(Extraction)], f"{source} [extraction]")
        return cls(
            name=str(values.get("name", Path(source).stem)),
            title=str(values.get("title", "")),
            models=_names(values, "models", source, base),
            datasets=_names(values, "datasets", source, base),
            benchmarks=benchmarks,
            extraction=_extraction(extraction, base),
        )


@dataclass(frozen=True)
class Plan:
    """The cells of a study, and which of them the results database has already."""

    study: Study
    cells: tuple[Cell, ...]
    done: frozenset[str]

    @property
    def remaining(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.id not in self.done]


@dataclass(frozen=True)
class Outcome:
    """What came of a run: the newest result of every cell of the plan, in plan order."""

    plan: Plan
    results: tuple[Result, ...]
    evaluated: int

    @property
    def failed(self) -> list[Result]:
        return [result for result in self.results if not result.ok]


@dataclass(frozen=True)
class _Task:
    """A group of cells with all that a worker in another process needs to evaluate it."""

    home: Path
    extraction: Extraction
    benchmarks: Mapping[str, Mapping[str, Any]]
    cells: tuple[Cell, ...]


def plan_study(study: Study, home: Path) -> Plan:
    """Every cell of the study, in the order models, datasets, benchmarks. Names are checked; no model is loaded."""
    bench = Workbench(home)
    benchmarks = [make_benchmark(name, options) for name, options in study.benchmarks.items()]
    data = {name: _data_revision(bench, name) for name in study.datasets}
    cells = []
    for model in study.models:
        weights = backbone_revision(model)
        for dataset in study.datasets:
            revision = digest([weights, data[dataset], study.extraction.dtype, study.extraction.precision])
            cells += [replace(cell, revision=revision) for b in benchmarks for cell in b.plan(model, dataset)]
    with ResultsDatabase(home / "results.sqlite") as database:
        plan = Plan(study, tuple(cells), frozenset(database.done(cells)))
    for model in dict.fromkeys(cell.model for cell in plan.remaining):
        check_backbone(model)
    return plan


def run_study(
    study: Study,
    home: Path,
    engine: Engine,
    *,
    progress: Progress | None = None,
    on_group: Callable[[Sequence[Result]], None] | None = None,
) -> Outcome:
    """Evaluate what is not done yet and file it; a cell that fails is filed with its reason, and the others go on.

    Args:
        progress: told of extractions in this process.
        on_group: called with the results of each group as it ends.
    """
    plan = plan_study(study, home)
    tasks = [_Task(home, study.extraction, study.benchmarks, tuple(g)) for g in group_cells(plan.remaining)]
    evaluated = 0
    with ResultsDatabase(home / "results.sqlite") as database, _progress_here(progress):
        for results in engine.map(_evaluate, tasks):
            for result in results:
                database.append(study.name, result)
            evaluated += len(results)
            if on_group is not None:
                on_group(results)
        newest = {result.cell.id: result for result in database.latest()}
    return Outcome(plan, tuple(newest[cell.id] for cell in plan.cells if cell.id in newest), evaluated)


def _evaluate(task: _Task) -> list[Result]:
    """Evaluate one group, here or in a worker. Whatever goes wrong becomes the reason of its cells, but a full disk."""
    benchmark = make_benchmark(task.cells[0].benchmark, task.benchmarks[task.cells[0].benchmark])
    environment = capture_environment()
    began = perf_counter()
    try:
        results = benchmark.evaluate(task.cells, _workbench(task.home, task.extraction))
    except DiskFullError:
        raise
    except Exception as error:  # noqa: BLE001 - one cell must not end a night of others
        reason = str(error) if isinstance(error, UnseenError) else f"{type(error).__name__}: {error}"
        details = {} if isinstance(error, UnseenError) else {"traceback": traceback.format_exc()}
        seconds = (perf_counter() - began) / len(task.cells)
        results = [Result(cell, error=reason, seconds=seconds, details=details) for cell in task.cells]
    return [replace(result, environment=environment) for result in results]


@lru_cache(maxsize=2)
def _workbench(home: Path, how: Extraction) -> Workbench:
    """One workbench per process: what it has loaded serves the next group."""
    return Workbench(home, how=how, progress=_PROGRESS[-1])


#: Who is told of extractions in this process; the last one counts.
_PROGRESS: list[Progress] = [NoProgress()]


class _progress_here:
    """While in force, extractions in this process report to `progress`."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress or NoProgress()

    def __enter__(self) -> None:
        _PROGRESS.append(self.progress)
        _workbench.cache_clear()

    def __exit__(self, *_: object) -> None:
        _PROGRESS.pop()
        _workbench.cache_clear()


def _data_revision(bench: Workbench, name: str) -> str:
    dataset = bench.dataset(name)
    labels = {split: digest(part.labels.tolist()) for split, part in dataset.splits.items()}
    return digest([{split: part.fingerprint for split, part in dataset.splits.items()}, labels])


def _check_keys(values: Mapping[str, Any], known: Sequence[str], source: str) -> None:
    if not isinstance(values, Mapping):
        raise StudyError(f"{source}: a table is expected, not {type(values).__name__}.")
    for key in values:
        if key not in known:
            near = closest(key, known)
            advice = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
            raise StudyError(f"{source}: unknown key {key!r}. {advice}")


def _extraction(values: Mapping[str, Any], base: Path | None) -> Extraction:
    """The extraction's settings; a folder for graphs is relative to the study file."""
    graphs = values.get("graphs")
    return Extraction(**{**values, "graphs": None if graphs is None else (base or Path()) / graphs})


def _names(values: Mapping[str, Any], key: str, source: str, base: Path | None) -> tuple[str, ...]:
    found = values.get(key)
    if isinstance(found, str):
        found = [found]
    if not isinstance(found, list) or not found or not all(isinstance(name, str) for name in found):
        raise StudyError(f'{source}: {key} must be a list of names, such as {key} = ["packaged:..."].')
    doubled = sorted({name for name in found if found.count(name) > 1})
    if doubled:
        raise StudyError(f"{source}: {doubled[0]!r} stands twice in {key}. Remove one.")
    return tuple(_resolved(name, base) for name in found)


def _resolved(name: str, base: Path | None) -> str:
    """A `folder:` or `file:` name with its path made absolute, relative to the study file."""
    scheme, colon, rest = name.partition(":")
    if not colon or scheme not in ("folder", "file") or base is None:
        return name
    path, mark, query = rest.partition("?")
    return f"{scheme}:{(base / Path(path).expanduser()).resolve()}{mark}{query}"
