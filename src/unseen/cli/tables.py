"""How commands print: tables for people, JSON for programs. Both go to standard output, nothing else does."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# Wide enough that nothing is cut where the output goes to a file or another program.
_WIDTH_WITHOUT_TERMINAL = 200


def console(*, error: bool = False) -> Console:
    """A console on the present standard output (or error); it keeps its width when it is not a terminal."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else _WIDTH_WITHOUT_TERMINAL, highlight=False)


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
    numeric: Sequence[str] = (),
) -> None:
    """Print a table.

    Args:
        columns: the headings.
        rows: one text per column. Square brackets are shown as they are; pass a rich `Text` for style.
        numeric: the headings of columns that are set flush right.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title, style="bold") if title else None,
        caption=Text(caption, style="dim") if caption else None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for column in columns:
        table.add_column(Text(column), justify="right" if column in numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    console().print(table)
