"""Progress on the console: a bar for each extraction, a line for each model on each dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from unseen.cli.tables import count, printable

if TYPE_CHECKING:
    from rich.console import Console

    from unseen.core.records import Cell, Result
    from unseen.run.plan import Plan

#: Seconds between two lines of a task where there is no terminal for a bar.
_PAUSE = 30.0

#: Model, dataset and benchmark.
_Group = tuple[str, str, str]


class ConsoleProgress:
    """Draw a bar for each task on a console; without a terminal, print a line now and then and at the end.

    Args:
        unit: name of one counted item.
    """

    def __init__(self, console: Console, unit: str = "image") -> None:
        self.console, self.unit = console, unit
        self._bar: Any = None
        self._title = ""
        self._count = self._skipped = self._total = self._done = 0
        self._printed = 0.0

    def begin(self, title: str, total: int, done: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._title, self._count, self._skipped = printable(title), 0, 0
        self._printed, self._total, self._done = monotonic(), total, done
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[skipped]}", style="yellow"),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self._bar.start()
        self._bar.add_task(self._title, total=total, completed=done, rate="", skipped="")

    def advance(self, images: int, skipped: int) -> None:
        self._count += images
        self._skipped += skipped
        self._done += images
        if self._bar is None:
            return
        task = self._bar.tasks[0]
        if not self.console.is_terminal and monotonic() - self._printed > _PAUSE:
            self._printed = monotonic()
            left = (self._total - self._done) * (task.elapsed or 0.0) / max(self._count, 1) / 60
            text = f"  {self._title}: {self._done:,} of {count(self._total, self.unit)}"
            self.print(f"{text}, about {count(round(left), 'minute')} left" if left >= 1 else text)
        skips = f"{self._skipped} skipped" if self._skipped else ""
        self._bar.update(task.id, advance=images, rate=self._rate(), skipped=skips)

    def waiting(self, title: str) -> None:
        self.print(f"{title}: another process is working on this; waiting for it")

    def note(self, text: str) -> None:
        self.print(text, style="yellow")

    def end(self) -> None:
        if self._bar is None:
            return
        rate = self._rate()
        self._bar.stop()
        self._bar = None
        self.print(f"  {self._title}: {count(self._count, self.unit)}{f' ({rate})' if rate else ''}")

    def print(self, text: str, style: str = "dim") -> None:
        """Print a line."""
        self.console.print(text, style=style, soft_wrap=True)

    def _rate(self) -> str:
        elapsed = self._bar.tasks[0].elapsed or 0.0
        return f"{self._count / elapsed:.0f} {self.unit}s/s" if elapsed > 0 else ""


class ConsoleReporter(ConsoleProgress):
    """Also report the results of a run: a line for each model on each dataset when its last cell is stored."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._left: Counter[_Group] = Counter()
        self._results: dict[_Group, list[Result]] = {}
        self._groups = self._finished = self._cells = self._stored = 0

    def plan(self, plan: Plan) -> None:
        """Receive the plan of the run."""
        self._left = Counter(_group(cell) for cell in plan.remaining)
        self._groups = len(self._left)
        self._cells, self._stored = len(plan.cells), len(plan.done)

    def piece(self, done: int, total: int) -> None:
        """Print every tenth of the trainings."""
        if done == total or done * 10 // total > (done - 1) * 10 // total:
            self.print(f"{done} of {total} trainings done")

    def result(self, result: Result) -> None:
        """Receive a stored result."""
        group = _group(result.cell)
        if not self._left[group]:  # of a killed run, stored before this one was planned
            return
        self._stored += 1
        self._results.setdefault(group, []).append(result)
        self._left[group] -= 1
        if self._left[group]:
            return
        self._finished += 1
        results = self._results.pop(group)
        failed = [each for each in results if not each.ok]
        text = f"[{self._finished}/{self._groups}] {group[2]}: {group[0]} on {group[1]}: {count(len(results), 'cell')}"
        text += f" in {sum(each.seconds for each in results):.1f} s"
        text += f", {len(failed)} failed: {failed[0].error}" if failed else ""
        self.print(text, style="red" if failed else "dim")

    @contextmanager
    def resumable(self, home: object) -> Iterator[None]:
        """Print how much is stored if the run ends early."""
        try:
            yield
        except BaseException:
            if self._cells:
                self.print(
                    f"{self._stored} of {count(self._cells, 'cell')} are stored in {home}, and every complete part of "
                    "the features; run the same command to resume.",
                    style="",
                )
            raise


def _group(cell: Cell) -> _Group:
    return cell.model, cell.dataset, cell.benchmark
