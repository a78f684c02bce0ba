"""Results out of the database and together again: long form as CSV, JSON and Parquet, and several sources merged.

Long form has one row per (cell, metric), in full precision:

| form    | floats                              | parameters      | run record          | sweep, details, environment |
|---------|-------------------------------------|-----------------|---------------------|-----------------------------|
| CSV     | shortest text that reads back equal | one column each | its findings        | omitted                     |
| JSON    | the same; NaN, Infinity as strings  | nested          | nested              | nested                      |
| Parquet | doubles                             | one column each | findings, JSON text | JSON text                   |

In CSV a text that begins like a formula of a spreadsheet (=, +, -, @) has an apostrophe before it; numbers have not.
Rows are streamed: only Parquet holds all of them, compressed.

A source to merge is a home folder, a `results.sqlite`, or what `unseen results --json` printed. Every row of an export
is checked: the id of a cell follows from its content, so that a row that was changed after the export is refused.
"""

from __future__ import annotations

import csv
import io
import json
import math
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from unseen.core.errors import DataError, StoreError, StoreWarning
from unseen.core.extras import import_extra
from unseen.core.files import write_whole
from unseen.core.guard import guarded
from unseen.core.records import Cell, Result, read_details
from unseen.results.database import FILE_NAME, ResultsDatabase
from unseen.results.rows import Fields, check_content

Row = Mapping[str, Any]

#: Where an export goes to standard output.
STANDARD_OUTPUT = "-"

_BEFORE = ("study", "cell", "benchmark", "version", "model", "dataset", "revision")
_AFTER = ("metric", "value", "error", "findings", "seconds", "recorded")
_NESTED = ("sweep", "details", "environment", "record")
#: What spreadsheets begin a formula with.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_PREFIX = "parameters."
#: What is shown although `str.isprintable` is false: the spaces of numbers and units.
_SPACES = "\n\u00a0\u2009\u202f"
_BATCH = 5000


def csv_lines(rows: Iterable[Row], parameters: Iterable[str]) -> Iterator[str]:
    """Yield CSV with a header. Numbers are the shortest texts that read back to the same bits; missing is empty.

    Args:
        parameters: names of all parameters that occur.
    """
    columns = (*_BEFORE, *(f"{_PREFIX}{name}" for name in sorted(parameters)), *_AFTER)
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


def to_json(value: object, *, indent: int | None = 2) -> str:
    """Return strict JSON: numbers that it lacks are "NaN", "Infinity" or "-Infinity", which `float` reads."""
    return json.dumps(_strict(value), indent=indent, ensure_ascii=False, allow_nan=False)


def printable(text: str) -> str:
    """Replace characters that would control a terminal."""
    return "".join(c if c.isprintable() or c in _SPACES else "\N{REPLACEMENT CHARACTER}" for c in text)


def write_lines(target: str, lines: Iterable[str]) -> None:
    """Write texts to a file, whole or not at all, or to standard output as they come."""
    if target == STANDARD_OUTPUT:
        sys.stdout.writelines(map(printable, lines) if sys.stdout.isatty() else lines)
    else:
        write_whole(Path(target), (line.encode() for line in lines))


def write_parquet(rows: Iterable[Row], kinds: Mapping[str, Collection[type]], target: str) -> None:
    """Write one Parquet file (or to standard output) with doubles for values.

    Args:
        kinds: all parameters that occur, with the types of their values; one that mixes types becomes text.
    """
    arrow, parquet = import_extra("pyarrow", "parquet"), import_extra("pyarrow.parquet", "parquet")
    typed = {frozenset([bool]): "bool_", frozenset([int]): "int64"}
    typed |= dict.fromkeys((frozenset([float]), frozenset([int, float])), "float64")
    types = dict.fromkeys(_BEFORE, "string")
    types |= {f"{_PREFIX}{name}": typed.get(frozenset(kinds[name]), "string") for name in sorted(kinds)}
    types |= dict.fromkeys((*_AFTER, *_NESTED), "string") | {"value": "float64", "seconds": "float64"}
    schema = arrow.schema([(name, getattr(arrow, kind)()) for name, kind in types.items()])
    convert: dict[str, Callable[[Any], Any]] = {"string": _field, "float64": float}
    sink = arrow.BufferOutputStream()
    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        stream = map(_flat, rows)
        while batch := list(islice(stream, _BATCH)):
            for row in batch:
                for name, kind in types.items():
                    if kind in convert and row.get(name) is not None:
                        row[name] = convert[kind](row[name])
            writer.write_table(arrow.Table.from_pylist(batch, schema=schema))
    content = sink.getvalue().to_pybytes()
    if target == STANDARD_OUTPUT:
        sys.stdout.buffer.write(content)
    else:
        write_whole(Path(target), content)


def _flat(row: Row) -> Fields:
    """Return a row with a column per parameter, and with JSON texts for nested values."""
    own = {f"{_PREFIX}{name}": value for name, value in row["parameters"].items()}
    return {**row, **own, **{name: to_json(row[name], indent=None) for name in _NESTED if name in row}}


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


def _strict(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {str(key): _strict(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(inner) for inner in value]
    return value


# ---- several sources together ----------------------------------------------------------------------------------------

_LARGEST = 2 << 30
_CELL = ("benchmark", "model", "dataset", "parameters", "revision", "version")
#: Types of the fields of an exported row; the last three may be missing.
_KINDS = {**dict.fromkeys(_CELL, str), "parameters": dict, "cell": str}
_MAPPINGS = ("details", "environment", "record")


@dataclass(frozen=True)
class Merged:
    """Results of several sources, the newest of each cell, in order of their dates.

    Attributes:
        sources: number of results by source.
        repeated: number of cells that several sources have.
        differing: those of them whose metrics are not the same to 1e-4.
    """

    results: tuple[Result, ...]
    sources: dict[str, int]
    repeated: int = 0
    differing: tuple[str, ...] = ()


def merge(sources: Sequence[Path]) -> Merged:
    """Read sources and keep the newest success of each cell.

    Raises:
        UnseenError: a source does not exist, cannot be read, or is not a source of results.
    """
    found: dict[str, list[Result]] = {}
    counts: dict[str, int] = {}
    for source in sources:
        own = read_source(source)
        counts[str(source)] = len(own)
        for result in own:
            found.setdefault(result.cell.id, []).append(result)
    newest = [max(results, key=lambda result: result.recorded) for results in found.values()]
    repeated = {key: results for key, results in found.items() if len(results) > 1}
    differing = tuple(key for key, results in repeated.items() if not _agree(results))
    return Merged(tuple(sorted(newest, key=lambda result: result.recorded)), counts, len(repeated), differing)


def read_source(path: Path) -> list[Result]:
    """Return the newest successes of a source."""
    if path.is_dir():
        path = path / FILE_NAME
    if path.suffix != ".json":
        with ResultsDatabase(path, read_only=True) as database:
            return database.latest(include_failed=False)
    with guarded(path, "results that `unseen results --json` printed", error=StoreError):
        if path.stat().st_size > _LARGEST:
            raise DataError(f"{path} is larger than 2 GB. Export one study at a time, with --study.")
        return _exported(json.loads(path.read_text(encoding="utf-8")), path)


def _exported(rows: object, path: Path) -> list[Result]:
    """Return the valid successes of an export."""
    found: dict[str, Result | None] = {}
    metrics: dict[str, dict[str, float]] = {}
    for row in rows if isinstance(rows, list) else [None]:
        if not isinstance(row, dict) or any(not isinstance(row.get(name), kind) for name, kind in _KINDS.items()):
            raise StoreError(f"{path} is not a list of results as `unseen results --json` prints it.")
        if any(not isinstance(row.get(name, {}), dict) for name in _MAPPINGS):
            raise StoreError(f"{path}: details, environment and record of {row['model']} must be mappings.")
        if row["error"]:
            continue
        name = row["cell"]
        if name not in found:
            found[name] = _exported_result(row, metrics.setdefault(name, {}), path)
        metrics[name][str(row["metric"])] = float(row["value"])
    return [result for result in found.values() if result is not None]


def _exported_result(row: Row, metrics: Mapping[str, float], path: Path) -> Result | None:
    """Return the result of a row, without its metrics; None, with a warning, if its content is invalid."""
    cell = Cell.from_dict({key: row[key] for key in _CELL})
    if cell.id != row["cell"]:
        raise StoreError(
            f"{path}: the row of {cell.model} on {cell.dataset} is not what its id {row['cell']!r} says: it was "
            "changed after the export, or written by another version. Export again."
        )
    details, record = read_details(row.get("details", {}), row.get("record", {}))
    try:
        check_content(cell, details)
    except ValueError as error:
        warnings.warn(f"the result of cell {cell.id} in {path} is left out: {error}.", StoreWarning, stacklevel=6)
        return None
    return Result(
        cell,
        metrics,
        seconds=float(row["seconds"]),
        details=details,
        environment=row.get("environment", {}),
        record=record,
        recorded=str(row.get("recorded", "")),
    )


def _agree(results: Sequence[Result]) -> bool:
    """Return whether the metrics of several results are the same to 1e-4."""
    first = results[0].metrics
    return all(
        set(each.metrics) == set(first) and all(_same(each.metrics[name], first[name]) for name in first)
        for each in results[1:]
    )


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-4) or (math.isnan(one) and math.isnan(other))
