"""The results database: every result that was computed and not removed, in full precision, in one SQLite file.

Append-only. Computing a cell again adds a result; the newest counts and the older ones stay readable. Several
processes, also of several machines, may append at once: a result with its metrics is one transaction, which waits for
the others.

A committed result survives a killed process and a power cut: each commit is flushed to the disk (`synchronous = FULL`).
That costs a few milliseconds per cell, and a cell takes seconds.

Each row has a digest of everything that a reader shows. A row whose digest does not match, or that is not a result, is
left out and reported by its id (`rows`).

Reading costs what is read: selections are answered by indices alone, results are fetched some hundred at a time, and
`brief` leaves sweeps, details and environments on the disk.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from unseen.core.errors import StoreError, StoreWarning, UsageError
from unseen.core.records import Cell, Result
from unseen.results import schema as shared
from unseen.results.comparability import purpose
from unseen.results.connection import close, connect_for_reading, connect_for_writing, explained, transaction
from unseen.results.export import Row, long_rows
from unseen.results.rows import COLUMNS, RowReader, to_row
from unseen.results.schema import prepare

FILE_NAME = "results.sqlite"

_COLUMNS = ", ".join(COLUMNS)
_ASKED = "id, benchmark, version, model, dataset, parameters, revision"
# The plus keeps SQLite from walking the index of cells row by row where another one has all that is needed.
_CELL = "+cell"
_QUESTION = "benchmark, version, model, dataset, parameters"
_CHUNK = 500
#: Digits of the id of a cell, and how many of them are needed to find it.
_CELL_DIGITS, _FEWEST_DIGITS = 16, 4
#: Invalid rows that a warning names.
_NAMED = 5

Names = str | Sequence[str] | None


@dataclass(frozen=True)
class Verification:
    """What `ResultsDatabase.verify` found.

    Attributes:
        checked: number of results.
        unsealed: how many of them were written by an earlier version, which stored no digests.
        invalid: what is wrong with a result, by its id.
        structure: what SQLite's own integrity check reports.
    """

    checked: int
    unsealed: int
    invalid: Mapping[int, str]
    structure: Sequence[str]


class ResultsDatabase:
    """The results under one home, open for appending or for reading.

    Args:
        path: the file. It is created, with its folder, unless `read_only`.
        read_only: change nothing: neither results nor tables, and create no file.

    Raises:
        StoreError: the file cannot be opened, is of another program, or of a newer version of this one.
    """

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self.read_only = read_only
        self._lock = threading.RLock()
        self._reported: set[int] = set()
        if read_only and not self.path.is_file():
            raise StoreError(f"there is no results database at {self.path}. Run a study first, or choose another home.")
        with explained(self.path, "open"):
            if not read_only:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = connect_for_reading(self.path) if read_only else connect_for_writing(self.path)
            try:
                prepare(self._connection, self.path, writable=not read_only)
            except BaseException:
                self.close()
                raise

    def append(self, study: str, result: Result) -> None:
        """Add a result in one transaction: after a return it is on the disk, after an error it is not there.

        Raises:
            DiskFullError: no room; what was there before is whole.
            StoreError: the file is read-only or locked, or a value of the result cannot be written as JSON.
        """
        values, metrics, aside = to_row(study, result)
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
        """Return the ids of those cells whose newest result is a success with the right digest."""
        newest = (
            "SELECT id FROM result WHERE error = '' AND id IN "
            "(SELECT max(id) FROM result WHERE cell IN ({marks}) GROUP BY cell)"
        )
        ids = sorted(row["id"] for row in self._in_chunks(newest, [cell.id for cell in cells]))
        return {row["cell"] for row, _ in self._checked(ids, self._reader(brief=True))}

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
            brief: leave `sweep`, `details` and `environment` empty. Metrics and the run record are read.
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
            for row in self._in_chunks(query, ids[start : start + _CHUNK]):
                try:
                    parameters = dict(json.loads(row["parameters"]))
                except (ValueError, TypeError, RecursionError):
                    continue  # `rows` reports and leaves out a row that is invalid
                for name, value in parameters.items():
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
        texts = f"SELECT {', '.join(shared.NESTED)} FROM result"  # noqa: S608, only our own names
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
        if self.read_only:
            self._connection.close()
        else:
            close(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def find(self, key: str) -> tuple[str, Result]:
        """Return the study and the result of an id: the number of a result, or the beginning of the id of a cell.

        The newest result of a cell is returned.

        Raises:
            UsageError: no result has that id, or several cells have.
        """
        ids: list[int] = []
        if key.isdecimal() and len(key) < _CELL_DIGITS:
            ids = [row["id"] for row in self._rows("SELECT id FROM result WHERE id = ?", [int(key)])]
        if not ids and len(key) >= _FEWEST_DIGITS:
            query = "SELECT cell, max(id) AS id FROM result WHERE substr(cell, 1, ?) = ? GROUP BY cell"
            found = self._rows(query, [len(key), key])
            if len(found) > 1:
                raise UsageError(f"{len(found)} cells have ids that begin with {key!r}: give more digits.")
            ids = [row["id"] for row in found]
        for row, result in self._read(ids):
            return str(row["study"]), result
        raise UsageError(
            f"{self.path} has no valid result with the id {key!r}. `unseen results --json` prints the ids of cells, of "
            f"which at least {_FEWEST_DIGITS} digits are needed."
        )

    def verify(self) -> Verification:
        """Check every result, older ones among them, and the structure of the file."""
        ids = [int(row["id"]) for row in self._rows("SELECT id FROM result ORDER BY id", [])]
        reader, invalid = self._reader(), dict[int, str]()
        for row, metrics in self._checked(ids, reader, invalid):
            try:
                reader.to_result(row, metrics)
            except ValueError as error:
                invalid[row["id"]] = str(error)
        unsealed = self._rows("SELECT count(*) AS n FROM result WHERE digest = ''", [])[0]["n"]
        structure = [str(row[0]) for row in self._rows("PRAGMA integrity_check", [])]
        return Verification(len(ids), int(unsealed), invalid, [line for line in structure if line != "ok"])

    @contextmanager
    def _writing(self, action: str) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it, or nothing."""
        with self._lock, explained(self.path, action), transaction(self._connection, self.path):
            yield self._connection

    def _newest(self, where: Mapping[str, Names], *, include_failed: bool = True, by: str = _CELL) -> list[int]:
        """The ids of the newest results, one per cell or per question, without failures that were mended later."""
        matching, values = _matching(where)
        query = f"SELECT max(id) AS id FROM result{matching} GROUP BY {by}"  # noqa: S608, values are bound
        with self._lock, explained(self.path, "read"):
            ids = sorted(int(row["id"]) for row in self._connection.execute(query, values))
        failed = f"SELECT {_ASKED} FROM result WHERE error != '' AND id IN ({{marks}})"  # noqa: S608
        failures = self._in_chunks(failed, ids)
        gone = set(self._mended(failures)) if include_failed else {row["id"] for row in failures}
        return [number for number in ids if number not in gone]

    def _mended(self, failures: Sequence[sqlite3.Row]) -> Iterator[int]:
        """Those failures (by id) that have a later success for the same purpose, in any study."""
        answered: dict[tuple[str, ...], dict[tuple[str, ...] | None, int]] = {}
        reader = self._reader()

        def purpose_of(row: sqlite3.Row) -> tuple[str, ...] | None:
            try:
                return purpose(reader.cell(row))
            except (ValueError, TypeError, RecursionError):
                return None  # `_read` reports and leaves out a row that is invalid

        for row in failures:
            names = row["model"], row["dataset"], row["benchmark"]
            if names not in answered:
                query = (
                    f"SELECT {_ASKED} FROM result WHERE model = ? AND dataset = ? AND benchmark = ? "  # noqa: S608
                    "AND error = '' AND id > ? ORDER BY id"
                )
                later = self._rows(query, [*names, row["id"]])
                answered[names] = {purpose_of(success): success["id"] for success in later}
            asked = purpose_of(row)
            if asked is not None and answered[names].get(asked, 0) > row["id"]:
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

    def _reader(self, *, brief: bool = False) -> RowReader:
        return RowReader(shared.Values(lambda keys: self._in_chunks(shared.QUERY, keys)), brief=brief)

    def _read(self, ids: Sequence[int], *, brief: bool = False) -> Iterator[tuple[sqlite3.Row, Result]]:
        """The valid results of some ids, in their order, a chunk at a time; invalid ones are reported."""
        reader, invalid = self._reader(brief=brief), dict[int, str]()
        for row, metrics in self._checked(ids, reader, invalid):
            try:
                result = reader.to_result(row, metrics)
            except ValueError as error:
                invalid[row["id"]] = str(error)
            else:
                yield row, result
        self._report(invalid)

    def _checked(
        self, ids: Sequence[int], reader: RowReader, invalid: dict[int, str] | None = None
    ) -> Iterator[tuple[sqlite3.Row, list[tuple[str, Any]]]]:
        """Those rows whose digests and types are right, with their metrics.

        Args:
            invalid: what is wrong with the others is added, by id.
        """
        invalid = {} if invalid is None else invalid
        for start in range(0, len(ids), _CHUNK):
            some = ids[start : start + _CHUNK]
            query = f"SELECT {_COLUMNS} FROM result WHERE id IN ({{marks}}) ORDER BY id"  # noqa: S608
            rows = self._in_chunks(query, some)
            metrics: dict[int, list[tuple[str, Any]]] = {row["id"]: [] for row in rows}
            query = "SELECT result, name, value FROM metric WHERE result IN ({marks}) ORDER BY id"
            for row in self._in_chunks(query, some):
                metrics.get(row["result"], []).append((row["name"], row["value"]))
            reader.fetch(rows)
            for row in rows:
                if problem := reader.problem_of(row, metrics[row["id"]]):
                    invalid[row["id"]] = problem
                else:
                    yield row, metrics[row["id"]]
            del rows, metrics  # before the next are there

    def _report(self, invalid: Mapping[int, str]) -> None:
        """Warn of rows that are left out, each once."""
        new = {number: problem for number, problem in invalid.items() if number not in self._reported}
        if not new:
            return
        self._reported.update(new)
        named = "; ".join(f"result {number}: {problem}" for number, problem in list(new.items())[:_NAMED])
        more = f"; and {len(new) - _NAMED:,} more" if len(new) > _NAMED else ""
        count = "1 invalid result is" if len(new) == 1 else f"{len(new):,} invalid results are"
        warnings.warn(
            f"{count} left out of what is read from {self.path}: {named}{more}. See: unseen results verify",
            StoreWarning,
            stacklevel=4,
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
