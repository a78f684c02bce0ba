"""What SQLite or the file system refuses, said as an `UnseenError` in one line."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unseen.core.errors import DiskFullError, StoreError

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
