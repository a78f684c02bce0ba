"""The tables of the results database, one script per schema version.

The version is SQLite's own `user_version`; a database of version n is brought up to date by running the scripts
after the n-th, in order, in one transaction. A script that has been released never changes: add another one, and
freeze a database of the new version beside the old ones in `tests/fixtures`.

Results are only ever added, and removed by `forget` alone; triggers refuse anything else, also from other programs. The
value of a metric has no declared type on purpose: a REAL column turns -0.0 into 0.0, a column without a type keeps
every bit. SQLite has no NaN, so NULL stands for it.

Values that many results repeat (the concepts of a level, an environment) are stored once under their digest: a long
value stands in its result as {"$shared": digest}. Short ones stay where they are.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unseen.core.errors import StoreError
from unseen.results.connection import transaction

# "unse" in ASCII: tells our databases from those of other programs.
APPLICATION_ID = 0x756E7365

_VERSION_1 = """
CREATE TABLE result (
    id          INTEGER PRIMARY KEY,  -- order of arrival: the newest of a cell has the greatest
    study       TEXT NOT NULL,
    cell        TEXT NOT NULL,        -- Cell.id
    benchmark   TEXT NOT NULL,
    model       TEXT NOT NULL,
    dataset     TEXT NOT NULL,
    parameters  TEXT NOT NULL,        -- JSON object
    revision    TEXT NOT NULL,        -- digest of weights and images
    error       TEXT NOT NULL,        -- '' where all went well
    seconds     NOT NULL,
    sweep       TEXT NOT NULL,        -- JSON list of objects
    details     TEXT NOT NULL,        -- JSON object
    environment TEXT NOT NULL,        -- JSON object
    recorded    TEXT NOT NULL         -- UTC, ISO 8601
);
CREATE TABLE metric (
    id     INTEGER PRIMARY KEY,
    result INTEGER NOT NULL REFERENCES result (id),
    name   TEXT NOT NULL,
    value,                            -- double; NULL is NaN
    UNIQUE (result, name)
);
CREATE INDEX result_by_cell ON result (cell, id);
CREATE INDEX result_by_study ON result (study, id);
CREATE TRIGGER result_is_append_only BEFORE UPDATE ON result BEGIN SELECT RAISE (ABORT, 'results are append-only'); END;
CREATE TRIGGER result_is_kept BEFORE DELETE ON result BEGIN SELECT RAISE (ABORT, 'results are append-only'); END;
CREATE TRIGGER metric_is_append_only BEFORE UPDATE ON metric BEGIN SELECT RAISE (ABORT, 'results are append-only'); END;
CREATE TRIGGER metric_is_kept BEFORE DELETE ON metric BEGIN SELECT RAISE (ABORT, 'results are append-only'); END;
"""

# Version 2: the version of protocol and methods; what many results share is stored once; `forget` may delete; indices
# that answer by themselves, so that no query reads rows that it does not give.
_VERSION_2 = """
ALTER TABLE result ADD COLUMN version TEXT NOT NULL DEFAULT '';
CREATE TABLE shared (                 -- what stands in a result as {"$shared": digest}
    digest TEXT PRIMARY KEY,          -- of the value's JSON
    value  TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE forgetting (result INTEGER PRIMARY KEY);  -- what a running `forget` removes; empty otherwise
CREATE TRIGGER shared_is_append_only BEFORE UPDATE ON shared BEGIN SELECT RAISE (ABORT, 'results are append-only'); END;
CREATE TRIGGER shared_is_kept BEFORE DELETE ON shared WHEN NOT EXISTS (SELECT 1 FROM forgetting)
    BEGIN SELECT RAISE (ABORT, 'results are append-only'); END;
DROP TRIGGER result_is_kept;
CREATE TRIGGER result_is_kept BEFORE DELETE ON result WHEN OLD.id NOT IN (SELECT result FROM forgetting)
    BEGIN SELECT RAISE (ABORT, 'results are append-only'); END;
DROP TRIGGER metric_is_kept;
CREATE TRIGGER metric_is_kept BEFORE DELETE ON metric WHEN OLD.result NOT IN (SELECT result FROM forgetting)
    BEGIN SELECT RAISE (ABORT, 'results are append-only'); END;
DROP INDEX result_by_study;
CREATE INDEX result_by_study ON result (study, cell);
CREATE INDEX result_by_names ON result (model, dataset, benchmark, study, cell);
"""

# Version 3: which run is at work on what (see `claims`). It empties itself, and no result depends on it.
_VERSION_3 = """
CREATE TABLE claim (
    work    TEXT PRIMARY KEY,         -- the id of a cell, or a part of an entry of features
    owner   TEXT NOT NULL,            -- machine, process and run
    expires REAL NOT NULL             -- seconds since 1970, unless renewed
) WITHOUT ROWID;
"""

# Version 4: the run record; a digest of each row (`rows.row_digest`; '' in rows of earlier versions, which are not
# checked). Leases have a file of their own.
_VERSION_4 = """
ALTER TABLE result ADD COLUMN record TEXT NOT NULL DEFAULT '{}';
ALTER TABLE result ADD COLUMN digest TEXT NOT NULL DEFAULT '';
DROP TABLE claim;
"""

MIGRATIONS: tuple[str, ...] = (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4)

# Views that make a database of an earlier version look like the newest to a reader; in memory, the file is not changed.
_READ_AS_NEWEST: dict[int, str] = {
    1: """
CREATE TEMP VIEW result AS SELECT *, '' AS version, '{}' AS record, '' AS digest FROM main.result;
CREATE TEMP TABLE shared (digest TEXT, value TEXT);
""",
    2: "CREATE TEMP VIEW result AS SELECT *, '{}' AS record, '' AS digest FROM main.result;",
    3: "CREATE TEMP VIEW result AS SELECT *, '{}' AS record, '' AS digest FROM main.result;",
}


def prepare(connection: sqlite3.Connection, path: Path, *, writable: bool) -> None:
    """Make a new database, bring an old one up to date, refuse what is not ours or is newer than this code.

    Args:
        writable: whether tables may be made or changed; without it an old schema is read as it is.
    """
    connection.execute("BEGIN")  # one state of the file, though another process may be creating its tables
    try:
        found = _checked_version(connection, path)
    finally:
        connection.execute("COMMIT")
    if found == len(MIGRATIONS):
        return
    if not writable:
        if found not in _READ_AS_NEWEST:
            raise StoreError(f"{path} has no tables yet. Run a study first, or choose another home.")
        connection.execute("PRAGMA query_only = OFF")  # views in memory are changes, too
        for statement in _statements(_READ_AS_NEWEST[found]):
            connection.execute(statement)
        connection.execute("PRAGMA query_only = ON")
        return
    with transaction(connection, path):
        # Another process may have been quicker: ask again now that no other process can write.
        for version in range(_checked_version(connection, path), len(MIGRATIONS)):
            for statement in _statements(MIGRATIONS[version]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version + 1}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _checked_version(connection: sqlite3.Connection, path: Path) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")}
    own = {"result", "metric"} <= tables
    if (own and (owner != APPLICATION_ID or not version > 0)) or (owner == APPLICATION_ID and version and not own):
        raise StoreError(
            f"{path} is damaged: its header does not fit its tables. `unseen results repair` copies its results into a "
            "new database."
        )
    if owner != APPLICATION_ID and (owner or version or tables):
        raise StoreError(f"{path} is a SQLite database of another program. Move it away, or choose another home.")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} has schema version {version}, this unseen reads up to {len(MIGRATIONS)}. Upgrade unseen, or "
            "choose another home."
        )
    return version


def _statements(script: str) -> list[str]:
    """The single statements of a script: `executescript` would commit the transaction that must hold them all."""
    found, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending)
            pending = ""
    assert not pending.strip(), "a migration ends with a complete statement"
    return found


# ---- values stored once ----------------------------------------------------------------------------------------------

QUERY = "SELECT digest, value FROM shared WHERE digest IN ({marks})"

_KEY = "$shared"
#: Characters of a value's JSON from which on it is stored apart.
_LONG = 256
_REFERENCE = re.compile(r'\{"\$shared":"([0-9a-f]{32})"\}')
#: Columns whose texts may refer to shared values.
NESTED = ("sweep", "details", "environment", "record")


def pack(what: str, value: Any, aside: dict[str, str]) -> str:
    """JSON of a value, or of a reference to it where it is long; then it is put into `aside`, by its digest."""
    text = to_json(what, value)
    if len(text) < _LONG:
        return text
    digest = _digest(text)
    aside[digest] = text
    return to_json(what, {_KEY: digest})


def pack_values(what: str, values: Mapping[str, Any], aside: dict[str, str]) -> str:
    """JSON of a mapping whose values are packed one by one: what repeats is one of them, seldom all."""
    return f"{{{','.join(f'{to_json(what, str(k))}:{pack(what, v, aside)}' for k, v in values.items())}}}"


def references(rows: Iterable[Sequence[str]]) -> set[str]:
    """The digests that stand in rows of packed texts."""
    return {digest for row in rows for text in row for digest in _REFERENCE.findall(text)}


class Values:
    """Shared values while results are read: each is loaded, checked and parsed once.

    Args:
        load: gives the rows of `QUERY` for some digests.
    """

    def __init__(self, load: Callable[[list[str]], Iterable[Any]]) -> None:
        self._load = load
        self._texts: dict[str, str] = {}
        self._parsed: dict[str, Any] = {}

    def fetch(self, texts: Iterable[Sequence[str]]) -> None:
        """Load what packed texts refer to; a value that does not have the digest it is stored under is left out."""
        wanted = references(texts)
        # What the last rows did not need, the next will not need either: the rows of a study lie together.
        self._texts = {digest: text for digest, text in self._texts.items() if digest in wanted}
        self._parsed = {digest: value for digest, value in self._parsed.items() if digest in wanted}
        for row in self._load(sorted(wanted - set(self._texts))):
            if isinstance(row["value"], str) and _digest(row["value"]) == row["digest"]:
                self._texts[row["digest"]] = row["value"]

    def lacks(self, texts: Sequence[str]) -> bool:
        """Return whether packed texts of a row refer to a value that is missing or damaged."""
        return not references([texts]) <= self._texts.keys()

    def unpack(self, text: str) -> Any:
        """Return what a packed text stands for."""
        return self._whole(json.loads(text))

    def unpack_values(self, text: str) -> dict[str, Any]:
        """Return the mapping that a text of `pack_values` stands for."""
        values = self.unpack(text)
        if not isinstance(values, dict):
            raise TypeError("not a mapping")
        return {name: self._whole(value) for name, value in values.items()}

    def _whole(self, value: Any) -> Any:
        if not (isinstance(value, dict) and set(value) == {_KEY}):
            return value
        digest = value[_KEY]
        if digest not in self._parsed:
            self._parsed[digest] = json.loads(self._texts[digest])
        return self._parsed[digest]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def to_json(what: str, value: Any) -> str:
    """JSON that Python reads back to the same bits; NaN and the infinities are written by name."""

    def plain(odd: Any) -> Any:
        # numpy scalars and arrays know how to become plain values, without importing numpy here.
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
