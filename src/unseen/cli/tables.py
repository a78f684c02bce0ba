"""How commands print: tables for people, JSON for programs. Both go to standard output, nothing else does.

A table fits the screen. Texts that are prose wrap between words; ids and numbers are never broken: if there is no
room, whole columns are left out, and a line names them. Progress goes to standard error: a bar for each extraction, a
line for each model on each dataset.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import fill
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unseen.core.errors import UsageError
from unseen.core.identity import to_json
from unseen.core.names import printable as printable
from unseen.core.run_record import counted

if TYPE_CHECKING:
    from unseen.core.records import Cell, Result
    from unseen.results.table import Table as TableModel
    from unseen.run.study import Plan

# Wide enough that nothing is cut if the output goes to a file or another program and COLUMNS is not set.
_WIDTH_WITHOUT_TERMINAL = 200
#: Columns that may wrap by default.
PROSE = ("notes", "reason", "parameters", "name", "where, or what to do")
#: Blanks between two columns.
_GAP = 2
#: Seconds between two lines of a task where there is no terminal for a bar.
_PAUSE = 30.0
#: Seconds of the past whose speed predicts the time that is left.
_PERIOD = 300.0

#: A number with its noun: "1 cell", "2 cells".
count = counted

#: Model, dataset and benchmark.
_Group = tuple[str, str, str]


class Screen(Console):
    """A console that prints every text literally: no markup, and no characters that control the terminal."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts; on a terminal, soft-wrapped lines break between words."""
        shown = [_clean_text(each) if isinstance(each, str | Text) else each for each in objects]
        words = [word for each in shown for word in str(each).split()]
        # A terminal would break a line within a word. A word without room, such as a path, is left whole to be copied.
        if options.get("soft_wrap") and self.is_terminal and max(map(len, words), default=0) <= self.width:
            options["soft_wrap"] = False
        super().print(*shown, **options)


def console(*, error: bool = False, quiet: bool = False) -> Console:
    """Return a console on standard output (or error), as wide as the terminal or as COLUMNS states."""
    stream = sys.stderr if error else sys.stdout
    measured = stream.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    width = None if measured else _WIDTH_WITHOUT_TERMINAL
    return Screen(file=stream, width=width, highlight=False, emoji=False, quiet=quiet)


def say(text: str | Text, style: str = "", *, error: bool = False) -> None:
    """Print a line on standard output or error, however wide; on a terminal it breaks between words."""
    console(error=error).print(text, style=style, soft_wrap=True)


def confirm(question: str, done: str) -> bool:
    """Ask a question; if the answer is no, print that nothing was done.

    Args:
        done: participle of what would be done, such as "removed".

    Raises:
        UsageError: there is no answer, because no person is at the terminal.
    """
    try:
        agreed = typer.confirm(question)
    except typer.Abort:
        raise UsageError(f"nothing was {done}: the question was not answered. Add --yes to answer it.") from None
    if not agreed:
        say(f"Nothing was {done}.")
    return agreed


def print_json(value: object) -> None:
    """Print a value as strict JSON, in full precision."""
    sys.stdout.write(to_json(value) + "\n")


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    title: str = "",
    caption: str = "",
    numeric: Collection[str] = (),
    prose: Collection[str] = PROSE,
    keep: Collection[str] = (),
) -> None:
    """Print a table.

    Args:
        columns: the headings.
        rows: one text per column. Square brackets are shown literally; pass a rich `Text` for style.
        numeric: the headings of columns that are set flush right.
        prose: the headings of columns whose texts may wrap.
        keep: the headings of columns that are left out last; the first column always stays.
    """
    screen = console()
    texts = [[_clean_text(cell) for cell in row] for row in rows]
    columns = [printable(heading) for heading in columns]
    widths = [_widths(heading, [row[k] for row in texts], heading in prose) for k, heading in enumerate(columns)]
    shown = _chosen(columns, widths, screen.width, keep)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for k, width in zip(shown, _fitted([widths[k] for k in shown], screen.width), strict=True):
        heading = columns[k]
        table.add_column(Text(heading), justify="right" if heading in numeric else "left", overflow="fold", width=width)
    for row in texts:
        table.add_row(*(row[k] for k in shown))
    left_out = [heading for k, heading in enumerate(columns) if k not in shown]
    room = screen.width

    def print_prose(text: str, style: str) -> None:
        lines = fill(text, room, break_long_words=False, break_on_hyphens=False)
        screen.print(Text(lines, style=style), overflow="ignore", crop=False)

    if title:
        screen.print()
        print_prose(title, "bold")
    screen.width = max(room, _total(widths[k][0] for k in shown))  # one id alone may be wider than the screen
    screen.print(table)
    if caption:
        print_prose(caption, "dim")
    if left_out:
        print_prose(f"Columns that do not fit: {', '.join(left_out)}.", "dim")


def print_model(table: TableModel) -> None:
    """Print a table of the table model; values that the decision supports as best are bold.

    A table that is too wide has its rows and columns exchanged if that fits; otherwise it is printed in parts, each
    with as many columns as fit.
    """
    room = console().width
    turned = _texts(table.transposed(""))
    heads, rows = turned if _least(*_texts(table)) > room >= _least(*turned) else _texts(table)
    start, end, title = 1, len(heads), table.caption
    while start < len(heads):
        columns, cells = [heads[0], *heads[start:end]], [[row[0], *row[start:end]] for row in rows]
        if _least(columns, cells) > room and end > start + 1:
            end -= 1
            continue
        notes = " ".join(table.notes) if end == len(heads) else ""
        print_table(columns, cells, title=title, caption=notes, numeric=columns[1:])
        start, end, title = end, len(heads), ""


def _texts(table: TableModel) -> tuple[list[str], list[list[Text]]]:
    """Return headings and cells; what the decision supports as best is bold."""
    rows = [
        [_clean_text(row[0].shown), *(Text(printable(c.full), style="bold" if c.mark else "") for c in row[1:])]
        for row in table.rows
    ]
    return table.heads, rows


def _clean_text(cell: str | Text) -> Text:
    if isinstance(cell, str):
        return Text(printable(cell))
    cell = cell.copy()
    cell.plain = printable(cell.plain)  # letter by letter, so that styles keep their places
    return cell


def _widths(heading: str, cells: Sequence[Text], prose: bool = False) -> tuple[int, int]:
    """Return the least and the natural width of a column: what may wrap is no narrower than its longest word."""
    words = [cell_len(word) for text in (heading, *(cell.plain for cell in cells if prose)) for word in text.split()]
    natural = max([cell.cell_len for cell in cells], default=0)
    return max(1, *words, *([] if prose else [natural])), max(natural, cell_len(heading), 1)


def _total(widths: Iterable[int]) -> int:
    """Return the width of a table of columns."""
    known = list(widths)
    return sum(known) + _GAP * (len(known) - 1)


def _least(heads: Sequence[str], rows: Sequence[Sequence[Text]]) -> int:
    """Return the least width of a table: values are not broken, headings may wrap between words."""
    return _total(_widths(head, [row[k] for row in rows])[0] for k, head in enumerate(heads))


def _chosen(columns: Sequence[str], widths: Sequence[tuple[int, int]], room: int, keep: Collection[str]) -> list[int]:
    """Return the columns that fit: the last ones are dropped first, then the widest of `keep`."""
    shown = list(range(len(columns)))
    while len(shown) > 1 and _total(widths[k][0] for k in shown) > room:
        others = [k for k in shown[1:] if columns[k] not in keep]
        shown.remove(others[-1] if others else max(shown[1:], key=lambda k: widths[k]))
    return shown


def _fitted(widths: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Return natural widths, the widest of those that may wrap made narrower until all fit."""
    fitted = [natural for _, natural in widths]
    while _total(fitted) > room:
        spare = [width if width > least else 0 for width, (least, _) in zip(fitted, widths, strict=True)]
        if not any(spare):
            break
        fitted[spare.index(max(spare))] -= 1
    return fitted


def say_written(target: str) -> None:
    """Print on standard error which file was written; nothing for standard output."""
    if target not in ("", "-"):
        say(f"Written to {target}.", error=True)


class ConsoleProgress:
    """Draw a bar for each task on a console; without a terminal, print a line now and then and at the end."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bar: Any = None
        self._start = self._skipped = 0
        self._printed = 0.0

    def begin(self, title: str, total: int, done: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._printed, self._start, self._skipped = monotonic(), done, 0
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
            speed_estimate_period=_PERIOD,
        )
        self._bar.start()
        self._bar.add_task(printable(title), total=total, completed=done, rate="", skipped="")

    def advance(self, images: int, skipped: int) -> None:
        if self._bar is None:
            return
        task = self._bar.tasks[0]
        self._skipped += skipped
        skips = f"{self._skipped} skipped" if self._skipped else ""
        self._bar.update(task.id, advance=images, rate=self._rate(), skipped=skips)
        if not self.console.is_terminal and monotonic() - self._printed > _PAUSE:
            self._printed, minutes = monotonic(), round((task.time_remaining or 0) / 60)
            left = f", about {count(minutes, 'minute')} left" if minutes else ""
            self.print(f"  {task.description}: {task.completed:,} of {count(task.total, 'image')}{left}")

    def waiting(self, title: str) -> None:
        self.print(f"{title}: another process is working on this; waiting for it")

    def note(self, text: str) -> None:
        self.print(text, style="yellow")

    def end(self) -> None:
        if self._bar is None:
            return
        task, rate = self._bar.tasks[0], self._rate()
        self._bar.stop()
        self._bar = None
        done = count(task.completed - self._start, "image")
        self.print(f"  {task.description}: {done}{f' ({rate})' if rate else ''}")

    def print(self, text: str, style: str = "dim") -> None:
        """Print a line."""
        self.console.print(text, style=style, soft_wrap=True)

    def _rate(self) -> str:
        task = self._bar.tasks[0]
        return f"{(task.completed - self._start) / task.elapsed:.0f} images/s" if task.elapsed else ""


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
        text = (
            f"[{self._finished}/{self._groups}] {group[2]}: {group[0]} on {group[1]}: "
            f"{count(len(results), 'cell')} in {sum(each.seconds for each in results):.1f} s"
        )
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
