"""`unseen run`: a study from its file to its page, as every command that runs a study does it."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unseen.cli.options import Fields, Running
from unseen.cli.parser import made_late, parameter, with_parameters

if TYPE_CHECKING:
    from rich.console import Console

    from unseen.benchmarks.benchmark import Expectation
    from unseen.benchmarks.workbench import Workbench
    from unseen.core.records import Cell, Result
    from unseen.results.environment import Stage
    from unseen.study import Outcome, Plan, Study

_STUDY = typer.Argument(metavar="STUDY", help="A study file (TOML), or the name of a shipped one (unseen ls studies).")


def file_command() -> Callable[[], None]:
    """The function of the command that runs a study from a file; extraction settings may be overruled."""

    def make() -> Callable[..., None]:
        from unseen.features import Extraction
        from unseen.study import Study

        how = Fields(Extraction, "extraction", "Instead of what the study says of the extraction", defaults=None)

        def body(values: dict[str, Any]) -> None:
            run_and_report(overruled(Study.read(values["study"]), how.given(values)), Running.among(values))

        return with_parameters(
            [parameter("study", Annotated[str, _STUDY], ...), *Running.parameters(), *how.parameters()], body
        )

    return made_late(make)


def overruled(study: Study, given: dict[str, Any]) -> Study:
    """The study with some extraction settings from the command line."""
    from dataclasses import replace

    from unseen.core.options import make_options

    if not given:
        return study
    made = make_options(type(study.extraction), given, source="unseen run", base=Path.cwd(), texts=True)
    chosen = {name: getattr(made, name) for name in given}
    if made.graphs is not None:
        chosen["graphs"] = Path.cwd() / made.graphs
    return replace(study, extraction=replace(study.extraction, **chosen))


def run_and_report(study: Study, how: Running, *, show: Callable[[Sequence[Result]], None] | None = None) -> None:
    """Run a study, saying how it goes, and print its tables (by `show` where a command has its own) or its JSON.

    Raises:
        CellsFailedError: some cells failed; the others are there, and so is the page.
    """
    from unseen.benchmarks.workbench import Workbench
    from unseen.cli.progress import RichProgress
    from unseen.cli.results import show_results
    from unseen.cli.tables import console, count, print_json
    from unseen.core.errors import CellsFailedError
    from unseen.core.files import home as home_folder
    from unseen.engines import ENGINES, make_engine
    from unseen.study import expect_stages, plan_study, run_study

    home, screen = home_folder(how.home), console(error=True, quiet=how.quiet)
    ENGINES.get(how.engine)
    options = engine_options(how)
    if how.dry_run:
        bench = Workbench(home, how=study.extraction)
        plan = plan_study(study, bench=bench)
        stages = expect_stages(plan, bench, how.workers)
        show_plan(plan, expectations(plan, bench), stages, as_json=how.as_json)
        return
    bench = Workbench(home, how=study.extraction, progress=RichProgress(screen))
    told = Told(screen, bench, how.workers)
    with make_engine(how.engine, **options) as engine, told.kept():
        if link := getattr(engine, "dashboard", ""):
            screen.print(f"Dashboard: {link}", style="dim", markup=False, soft_wrap=True)
        outcome = run_study(
            study,
            engine=engine,
            bench=bench,
            on_plan=told.plan,
            on_result=told.result,
            on_piece=told.piece,
            report=how.report or True,
        )
    if how.as_json:
        print_json(_outcome_json(outcome))
    else:
        (show or show_results)(outcome.results)
        console().print(f"Report: {outcome.page}", soft_wrap=True, markup=False)
    there = len(outcome.plan.cells) - outcome.evaluated
    kept = f", {there} {'was' if there == 1 else 'were'} there already" if there else ""
    screen.print(f"{count(outcome.evaluated, 'cell')} evaluated{kept}.", style="dim")
    for line in against(told.stages, outcome.spent):
        screen.print(line, style="dim", markup=False, soft_wrap=True)
    if outcome.failed:
        first = outcome.failed[0]
        raise CellsFailedError(
            f"{len(outcome.failed)} of {count(len(outcome.results), 'cell')} failed. The first, {first.cell.benchmark} "
            f"of {first.cell.model} on {first.cell.dataset}: {first.error}"
        )


def engine_options(how: Running) -> dict[str, Any]:
    """The options of the engine, from what the command line says."""
    from unseen.core.errors import UsageError

    if how.scheduler is None:
        return {"workers": how.workers}
    if how.engine != "dask":
        raise UsageError("--scheduler goes with --engine dask.")
    return {"workers": how.workers, "scheduler": scheduler_address(how.scheduler)}


def scheduler_address(text: str) -> str:
    """The address of a Dask scheduler: as it is, or out of the JSON file that the scheduler has written."""
    from unseen.core.errors import UsageError

    path = Path(text).expanduser()
    if "://" in text or not (path.is_file() or path.suffix == ".json"):
        return text
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"--scheduler {text}: not a scheduler's file with an address in it ({error!r}).") from None


class Told:
    """One line for each model on each dataset, when the last of its cells has come."""

    def __init__(self, screen: Console, bench: Workbench, workers: int = 1) -> None:
        self.screen, self.bench, self.workers = screen, bench, workers
        self.stages: list[Stage] = []
        self.left: Counter[tuple[str, str, str]] = Counter()
        self.come: dict[tuple[str, str, str], list[Result]] = {}
        self.groups = self.done = 0
        self.cells = self.filed = 0

    def plan(self, plan: Plan) -> None:
        self.left = Counter(_group(cell) for cell in plan.remaining)
        self.groups = len(self.left)
        self.cells, self.filed = len(plan.cells), len(plan.done)
        from unseen.study import expect_stages

        self.stages = expect_stages(plan, self.bench, self.workers) if plan.remaining else []
        for line in expectations(plan, self.bench).values():
            self.screen.print(line, style="dim", markup=False, soft_wrap=True)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Whatever ends the run before its time: say what is kept, before the reason is told."""
        try:
            yield
        except BaseException:
            if self.cells:
                self.screen.print(
                    f"{self.filed} of {self.cells} cells are kept in {self.bench.home}, and every part of the features "
                    "that was whole; the same command goes on from there.",
                    markup=False,
                    soft_wrap=True,
                )
            raise

    def piece(self, done: int, total: int) -> None:
        if done == total or done * 10 // total > (done - 1) * 10 // total:
            self.screen.print(f"{done} of {total} trainings done", style="dim", markup=False)

    def result(self, result: Result) -> None:
        group = _group(result.cell)
        if not self.left[group]:  # left by a run that was killed, and filed before this one was planned
            return
        self.filed += 1
        self.come.setdefault(group, []).append(result)
        self.left[group] -= 1
        if not self.left[group]:
            self.done += 1
            self._say(group, self.come.pop(group))

    def _say(self, group: tuple[str, str, str], results: list[Result]) -> None:
        from unseen.cli.tables import count

        model, dataset, benchmark = group
        failed = [result for result in results if not result.ok]
        skipped = max((skipped_images(result) for result in results), default=0)
        text = f"[{self.done}/{self.groups}] {benchmark}: {model} on {dataset}: {count(len(results), 'cell')}"
        text += f" in {sum(result.seconds for result in results):.1f} s"
        text += f", {count(skipped, 'unreadable image')} skipped" if skipped else ""
        text += f", {len(failed)} failed: {failed[0].error}" if failed else ""
        self.screen.print(text, style="red" if failed else "dim", markup=False, soft_wrap=True)


def skipped_images(result: Result) -> int:
    """How many images of a result could not be read: names by split, or a number."""
    skipped = result.details.get("skipped", {})
    if isinstance(skipped, dict):
        return sum(len(each) if isinstance(each, dict | list) else int(each) for each in skipped.values())
    return len(skipped) if isinstance(skipped, list | tuple) else int(skipped)


def _group(cell: Cell) -> tuple[str, str, str]:
    return cell.model, cell.dataset, cell.benchmark


def expectations(plan: Plan, bench: Workbench) -> dict[str, str]:
    """By model, what the long work of a plan will take, in words."""
    from unseen.study import expect_plan

    return {model: _expected(model, found) for model, found in expect_plan(plan, bench).items()}


def _expected(model: str, whole: Expectation) -> str:
    length = f"{whole.seconds / 3600:,.1f} hours" if whole.seconds >= 3600 else f"{whole.seconds / 60:.0f} minutes"
    return (
        f"{model}: up to {length} on one worker ({whole.images:,} images to train on, {whole.per_second:,.3g} per "
        f"second as measured now), {whole.memory / 1e9:.1f} GB of memory, {whole.disk / 1e9:.2f} GB of disk on the way"
    )


def in_seconds(seconds: float) -> str:
    """A length of time as people say it."""
    for size, name in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:.1f} s"


def stage_line(stage: Stage) -> str:
    """What a stage will take, in words."""
    from unseen.core.files import format_size

    source = "as measured in this home" if stage.known else "a guess: not all of it was ever measured in this home"
    return (
        f"{stage.name}: {stage.work} in about {in_seconds(stage.seconds)}, {format_size(stage.disk)} of disk, "
        f"{format_size(stage.memory)} of memory ({source})"
    )


def against(expected: Sequence[Stage], spent: Sequence[Stage]) -> list[str]:
    """What was predicted of each stage beside what it took."""
    lines = []
    for one, other in zip(expected, spent, strict=False):
        if other.seconds >= _WORTH_SAYING or one.seconds >= _WORTH_SAYING:
            guess = "" if one.known else " by a guess"
            lines.append(f"{other.name}: {in_seconds(other.seconds)}, {in_seconds(one.seconds)} predicted{guess}")
    return lines


#: Seconds of a stage below which nobody asks how well it was predicted.
_WORTH_SAYING = 1.0


def plan_json(plan: Plan) -> dict[str, Any]:
    """A plan for programs: every cell with its id, parameters, and whether it is done."""
    cells = [{"id": cell.id, **cell.to_dict(), "done": cell.id in plan.done} for cell in plan.cells]
    return {"study": plan.study.name, "cells": cells}


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    results = [
        {"id": r.cell.id, **r.cell.to_dict(), "metrics": r.metrics, "error": r.error, "seconds": r.seconds}
        for r in outcome.results
    ]
    study, page = outcome.plan.study.name, str(outcome.page) if outcome.page else None
    return {"study": study, "evaluated": outcome.evaluated, "report": page, "results": results}


def show_plan(
    plan: Plan, expected: Mapping[str, str] | None = None, stages: Sequence[Stage] = (), *, as_json: bool = False
) -> None:
    """Print what would be done: a line for each model on each dataset, what it takes, or every cell as JSON."""
    from unseen.benchmarks import group_cells
    from unseen.cli.tables import console, count, print_json, print_table

    if as_json:
        predicted = [dataclasses.asdict(stage) for stage in stages]
        print_json({**plan_json(plan), "expected": dict(expected or {}), "stages": predicted})
        return
    rows = []
    for group in group_cells(plan.cells):
        done = sum(cell.id in plan.done for cell in group)
        cells = [group[0].benchmark, group[0].model, group[0].dataset, str(len(group) - done)]
        rows.append([*cells, str(done)] if plan.done else cells)
    print_table(
        ["benchmark", "model", "dataset", "to do", *(["done"] if plan.done else [])],
        rows,
        title=f"{plan.study.name}: {count(len(plan.remaining), 'cell')} to do, {len(plan.done)} done",
        numeric=("to do", "done"),
        keep=("model", "dataset", "to do", "done"),
    )
    for line in (*map(stage_line, stages if plan.remaining else ()), *(expected or {}).values()):
        console().print(line, markup=False, soft_wrap=True)
