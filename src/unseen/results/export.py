"""Long form: one row per (cell, metric), and the three ways out of the database, all in full precision.

| form    | floats                              | parameters                  | sweep, details, environment |
|---------|-------------------------------------|-----------------------------|-----------------------------|
| CSV     | shortest text that reads back equal | one column each             | left out                    |
| JSON    | the same; NaN, Infinity as strings  | nested                      | nested                      |
| Parquet | doubles                             | one column each             | JSON text                   |
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unseen.core.files import write_whole
from unseen.core.records import Result

Row = dict[str, Any]

_BEFORE = ("study", "cell", "benchmark", "model", "dataset", "revision")
_AFTER = ("metric", "value", "error", "seconds", "recorded")
_NESTED = ("sweep", "details", "environment")
_PREFIX = "parameters."


def long_rows(result: Result, metrics: Collection[str] | None = None) -> list[Row]:
    """One row per metric of a result (those in `metrics`, or all); a failure is one row without metric and value."""
    pairs: list[tuple[str | None, float | None]] = [(None, None)]
    if result.ok:
        pairs = [(name, value) for name, value in result.metrics.items() if metrics is None or name in metrics]
    before = {"cell": result.cell.id, **result.cell.to_dict()}
    after = {
        "error": result.error,
        "seconds": result.seconds,
        "sweep": [dict(trial) for trial in result.sweep],
        "details": dict(result.details),
        "environment": dict(result.environment),
    }
    return [{**before, "metric": name, "value": value, **after} for name, value in pairs]


def to_csv(rows: Sequence[Row]) -> str:
    """CSV with a header. Numbers are the shortest texts that read back to the same bits; missing is empty."""
    text = io.StringIO()
    parameters = _parameter_names(rows)
    present = [name for name in (*_BEFORE, *parameters, *_AFTER) if any(name in _flat(row, parameters) for row in rows)]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(present)
    for row in rows:
        flat = _flat(row, parameters)
        writer.writerow([_field(flat.get(name)) for name in present])
    return text.getvalue()


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """Strict JSON: what it has no number for is the string "NaN", "Infinity" or "-Infinity", which `float` reads."""
    return json.dumps(_strict(value), indent=indent, ensure_ascii=False, allow_nan=False)


def write_parquet(rows: Sequence[Row], path: Path) -> None:
    """One Parquet file with doubles for values; a parameter whose cells mix types becomes text."""
    import pyarrow as arrow
    from pyarrow import parquet

    parameters = _parameter_names(rows)
    flat = [_flat(row, parameters) for row in rows]
    columns = {name: arrow.array([row.get(name) for row in flat], arrow.string()) for name in (*_BEFORE, "metric")}
    for name in ("value", "seconds"):
        columns[name] = arrow.array([row.get(name) for row in flat], arrow.float64())
    for name in parameters:
        columns[name] = _typed([row.get(name) for row in flat])
    for name in ("error", "recorded"):
        columns[name] = arrow.array([row.get(name) for row in flat], arrow.string())
    for name in _NESTED:
        texts = [to_json(row[name], indent=None) if name in row else None for row in rows]
        columns[name] = arrow.array(texts, arrow.string())
    order = (*_BEFORE, *parameters, *_AFTER, *_NESTED)
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.table({name: columns[name] for name in order}), sink, compression="zstd")
    write_whole(path, sink.getvalue().to_pybytes())


def _parameter_names(rows: Iterable[Row]) -> list[str]:
    return sorted({f"{_PREFIX}{name}" for row in rows for name in row["parameters"]})


def _flat(row: Row, parameters: Sequence[str]) -> Row:
    own = row["parameters"]
    found = {name: own[name.removeprefix(_PREFIX)] for name in parameters if name.removeprefix(_PREFIX) in own}
    return {**{name: row[name] for name in (*_BEFORE, *_AFTER) if name in row}, **found}


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, float) else to_json(value, indent=None)


def _typed(values: Sequence[Any]) -> Any:
    """An Arrow column of one type: that of its values if they share one, text otherwise."""
    import pyarrow as arrow

    kinds = {type(value) for value in values if value is not None}
    for kind, arrow_type in ((bool, arrow.bool_()), (int, arrow.int64()), (str, arrow.string())):
        if kinds == {kind}:
            return arrow.array(values, arrow_type)
    if kinds and kinds <= {int, float}:
        return arrow.array([None if value is None else float(value) for value in values], arrow.float64())
    return arrow.array([None if value is None else _field(value) for value in values], arrow.string())


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {str(key): _strict(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(inner) for inner in value]
    return value
