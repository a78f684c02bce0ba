"""Opening the file, and what an error of SQLite or of the system is called: each kind by its code."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from unseen.core.errors import StoreError, StoreWarning
from unseen.results import connection
from unseen.results.connection import close, connect_for_reading, connect_for_writing, explained, transaction


def error_of(code: int, kind: type[sqlite3.Error] = sqlite3.OperationalError) -> sqlite3.Error:
    error = kind("odd")
    error.sqlite_errorcode = code
    return error


def told(error: BaseException, path: Path) -> str:
    with pytest.raises(StoreError) as found, explained(path, "append to"):
        raise error
    assert found.value.__cause__ is error
    text = str(found.value)
    assert text.startswith(f"cannot append to {path}: ")
    return f"{type(found.value).__name__}: {text}"


#: Errors have particulars above the low byte.
@pytest.mark.parametrize("more", [0, 1 << 8, 10 << 8])
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (sqlite3.SQLITE_FULL, "the disk is full"),
        (sqlite3.SQLITE_NOTADB, "it is damaged (odd)"),
        (sqlite3.SQLITE_CORRUPT, "it is damaged (odd)"),
        (sqlite3.SQLITE_READONLY, "is read-only (odd)"),
        (sqlite3.SQLITE_CANTOPEN, "is read-only (odd)"),
        (sqlite3.SQLITE_BUSY, "kept it locked"),
        (sqlite3.SQLITE_LOCKED, "kept it locked"),
        (sqlite3.SQLITE_IOERR, ": odd."),
        (sqlite3.SQLITE_CONSTRAINT, ": odd."),
        (sqlite3.SQLITE_MISMATCH, ": odd."),
    ],
)
def test_each_kind_of_error_has_its_words(path: Path, code: int, more: int, said: str) -> None:
    path.touch()
    text = told(error_of(code | more), path)
    assert said in text
    assert text.startswith("DiskFullError") == (code == sqlite3.SQLITE_FULL)


def test_what_cannot_be_opened_because_it_is_not_there(path: Path) -> None:
    assert told(error_of(sqlite3.SQLITE_CANTOPEN), path).endswith(": odd.")


def test_errors_without_a_code_are_told_as_they_are(path: Path) -> None:
    assert told(sqlite3.ProgrammingError("odd"), path).endswith(": odd.")
    assert told(error_of(-1), path).endswith(": odd.")


@pytest.mark.parametrize(("free", "full"), [(0, True), ((1 << 16) - 4096, True), (1 << 16, False)])
def test_an_input_error_where_nothing_is_free_is_a_full_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch, free: int, full: bool
) -> None:
    state = list(os.statvfs(path.parent))
    state[1], state[4] = 4096, free // 4096  # the size of a block, and how many are free
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(state))
    assert ("the disk is full" in told(error_of(sqlite3.SQLITE_IOERR), path)) == full
    assert "the disk is full" not in told(error_of(sqlite3.SQLITE_CONSTRAINT), path)


def test_an_input_error_of_a_folder_that_is_gone_is_told_as_it_is(tmp_path: Path) -> None:
    assert told(error_of(sqlite3.SQLITE_IOERR), tmp_path / "gone" / "a").endswith(": odd.")


def test_errors_of_the_system_and_of_texts(path: Path) -> None:
    for code in (errno.ENOSPC, errno.EDQUOT):
        assert told(OSError(code, "odd"), path).startswith("DiskFullError")
    assert told(OSError(errno.EACCES, "not allowed"), path) == f"StoreError: cannot append to {path}: not allowed."
    assert told(OSError("strange"), path) == f"StoreError: cannot append to {path}: strange."
    assert "damaged" in told(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), path)
    with pytest.raises(ZeroDivisionError), explained(path, "append to"):
        raise ZeroDivisionError


def test_a_writer_waits_flushes_and_holds_to_references(path: Path) -> None:
    before = os.umask(0o002)
    try:
        opened = connect_for_writing(path)
    finally:
        os.umask(before)
    try:
        asked = ("foreign_keys", "synchronous", "journal_mode", "busy_timeout")
        found = [opened.execute(f"PRAGMA {name}").fetchone()[0] for name in asked]
        assert found == [1, 2, "persist", 60_000]
        assert opened.isolation_level is None
        assert opened.execute("SELECT 1 AS one").fetchone()["one"] == 1
    finally:
        close(opened)
    assert [each.name for each in path.parent.iterdir()] == [path.name], "the journal is removed"
    assert stat.S_IMODE(path.stat().st_mode) == 0o664, "a group may share it where the mask says so"


def test_opening_a_file_does_not_release_the_locks_of_this_process(path: Path) -> None:
    """Closing any descriptor of a file releases all POSIX locks of the process on it: no file is opened twice."""
    path.touch()
    with path.open("r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        connection._create(path)
        child = os.fork()
        if child == 0:
            with path.open("r+b") as other:
                try:
                    fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    os._exit(7)
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_the_log_of_an_earlier_version_stays_while_others_use_it(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("CREATE TABLE a (b)")
    other.commit()
    began = time.monotonic()
    for expected in ("wal", "persist"):
        opened = connect_for_writing(path)
        assert opened.execute("PRAGMA journal_mode").fetchone()[0] == expected
        assert opened.execute("PRAGMA busy_timeout").fetchone()[0] == 60_000
        opened.execute("INSERT INTO a VALUES (1)")
        close(opened)
        other.close()
    assert time.monotonic() - began < 20, "it does not wait for them"


def test_a_writer_that_waits_for_a_lock_gives_a_message(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SILENT_SECONDS", 0.1)
    one, other = connect_for_writing(path), connect_for_writing(path)
    one.execute("CREATE TABLE a (b)")
    one.execute("BEGIN IMMEDIATE")
    threading.Timer(0.5, lambda: one.execute("COMMIT")).start()
    try:
        told = pytest.warns(StoreWarning, match=r"waiting for .*another process has locked it")
        with told, transaction(other, path):
            other.execute("INSERT INTO a VALUES (1)")
        assert other.execute("PRAGMA busy_timeout").fetchone()[0] == 60_000
        with transaction(other, path):
            other.execute("INSERT INTO a VALUES (2)")
        assert [row[0] for row in one.execute("SELECT b FROM a")] == [1, 2]
    finally:
        close(one)
        close(other)


@pytest.mark.parametrize("connect", [connect_for_reading, connect_for_writing])
def test_a_connection_that_finds_a_lock_gives_a_message(
    connect: Callable[[Path], sqlite3.Connection], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SILENT_SECONDS", 0.1)
    writer = connect_for_writing(path)
    writer.execute("CREATE TABLE a (b)")
    writer.execute("BEGIN EXCLUSIVE")
    threading.Timer(0.5, lambda: writer.execute("COMMIT")).start()
    try:
        with pytest.warns(StoreWarning, match=r"waiting for .*another process has locked it"):
            close(connect(path))
    finally:
        close(writer)


def test_a_lock_that_lasts_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.2)
    one, other = connect_for_writing(path), connect_for_writing(path)
    one.execute("BEGIN IMMEDIATE")
    try:
        told = pytest.warns(StoreWarning, match="waiting")
        with told, pytest.raises(sqlite3.OperationalError, match="locked"), transaction(other, path):
            raise AssertionError("the lock is held")
    finally:
        one.execute("COMMIT")
        close(one)
        close(other)


def test_a_reader_writes_nothing(path: Path) -> None:
    writer = connect_for_writing(path)
    writer.execute("CREATE TABLE a (b)")
    close(writer)
    opened = connect_for_reading(path)
    try:
        assert opened.execute("SELECT count(*) AS n FROM a").fetchone()["n"] == 0
        assert opened.execute("PRAGMA busy_timeout").fetchone()[0] == 60_000
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            opened.execute("INSERT INTO a VALUES (1)")
    finally:
        opened.close()


def test_no_connection_is_left_open_after_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"no database" * 100)
    opened: list[sqlite3.Connection] = []
    plainly = sqlite3.connect

    def noting(*arguments: object, **more: object) -> sqlite3.Connection:
        opened.append(plainly(*arguments, **more))  # type: ignore[call-overload]
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", noting)
    for connect in (connect_for_writing, connect_for_reading):
        with pytest.raises(sqlite3.DatabaseError):
            connect(path)
    assert len(opened) == 2
    for each in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            each.execute("SELECT 1")
