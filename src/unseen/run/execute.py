"""Run a study: plan it, extract features, evaluate the cells without a result, record the results, write the report.

    study.toml | command | Python -> Study -> plan -> extract -> evaluate -> record -> report

A second run evaluates exactly the cells that have no result yet. Runs on one home share the work: each acquires the
lease of the work that it is about to do, and waits for work that another run holds.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import CellsFailedError, DiskFullError, UnseenError, UnseenWarning, UsageError
from unseen.core.files import home as home_folder
from unseen.core.identity import canonical_json
from unseen.core.progress import Progress
from unseen.core.records import Cell, Result
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.run.evaluate import (
    Context,
    Task,
    TaskResult,
    error_text,
    evaluate_group,
    failures,
    run_piece,
    torch_threads,
)
from unseen.run.executor import Engine, make_engine
from unseen.run.extract import FeatureExtraction
from unseen.run.leases import LEASES_FILE_NAME, Leases
from unseen.run.plan import Plan, plan_study
from unseen.run.record import Inbox, ResultWriter
from unseen.run.report import report_path, write_study_report
from unseen.run.study import Study

if TYPE_CHECKING:
    from unseen.reports.blocks import Headline

R = TypeVar("R")

#: What `run_study` does if cells fail.
OnError = Literal["warn", "raise", "ignore"]

#: Seconds between two attempts to acquire leases that other runs hold.
PAUSE = 0.5


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run.

    Attributes:
        results: the newest result of every cell of the plan, in plan order.
        evaluated: number of cells that this run evaluated, without failed ones.
        page: the file of the report; None without one.
        answers: the headlines of the report.
    """

    plan: Plan
    results: tuple[Result, ...]
    evaluated: int
    page: Path | None = None
    answers: tuple[Headline, ...] = ()

    @property
    def failed(self) -> list[Result]:
        """The results of failed cells."""
        return [result for result in self.results if not result.ok]


def run_study(
    study: Study,
    home: Path | None = None,
    engine: Engine | None = None,
    *,
    progress: Progress | None = None,
    on_plan: Callable[[Plan], None] | None = None,
    on_result: Callable[[Result], None] | None = None,
    on_piece: Callable[[int, int], None] | None = None,
    on_error: OnError = "warn",
    report: Path | bool = True,
    bench: Workbench | None = None,
) -> Outcome:
    """Evaluate the cells that have no result yet, store each result at once, and write the report.

    A cell that fails is stored with its reason.

    Args:
        home: folder of features and results; the user's by default.
        engine: executes the work; this process by default.
        progress: receives the progress of extractions in this process.
        on_plan: called with the plan before the work begins.
        on_result: called with each result after it is stored.
        on_piece: called with the number of finished pieces of long work, and of those that can run now.
        on_error: what to do if cells fail. "warn" evaluates the other cells and emits one `UnseenWarning` at the end,
            "raise" stops at the first failed cell, and "ignore" only stores the failures (`Outcome.failed`).
        report: path of the report, `HOME/reports/STUDY.html` by default; False writes none.
        bench: a workbench of this home and extraction that has loaded something already.

    Raises:
        CellsFailedError: a cell failed, and `on_error` is "raise"; its result is stored.
    """
    if on_error not in get_args(OnError):
        raise UsageError(f"on_error is {on_error!r}; it can be {', '.join(get_args(OnError))}.")
    bench = bench or Workbench(home_folder(home), how=study.extraction, progress=progress)
    inbox = Inbox(bench.home)
    with ResultsDatabase(bench.home / FILE_NAME) as database, Leases(bench.home / LEASES_FILE_NAME) as leases:
        writer = ResultWriter(database, study.name, on_result)
        inbox.collect(study.name, writer, lambda owner: not leases.is_alive(owner))  # results of killed runs
        since = database.last()
        plan = plan_study(study, bench=bench, database=database)
        if on_plan is not None:
            on_plan(plan)
        if plan.groups:
            with make_engine("local") if engine is None else nullcontext(engine) as workers:
                run = _Run(workers, bench, leases, inbox, writer, since, on_piece, on_error == "raise")
                with inbox.watched(study.name, writer, run.accepts):
                    run.execute(plan)
        newest = {result.cell.id: result for result in database.cells(plan.cells)}
    results = tuple(newest[cell.id] for cell in plan.cells if cell.id in newest)
    outcome = Outcome(plan, results, sum(result.ok and result.cell.id in writer.ids for result in results))
    if report is not False:
        path = report if isinstance(report, Path) else report_path(study, bench)
        outcome = replace(outcome, page=path, answers=tuple(write_study_report(results, study, bench, path)))
    if on_error != "ignore":
        _report_failures(outcome, on_error)
    return outcome


@dataclass
class _Run:
    """The execution of a plan.

    Attributes:
        since: `ResultsDatabase.last` before planning.
        stop: raise `CellsFailedError` after the first failed cell is stored.
    """

    engine: Engine
    bench: Workbench
    leases: Leases
    inbox: Inbox
    writer: ResultWriter
    since: int
    on_piece: Callable[[int, int], None] | None
    stop: bool
    waited: bool = False

    def execute(self, plan: Plan) -> None:
        """Extract the features with all workers, evaluate the groups, then those with pieces of long work."""
        study, parallel = plan.study, self.engine.slots > 1
        shared = parallel and self.engine.shares(self.bench.home)
        tasks = [
            Task(self.bench.home, study.name, study.extraction, benchmark, group, self.leases.owner)
            for benchmark, group in plan.groups
        ]
        if parallel:
            extraction = FeatureExtraction(self.engine, self.bench, self.leases, self._warn, self._wait)
            tasks = extraction.run([replace(task, shared=shared) for task in tasks])
        # Workers that do not share the home have no features: their cells are evaluated in this process.
        here = not shared
        pieces = [bool(self._pieces(task)) for task in tasks]
        self._evaluate([task for task, long in zip(tasks, pieces, strict=True) if not long], here=here)
        long_tasks = [task for task, long in zip(tasks, pieces, strict=True) if long]
        self._run_pieces(long_tasks, here=here)
        self._evaluate(long_tasks, here=here)

    def accepts(self, owner: str) -> bool:
        """Return whether this run records the results that workers of a run have left: its own, and of dead runs."""
        return owner == self.leases.owner or not self.leases.is_alive(owner)

    # ---- cells -------------------------------------------------------------------------------------------------------

    def _evaluate(self, tasks: Sequence[Task], *, here: bool) -> None:
        left = list(tasks)
        while left:
            held: list[Task] = []
            count = 0
            for done in self._map(evaluate_group, self._leased(left, held), self._lost, here=here):
                count += 1
                for result in done.results:
                    self.writer(result)
                    if self.stop and not result.ok:
                        raise CellsFailedError(failure_text(result))
                for message in done.messages:
                    self.bench.progress.note(message)
                self.leases.release(cell.id for cell in done.task.cells)
            left = [task for task in map(self._without_stored, held) if task.cells]
            if left and not count:
                self._wait(f"{sum(len(task.cells) for task in left)} cells")

    def _leased(self, tasks: Sequence[Task], held: list[Task]) -> Iterator[Task]:
        """Acquire the cells of each task when its turn comes; append those that other runs hold to `held`."""
        for task in tasks:
            acquired = set(self.leases.acquire([cell.id for cell in task.cells]))
            if others := tuple(cell for cell in task.cells if cell.id not in acquired):
                held.append(replace(task, cells=others))
            own = replace(task, cells=tuple(cell for cell in task.cells if cell.id in acquired))
            # Only now: a run stores a result before it releases the lease.
            todo = self._without_stored(own)
            if len(todo.cells) < len(own.cells):
                self.leases.release({cell.id for cell in own.cells} - {cell.id for cell in todo.cells})
            if todo.cells:
                yield todo

    def _without_stored(self, task: Task) -> Task:
        """Return the task without cells whose results another run has stored since the plan."""
        stored = self.writer.database.arrived(task.cells, self.since)
        return replace(task, cells=tuple(cell for cell in task.cells if cell.id not in stored)) if stored else task

    def _lost(self, task: Task, reason: str) -> TaskResult:
        """Record what a group whose worker died too often has left; the other cells fail for that reason."""
        self.inbox.collect(self.writer.study, self.writer, self.accepts)
        left: list[Cell] = [cell for cell in task.cells if cell.id not in self.writer.ids]
        return TaskResult(task, tuple(failures(left, f"{reason}.")))

    # ---- pieces of long work -----------------------------------------------------------------------------------------

    def _run_pieces(self, tasks: Sequence[Task], *, here: bool) -> None:
        tried: set[str] = set()
        while pieces := {_name(p): p for task in tasks for p in self._pieces(task) if _name(p) not in tried}:
            names = self.leases.acquire(list(pieces))
            tried.update(names)
            done = 0
            for error in self._map(
                run_piece, [pieces[name] for name in names], lambda _task, reason: reason, here=here
            ):
                done += not error
                if self.on_piece is not None and not error:
                    self.on_piece(done, len(names))
            self.leases.release(names)
            if not names:
                self._wait(f"{len(pieces)} trainings")

    def _pieces(self, task: Task) -> list[Task]:
        """Return the pieces of a group that any worker can do now; none on failure, which its evaluation reports."""
        try:
            found = task.benchmark.pieces(task.cells, self.bench)
        except DiskFullError:
            raise
        except UnseenError:
            return []
        except Exception as error:  # noqa: BLE001 - worker boundary: the other groups are evaluated
            self._warn(f"the pieces of {task.benchmark.name}", error_text(error))
            return []
        return [replace(task, piece=piece, threads=torch_threads()) for piece in found]

    # ---- both --------------------------------------------------------------------------------------------------------

    def _map(
        self,
        function: Callable[..., R],
        tasks: Iterable[Task],
        lost: Callable[[Task, str], R],
        *,
        here: bool,
    ) -> Iterator[R]:
        """Map a function over tasks, in this process with the workbench of the run or in workers."""
        if here:
            return map(partial(function, context=Context(self.bench, self.writer)), tasks)
        return self.engine.map(function, tasks, lost=lost)

    def _warn(self, what: str, reason: str) -> None:
        """Warn of an exception that only makes the run slower."""
        text = f"{what} could not be planned, so that they are not shared: {reason}"
        warnings.warn(text, UnseenWarning, stacklevel=2)

    def _wait(self, what: str) -> None:
        if not self.waited:
            self.bench.progress.waiting(what)
            self.waited = True
        time.sleep(PAUSE)


def failure_text(result: Result) -> str:
    """Return which cell failed and why, in one line."""
    cell = result.cell
    return f"{cell.benchmark} of {cell.model} on {cell.dataset} failed: {' '.join(result.error.split())}"


def _report_failures(outcome: Outcome, on_error: OnError) -> None:
    """Warn of failed cells, or raise the first failure."""
    failed = outcome.failed
    if not failed:
        return
    if on_error == "raise":
        raise CellsFailedError(failure_text(failed[0]))
    unexpected = sum("traceback" in result.details for result in failed)
    text = f"{len(failed)} of {len(outcome.results)} cells failed. The first: {failure_text(failed[0])}"
    text += f" {unexpected} of them with an unexpected exception: see details['traceback']." if unexpected else ""
    warnings.warn(text, UnseenWarning, stacklevel=3)


def _name(task: Task) -> str:
    return canonical_json([task.cells[0].id, task.benchmark.name, dict(task.piece)])
