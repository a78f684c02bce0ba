"""Results out of the database and together again: long form as CSV and JSON, and several databases merged.

Long form has one row per (cell, metric), in full precision:

| form    | floats                              | parameters      | run record   | sweep, details, environment |
|---------|-------------------------------------|-----------------|--------------|-----------------------------|
| CSV     | shortest text that reads back equal | one column each | its findings | omitted                     |
| JSON    | the same; NaN, Infinity as strings  | nested          | nested       | nested                      |

In CSV a text that begins like a formula of a spreadsheet (=, +, -, @) has an apostrophe before it; numbers have not.
CSV and JSON are streamed.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unseen.core.files import write_whole
from unseen.core.identity import to_json as to_json
from unseen.core.names import printable
from unseen.core.records import Result
from unseen.results.database import FILE_NAME, ResultsDatabase
from unseen.results.rows import Fields

Row = Mapping[str, Any]

#: Where an export goes to standard output.
STANDARD_OUTPUT = "-"

_BEFORE = ("study", "cell", "benchmark", "version", "model", "dataset", "revision")
_AFTER = ("metric", "value", "error", "findings", "seconds", "recorded")
#: What spreadsheets begin a formula with.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_PREFIX = "parameters."


def csv_lines(rows: Iterable[Row], parameters: Iterable[str]) -> Iterator[str]:
    """Yield CSV with a header. Numbers are the shortest texts that read back to the same bits; missing is empty.

    Args:
        parameters: names of all parameters that occur.
    """
    columns = _columns(parameters)
    yield csv_line(columns)
    for row in rows:
        flat = _flat(row)
        yield csv_line([flat.get(name) for name in columns])


def csv_line(values: Iterable[object]) -> str:
    """Return a line of CSV that no spreadsheet takes for formulas."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([harmless(value) for value in values])
    return text.getvalue()


def json_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a JSON list, a row per line."""
    before = "["
    for row in rows:
        yield f"{before}\n{to_json(row, indent=None)}"
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def write_lines(target: str, lines: Iterable[str]) -> None:
    """Write texts to a file, whole or not at all, or to standard output as they come."""
    if target == STANDARD_OUTPUT:
        sys.stdout.writelines(map(printable, lines) if sys.stdout.isatty() else lines)
    else:
        write_whole(Path(target), (line.encode() for line in lines))


def _columns(parameters: Iterable[str]) -> list[str]:
    return [*_BEFORE, *(f"{_PREFIX}{name}" for name in sorted(parameters)), *_AFTER]


def _flat(row: Row) -> Fields:
    """Return a row with a column per parameter."""
    return {**row, **{f"{_PREFIX}{name}": value for name, value in row["parameters"].items()}}


def _field(value: object) -> str:
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, float) else to_json(value, indent=None)


def harmless(value: object) -> str:
    """Return a field that spreadsheets do not run as a formula: a text that begins like one gets an apostrophe.

    Numbers are unchanged; a text stays a text even if it contains only digits.
    """
    text = "" if value is None else _field(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text


# ---- several databases together --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Merged:
    """Results of several databases, the newest of each cell, in order of their dates.

    Attributes:
        sources: number of results by source.
    """

    results: tuple[Result, ...]
    sources: dict[str, int]


def merge(sources: Sequence[Path]) -> Merged:
    """Read home folders or `results.sqlite` files, and keep the newest success of each cell.

    Raises:
        UnseenError: a source does not exist, cannot be read, or is not a database of results.
    """
    newest: dict[str, Result] = {}
    counts: dict[str, int] = {}
    for source in sources:
        with ResultsDatabase(source / FILE_NAME if source.is_dir() else source, read_only=True) as database:
            own = database.latest(include_failed=False)
        counts[str(source)] = len(own)
        for result in own:
            known = newest.setdefault(result.cell.id, result)
            newest[result.cell.id] = max(known, result, key=lambda each: each.recorded)
    return Merged(tuple(sorted(newest.values(), key=lambda result: result.recorded)), counts)
