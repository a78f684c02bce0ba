"""`unseen demo`: the study `demo`, with one bar for all of it and one sentence per question at its end."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from unseen.cli.options import Fields, Running
from unseen.cli.parser import made_late, with_parameters

if TYPE_CHECKING:
    from rich.console import Console

    from unseen.core.records import Cell, Result
    from unseen.run.plan import Plan
    from unseen.run.study import Study

#: CPU seconds of a first run, summed over its steps (two cores, 2026); what is said at the start is made from it.
CPU_SECONDS = 470
#: Steps of one thread: more cores than this do not help.
_MOST_CORES = 4


def _make() -> Callable[..., None]:
    """The function of the command; extraction settings may be overruled, as in `unseen run demo`."""
    from unseen.cli.run import overruled, run_and_report
    from unseen.features import Extraction
    from unseen.run.study import Study

    how = Fields(Extraction, "extraction", "Instead of what the study says of the extraction", defaults=None)

    def body(values: dict[str, Any]) -> None:
        study, running = overruled(Study.read("demo"), how.given(values)), Running.among(values)
        if running.dry_run or running.as_json:
            run_and_report(study, running)
        else:
            _run(study, running)

    return with_parameters([*Running.parameters(), *how.parameters()], body)


demo = made_late(_make)


def _run(study: Study, how: Running) -> None:
    from unseen.benchmarks.workbench import Workbench
    from unseen.cli.run import engine_options, print_record_line
    from unseen.cli.tables import console, printable
    from unseen.core.errors import CellsFailedError
    from unseen.core.files import home as home_folder
    from unseen.run.execute import run_study
    from unseen.run.executor import make_engine

    screen = console(error=True, quiet=how.quiet)
    with Steps(screen, study) as steps:
        bench = Workbench(home_folder(how.home), how=study.extraction, progress=steps)
        with make_engine(how.engine, **engine_options(how)) as engine:
            outcome = run_study(
                study,
                engine=engine,
                bench=bench,
                on_plan=steps.plan,
                on_result=steps.result,
                on_error="ignore",
                report=how.output or True,
            )
    out = console()
    for answer in outcome.answers:
        sure = f" ({answer.sure})" if answer.sure else ""
        out.print(f"\n{answer.question}", style="bold", markup=False)
        out.print(
            printable(f"  {answer.text}{sure}".replace("\u202f", " ")), markup=False, soft_wrap=not out.is_terminal
        )
    out.print(f"\nThe page: {outcome.page}", soft_wrap=True, markup=False)
    print_record_line(outcome.results, screen, how.home)
    if outcome.failed:
        first = outcome.failed[0]
        raise CellsFailedError(
            f"{len(outcome.failed)} of {len(outcome.results)} cells failed. The first, {first.cell.benchmark} of "
            f"{first.cell.model} on {first.cell.dataset}: {first.error}"
        )


class Steps:
    """One bar over the steps of a study; where there is no terminal, a line per step.

    A step is one model in one benchmark on one dataset. What it extracts moves the bar within it.
    """

    def __init__(self, screen: Console, study: Study) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        from unseen.cli.tables import count

        self.screen = screen
        pairs = [(d, b) for d in study.datasets for b in study.protocols if not b.only or d in b.only]
        self.total = len(study.models) * len(pairs)
        self.done = 0
        self.left: Counter[tuple[str, str, str]] = Counter()
        self.images = (0, 0)
        self.bar = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=screen,
            transient=True,
            disable=not screen.is_terminal,
        )
        self.task = self.bar.add_task("looking at models and data", total=self.total)
        cores = min(os.cpu_count() or 1, _MOST_CORES)
        minutes = max(1, round(CPU_SECONDS / cores / 60))
        screen.print(
            f"{count(len(study.protocols), 'question')}, {count(len(study.models), 'model')}, "
            f"{count(self.total, 'step')}: about {count(minutes, 'minute')} on {count(cores, 'core')}; what is done "
            "already is not done again.",
            markup=False,
            soft_wrap=True,
        )

    def __enter__(self) -> Steps:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def plan(self, plan: Plan) -> None:
        from unseen.cli.tables import count

        self.left = Counter(_step(cell) for cell in plan.remaining)
        self.done = self.total - len(self.left)
        if self.done:
            self.screen.print(f"{self.done} of {count(self.total, 'step')} done already.", markup=False, soft_wrap=True)
        self._show("the page" if not self.left else "")

    def result(self, result: Result) -> None:
        step = _step(result.cell)
        self.left[step] -= 1
        if self.left[step]:
            self._show(f"{step[2]}: {step[0]} on {step[1]}")
            return
        self.done += 1
        told = f"{step[2]}: {step[0]} on {step[1]}"
        if not self.screen.is_terminal:
            self.screen.print(f"[{self.done}/{self.total}] {told}", markup=False, soft_wrap=True)
        self._show("the page" if self.done == self.total else told)

    def begin(self, title: str, total: int, done: int) -> None:
        self.images = (done, total)
        self._show(f"features: {title}")

    def advance(self, images: int, skipped: int) -> None:
        self.images = (self.images[0] + images, self.images[1])
        self._show(None)

    def waiting(self, title: str) -> None:
        self._show(f"{title}: another process is at it")

    def note(self, text: str) -> None:
        self._show(text)

    def end(self) -> None:
        self.images = (0, 0)

    def _show(self, text: str | None) -> None:
        """Whole steps, and of the present one the share of its images that are through, but never all of it."""
        share = 0.9 * self.images[0] / self.images[1] if self.images[1] else 0.0
        self.bar.update(self.task, completed=min(self.done + share, self.total), description=text)


def _step(cell: Cell) -> tuple[str, str, str]:
    return cell.model, cell.dataset, cell.benchmark
