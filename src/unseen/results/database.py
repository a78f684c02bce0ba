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

import sqlite3
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

from unseen.core.errors import StoreError, StoreWarning, UsageError
from unseen.core.records import Cell, Result
from unseen.results import rows as stored
from unseen.results.connection import close, connect_for_reading, connect_for_writing, explained, prepare, transaction
from unseen.results.rows import COLUMNS, NESTED, Fields, RowReader, insert, long_rows, to_row

FILE_NAME = "results.sqlite"

_COLUMNS = ", ".join(COLUMNS)
# The plus keeps SQLite from walking the index of cells row by row where another one has all that is needed.
_CELL = "+cell"
_QUESTION = "benchmark, version, model, dataset, parameters"
_PURPOSE = "CASE WHEN json_valid({0}.parameters) THEN json_remove({0}.parameters, '$.extraction') END"
#: Of some results, the failures that have a later success for the same purpose (`comparability.purpose`), in any study.
_FIXED = f"""
SELECT id FROM result AS failure WHERE error != '' AND id IN ({{marks}}) AND EXISTS (
    SELECT 1 FROM result AS later
    WHERE (later.model, later.dataset, later.benchmark) = (failure.model, failure.dataset, failure.benchmark)
    AND later.id > failure.id AND later.error = '' AND {_PURPOSE.format("later")} = {_PURPOSE.format("failure")}
)"""  # noqa: S608, only our own names
_CHUNK = 500
#: Digits of the id of a cell, and how many of them are needed to find it.
_CELL_DIGITS, _FEWEST_DIGITS = 16, 4
#: Invalid rows that a warning names.
_NAMED = 5

Names = str | Sequence[str] | None


class Selection(TypedDict, total=False):
    """Names of studies, benchmarks, models and datasets: one or several each; None takes all."""

    study: Names
    benchmark: Names
    model: Names
    dataset: Names


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
        row, metrics, shared = to_row(study, result)
        with self._writing("append to") as connection:
            insert(connection, row, metrics, shared)

    def add_to_study(self, study: str, cells: Iterable[Cell]) -> None:
        """Append the newest result of each of these cells under a study that has none of the cell."""
        own = {row["cell"] for row in self._rows("SELECT DISTINCT cell FROM result WHERE study = ?", [study])}
        if others := self.cells([cell for cell in cells if cell.id not in own]):
            with self._writing("append to") as connection:
                for result in others:
                    insert(connection, *to_row(study, result))

    def done(self, cells: Iterable[Cell]) -> set[str]:
        """Return the ids of those cells whose newest result is a success with the right digest."""
        newest = (
            "SELECT id FROM result WHERE error = '' AND id IN "
            "(SELECT max(id) FROM result WHERE cell IN ({marks}) GROUP BY cell)"
        )
        ids = sorted(row["id"] for row in self._in_chunks(newest, [cell.id for cell in cells]))
        return {row["cell"] for row, _ in self._valid(ids, {}, brief=True)}

    def last(self) -> int:
        """Return a number that grows with every result."""
        return int(self._rows("SELECT coalesce(max(id), 0) AS id FROM result")[0]["id"])

    def arrived(self, cells: Iterable[Cell], after: int) -> set[str]:
        """Return the ids of those cells that have a result, or a failure, since `last` returned `after`."""
        query = f"SELECT DISTINCT cell FROM result WHERE id > {after:d} AND cell IN ({{marks}})"  # noqa: S608
        return {row["cell"] for row in self._in_chunks(query, [cell.id for cell in cells])}

    def cells(self, cells: Iterable[Cell]) -> list[Result]:
        """Return the newest result of each of these cells, in order of arrival."""
        newest = "SELECT max(id) AS id FROM result WHERE cell IN ({marks}) GROUP BY cell"
        ids = [row["id"] for row in self._in_chunks(newest, [cell.id for cell in cells])]
        return [result for _, result in self._read(sorted(ids))]

    def latest(self, *, include_failed: bool = True, brief: bool = False, **names: Unpack[Selection]) -> list[Result]:
        """Return the newest result of each cell, in order of arrival, without failures that a later run has fixed.

        Args:
            include_failed: whether to keep cells whose newest result is a failure.
            brief: leave `sweep`, `details` and `environment` empty. Metrics and the run record are read.
            **names: `study`, `benchmark`, `model` and `dataset`: one name or several; None takes all.
        """
        ids = self._newest(names, include_failed=include_failed)
        return [result for _, result in self._read(ids, brief=brief)]

    def history(self, cell_id: str) -> list[Result]:
        """Return every result of a cell, the oldest first."""
        ids = [row["id"] for row in self._rows("SELECT id FROM result WHERE cell = ? ORDER BY id", [cell_id])]
        return [result for _, result in self._read(ids)]

    def rows(
        self,
        *,
        metric: Names = None,
        include_failed: bool = True,
        only_failed: bool = False,
        brief: bool = False,
        **names: Unpack[Selection],
    ) -> Iterator[Fields]:
        """Yield long form: one dictionary per (cell, metric) of the newest results.

        Results of older weights or data are left out (see `overtaken`). A failed cell is one row whose `metric` and
        `value` are None and whose `error` is the reason.
        """
        wanted = None if metric is None else _listed(metric)
        ids = self._newest(names, include_failed=include_failed, by=_QUESTION)
        for row, result in self._read(ids, brief=brief):
            if not (only_failed and result.ok):
                for long in long_rows(result, wanted, brief=brief):
                    yield {"study": row["study"], **long, "recorded": row["recorded"]}

    def overtaken(self, **names: Unpack[Selection]) -> int:
        """Return how many results `latest` returns and `rows` does not: those of older weights or data."""
        return len(self._newest(names)) - len(self._newest(names, by=_QUESTION))

    def parameter_names(self, **names: Unpack[Selection]) -> set[str]:
        """Return the names of the parameters that occur in `rows`: the columns of a table."""
        # `rows` reports a row that is invalid.
        keys = "json_each(CASE WHEN json_valid(parameters) THEN parameters ELSE '[]' END)"
        query = f"SELECT DISTINCT key FROM result, {keys} WHERE typeof(key) = 'text' AND result.id IN ({{marks}})"  # noqa: S608
        return {row["key"] for row in self._in_chunks(query, self._newest(names, by=_QUESTION))}

    def names(self, column: str) -> list[str]:
        """Return the values of a column ("study", "benchmark", "model", "dataset" or "metric"), sorted."""
        if column not in ("study", "benchmark", "model", "dataset", "metric"):
            raise ValueError(f"no list of {column!r} is kept; there are study, benchmark, model, dataset and metric")
        source = "name FROM metric" if column == "metric" else f"{column} AS name FROM result"
        return [row["name"] for row in self._rows(f"SELECT DISTINCT {source} ORDER BY name")]

    def count(self, *, failed: bool = False, **names: Unpack[Selection]) -> int:
        """Return how many results `forget` would remove."""
        matching, values = _matching(names, failed=failed)
        return int(self._rows(f"SELECT count(*) AS n FROM result{matching}", values)[0]["n"])  # noqa: S608

    def forget(self, *, failed: bool = False, **names: Unpack[Selection]) -> int:
        """Remove results for good, older ones of the same cells among them, and what only they used.

        Args:
            failed: remove failures only.
            **names: `study`, `benchmark`, `model` and `dataset`: one name or several; None takes all.

        Returns:
            How many results were removed.
        """
        matching, values = _matching(names, failed=failed)
        texts = f"SELECT {', '.join(NESTED)} FROM result"  # noqa: S608, only our own names
        with self._writing("remove from") as connection:
            chosen = connection.execute(f"INSERT INTO forgetting SELECT id FROM result{matching}", values)  # noqa: S608
            used = stored.references(connection.execute(f"{texts} WHERE id IN (SELECT result FROM forgetting)"))  # noqa: S608
            connection.execute("DELETE FROM metric WHERE result IN (SELECT result FROM forgetting)")
            connection.execute("DELETE FROM result WHERE id IN (SELECT result FROM forgetting)")
            orphans = used - stored.references(connection.execute(texts)) if used else used
            connection.executemany("DELETE FROM shared WHERE digest = ?", [(digest,) for digest in orphans])
            connection.execute("DELETE FROM forgetting")
        return chosen.rowcount

    def close(self) -> None:
        """Close the file. Doing it twice is harmless."""
        if self.read_only:
            self._connection.close()
        else:
            close(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
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
        ids = [int(row["id"]) for row in self._rows("SELECT id FROM result ORDER BY id")]
        invalid: dict[int, str] = {}
        for _ in self._valid(ids, invalid):
            pass
        unsealed = self._rows("SELECT count(*) AS n FROM result WHERE digest = ''")[0]["n"]
        structure = [str(row[0]) for row in self._rows("PRAGMA integrity_check")]
        return Verification(len(ids), int(unsealed), invalid, [line for line in structure if line != "ok"])

    @contextmanager
    def _writing(self, action: str) -> Iterator[sqlite3.Connection]:
        with self._lock, explained(self.path, action), transaction(self._connection, self.path):
            yield self._connection

    def _newest(self, where: Mapping[str, object], *, include_failed: bool = True, by: str = _CELL) -> list[int]:
        """Return the ids of the newest results, one per cell or per question, without failures that were fixed."""
        matching, values = _matching(where)
        query = f"SELECT max(id) AS id FROM result{matching} GROUP BY {by}"  # noqa: S608, values are bound
        ids = sorted(int(row["id"]) for row in self._rows(query, values))
        dropped = _FIXED if include_failed else "SELECT id FROM result WHERE error != '' AND id IN ({marks})"
        without = {row["id"] for row in self._in_chunks(dropped, ids)}
        return [number for number in ids if number not in without]

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        with self._lock, explained(self.path, "read"):
            return self._connection.execute(query, values).fetchall()

    def _in_chunks(self, query: str, values: Sequence[object]) -> Iterator[sqlite3.Row]:
        """Yield the rows of a query with `{marks}` in it, for some hundred values at a time."""
        for start in range(0, len(values), _CHUNK):
            some = values[start : start + _CHUNK]
            yield from self._rows(query.format(marks=", ".join("?" * len(some))), some)

    def _read(self, ids: Sequence[int], *, brief: bool = False) -> Iterator[tuple[sqlite3.Row, Result]]:
        """Yield the valid results of some ids, in their order, a chunk at a time; warn of invalid ones, each once."""
        invalid: dict[int, str] = {}
        yield from self._valid(ids, invalid, brief=brief)
        new = {number: problem for number, problem in invalid.items() if number not in self._reported}
        if new:
            self._reported.update(new)
            listed = "; ".join(f"result {number}: {problem}" for number, problem in list(new.items())[:_NAMED])
            more = f"; and {len(new) - _NAMED:,} more" if len(new) > _NAMED else ""
            count = "1 invalid result is" if len(new) == 1 else f"{len(new):,} invalid results are"
            warnings.warn(
                f"{count} left out of what is read from {self.path}: {listed}{more}. See: unseen results verify",
                StoreWarning,
                stacklevel=4,
            )

    def _valid(
        self, ids: Sequence[int], invalid: dict[int, str], *, brief: bool = False
    ) -> Iterator[tuple[sqlite3.Row, Result]]:
        """Yield the valid results of some ids.

        Args:
            invalid: receives the problem of each of the others, by id.
        """
        shared = "SELECT digest, value FROM shared WHERE digest IN ({marks})"
        reader = RowReader(lambda digests: self._in_chunks(shared, digests), brief=brief)
        for start in range(0, len(ids), _CHUNK):
            some = ids[start : start + _CHUNK]
            query = f"SELECT {_COLUMNS} FROM result WHERE id IN ({{marks}}) ORDER BY id"  # noqa: S608
            rows = list(self._in_chunks(query, some))
            metrics: dict[int, list[tuple[str, Any]]] = {row["id"]: [] for row in rows}
            query = "SELECT result, name, value FROM metric WHERE result IN ({marks}) ORDER BY id"
            for row in self._in_chunks(query, some):
                metrics.get(row["result"], []).append((row["name"], row["value"]))
            reader.fetch(rows)
            for row in rows:
                try:
                    yield row, reader.read(row, metrics[row["id"]])
                except ValueError as error:
                    invalid[row["id"]] = str(error)
            del rows, metrics  # before the next are loaded


def _matching(where: Mapping[str, Any], *, failed: bool = False) -> tuple[str, list[str]]:
    """Return the WHERE clause of a selection and the values to bind; None stands for any."""
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
