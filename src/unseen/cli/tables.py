"""How commands print: tables for people, JSON for programs. Both go to standard output, nothing else does.

A table fits the screen. Texts that are prose wrap between words; ids and numbers are never broken: where there is no
room, whole columns are left out, and a line says which.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from textwrap import fill
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from unseen.results.table import Table as TableModel

# Wide enough that nothing is cut where the output goes to a file or another program and COLUMNS does not say.
_WIDTH_WITHOUT_TERMINAL = 200
#: Columns that may wrap unless a caller says otherwise.
PROSE = ("notes", "reason", "parameters", "name", "where, or what to do")


#: What is shown although `str.isprintable` says no: the spaces of numbers and units.
_SPACES = "\n\u00a0\u2009\u202f"


def console(*, error: bool = False, quiet: bool = False) -> Console:
    """A console on the present standard output (or error), as wide as the terminal or as COLUMNS says."""
    stream = sys.stderr if error else sys.stdout
    measured = stream.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    width = None if measured else _WIDTH_WITHOUT_TERMINAL
    return _screen()(file=stream, width=width, highlight=False, markup=False, emoji=False, quiet=quiet)


@cache
def _screen() -> type[Console]:
    """A console on which every text is what it says: square brackets are no marks, and no letter is a command."""
    from rich.console import Console
    from rich.text import Text

    class Screen(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            shown = [
                _clean_text(o) if isinstance(o, Text) else printable(o) if isinstance(o, str) else o for o in objects
            ]
            if options.get("soft_wrap") and self.is_terminal and self._fit(shown):
                options["soft_wrap"] = False  # a terminal would break the line within a word
            super().print(*shown, **options)

        def _fit(self, shown: list[Any]) -> bool:
            """Whether every word has room on a line: one that has not, such as a path, is left whole to be copied."""
            words = [word for each in shown for word in str(each).split()]
            return max(map(len, words), default=0) <= self.width

    return Screen


def count(number: int, one: str, many: str = "") -> str:
    """ "1 cell", "2 cells"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def printable(text: str) -> str:
    """A text without characters that would command a terminal instead of being shown."""
    return "".join(c if c.isprintable() or c in _SPACES else "\N{REPLACEMENT CHARACTER}" for c in text)


def say(text: str, *, error: bool = False) -> None:
    """Print a line as it is, however wide."""
    (sys.stderr if error else sys.stdout).write(f"{printable(text)}\n")


def print_json(value: Any) -> None:
    """Print a value as strict JSON, in full precision."""
    from unseen.results.export import to_json

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
        rows: one text per column. Square brackets are shown as they are; pass a rich `Text` for style.
        numeric: the headings of columns that are set flush right.
        prose: the headings of columns whose texts may wrap.
        keep: the headings of columns that are left out last; the first column always stays.
        error: print where messages go, for what is no result.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    screen = console(error=error)
    texts = [[_clean_text(cell) for cell in row] for row in rows]
    columns = [printable(heading) for heading in columns]
    columns_of = [[row[k] for row in texts] for k in range(len(columns))]
    widths = [_widths(heading, columns_of[k], heading in prose) for k, heading in enumerate(columns)]
    shown = _chosen(columns, widths, screen.width, keep)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for k, width in zip(shown, _fitted([widths[k] for k in shown], screen.width), strict=True):
        justify: Any = "right" if columns[k] in numeric else "left"
        table.add_column(Text(columns[k]), justify=justify, overflow="fold", width=width)
    for row in texts:
        table.add_row(*(row[k] for k in shown))
    left_out = [heading for k, heading in enumerate(columns) if k not in shown]
    room = screen.width

    def told(text: str, style: str) -> None:
        lines = fill(text, room, break_long_words=False, break_on_hyphens=False)
        screen.print(Text(printable(lines), style=style), overflow="ignore", crop=False)

    if title:
        screen.print()
        told(title, "bold")
    screen.width = max(room, _total([widths[k][0] for k in shown]))  # one id alone may be wider than the screen
    screen.print(table)
    if caption:
        told(caption, "dim")
    if left_out:
        told(f"Columns that do not fit: {', '.join(left_out)}.", "dim")


def print_model(table: TableModel) -> None:
    """Print a table of the table model; values that the decision supports as best are bold.

    A table that is too wide has its rows and columns exchanged if that fits. Otherwise one with groups of columns
    becomes values without intervals, in one table or one per group; of any other table each row becomes a list.
    """
    from rich.text import Text

    def entry(text: str, mark: str) -> Text:
        return Text(text, style="bold" if mark else "")

    rows: list[list[str | Text]] = [[row[0].shown, *(entry(c.full, c.mark) for c in row[1:])] for row in table.rows]
    groups = table.groups or [""] * len(table.columns)
    heads = [f"{group} {head}".strip() for group, head in zip(groups, table.columns, strict=True)]
    room, notes = console().width, " ".join(table.notes)
    turned: list[list[str | Text]] = [[head, *(row[k] for row in rows)] for k, head in enumerate(heads) if k]
    models = [str(row[0]) for row in rows]
    if _least(heads, rows) <= room:
        print_table(heads, rows, title=table.caption, caption=notes, numeric=heads[1:])
    elif _least(["", *models], turned) <= room:
        print_table(["", *models], turned, title=table.caption, caption=notes, numeric=models)
    elif any(table.groups):
        _print_groups(table)
    else:
        screen = console()
        screen.print(Text(fill(table.caption, room), style="bold"))
        for row in rows:
            screen.print(Text(f"  {row[0]}"), soft_wrap=True)
            for head, cell in zip(heads[1:], row[1:], strict=True):
                value = _clean_text(cell)
                fits = len(head) + len(value) + 6 <= room
                screen.print(Text(f"    {head}: " if fits else f"    {head}:\n      ") + value, soft_wrap=True)
        screen.print(Text(fill(notes, room), style="dim"))


def _print_groups(table: TableModel) -> None:
    """Print values without intervals: all columns if they fit, else the columns of each group on their own."""
    from rich.text import Text

    values: list[list[str | Text]] = [
        [row[0].shown, *(Text(cell.shown, style="bold" if cell.mark else "") for cell in row[1:])] for row in table.rows
    ]
    notes = " ".join([*table.notes, "Intervals: --json, --latex, --markdown, and the report."])
    if _least(table.columns, values) <= console().width:
        print_table(table.columns, values, title=table.caption, caption=notes, numeric=table.columns[1:])
        return
    groups = list(dict.fromkeys(table.groups[1:]))
    for group in groups:
        chosen = [k for k, name in enumerate(table.groups) if name == group and k]
        heads = [table.columns[k] for k in chosen]
        rows = [[row[0], *(row[k] for k in chosen)] for row in values]
        title, last = f"{table.caption} · {group}" if group else table.caption, group == groups[-1]
        print_table([table.columns[0], *heads], rows, title=title, caption=notes if last else "", numeric=heads)


def _least(heads: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> int:
    """Return the least width of a table: values are not broken, headings may wrap between words."""
    columns = [[_clean_text(row[k]) for row in rows] for k in range(len(heads))]
    return _total([_widths(head, cells, False)[0] for head, cells in zip(heads, columns, strict=True)])


def _clean_text(cell: str | Text) -> Text:
    from rich.text import Text

    if isinstance(cell, str):
        return Text(printable(cell))
    if cell.plain != printable(cell.plain):
        cell = cell.copy()
        cell.plain = printable(cell.plain)  # letter by letter, so that styles stay where they are
    return cell


#: Blanks between two columns.
_GAP = 2


def _widths(heading: str, cells: Sequence[Text], prose: bool) -> tuple[int, int]:
    """The least and the natural width of a column: what may wrap is no narrower than its longest word."""
    from rich.cells import cell_len

    def longest(text: str) -> int:
        return max((cell_len(word) for word in text.split()), default=0)

    natural = max([cell.cell_len for cell in cells], default=0)
    least = max([longest(cell.plain) for cell in cells], default=0) if prose else natural
    return max(least, longest(heading), 1), max(natural, cell_len(heading), 1)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _chosen(columns: Sequence[str], widths: Sequence[tuple[int, int]], room: int, keep: Collection[str]) -> list[int]:
    """The columns that there is room for: the last ones go first, those of `keep` after the others."""
    shown = list(range(len(columns)))
    while len(shown) > 1 and _total([widths[k][0] for k in shown]) > room:
        others = [k for k in shown[1:] if columns[k] not in keep]
        shown.remove(others[-1] if others else shown[-1])
    return shown


def _fitted(widths: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Natural widths, the widest of those that may wrap made narrower until all fit."""
    fitted = [natural for _, natural in widths]
    while _total(fitted) > room:
        spare = [fitted[k] if fitted[k] > least else 0 for k, (least, _) in enumerate(widths)]
        if not any(spare):
            break
        fitted[spare.index(max(spare))] -= 1
    return fitted
