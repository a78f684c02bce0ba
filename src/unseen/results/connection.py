"""Open the SQLite files of a home: connections, schema versions, and errors as one line with advice.

Two rules keep a file whole that several processes write to:

- No code of this package opens a database file except through SQLite. Closing any descriptor of a file releases all
  POSIX locks that the process holds on it, and with them those of SQLite's own connections. `_create` opens the file
  only if it did not exist before.
- The journal is a rollback journal, not a write-ahead log: a log needs memory that all processes share, so it works on
  one machine only, and the file alone is not the whole database (docs/adr/0021).

The schema version is SQLite's own `user_version`; a database of version n is brought up to date by running the scripts
after the n-th, in order, in one transaction. A script that has been released never changes: add another one, and
freeze a database of the new version beside the old ones in `tests/fixtures`.

Results are added, and removed by `forget` alone; triggers refuse anything else, also from other programs. The value of
a metric has no declared type on purpose: a REAL column turns -0.0 into 0.0, a column without a type keeps every bit.
SQLite has no NaN, so NULL stands for it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unseen.core.errors import DiskFullError, StoreError, StoreWarning

#: Seconds to wait for other processes before an error, and before a message.
BUSY_SECONDS = 60.0
SILENT_SECONDS = 3.0


def connect_for_writing(path: Path) -> sqlite3.Connection:
    """Return a connection that waits for other writers.

    Its journal stays beside the file while it is open, which takes the fewest flushes. A database of an earlier version
    has a write-ahead log. Only a single connection can change that, so it keeps the log while other processes have it
    open.
    """
    _create(path)
    connection = _connect(
        path,
        "PRAGMA foreign_keys = ON",
        "PRAGMA secure_delete = ON",  # a repair must not find results that were removed
        "PRAGMA synchronous = FULL",
    )
    _set_timeout(connection, 0)
    try:
        connection.execute("PRAGMA journal_mode = PERSIST")
    except sqlite3.Error as error:
        if not _is_busy(error):
            connection.close()
            raise
    _set_timeout(connection, BUSY_SECONDS)
    return connection


def _connect(address: Path | str, *statements: str) -> sqlite3.Connection:
    """Open a file, or an address with options, and run some statements."""
    by_address = isinstance(address, str)
    connection = sqlite3.connect(
        address, uri=by_address, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        connection.row_factory = sqlite3.Row
        # Damaged bytes of one row must not make the others unreadable.
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        for statement in statements:
            _wait_for(connection, statement, address)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(path: Path) -> None:
    """Create the file with the mode that any new file gets; SQLite would give it to its owner alone."""
    # SQLite reports what is wrong with the path. A file that exists must not be opened here: see above.
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))


def _set_timeout(connection: sqlite3.Connection, seconds: float) -> None:
    connection.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")


def close(connection: sqlite3.Connection) -> None:
    """Close a connection for writing and remove its journal file; closing twice is harmless."""
    with suppress(sqlite3.Error):  # it is closed already, or another process uses the journal
        _set_timeout(connection, 0)
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


@contextmanager
def transaction(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Run a block as one transaction: all of it is committed, or nothing."""
    _wait_for(connection, "BEGIN IMMEDIATE", path)
    try:
        yield
        _wait_for(connection, "COMMIT", path)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _wait_for(connection: sqlite3.Connection, statement: str, path: Path | str) -> None:
    """Execute a statement that needs a lock, and warn if the lock is not free after some seconds."""
    _set_timeout(connection, SILENT_SECONDS)
    try:
        connection.execute(statement)
    except sqlite3.OperationalError as error:
        if not _is_busy(error):
            raise
        warnings.warn(
            f"waiting for {path}: another process has locked it. It is tried for {BUSY_SECONDS:.0f} seconds.",
            StoreWarning,
            stacklevel=4,
        )
        _set_timeout(connection, BUSY_SECONDS - SILENT_SECONDS)
        connection.execute(statement)
    finally:
        _set_timeout(connection, BUSY_SECONDS)


def connect_for_reading(path: Path) -> sqlite3.Connection:
    """Return a connection that changes no result, also if the folder cannot be written (a read-only disk).

    It may roll back what a process that was killed has left, as every connection of SQLite must.
    """
    connection = _connect(f"{path.absolute().as_uri()}?mode=rw", "PRAGMA query_only = ON")
    try:
        _wait_for(connection, "SELECT count(*) FROM sqlite_master", path)
    except BaseException:
        connection.close()
        raise
    return connection


# ---- errors ----------------------------------------------------------------------------------------------------------

# Less than this free, and an input/output error is taken for a full disk: SQLite has several names for one.
_NO_ROOM = 1 << 16
_FULL = "the disk is full. All earlier results are whole: make room and run the same command to resume."


@contextmanager
def explained(path: Path, action: str) -> Iterator[None]:
    """Turn an error raised inside into a `StoreError` or `DiskFullError`.

    Args:
        path: the database file.
        action: what was tried, as it follows "cannot", such as "append to".
    """
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        reason = _reason(error, path)
        kind = DiskFullError if reason == _FULL else StoreError
        raise kind(f"cannot {action} {path}: {reason}") from error


def _reason(error: Exception, path: Path) -> str:
    kind = _kind(error)
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or kind == sqlite3.SQLITE_FULL or (kind == sqlite3.SQLITE_IOERR and _has_no_room(path)):
        return _FULL
    # A text that cannot be decoded is a name in a damaged schema.
    if kind in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT) or isinstance(error, UnicodeDecodeError):
        return (
            f"it is not a results database, or it is damaged ({error}). `unseen results repair` copies what can be "
            "read into a new database; or choose another home."
        )
    if getattr(error, "sqlite_errorcode", -1) == sqlite3.SQLITE_READONLY_DBMOVED:
        return "it was moved, replaced or removed. Run the same command again."
    exists = os.path.exists(path)  # noqa: PTH110 - `Path.exists` raises an error if the disk fails
    if kind == sqlite3.SQLITE_READONLY or (kind == sqlite3.SQLITE_CANTOPEN and exists):
        return (
            f"it, or its folder, is read-only ({error}). Make it writable, or choose another home with --home or "
            "UNSEEN_HOME."
        )
    if _is_busy(error):
        return "another process has kept it locked for too long. Try again."
    return f"{(isinstance(error, OSError) and error.strerror) or error}."


def _kind(error: Exception) -> int:
    """Return the kind of an error: the low byte of its code; -1 for errors of the Python layer, which have no code."""
    code: int = getattr(error, "sqlite_errorcode", -1)
    return code & 0xFF if code >= 0 else -1


def _is_busy(error: Exception) -> bool:
    return _kind(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _has_no_room(path: Path) -> bool:
    with suppress(OSError):
        return shutil.disk_usage(path.parent).free < _NO_ROOM
    return False


# ---- schema ----------------------------------------------------------------------------------------------------------

# "unse" in ASCII: distinguishes our databases from those of other programs.
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

# Version 3: which run works on what; version 4 moved this to another file.
_VERSION_3 = """
CREATE TABLE claim (
    work    TEXT PRIMARY KEY,         -- the id of a cell, or a part of an entry of features
    owner   TEXT NOT NULL,            -- machine, process and run
    expires REAL NOT NULL             -- seconds since 1970, unless renewed
) WITHOUT ROWID;
"""

# Version 4: the run record; a digest of each row (`rows.row_digest`; '' in rows of earlier versions, which are not
# checked). Leases have their own file.
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
    """Create the tables of a new database or migrate an old one; refuse other programs' and newer databases.

    Args:
        writable: whether tables may be created or changed; without it an old schema is read unchanged.
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
        connection.executescript(_READ_AS_NEWEST[found])
        connection.execute("PRAGMA query_only = ON")
        return
    with transaction(connection, path):
        # Another process may have been quicker: ask again now that no other process can write.
        for version in range(_checked_version(connection, path), len(MIGRATIONS)):
            # `executescript` would commit the transaction that must contain all statements, each on lines of its own.
            for statement in re.split(r"\n(?=[A-Z])", MIGRATIONS[version].strip()):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version + 1}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _checked_version(connection: sqlite3.Connection, path: Path) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")}
    own = {"result", "metric"} <= tables
    # An id that can be missing is not a key of its table: the text of the schema is damaged.
    odd = own and connection.execute("SELECT 1 FROM result WHERE id IS NULL LIMIT 1").fetchone() is not None
    if (
        odd
        or (own and (owner != APPLICATION_ID or not version > 0))
        or (owner == APPLICATION_ID and version and not own)
    ):
        raise StoreError(
            f"{path} is damaged: its header or its schema does not fit its tables. `unseen results repair` copies its "
            "results into a new database."
        )
    if owner != APPLICATION_ID and (owner or version or tables):
        raise StoreError(f"{path} is a SQLite database of another program. Move it away, or choose another home.")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} has schema version {version}, this unseen reads up to {len(MIGRATIONS)}. Upgrade unseen, or "
            "choose another home."
        )
    return version
