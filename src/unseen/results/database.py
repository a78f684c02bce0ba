"""The results database: every result that was ever computed, in full precision, in one SQLite file.

Append-only. Computing a cell again adds a result; the newest counts and the older ones stay readable. Several
processes may append at once: a result with its metrics is one transaction, which waits for the others.

A committed result survives a killed process and a power cut: the journal is a write-ahead log that is flushed to the
disk at each commit (`synchronous = FULL`). That costs a few milliseconds per cell, and a cell takes seconds.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from unseen.core.errors import StoreError
from unseen.core.identity import canonical_json
from unseen.core.records import Cell, Result
from unseen.results.connection import connect_for_reading, connect_for_writing
from unseen.results.export import Row, long_rows
from unseen.results.faults import explained
from unseen.results.schema import prepare

FILE_NAME = "results.sqlite"

_RESULT = (
    "id, study, cell, benchmark, model, dataset, parameters, revision, error, seconds, sweep, details, environment, "
    "recorded, version"
)

Names = str | Sequence[str] | None


class ResultsDatabase:
    """The results under one home, open for appending or for reading.

    Args:
        path: the file. It is made, with its folder, unless `read_only`.
        read_only: never write: neither tables nor a new file.

    Raises:
        StoreError: the file cannot be opened, is of another program, or of a newer version of this one.
    """

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self.read_only = read_only
        self._lock = threading.Lock()
        if read_only and not self.path.is_file():
            raise StoreError(f"there is no results database at {self.path}. Run a study first, or choose another home.")
        with explained(self.path, "open"):
            if not read_only:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = connect_for_reading(self.path) if read_only else connect_for_writing(self.path)
            try:
                prepare(self._connection, self.path, writable=not read_only)
            except BaseException:
                self._connection.close()
                raise

    def append(self, study: str, result: Result) -> None:
        """Add a result in one transaction: after a return it is on the disk, after an error it is not there.

        Raises:
            DiskFullError: no room; what was there before is whole.
            StoreError: the file is read-only or locked, or a value of the result cannot be written as JSON.
        """
        cell = result.cell
        details, shared = _split_off(dict(result.details))
        row = (
            study,
            cell.id,
            cell.benchmark,
            cell.model,
            cell.dataset,
            canonical_json(dict(cell.parameters)),
            cell.revision,
            result.error,
            float(result.seconds),
            to_json("sweep", [dict(trial) for trial in result.sweep]),
            to_json("details", details),
            to_json("environment", dict(result.environment)),
            datetime.now(UTC).isoformat(timespec="microseconds"),
            cell.version,
        )
        metrics = [(name, float(value)) for name, value in result.metrics.items()]
        with self._lock, explained(self.path, "append to"):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                columns = _RESULT.removeprefix("id, ")
                marks = ", ".join("?" * len(row))
                insert = f"INSERT INTO result ({columns}) VALUES ({marks})"  # noqa: S608, only our own names
                key = self._connection.execute(insert, row).lastrowid
                self._connection.executemany("INSERT OR IGNORE INTO shared (digest, value) VALUES (?, ?)", shared)
                self._connection.executemany(
                    "INSERT INTO metric (result, name, value) VALUES (?, ?, ?)",
                    [(key, name, value) for name, value in metrics],
                )
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def done(self, cells: Iterable[Cell]) -> set[str]:
        """The ids of those cells whose newest result is a success; nothing else is read."""
        newest = (
            "SELECT cell FROM result WHERE error = '' AND id IN "
            "(SELECT max(id) FROM result WHERE cell IN ({marks}) GROUP BY cell)"
        )
        return {row["cell"] for row in self._in_chunks(newest, [cell.id for cell in cells])}

    def cells(self, cells: Iterable[Cell]) -> list[Result]:
        """The newest result of each of these cells, in order of arrival."""
        newest = (
            f"SELECT {_RESULT} FROM result WHERE id IN "  # noqa: S608, only our own names
            "(SELECT max(id) FROM result WHERE cell IN ({marks}) GROUP BY cell)"
        )
        rows = self._in_chunks(newest, [cell.id for cell in cells])
        return self._results(sorted(rows, key=lambda row: int(row["id"])))

    def latest(
        self,
        study: Names = None,
        benchmark: Names = None,
        model: Names = None,
        dataset: Names = None,
        include_failed: bool = True,
    ) -> list[Result]:
        """The newest result of each cell, in order of arrival.

        Args:
            study, benchmark, model, dataset: one name or several; None takes all.
            include_failed: whether to keep cells whose newest result is a failure.
        """
        where = {"study": study, "benchmark": benchmark, "model": model, "dataset": dataset}
        return self._results(self._select(where, newest=True, include_failed=include_failed))

    def history(self, cell_id: str) -> list[Result]:
        """Every result of a cell, the oldest first."""
        return self._results(self._select({"cell": cell_id}))

    def rows(
        self,
        study: Names = None,
        benchmark: Names = None,
        model: Names = None,
        dataset: Names = None,
        metric: Names = None,
        include_failed: bool = True,
    ) -> list[Row]:
        """Long form: one dictionary per (cell, metric) of the newest results.

        A failed cell is one row whose `metric` and `value` are None and whose `error` is the reason.
        """
        where = {"study": study, "benchmark": benchmark, "model": model, "dataset": dataset}
        selected = self._select(where, newest=True, include_failed=include_failed)
        wanted = None if metric is None else set(_listed(metric))
        return [
            {"study": row["study"], **long, "recorded": row["recorded"]}
            for row, result in zip(selected, self._results(selected), strict=True)
            for long in long_rows(result, wanted)
        ]

    def names(self, column: str) -> list[str]:
        """The values that `column` ("study", "benchmark", "model" or "dataset") has, sorted."""
        if column not in ("study", "benchmark", "model", "dataset"):
            raise ValueError(f"no list of {column!r} is kept; there are study, benchmark, model and dataset")
        with self._lock, explained(self.path, "read"):
            rows = self._connection.execute(f"SELECT DISTINCT {column} AS name FROM result ORDER BY name")  # noqa: S608
            return [row["name"] for row in rows]

    def last_recorded(self, study: Names = None) -> datetime | None:
        """When the newest result was appended (UTC), or None where there is none."""
        matching, values = _matching({"study": study})
        with self._lock, explained(self.path, "read"):
            query = f"SELECT max(recorded) AS newest FROM result{matching}"  # noqa: S608, values are bound
            newest = self._connection.execute(query, values).fetchone()["newest"]
        return datetime.fromisoformat(newest) if newest else None

    def close(self) -> None:
        """Close the file. Doing it twice is harmless."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _select(
        self, where: Mapping[str, Names], *, newest: bool = False, include_failed: bool = True
    ) -> list[sqlite3.Row]:
        matching, values = _matching(where)
        if newest:
            matching = f" WHERE id IN (SELECT max(id) FROM result{matching} GROUP BY cell)"  # noqa: S608
            if not include_failed:
                matching += " AND error = ''"
        with self._lock, explained(self.path, "read"):
            query = f"SELECT {_RESULT} FROM result{matching} ORDER BY id"  # noqa: S608, values are bound
            return self._connection.execute(query, values).fetchall()

    def _in_chunks(self, query: str, values: Sequence[Any]) -> list[sqlite3.Row]:
        """The rows of a query with `{marks}` in it, asked some hundred values at a time."""
        rows: list[sqlite3.Row] = []
        with self._lock, explained(self.path, "read"):
            for start in range(0, len(values), _CHUNK):
                some = values[start : start + _CHUNK]
                rows += self._connection.execute(query.format(marks=", ".join("?" * len(some))), some).fetchall()
        return rows

    def _results(self, rows: Sequence[sqlite3.Row]) -> list[Result]:
        metrics: dict[int, dict[str, float]] = {row["id"]: {} for row in rows}
        query = "SELECT result, name, value FROM metric WHERE result IN ({marks}) ORDER BY id"
        for row in self._in_chunks(query, list(metrics)):
            metrics[row["result"]][row["name"]] = math.nan if row["value"] is None else row["value"]
        details = [json.loads(row["details"]) for row in rows]
        wanted = {value[_SHARED] for detail in details for value in detail.values() if _is_shared(value)}
        query = "SELECT digest, value FROM shared WHERE digest IN ({marks})"
        shared = {row["digest"]: json.loads(row["value"]) for row in self._in_chunks(query, sorted(wanted))}
        whole = [{k: shared[v[_SHARED]] if _is_shared(v) else v for k, v in detail.items()} for detail in details]
        return [_to_result(row, metrics[row["id"]], detail) for row, detail in zip(rows, whole, strict=True)]


#: Key of a detail that stands in the table of shared values; details whose JSON is as long as this go there.
_SHARED = "$shared"
_LONG = 512
_CHUNK = 500


def _is_shared(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {_SHARED}


def _split_off(details: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Details with references for the long values among them, and those values: what many cells repeat is kept once."""
    shared: list[tuple[str, str]] = []
    for name, value in details.items():
        text = to_json("details", value)
        if len(text) >= _LONG:
            key = hashlib.sha256(text.encode()).hexdigest()[:32]
            shared.append((key, text))
            details[name] = {_SHARED: key}
    return details, shared


def _to_result(row: sqlite3.Row, metrics: Mapping[str, float], details: Mapping[str, Any]) -> Result:
    cell = Cell(
        row["benchmark"],
        row["model"],
        row["dataset"],
        json.loads(row["parameters"]),
        row["revision"],
        row["version"],
    )
    return Result(
        cell=cell,
        metrics=metrics,
        error=row["error"],
        seconds=row["seconds"],
        sweep=tuple(json.loads(row["sweep"])),
        details=details,
        environment=json.loads(row["environment"]),
    )


def _matching(where: Mapping[str, Names]) -> tuple[str, list[str]]:
    """The WHERE clause of a selection and the values to bind; None stands for any."""
    conditions: list[str] = []
    values: list[str] = []
    for column, names in where.items():
        if names is not None:
            listed = _listed(names)
            conditions.append(f"{column} IN ({', '.join('?' * len(listed))})")
            values.extend(listed)
    return (f" WHERE {' AND '.join(conditions)}" if conditions else ""), values


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def to_json(what: str, value: Any) -> str:
    """JSON that Python reads back to the same bits; NaN and the infinities are written by name."""

    def plain(odd: Any) -> Any:
        # numpy scalars and arrays know how to become plain values, without importing numpy here.
        if hasattr(odd, "tolist"):
            return odd.tolist()
        raise TypeError(f"a {type(odd).__name__}")

    try:
        return json.dumps(value, separators=(",", ":"), default=plain)
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"the {what} of a result must be strings, numbers, lists and mappings, but hold {error}. Convert it "
            "before it is stored."
        ) from error
