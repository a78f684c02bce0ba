"""Opening the SQLite file: for appending beside other processes, or for reading what must not change."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

BUSY_SECONDS = 60.0


def connect_for_writing(path: Path) -> sqlite3.Connection:
    """A connection that waits for other writers and whose commits are on the disk when they return."""
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
