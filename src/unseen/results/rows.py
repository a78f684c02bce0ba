"""A result as a row of the database: what is written, the digest of it, and the checks when it is read.

This is the one place where rows become `Result` objects. A row that fails a check is reported by its id and left out;
it does not stop a table, a page or a comparison of the others.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from unseen.core.identity import canonical_json
from unseen.core.records import Cell, Result, read_details
from unseen.core.run_record import RunRecord
from unseen.results.schema import NESTED, Values, pack, pack_values

_NAMES = ("study", "cell", "benchmark", "version", "model", "dataset", "parameters", "revision", "error")
#: What a row digest covers, beside the metrics.
_COVERED = (*_NAMES, "seconds", "recorded", *NESTED)
#: What is read of a row.
COLUMNS = ("id", *_COVERED, "digest")

#: Parameters without which readers of stored results can do nothing with a row. A test compares them with the classes.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "cog": ("level",),
    "cog-finetune": ("level",),
    "rank": ("score",),
    "vtab": ("adaptation",),
    "zsl": ("method", "fold", "split"),
}

Row = Mapping[str, Any] | sqlite3.Row
Metrics = Sequence[tuple[str, Any]]
_ANSWERS = re.compile(r"(\d{1,15}):([A-Za-z0-9+/]*)(={0,2})", re.ASCII)


def to_row(study: str, result: Result) -> tuple[dict[str, Any], list[tuple[str, float | None]], dict[str, str]]:
    """Return the columns of a result, its metrics, and the values that are stored once, by their digests."""
    cell = result.cell
    aside: dict[str, str] = {}
    values: dict[str, Any] = {
        "study": study,
        "cell": cell.id,
        "benchmark": cell.benchmark,
        "version": cell.version,
        "model": cell.model,
        "dataset": cell.dataset,
        "parameters": canonical_json(dict(cell.parameters)),
        "revision": cell.revision,
        "error": result.error,
        "seconds": float(result.seconds),
        "recorded": datetime.now(UTC).isoformat(timespec="microseconds"),
        "sweep": pack("sweep", [dict(trial) for trial in result.sweep], aside),
        "details": pack_values("details", dict(result.details), aside),
        "environment": pack("environment", dict(result.environment), aside),
        "record": pack_values("record", _facts(result.record), aside),
    }
    numbers = [(name, float(value)) for name, value in result.metrics.items()]
    metrics = [(name, None if math.isnan(value) else value) for name, value in numbers]
    return values | {"digest": row_digest(values, metrics)}, metrics, aside


def row_digest(row: Row, metrics: Metrics) -> str:
    """Return the digest of everything that a reader shows of a row; shared values enter by their own digests.

    Raises:
        TypeError: a column is neither a text nor a number.
    """
    columns = row[1:-1] if isinstance(row, sqlite3.Row) else [row[name] for name in _COVERED]  # a row of `COLUMNS`
    covered = [columns, metrics]
    text = json.dumps(covered, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def problem_of(row: Row, metrics: Metrics) -> str:
    """Return what is wrong with a row, or ""; texts are not parsed."""
    try:
        if row["digest"]:  # what was written with a digest has the right types
            return "" if row_digest(row, metrics) == row["digest"] else "its digest does not match what is stored"
    except TypeError:
        return "a column is neither a text nor a number"
    if any(not isinstance(row[name], str) for name in (*_NAMES, "recorded", *NESTED)):
        return "a column that should be a text is not"
    if not _is_number(row["seconds"]):
        return "its time is not a number"
    for name, value in metrics:
        if not isinstance(name, str) or not (value is None or _is_number(value)):
            return f"its metric {name!r} is not a number"
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


class RowReader:
    """Turns rows into results. What many rows have in common is parsed and held once.

    Args:
        values: has the shared values that the rows refer to.
        brief: leave `sweep`, `details` and `environment` empty.
    """

    def __init__(self, values: Values, *, brief: bool = False) -> None:
        self.values, self.brief = values, brief
        self._parameters: dict[str, dict[str, Any]] = {}
        self._records: dict[str, RunRecord] = {}

    def fetch(self, rows: Sequence[Row]) -> None:
        """Load the shared values of some rows."""
        self.values.fetch(self._packed(row) for row in rows)

    def problem_of(self, row: Row, metrics: Metrics) -> str:
        """Return what is wrong with a row or with the values that it refers to, or ""."""
        found = problem_of(row, metrics)
        return found or (
            "a value that it refers to is missing or damaged" if self.values.lacks(self._packed(row)) else ""
        )

    def to_result(self, row: Row, metrics: Metrics) -> Result:
        """Return the result of a row that has no problem.

        Raises:
            ValueError: what its texts hold is not a result; the message says why.
        """
        try:
            return self._to_result(row, metrics)
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"its texts hold no result ({type(error).__name__}: {error})") from error

    def cell(self, row: Row) -> Cell:
        """Return the cell of a row.

        Raises:
            ValueError: the parameters are not a mapping.
        """
        text = row["parameters"]
        if text not in self._parameters:
            parameters = json.loads(text)
            if not isinstance(parameters, dict):
                raise ValueError("its parameters are not a mapping")
            self._parameters[text] = parameters
        parameters = self._parameters[text]
        names = {name: sys.intern(row[name]) for name in ("benchmark", "model", "dataset", "revision", "version")}
        return Cell(**names, parameters=parameters)

    def _to_result(self, row: Row, metrics: Metrics) -> Result:
        details, record = self._details(row)
        cell, nested = self.cell(row), dict[str, Any]()
        check_content(cell, details)
        if not self.brief:
            sweep, environment = self.values.unpack(row["sweep"]), self.values.unpack(row["environment"])
            if not all(isinstance(trial, dict) for trial in sweep) or not isinstance(environment, dict):
                raise TypeError("a sweep or an environment of another shape")
            nested = {"sweep": tuple(sweep), "details": details, "environment": environment}
        return Result(
            cell=cell,
            metrics={sys.intern(name): math.nan if value is None else float(value) for name, value in metrics},
            error=row["error"],
            seconds=row["seconds"],
            record=record,
            recorded=row["recorded"],
            **nested,
        )

    def _details(self, row: Row) -> tuple[Mapping[str, Any], RunRecord]:
        details: Mapping[str, Any] = {}
        if not self.brief or _SKIPPED in row["details"]:
            details = self.values.unpack_values(row["details"])
        text = row["record"]
        if text not in self._records:
            self._records[text] = RunRecord.from_dict(self.values.unpack_values(text))
        if "skipped" not in details:
            return details, self._records[text]
        details, old = read_details(details, {})
        return details, old.merge(self._records[text])

    def _packed(self, row: Row) -> list[str]:
        """Return the texts of a row whose shared values are needed."""
        names: tuple[str, ...] = NESTED
        if self.brief:
            names = ("record", "details") if _SKIPPED in str(row["details"]) else ("record",)
        return [str(row[name]) for name in names]


_SKIPPED = '"skipped":'


def _facts(record: RunRecord) -> dict[str, Any]:
    """Return what a record states, without what follows from it and without empty fields."""
    return {
        name: value
        for name, value in record.to_dict().items()
        if name not in ("clean", "findings") and value not in (None, "", (), {})
    }


def check_content(cell: Cell, details: Mapping[str, Any]) -> None:
    """Check what readers of stored results rely on.

    Raises:
        ValueError: a parameter is missing that the benchmark requires, or the answers per test image are fewer than
            their number says; they are packed as "COUNT:BASE64".
    """
    missing = [name for name in REQUIRED.get(cell.benchmark, ()) if name not in cell.parameters]
    if missing:
        raise ValueError(f"it has no parameter {missing[0]!r}, which {cell.benchmark} requires")
    packed = details.get("correct")
    if not isinstance(packed, str):
        return
    found = _ANSWERS.fullmatch(packed)
    if found is None or 6 * len(found[2]) // 8 * 8 < int(found[1]):
        raise ValueError("its answers per test image are incomplete")
