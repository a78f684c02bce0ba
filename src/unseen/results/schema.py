"""The tables of the results database, one script per schema version.

The version is SQLite's own `user_version`; a database of version n is brought up to date by running the scripts
after the n-th, in order, in one transaction. A script that has been released never changes: add another one, and
freeze a database of the new version beside the old ones in `tests/fixtures`.

Rows are only ever added, and removed by `forget` alone; triggers refuse anything else, also from other programs. The
value of a metric has no declared type on purpose: a REAL column turns -0.0 into 0.0, a column without a type keeps
every bit. SQLite has no NaN, so NULL stands for it.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from unseen.core.errors import StoreError

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

MIGRATIONS: tuple[str, ...] = (_VERSION_1, _VERSION_2)

# What makes a database of an older version look like the newest to who only reads; in memory, the file stays as it is.
_READ_AS_NEWEST: dict[int, str] = {
    1: """
CREATE TEMP VIEW result AS SELECT *, '' AS version FROM main.result;
CREATE TEMP TABLE shared (digest TEXT, value TEXT);
"""
}


def prepare(connection: sqlite3.Connection, path: Path, *, writable: bool) -> None:
    """Make a new database, bring an old one up to date, refuse what is not ours or is newer than this code.

    Args:
        writable: whether tables may be made or changed; without it an old schema is read as it is.
    """
    found = _checked_version(connection, path)
    if found == len(MIGRATIONS):
        return
    if not writable:
        if found not in _READ_AS_NEWEST:
            raise StoreError(f"{path} has no tables yet. Run a study first, or choose another home.")
        for statement in _statements(_READ_AS_NEWEST[found]):
            connection.execute(statement)
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been quicker: ask again now that nobody else can write.
        for version in range(_checked_version(connection, path), len(MIGRATIONS)):
            for statement in _statements(MIGRATIONS[version]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version + 1}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _checked_version(connection: sqlite3.Connection, path: Path) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
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
