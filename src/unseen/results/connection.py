"""Open the SQLite files of a home, and turn their errors into one line with advice.

Two rules keep a file whole that several processes write to:

- No code of this package opens a database file except through SQLite. Closing any descriptor of a file releases all
  POSIX locks that the process holds on it, and with them those of SQLite's own connections. `_create` opens the file
  only if it did not exist before.
- The journal is a rollback journal, not a write-ahead log: a log needs memory that all processes share, so it works on
  one machine only, and the file alone is not the whole database (docs/adr/0021).
"""

from __future__ import annotations

import errno
import os
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unseen.core.errors import DiskFullError, StoreError, StoreWarning

#: Seconds to wait for other processes before an error, and before a message.
BUSY_SECONDS = 60.0
SILENT_SECONDS = 3.0


def connect_for_writing(path: Path, *, durable: bool = True) -> sqlite3.Connection:
    """Return a connection that waits for other writers.

    Args:
        durable: whether a commit is on the disk when it returns.
    """
    _create(path)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.text_factory = _text
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")  # a repair must not find results that were removed
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        _use_rollback_journal(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(path: Path) -> None:
    """Create the file with the mode that any new file gets; SQLite would give it to its owner alone."""
    # SQLite reports what is wrong with the path. A file that exists must not be opened here: see above.
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))


def _use_rollback_journal(connection: sqlite3.Connection) -> None:
    """Use a journal that stays beside the file while it is open, which takes the fewest flushes.

    A database of an earlier version has a write-ahead log. Only a single connection can change that, so it keeps the
    log while other processes have it open.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute("PRAGMA journal_mode = PERSIST")
    except sqlite3.OperationalError as error:
        if not _is_busy(error):
            raise
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")


def close(connection: sqlite3.Connection) -> None:
    """Close a connection for writing and remove its journal file; closing twice is harmless."""
    with suppress(sqlite3.Error):  # it is closed already, or another process uses the journal
        connection.execute("PRAGMA busy_timeout = 0")
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


def _wait_for(connection: sqlite3.Connection, statement: str, path: Path) -> None:
    """Execute a statement that needs a lock, and warn if the lock is not free after some seconds."""
    connection.execute(f"PRAGMA busy_timeout = {SILENT_SECONDS * 1000:.0f}")
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
        connection.execute(f"PRAGMA busy_timeout = {(BUSY_SECONDS - SILENT_SECONDS) * 1000:.0f}")
        connection.execute(statement)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")


def _is_busy(error: sqlite3.Error) -> bool:
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def connect_for_reading(path: Path) -> sqlite3.Connection:
    """Return a connection that changes no result, also if the folder cannot be written (a read-only disk).

    It may roll back what a process that was killed has left, as every connection of SQLite must.
    """
    try:
        return _open_for_queries(path, "mode=rw")
    except sqlite3.OperationalError as error:
        # The write-ahead log of an earlier version needs an index beside the file. Without a log, no process writes.
        unopenable = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
        if not unopenable or any(path.with_name(path.name + end).exists() for end in ("-wal", "-journal")):
            raise
        return _open_for_queries(path, "mode=ro&immutable=1")


def _open_for_queries(path: Path, mode: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.text_factory = _text
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _text(data: bytes) -> str:
    """Decode a text; damaged bytes of one row must not make the others unreadable."""
    return data.decode("utf-8", "replace")


# Less than this free, and an input/output error is taken for a full disk: SQLite has several names for one.
_NO_ROOM = 1 << 16


@contextmanager
def explained(path: Path, action: str) -> Iterator[None]:
    """Turn an error raised inside into a `StoreError` or `DiskFullError`.

    Args:
        path: the database file.
        action: what was tried, as it follows "cannot", such as "append to".
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _from_sqlite(error, path, action) from error
    except UnicodeDecodeError as error:  # a name in its schema that was damaged
        raise _damaged(path, action, error) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(path, action) from error
        raise StoreError(f"cannot {action} {path}: {error.strerror or error}.") from error


def _from_sqlite(error: sqlite3.Error, path: Path, action: str) -> StoreError:
    # The low byte is the kind of error, the rest its particulars. Errors of the Python layer have no code.
    code = getattr(error, "sqlite_errorcode", -1)
    kind = code & 0xFF if code >= 0 else -1
    if kind == sqlite3.SQLITE_FULL or (kind == sqlite3.SQLITE_IOERR and _has_no_room(path)):
        return _full(path, action)
    if kind in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return _damaged(path, action, error)
    if code == sqlite3.SQLITE_READONLY_DBMOVED:
        return StoreError(f"cannot {action} {path}: it was moved, replaced or removed. Run the same command again.")
    if kind == sqlite3.SQLITE_READONLY or (kind == sqlite3.SQLITE_CANTOPEN and path.exists()):
        return StoreError(
            f"cannot {action} {path}: it, or its folder, is read-only ({error}). Make it writable, or choose another "
            "home with --home or UNSEEN_HOME."
        )
    if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(f"cannot {action} {path}: another process has kept it locked for too long. Try again.")
    return StoreError(f"cannot {action} {path}: {error}.")


def _damaged(path: Path, action: str, error: Exception) -> StoreError:
    return StoreError(
        f"cannot {action} {path}: it is not a results database, or it is damaged ({error}). `unseen results repair` "
        "copies what can be read into a new database; or choose another home."
    )


def _full(path: Path, action: str) -> DiskFullError:
    return DiskFullError(
        f"cannot {action} {path}: the disk is full. All earlier results are whole: make room and run the same command "
        "to resume."
    )


def _has_no_room(path: Path) -> bool:
    try:
        state = os.statvfs(path.parent)
    except OSError:
        return False
    return state.f_bavail * state.f_frsize < _NO_ROOM
