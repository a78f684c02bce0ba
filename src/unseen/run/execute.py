"""Run a study: plan it, extract features, evaluate the cells without a result, record the results, write the report.

    study.toml | command | Python -> Study -> plan -> extract -> evaluate -> record -> report

A second run evaluates exactly the cells that have no result yet. Runs on one home share the work: each acquires the
lease of the work that it is about to do, and waits for work that another run holds.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import CellsFailedError, DiskFullError, UnseenWarning, UsageError
from unseen.core.files import home as home_folder
from unseen.core.identity import canonical_json
from unseen.core.progress import Progress
from unseen.core.records import Result
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.run.evaluate import (
    Context,
    Task,
    TaskResult,
    evaluate_group,
    failures,
    run_piece,
    torch_threads,
)
from unseen.run.extract import extract_features
from unseen.run.record import Inbox, Leases, ResultWriter, report_path, write_study_report
from unseen.run.study import Plan, Study, plan_study

if TYPE_CHECKING:
    from unseen.reports.blocks import Headline
    from unseen.run.executor import Engine

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
    with ResultsDatabase(bench.home / FILE_NAME) as database, Leases(bench.home) as leases:
        writer = ResultWriter(database, study.name, on_result)
        inbox.collect(study.name, writer, lambda owner: not leases.is_alive(owner))  # results of killed runs
        since = database.last()
        plan = plan_study(study, bench=bench, database=database)
        database.add_to_study(study.name, (cell for cell in plan.cells if cell.id in plan.done))
        if on_plan is not None:
            on_plan(plan)
        if plan.groups:
            run = _Run(engine, bench, leases, inbox, writer, since, on_piece, on_error == "raise")
            short, long = run.extract(plan)
            try:
                run.evaluate(short)
                run.train(long)
                run.evaluate(long)
            finally:
                run.collect()
                inbox.close()
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

    engine: Engine | None
    bench: Workbench
    leases: Leases
    inbox: Inbox
    writer: ResultWriter
    since: int
    on_piece: Callable[[int, int], None] | None
    stop: bool
    shared: bool = False
    waited: bool = False

    def extract(self, plan: Plan) -> tuple[list[Task], list[Task]]:
        """Extract the features with all workers; return the groups, and those with pieces of long work apart."""
        study = plan.study
        parallel = self.engine if self.engine is not None and self.engine.slots > 1 else None
        self.shared = parallel is not None and parallel.shares(self.bench.home)
        tasks = [
            Task(self.bench.home, study.name, study.extraction, benchmark, group, self.leases.owner, shared=self.shared)
            for benchmark, group in plan.groups
        ]
        if parallel is not None:
            tasks = extract_features(tasks, parallel, self.bench)
        short, long = list[Task](), list[Task]()
        for task in tasks:
            parts = [replace(task, cells=tuple(part)) for part in task.benchmark.divide(task.cells, self.bench)]
            (long if self._pieces(task) else short).extend(parts)
        return short, long

    def collect(self) -> None:
        """Record the results that workers of this run have left, and those of dead runs."""
        own, leases = self.leases.owner, self.leases
        self.inbox.collect(self.writer.study, self.writer, lambda owner: owner == own or not leases.is_alive(owner))

    # ---- cells -------------------------------------------------------------------------------------------------------

    def evaluate(self, left: list[Task]) -> None:
        """Evaluate groups and record their results; wait for cells that other runs hold."""
        while left:
            held: list[Task] = []
            count = 0
            for done in self._map(evaluate_group, self._leased(left, held), self._lost):
                count += 1
                self.collect()
                for result in done.results:
                    self.writer(result)
                    if self.stop and not result.ok:
                        raise CellsFailedError(failure_text(result))
                for message in done.messages:
                    self.bench.progress.note(message)
                self.leases.release(cell.id for cell in done.task.cells)
            self.collect()
            left = [task for task in map(self._without_stored, held) if task.cells]
            if left and not count:
                self._wait(f"{sum(len(task.cells) for task in left)} cells")

    def _leased(self, tasks: Sequence[Task], held: list[Task]) -> Iterator[Task]:
        """Acquire the cells of each task when its turn comes; append those that other runs hold to `held`."""
        for task in tasks:
            acquired = set(self.leases.acquire(cell.id for cell in task.cells))
            if others := tuple(cell for cell in task.cells if cell.id not in acquired):
                held.append(replace(task, cells=others))
            # Only now: a run stores a result before it releases the lease.
            todo = self._without_stored(replace(task, cells=tuple(c for c in task.cells if c.id in acquired)))
            self.leases.release(acquired - {cell.id for cell in todo.cells})
            if todo.cells:
                yield todo

    def _without_stored(self, task: Task) -> Task:
        """Return the task without cells whose results another run has stored since the plan."""
        stored = self.writer.database.arrived(task.cells, self.since)
        return replace(task, cells=tuple(cell for cell in task.cells if cell.id not in stored))

    def _lost(self, task: Task, reason: str) -> TaskResult:
        """Record what a group whose worker died too often has left; the other cells fail for that reason."""
        self.collect()
        left = [cell for cell in task.cells if cell.id not in self.writer.ids]
        return TaskResult(task, tuple(failures(left, f"{reason}.")))

    # ---- pieces of long work -----------------------------------------------------------------------------------------

    def train(self, tasks: Sequence[Task]) -> None:
        """Run the pieces of long work of groups."""
        tried: set[str] = set()
        while pieces := {name: p for task in tasks for p in self._pieces(task) if (name := _name(p)) not in tried}:
            names = self.leases.acquire(pieces)
            tried.update(names)
            done = 0
            for error in self._map(run_piece, map(pieces.__getitem__, names), lambda _, reason: reason):
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
        except Exception:  # noqa: BLE001 - worker boundary: the other groups are evaluated
            return []
        return [replace(task, piece=piece, threads=torch_threads()) for piece in found]

    # ---- both --------------------------------------------------------------------------------------------------------

    def _map(self, function: Callable[..., R], tasks: Iterable[Task], lost: Callable[[Task, str], R]) -> Iterator[R]:
        """Map a function over tasks, in workers or, if these do not share the home, in this process."""
        if self.engine is not None and self.shared:
            return self.engine.map(function, tasks, lost=lost)
        return map(partial(function, context=Context(self.bench, self.writer)), tasks)

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
