"""The results database: every result that was computed and not forgotten, in full precision, in one SQLite file.

Append-only. Computing a cell again adds a result; the newest counts and the older ones stay readable. Several
processes may append at once: a result with its metrics is one transaction, which waits for the others.

A committed result survives a killed process and a power cut: the journal is a write-ahead log that is flushed to the
disk at each commit (`synchronous = FULL`). That costs a few milliseconds per cell, and a cell takes seconds.

Reading costs what is read: selections are answered by indices alone, results are fetched some hundred at a time, and
`brief` leaves sweeps, details and environments on the disk.
"""

from __future__ import annotations

import json
import math
import sqlite3
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from unseen.core.errors import StoreError
from unseen.core.identity import canonical_json
from unseen.core.records import Cell, Result
from unseen.results import schema as shared
from unseen.results.comparability import purpose
from unseen.results.connection import connect_for_reading, connect_for_writing, explained, parsed
from unseen.results.export import Row, long_rows
from unseen.results.schema import prepare

FILE_NAME = "results.sqlite"

_BRIEF = "id, study, cell, benchmark, version, model, dataset, parameters, revision, error, seconds, recorded"
_RESULT = f"{_BRIEF}, sweep, details, environment"
# The plus keeps SQLite from walking the index of cells row by row where another one has all that is asked for.
_CELL = "+cell"
_QUESTION = "benchmark, version, model, dataset, parameters"
_CHUNK = 500

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
        self._lock = threading.RLock()
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
        aside: dict[str, str] = {}
        values = {
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
            "sweep": shared.pack("sweep", [dict(trial) for trial in result.sweep], aside),
            "details": shared.pack_values("details", dict(result.details), aside),
            "environment": shared.pack("environment", dict(result.environment), aside),
        }
        metrics = [(name, float(value)) for name, value in result.metrics.items()]
        with self._writing("append to") as connection:
            names, marks = ", ".join(values), ", ".join("?" * len(values))
            insert = f"INSERT INTO result ({names}) VALUES ({marks})"  # noqa: S608, only our own names
            key = connection.execute(insert, list(values.values())).lastrowid
            connection.executemany("INSERT OR IGNORE INTO shared (digest, value) VALUES (?, ?)", aside.items())
            connection.executemany(
                "INSERT INTO metric (result, name, value) VALUES (?, ?, ?)",
                [(key, name, value) for name, value in metrics],
            )

    def done(self, cells: Iterable[Cell]) -> set[str]:
        """The ids of those cells whose newest result is a success; nothing else is read."""
        newest = (
            "SELECT cell FROM result WHERE error = '' AND id IN "
            "(SELECT max(id) FROM result WHERE cell IN ({marks}) GROUP BY cell)"
        )
        return {row["cell"] for row in self._in_chunks(newest, [cell.id for cell in cells])}

    def last(self) -> int:
        """A number that grows with every result."""
        return int(self._rows("SELECT coalesce(max(id), 0) AS id FROM result", [])[0]["id"])

    def arrived(self, cells: Iterable[Cell], after: int) -> set[str]:
        """The ids of those cells that have a result, or a failure, of later than `last` once said."""
        query = f"SELECT DISTINCT cell FROM result WHERE id > {after:d} AND cell IN ({{marks}})"  # noqa: S608
        return {row["cell"] for row in self._in_chunks(query, [cell.id for cell in cells])}

    def cells(self, cells: Iterable[Cell]) -> list[Result]:
        """The newest result of each of these cells, in order of arrival."""
        newest = "SELECT max(id) AS id FROM result WHERE cell IN ({marks}) GROUP BY cell"
        ids = [row["id"] for row in self._in_chunks(newest, [cell.id for cell in cells])]
        return [result for _, result in self._read(sorted(ids))]

    def latest(
        self,
        study: Names = None,
        benchmark: Names = None,
        model: Names = None,
        dataset: Names = None,
        include_failed: bool = True,
        brief: bool = False,
    ) -> list[Result]:
        """The newest result of each cell, in order of arrival; a failure that a later run has mended is left out.

        Args:
            study, benchmark, model, dataset: one name or several; None takes all.
            include_failed: whether to keep cells whose newest result is a failure.
            brief: leave `sweep`, `details` and `environment` unread, and empty.
        """
        where = {"study": study, "benchmark": benchmark, "model": model, "dataset": dataset}
        ids = self._newest(where, include_failed=include_failed)
        return [result for _, result in self._read(ids, brief=brief)]

    def history(self, cell_id: str) -> list[Result]:
        """Every result of a cell, the oldest first."""
        ids = [row["id"] for row in self._in_chunks("SELECT id FROM result WHERE cell IN ({marks})", [cell_id])]
        return [result for _, result in self._read(sorted(ids))]

    def rows(
        self,
        study: Names = None,
        benchmark: Names = None,
        model: Names = None,
        dataset: Names = None,
        metric: Names = None,
        include_failed: bool = True,
        only_failed: bool = False,
        brief: bool = False,
    ) -> Iterator[Row]:
        """Long form, row by row: one dictionary per (cell, metric) of the newest results.

        What later weights or data have overtaken is left out (see `overtaken`). A failed cell is one row whose
        `metric` and `value` are None and whose `error` is the reason.
        """
        where = {"study": study, "benchmark": benchmark, "model": model, "dataset": dataset}
        wanted = None if metric is None else set(_listed(metric))
        ids = self._newest(where, include_failed=include_failed, by=_QUESTION)
        for row, result in self._read(ids, brief=brief):
            if not (only_failed and result.ok):
                for long in long_rows(result, wanted, brief=brief):
                    yield {"study": row["study"], **long, "recorded": row["recorded"]}

    def overtaken(
        self, study: Names = None, benchmark: Names = None, model: Names = None, dataset: Names = None
    ) -> int:
        """How many results `latest` gives that `rows` does not: those of older weights or data."""
        where = {"study": study, "benchmark": benchmark, "model": model, "dataset": dataset}
        return len(self._newest(where)) - len(self._newest(where, by=_QUESTION))

    def parameter_kinds(
        self, study: Names = None, benchmark: Names = None, model: Names = None, dataset: Names = None
    ) -> dict[str, set[type]]:
        """The parameters that occur in `rows`, with the types of their values: the columns of a table of them."""
        where = {"study": study, "benchmark": benchmark, "model": model, "dataset": dataset}
        kinds: dict[str, set[type]] = {}
        ids = self._newest(where, by=_QUESTION)
        for start in range(0, len(ids), _CHUNK):
            query = "SELECT DISTINCT parameters FROM result WHERE id IN ({marks})"
            with parsed(self.path):
                for row in self._in_chunks(query, ids[start : start + _CHUNK]):
                    for name, value in json.loads(row["parameters"]).items():
                        kinds.setdefault(name, set()).add(type(value))
        return kinds

    def names(self, column: str) -> list[str]:
        """The values that `column` ("study", "benchmark", "model", "dataset" or "metric") has, sorted."""
        if column not in ("study", "benchmark", "model", "dataset", "metric"):
            raise ValueError(f"no list of {column!r} is kept; there are study, benchmark, model, dataset and metric")
        source = "name FROM metric" if column == "metric" else f"{column} AS name FROM result"
        rows = self._rows(f"SELECT DISTINCT {source} ORDER BY name", [])
        return [row["name"] for row in rows]

    def count(
        self,
        study: Names = None,
        benchmark: Names = None,
        model: Names = None,
        dataset: Names = None,
        *,
        failed: bool = False,
    ) -> int:
        """How many results `forget` would remove."""
        where = {"study": study, "benchmark": benchmark, "model": model, "dataset": dataset}
        matching, values = _matching(where, failed=failed)
        return int(self._rows(f"SELECT count(*) AS n FROM result{matching}", values)[0]["n"])  # noqa: S608

    def forget(
        self,
        study: Names = None,
        benchmark: Names = None,
        model: Names = None,
        dataset: Names = None,
        *,
        failed: bool = False,
    ) -> int:
        """Remove results for good, older ones of the same cells among them, and what only they used.

        Args:
            study, benchmark, model, dataset: one name or several; None takes all.
            failed: remove failures only.

        Returns:
            How many results were removed.
        """
        where = {"study": study, "benchmark": benchmark, "model": model, "dataset": dataset}
        matching, values = _matching(where, failed=failed)
        texts = "SELECT sweep, details, environment FROM result"
        with self._writing("remove from") as connection:
            chosen = connection.execute(f"INSERT INTO forgetting SELECT id FROM result{matching}", values)  # noqa: S608
            removed = chosen.rowcount
            used = shared.references(connection.execute(f"{texts} WHERE id IN (SELECT result FROM forgetting)"))  # noqa: S608
            connection.execute("DELETE FROM metric WHERE result IN (SELECT result FROM forgetting)")
            connection.execute("DELETE FROM result WHERE id IN (SELECT result FROM forgetting)")
            orphans = used - shared.references(connection.execute(texts)) if used else used
            connection.executemany("DELETE FROM shared WHERE digest = ?", [(digest,) for digest in orphans])
            connection.execute("DELETE FROM forgetting")
        return removed

    def close(self) -> None:
        """Close the file. Doing it twice is harmless."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _writing(self, action: str) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it, or nothing."""
        with self._lock, explained(self.path, action):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _newest(self, where: Mapping[str, Names], *, include_failed: bool = True, by: str = _CELL) -> list[int]:
        """The ids of the newest results, one per cell or per question, without failures that were mended later."""
        matching, values = _matching(where)
        query = f"SELECT max(id) AS id FROM result{matching} GROUP BY {by}"  # noqa: S608, values are bound
        with self._lock, explained(self.path, "read"):
            ids = sorted(int(row["id"]) for row in self._connection.execute(query, values))
        failed = f"SELECT {_BRIEF} FROM result WHERE error != '' AND id IN ({{marks}})"  # noqa: S608
        failures = self._in_chunks(failed, ids)
        with parsed(self.path):
            gone = set(self._mended(failures)) if include_failed else {row["id"] for row in failures}
        return [number for number in ids if number not in gone]

    def _mended(self, failures: Sequence[sqlite3.Row]) -> Iterator[int]:
        """Those failures (by id) that have a later success for the same purpose, in whatever study."""
        answered: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
        known: dict[str, dict[str, Any]] = {}
        for row in failures:
            names = row["model"], row["dataset"], row["benchmark"]
            if names not in answered:
                query = (
                    f"SELECT {_BRIEF} FROM result WHERE model = ? AND dataset = ? AND benchmark = ? "  # noqa: S608
                    "AND error = '' AND id > ? ORDER BY id"
                )
                later = self._rows(query, [*names, row["id"]])
                answered[names] = {purpose(_cell(success, known)): success["id"] for success in later}
            if answered[names].get(purpose(_cell(row, known)), 0) > row["id"]:
                yield row["id"]

    def _rows(self, query: str, values: Sequence[Any]) -> list[sqlite3.Row]:
        with self._lock, explained(self.path, "read"):
            return self._connection.execute(query, values).fetchall()

    def _in_chunks(self, query: str, values: Sequence[Any]) -> list[sqlite3.Row]:
        """The rows of a query with `{marks}` in it, asked some hundred values at a time."""
        rows: list[sqlite3.Row] = []
        for start in range(0, len(values), _CHUNK):
            some = values[start : start + _CHUNK]
            rows += self._rows(query.format(marks=", ".join("?" * len(some))), some)
        return rows

    def _read(self, ids: Sequence[int], *, brief: bool = False) -> Iterator[tuple[sqlite3.Row, Result]]:
        """The results of some ids, in their order, a chunk at a time."""
        columns = _BRIEF if brief else _RESULT
        loaded = shared.Values(lambda keys: self._in_chunks(shared.QUERY, keys))
        known: dict[str, dict[str, Any]] = {}
        for start in range(0, len(ids), _CHUNK):
            some = ids[start : start + _CHUNK]
            query = f"SELECT {columns} FROM result WHERE id IN ({{marks}}) ORDER BY id"  # noqa: S608
            rows = self._in_chunks(query, some)
            metrics: dict[int, dict[str, float]] = {row["id"]: {} for row in rows}
            query = "SELECT result, name, value FROM metric WHERE result IN ({marks}) ORDER BY id"
            values = self._in_chunks(query, some)
            with parsed(self.path):
                for row in values:
                    metrics[row["result"]][sys.intern(row["name"])] = math.nan if row["value"] is None else row["value"]
                nested = [{}] * len(rows) if brief else loaded.unpack(rows)
                found = [
                    _to_result(_cell(row, known), row, metrics[row["id"]], more)
                    for row, more in zip(rows, nested, strict=True)
                ]
            yield from zip(rows, found, strict=True)
            del rows, metrics, values, nested, found  # before the next are there


def _cell(row: sqlite3.Row, known: dict[str, dict[str, Any]]) -> Cell:
    """The cell of a row. What many cells have in common is held once: of 100,000 results that is half of the memory.

    Args:
        known: parameters by their text, as far as they were met; what is new is added.
    """
    text = row["parameters"]
    if text not in known:
        parameters = json.loads(text)
        if not isinstance(parameters, dict):
            raise ValueError("parameters are not an object")
        known[text] = parameters
    names = {name: sys.intern(row[name]) for name in ("benchmark", "model", "dataset", "revision", "version")}
    return Cell(**names, parameters=known[text])


def _to_result(cell: Cell, row: sqlite3.Row, metrics: Mapping[str, float], nested: Mapping[str, Any]) -> Result:
    return Result(
        cell=cell,
        metrics=metrics,
        error=row["error"],
        seconds=row["seconds"],
        sweep=tuple(nested.get("sweep", ())),
        details=nested.get("details", {}),
        environment=nested.get("environment", {}),
        recorded=row["recorded"],
    )


def _matching(where: Mapping[str, Names], *, failed: bool = False) -> tuple[str, list[str]]:
    """The WHERE clause of a selection and the values to bind; None stands for any."""
    conditions: list[str] = ["error != ''"] if failed else []
    values: list[str] = []
    for column, names in where.items():
        if names is not None:
            listed = _listed(names)
            conditions.append(f"{column} IN ({', '.join('?' * len(listed))})")
            values.extend(listed)
    return (f" WHERE {' AND '.join(conditions)}" if conditions else ""), values


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
