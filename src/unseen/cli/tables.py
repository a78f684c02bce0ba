"""How commands print: tables for people, JSON for programs. Both go to standard output, nothing else does.

A table fits the screen. Texts that are prose wrap between words; ids and numbers are never broken: if there is no
room, whole columns are left out, and a line names them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unseen.core.errors import UsageError
from unseen.results.export import printable as printable
from unseen.results.export import to_json

if TYPE_CHECKING:
    from unseen.results.table import Table as TableModel
    from unseen.results.table import TableCell

# Wide enough that nothing is cut if the output goes to a file or another program and COLUMNS is not set.
_WIDTH_WITHOUT_TERMINAL = 200
#: Columns that may wrap by default.
PROSE = ("notes", "reason", "parameters", "name", "where, or what to do")
#: Blanks between two columns.
_GAP = 2


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


def count(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: "1 cell", "2 cells"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


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
    error: bool = False,
) -> None:
    """Print a table.

    Args:
        columns: the headings.
        rows: one text per column. Square brackets are shown literally; pass a rich `Text` for style.
        numeric: the headings of columns that are set flush right.
        prose: the headings of columns whose texts may wrap.
        keep: the headings of columns that are left out last; the first column always stays.
        error: print to standard error, for what is not a result.
    """
    screen = console(error=error)
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
    screen.width = max(room, _total([widths[k][0] for k in shown]))  # one id alone may be wider than the screen
    screen.print(table)
    if caption:
        print_prose(caption, "dim")
    if left_out:
        print_prose(f"Columns that do not fit: {', '.join(left_out)}.", "dim")


def print_model(table: TableModel) -> None:
    """Print a table of the table model; values that the decision supports as best are bold.

    A table that is too wide has its rows and columns exchanged if that fits. Otherwise one with groups of columns
    becomes values without intervals, in one table or one per group; of any other table each row becomes a list.
    """
    groups = table.groups or [""] * len(table.columns)
    heads = [f"{group} {head}".strip() for group, head in zip(groups, table.columns, strict=True)]
    rows = _texts(table, lambda cell: cell.full)
    models = ["", *(row[0].plain for row in rows)]
    turned = [[Text(head), *cells] for head, *cells in zip(heads, *rows, strict=True)][1:]
    room, notes = console().width, " ".join(table.notes)
    for columns, cells in ((heads, rows), (models, turned)):
        if _least(columns, cells) <= room:
            print_table(columns, cells, title=table.caption, caption=notes, numeric=columns[1:])
            return
    if any(table.groups):
        _print_groups(table)
        return
    screen = console()
    screen.print(Text(fill(table.caption, room), style="bold"))
    for row in rows:
        screen.print(Text("  ") + row[0], soft_wrap=True)
        for head, cell in zip(heads[1:], row[1:], strict=True):
            fits = len(head) + len(cell) + 6 <= room
            screen.print(Text(f"    {head}: " if fits else f"    {head}:\n      ") + cell, soft_wrap=True)
    screen.print(Text(fill(notes, room), style="dim"))


def _print_groups(table: TableModel) -> None:
    """Print values without intervals: all columns if they fit, else the columns of each group on their own."""
    values = _texts(table, lambda cell: cell.shown)
    notes = " ".join([*table.notes, "Intervals: --json, --latex, --markdown, and the report."])
    fits = _least(table.columns, values) <= console().width
    parts = {"": list(range(1, len(table.columns)))} if fits else {}
    for group in () if fits else dict.fromkeys(table.groups[1:]):
        parts[group] = [k for k, name in enumerate(table.groups) if name == group and k]
    for group, chosen in parts.items():
        heads = [table.columns[k] for k in chosen]
        rows = [[row[0], *(row[k] for k in chosen)] for row in values]
        title = f"{table.caption} · {group}" if group else table.caption
        last = group == list(parts)[-1]
        print_table([table.columns[0], *heads], rows, title=title, caption=notes if last else "", numeric=heads)


def _texts(table: TableModel, show: Callable[[TableCell], str]) -> list[list[Text]]:
    """Return the cells of a table as texts, marked values bold."""
    return [
        [_clean_text(row[0].shown), *(Text(printable(show(c)), style="bold" if c.mark else "") for c in row[1:])]
        for row in table.rows
    ]


def _clean_text(cell: str | Text) -> Text:
    if isinstance(cell, str):
        return Text(printable(cell))
    cell = cell.copy()
    cell.plain = printable(cell.plain)  # letter by letter, so that styles keep their places
    return cell


def _least(heads: Sequence[str], rows: Sequence[Sequence[Text]]) -> int:
    """Return the least width of a table: values are not broken, headings may wrap between words."""
    return _total([_widths(head, [row[k] for row in rows], False)[0] for k, head in enumerate(heads)])


def _widths(heading: str, cells: Sequence[Text], prose: bool) -> tuple[int, int]:
    """Return the least and the natural width of a column: what may wrap is no narrower than its longest word."""

    def longest(text: str) -> int:
        return max((cell_len(word) for word in text.split()), default=0)

    natural = max([cell.cell_len for cell in cells], default=0)
    least = max([longest(cell.plain) for cell in cells], default=0) if prose else natural
    return max(least, longest(heading), 1), max(natural, cell_len(heading), 1)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _chosen(columns: Sequence[str], widths: Sequence[tuple[int, int]], room: int, keep: Collection[str]) -> list[int]:
    """Return the columns that fit: the last ones are dropped first, those of `keep` after the others."""
    shown = list(range(len(columns)))
    while len(shown) > 1 and _total([widths[k][0] for k in shown]) > room:
        others = [k for k in shown[1:] if columns[k] not in keep]
        shown.remove(others[-1] if others else shown[-1])
    return shown


def _fitted(widths: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Return natural widths, the widest of those that may wrap made narrower until all fit."""
    fitted = [natural for _, natural in widths]
    while _total(fitted) > room:
        spare = [fitted[k] if fitted[k] > least else 0 for k, (least, _) in enumerate(widths)]
        if not any(spare):
            break
        fitted[spare.index(max(spare))] -= 1
    return fitted


def say_written(target: str) -> None:
    """Print on standard error which file was written; nothing for standard output."""
    if target not in ("", "-"):
        say(f"Written to {target}.", error=True)
