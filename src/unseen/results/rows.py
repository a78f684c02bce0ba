"""A result as a row of the database: what is written, the digest of it, and the checks when it is read.

This is the one place where rows become `Result` objects. A row that fails a check is reported by its id and left out;
it does not stop a table, a page or a comparison of the others.

Values that many results repeat (the concepts of a level, an environment) are stored once under their digest: a long
value stands in its result as {"$shared": digest}. Short ones stay in the row.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sqlite3
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from unseen.core.errors import StoreError
from unseen.core.identity import Values, canonical_json
from unseen.core.records import Cell, Result
from unseen.core.run_record import RunRecord
from unseen.results.info import built_in_info

#: Columns whose texts may refer to shared values.
NESTED = ("sweep", "details", "environment", "record")
_NAMES = ("study", "cell", "benchmark", "version", "model", "dataset", "parameters", "revision", "error")
#: What a row digest covers, beside the metrics.
_COVERED = (*_NAMES, "seconds", "recorded", *NESTED)
#: What is read of a row.
COLUMNS = ("id", *_COVERED, "digest")

Fields = Values
Row = Mapping[str, Any] | sqlite3.Row
Metrics = Sequence[tuple[str, Any]]

_KEY = "$shared"
#: Characters of a value's JSON from which on it is stored apart.
_LONG = 256
_REFERENCE = re.compile(r'\{"\$shared":"([0-9a-f]{32})"\}')
_ANSWERS = re.compile(r"(\d{1,15}):([A-Za-z0-9+/]*)(={0,2})", re.ASCII)


def to_row(study: str, result: Result) -> tuple[Fields, list[tuple[str, float | None]], dict[str, str]]:
    """Return the columns of a result, its metrics, and the values that are stored once, by their digests."""
    cell = result.cell
    shared: dict[str, str] = {}
    values: Fields = {
        **{name: getattr(cell, name) for name in ("benchmark", "version", "model", "dataset", "revision")},
        "study": study,
        "cell": cell.id,
        "parameters": canonical_json(dict(cell.parameters)),
        "error": result.error,
        "seconds": float(result.seconds),
        "recorded": result.recorded or datetime.now(UTC).isoformat(timespec="microseconds"),
        "sweep": _pack("sweep", [dict(trial) for trial in result.sweep], shared),
        "details": _pack_values("details", result.details, shared),
        "environment": _pack("environment", dict(result.environment), shared),
        "record": _pack_values("record", _facts(result.record), shared),
    }
    numbers = [(name, float(value)) for name, value in result.metrics.items()]
    metrics = [(name, None if math.isnan(value) else value) for name, value in numbers]
    return values | {"digest": row_digest(values, metrics)}, metrics, shared


def insert(
    connection: sqlite3.Connection, row: Mapping[str, object], metrics: Metrics, shared: Mapping[str, str]
) -> None:
    """Write a result: its columns, its metrics, and those shared values that are not stored yet."""
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    statement = f"INSERT INTO result ({names}) VALUES ({marks})"  # noqa: S608, only our own names
    key = connection.execute(statement, list(row.values())).lastrowid
    connection.executemany("INSERT OR IGNORE INTO shared (digest, value) VALUES (?, ?)", shared.items())
    values = [(key, name, value) for name, value in metrics]
    connection.executemany("INSERT OR IGNORE INTO metric (result, name, value) VALUES (?, ?, ?)", values)


def row_digest(row: Row, metrics: Metrics) -> str:
    """Return the digest of everything that a reader shows of a row; shared values enter by their own digests.

    Raises:
        TypeError: a column is neither a text nor a number.
    """
    columns = row[1:-1] if isinstance(row, sqlite3.Row) else [row[name] for name in _COVERED]  # a row of `COLUMNS`
    return digest_of(json.dumps([columns, metrics], separators=(",", ":")))


def references(rows: Iterable[Sequence[str]]) -> set[str]:
    """Return the digests that stand in rows of packed texts."""
    return {digest for row in rows for text in row for digest in _REFERENCE.findall(text)}


def long_rows(result: Result, metrics: Sequence[str] | None = None, *, brief: bool = False) -> list[Fields]:
    """Return one row per metric of a result (those in `metrics`, or all); of a failure, one without metric and value.

    Args:
        brief: omit sweep, details, environment and the run record; its findings remain.
    """
    pairs: list[tuple[str | None, float | None]] = [(None, None)]
    if result.ok:
        pairs = [(name, value) for name, value in result.metrics.items() if metrics is None or name in metrics]
    before = {"cell": result.cell.id, **result.cell.to_dict()}
    record = result.record.to_dict()
    after = {"error": result.error, "findings": "; ".join(record["findings"]), "seconds": result.seconds}
    if not brief:
        after["sweep"] = [dict(trial) for trial in result.sweep]
        after |= {"details": dict(result.details), "environment": dict(result.environment), "record": record}
    return [{**before, "metric": name, "value": value, **after} for name, value in pairs]


class RowReader:
    """Turn rows into results. What many rows have in common is loaded, checked and parsed once.

    Args:
        load: returns (digest, value) of the shared values with some digests.
        brief: leave `sweep`, `details` and `environment` empty.
    """

    def __init__(self, load: Callable[[list[str]], Iterable[Sequence[object]]], *, brief: bool = False) -> None:
        self._load, self._brief = load, brief
        self._texts: dict[str, str] = {}
        self._parsed: Fields = {}
        self._parameters: dict[str, Fields] = {}
        self._records: dict[str, RunRecord] = {}

    def fetch(self, rows: Sequence[Row]) -> None:
        """Load the shared values of some rows; a value that does not have the digest it is stored under is left out."""
        wanted = references(self._packed(row) for row in rows)
        # What the last rows did not need, the next will not need either: the rows of a study lie together.
        self._texts = {digest: text for digest, text in self._texts.items() if digest in wanted}
        self._parsed = {digest: value for digest, value in self._parsed.items() if digest in wanted}
        for digest, value in self._load(sorted(wanted - set(self._texts))):
            if isinstance(value, str) and digest_of(value) == digest:
                self._texts[digest] = value

    def read(self, row: Row, metrics: Metrics) -> Result:
        """Return the result of a row.

        Raises:
            ValueError: the row, or a value that it refers to, is damaged or is not a result; the message states why.
        """
        if problem := self._problem(row, metrics):
            raise ValueError(problem)
        try:
            return self._result(row, metrics)
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"its texts hold no result ({type(error).__name__}: {error})") from error

    def _problem(self, row: Row, metrics: Metrics) -> str:
        """Return what is wrong with a row or with the values that it refers to, or ""; texts are not parsed."""
        try:
            if row["digest"] and row_digest(row, metrics) != row["digest"]:
                return "its digest does not match what is stored"
        except TypeError:
            return "a column is neither a text nor a number"
        if not row["digest"]:  # what was written with a digest has the right types
            if any(not isinstance(row[name], str) for name in (*_NAMES, "recorded", *NESTED)):
                return "a column that should be a text is not"
            if not isinstance(row["seconds"], int | float):
                return "its time is not a number"
            for name, value in metrics:
                if not isinstance(name, str) or not isinstance(value, int | float | None):
                    return f"its metric {name!r} is not a number"
        known = references([self._packed(row)]) <= self._texts.keys()
        return "" if known else "a value that it refers to is missing or damaged"

    def _cell(self, row: Row) -> Cell:
        text = row["parameters"]
        if text not in self._parameters:
            self._parameters[text] = json.loads(text)
        if not isinstance(self._parameters[text], dict):
            raise ValueError("its parameters are not a mapping")
        names = {name: sys.intern(row[name]) for name in ("benchmark", "model", "dataset", "revision", "version")}
        return Cell(**names, parameters=self._parameters[text])

    def _result(self, row: Row, metrics: Metrics) -> Result:
        details = Fields() if self._brief else self._unpack_values(row["details"])
        if (text := row["record"]) not in self._records:
            self._records[text] = RunRecord.from_dict(self._unpack_values(text))
        cell, nested = self._cell(row), Fields()
        check_content(cell, details)
        if not self._brief:
            sweep, environment = (self._whole(json.loads(row[name])) for name in ("sweep", "environment"))
            if not all(isinstance(trial, dict) for trial in sweep) or not isinstance(environment, dict):
                raise TypeError("a sweep or an environment of another shape")
            nested = {"sweep": tuple(sweep), "details": details, "environment": environment}
        return Result(
            cell=cell,
            metrics={sys.intern(name): math.nan if value is None else float(value) for name, value in metrics},
            error=row["error"],
            seconds=row["seconds"],
            record=self._records[text],
            recorded=row["recorded"],
            **nested,
        )

    def _packed(self, row: Row) -> list[str]:
        return [str(row[name]) for name in (("record",) if self._brief else NESTED)]

    def _unpack_values(self, text: str) -> Fields:
        values = self._whole(json.loads(text))
        if not isinstance(values, dict):
            raise TypeError("not a mapping")
        return {name: self._whole(value) for name, value in values.items()}

    def _whole(self, value: object) -> Any:
        """Return the value that a packed value stands for."""
        if not (isinstance(value, dict) and set(value) == {_KEY}):
            return value
        digest = value[_KEY]
        if digest not in self._parsed:
            self._parsed[digest] = json.loads(self._texts[digest])
        return self._parsed[digest]


def check_content(cell: Cell, details: Mapping[str, object]) -> None:
    """Check what readers of stored results rely on.

    Raises:
        ValueError: a parameter is missing that the benchmark requires, or the answers per test image are fewer than
            their number says; they are packed as "COUNT:BASE64".
    """
    missing = [name for name in built_in_info(cell.benchmark).required if name not in cell.parameters]
    if missing:
        raise ValueError(f"it has no parameter {missing[0]!r}, which {cell.benchmark} requires")
    packed = details.get("correct")
    if isinstance(packed, str):
        found = _ANSWERS.fullmatch(packed)
        if found is None or 6 * len(found[2]) // 8 * 8 < int(found[1]):
            raise ValueError("its answers per test image are incomplete")


def _facts(record: RunRecord) -> Fields:
    """Return what a record states, without what follows from it and without empty fields."""
    return {
        name: value
        for name, value in record.to_dict().items()
        if name not in ("clean", "findings") and value not in (None, "", (), {})
    }


def _pack(what: str, value: object, shared: dict[str, str]) -> str:
    """Return the JSON of a value, or of a reference to it if it is long; then add it to `shared`, by its digest."""
    text = to_json(what, value)
    if len(text) < _LONG:
        return text
    digest = digest_of(text)
    shared[digest] = text
    return to_json(what, {_KEY: digest})


def _pack_values(what: str, values: Mapping[str, object], shared: dict[str, str]) -> str:
    """Return the JSON of a mapping whose values are packed one by one: what repeats is one of them, seldom all."""
    return f"{{{','.join(f'{to_json(what, str(k))}:{_pack(what, v, shared)}' for k, v in values.items())}}}"


def digest_of(text: str) -> str:
    """Return the digest under which a text is stored."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def to_json(what: str, value: object) -> str:
    """Return JSON that Python reads back to the same bits; NaN and the infinities are written by name."""

    def plain(odd: object) -> Any:
        # numpy scalars and arrays convert themselves, without importing numpy here.
        if hasattr(odd, "tolist"):
            return odd.tolist()
        raise TypeError(f"a {type(odd).__name__}")

    try:
        return json.dumps(value, separators=(",", ":"), default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(
            f"the {what} of a result must be strings, numbers, lists and mappings, but hold {error}. Convert it "
            "before it is stored."
        ) from error
