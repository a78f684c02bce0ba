"""Opening the SQLite file, for appending beside other processes or for reading, and what it refuses in one line."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unseen.core.errors import DiskFullError, StoreError

BUSY_SECONDS = 60.0


def connect_for_writing(path: Path) -> sqlite3.Connection:
    """A connection that waits for other writers and whose commits are on the disk when they return."""
    with suppress(OSError):  # what is wrong with the path SQLite says below; it would make the file for its owner alone
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o666))
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        _use_write_ahead_log(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the journal, once per file. SQLite does not always wait for others here by itself, so we do."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def connect_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that writes nothing, also where the folder cannot be written (a read-only disk, a package)."""
    try:
        return _open_read_only(path, "mode=ro")
    except sqlite3.OperationalError as error:
        # A write-ahead log needs a shared index beside the file. Where no log is left nobody writes: read it as it is.
        unopenable = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
        if not unopenable or path.with_name(path.name + "-wal").exists():
            raise
        return _open_read_only(path, "mode=ro&immutable=1")


def _open_read_only(path: Path, mode: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


# Less than this free, and an input/output error is taken for a full disk: SQLite has several names for one.
_NO_ROOM = 1 << 16


@contextmanager
def explained(path: Path, action: str) -> Iterator[None]:
    """Turn an error raised inside into a `StoreError` or `DiskFullError`.

    Args:
        path: the file at work.
        action: what was tried, to stand after "cannot", such as "append to".
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


@contextmanager
def parsed(path: Path) -> Iterator[None]:
    """Turn what damaged texts of a database raise when they are parsed into a `StoreError`."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, "read", error) from error


def _from_sqlite(error: sqlite3.Error, path: Path, action: str) -> StoreError:
    # The low byte is the kind of error, the rest its particulars. Errors of the Python layer have no code.
    code = getattr(error, "sqlite_errorcode", -1)
    kind = code & 0xFF if code >= 0 else -1
    if kind == sqlite3.SQLITE_FULL or (kind == sqlite3.SQLITE_IOERR and _has_no_room(path)):
        return _full(path, action)
    if kind in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return _damaged(path, action, error)
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
        f"cannot {action} {path}: it is not a results database, or it is damaged ({error}). Move it away, or choose "
        "another home."
    )


def _full(path: Path, action: str) -> DiskFullError:
    return DiskFullError(
        f"cannot {action} {path}: the disk is full. All earlier results are whole: make room and run the same command "
        "to go on."
    )


def _has_no_room(path: Path) -> bool:
    try:
        state = os.statvfs(path.parent)
    except OSError:
        return False
    return state.f_bavail * state.f_frsize < _NO_ROOM
