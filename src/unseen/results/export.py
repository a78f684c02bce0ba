"""Long form: one row per (cell, metric), and the three ways out of the database, all in full precision.

| form    | floats                              | parameters      | run record          | sweep, details, environment |
|---------|-------------------------------------|-----------------|---------------------|-----------------------------|
| CSV     | shortest text that reads back equal | one column each | its findings        | omitted                     |
| JSON    | the same; NaN, Infinity as strings  | nested          | nested              | nested                      |
| Parquet | doubles                             | one column each | findings, JSON text | JSON text                   |

In CSV a text that begins like a formula of a spreadsheet (=, +, -, @) has an apostrophe before it; numbers have not.

Rows may come one by one: nothing here holds all of them, but for what Parquet has compressed.
"""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from unseen.core.extras import import_extra
from unseen.core.files import write_whole
from unseen.core.records import Result

Row = dict[str, Any]

#: Where an export goes to standard output.
STANDARD_OUTPUT = "-"

_BEFORE = ("study", "cell", "benchmark", "version", "model", "dataset", "revision")
_AFTER = ("metric", "value", "error", "findings", "seconds", "recorded")
_NESTED = ("sweep", "details", "environment", "record")
#: What spreadsheets begin a formula with.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_PREFIX = "parameters."
_BATCH = 5000


def long_rows(result: Result, metrics: Collection[str] | None = None, *, brief: bool = False) -> list[Row]:
    """One row per metric of a result (those in `metrics`, or all); a failure is one row without metric and value.

    Args:
        brief: omit sweep, details, environment and the run record; its findings remain.
    """
    pairs: list[tuple[str | None, float | None]] = [(None, None)]
    if result.ok:
        pairs = [(name, value) for name, value in result.metrics.items() if metrics is None or name in metrics]
    before = {"cell": result.cell.id, **result.cell.to_dict()}
    record = result.record.to_dict()
    after: Row = {"error": result.error, "findings": "; ".join(record["findings"]), "seconds": result.seconds}
    if not brief:
        after["sweep"] = [dict(trial) for trial in result.sweep]
        after |= {"details": dict(result.details), "environment": dict(result.environment), "record": record}
    return [{**before, "metric": name, "value": value, **after} for name, value in pairs]


def csv_lines(rows: Iterable[Row], parameters: Iterable[str]) -> Iterator[str]:
    """CSV with a header. Numbers are the shortest texts that read back to the same bits; missing is empty.

    Args:
        parameters: names of all parameters that occur.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = sorted(parameters)
    stream = iter(rows)
    first = next(stream, None)
    known = [[name for name in columns if first is None or name in first] for columns in (_BEFORE, _AFTER)]
    writer.writerow([*known[0], *(f"{_PREFIX}{name}" for name in names), *known[1]])
    for row in chain([] if first is None else [first], stream):
        own = [row["parameters"].get(name) for name in names]
        values = [*(row[name] for name in known[0]), *own, *(row[name] for name in known[1])]
        writer.writerow([harmless(value) for value in values])
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()


def json_lines(rows: Iterable[Row]) -> Iterator[str]:
    """A JSON list, a row per line."""
    before = "["
    for row in rows:
        yield f"{before}\n{to_json(row, indent=None)}"
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def to_csv(rows: Sequence[Row]) -> str:
    """`csv_lines` of rows that are all at hand, as one text."""
    return "".join(csv_lines(rows, {name for row in rows for name in row["parameters"]}))


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """Strict JSON: what it has no number for is the string "NaN", "Infinity" or "-Infinity", which `float` reads."""
    return json.dumps(_strict(value), indent=indent, ensure_ascii=False, allow_nan=False)


def write_lines(target: str, lines: Iterable[str]) -> None:
    """Write texts to a file, whole or not at all, or to standard output as they come."""
    if target == STANDARD_OUTPUT:
        sys.stdout.writelines(lines)
    else:
        write_whole(Path(target), (line.encode() for line in lines))


def write_parquet(rows: Iterable[Row], kinds: Mapping[str, Collection[type]], target: str) -> None:
    """One Parquet file (or standard output) with doubles for values.

    Args:
        kinds: all parameters that occur, with the types of their values; one that mixes types becomes text.
    """
    arrow, parquet = import_extra("pyarrow", "parquet"), import_extra("pyarrow.parquet", "parquet")
    types = {name: arrow.string() for name in (*_BEFORE, "metric", "error", "findings", "recorded", *_NESTED)}
    types |= {"value": arrow.float64(), "seconds": arrow.float64()}
    types |= {f"{_PREFIX}{name}": _arrow_type(found) for name, found in kinds.items()}
    order = (*_BEFORE, *(f"{_PREFIX}{name}" for name in sorted(kinds)), *_AFTER, *_NESTED)
    schema = arrow.schema([(name, types[name]) for name in order])
    sink = arrow.BufferOutputStream()
    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        stream = map(_flat, rows)
        while flat := list(islice(stream, _BATCH)):
            columns = [arrow.array([_as(row.get(name), types[name]) for row in flat], types[name]) for name in order]
            writer.write_table(arrow.table(columns, schema=schema))
    content = sink.getvalue().to_pybytes()
    if target == STANDARD_OUTPUT:
        sys.stdout.buffer.write(content)
    else:
        write_whole(Path(target), content)


def _flat(row: Row) -> Row:
    own = {f"{_PREFIX}{name}": value for name, value in row["parameters"].items()}
    nested = {name: to_json(row[name], indent=None) for name in _NESTED if name in row}
    return {**row, **own, **nested}


def _arrow_type(kinds: Collection[type]) -> Any:
    """The type of a column: that of its values if they share one, text otherwise."""
    import pyarrow as arrow

    for kind, arrow_type in ((bool, arrow.bool_()), (int, arrow.int64()), (str, arrow.string())):
        if set(kinds) == {kind}:
            return arrow_type
    return arrow.float64() if set(kinds) <= {int, float} else arrow.string()


def _as(value: Any, arrow_type: Any) -> Any:
    import pyarrow as arrow

    if value is None or arrow_type not in (arrow.string(), arrow.float64()):
        return value
    return float(value) if arrow_type == arrow.float64() else _field(value)


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, float) else to_json(value, indent=None)


def harmless(value: Any) -> str:
    """A field that no spreadsheet takes for a formula: a text that begins like one has an apostrophe before it.

    Numbers are left as they are; a text is one that came as a text, whatever it looks like.
    """
    text = _field(value)
    return f"'{text}" if isinstance(value, str) and text[:1] in _FORMULA and text else text


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {str(key): _strict(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(inner) for inner in value]
    return value
