"""Leases: which run does which work, so that runs on one home share their work instead of doing it twice.

A run acquires the lease of a piece of work before it begins and releases it at the end. A lease lasts a minute and is
renewed while its run lives; the lease of a process of this machine that has ended is free at once. A lease is a hint,
not a lock: a run that works without one, or on an expired one, does the same work again and gets the same result.

Leases are kept in `HOME/leases.sqlite`, apart from the results. The file holds nothing that is worth keeping: it is not
flushed to the disk, and it is replaced if it is damaged.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Self

from unseen.results.connection import close, connect_for_writing, explained, transaction

LEASES_FILE_NAME = "leases.sqlite"

#: Seconds that a lease lasts, and between two renewals.
LIFETIME, HEARTBEAT = 60.0, 15.0
_CHUNK = 400

_TABLE = """
CREATE TABLE IF NOT EXISTS lease (
    work    TEXT PRIMARY KEY,         -- the id of a cell, or a part of an entry of features
    owner   TEXT NOT NULL,            -- machine, process and run
    expires REAL NOT NULL             -- seconds since 1970, unless renewed
) WITHOUT ROWID
"""


class Leases:
    """The leases of one run, in the file at `path`; used in a `with` block, which releases all at its end."""

    def __init__(self, path: Path, *, lifetime: float = LIFETIME, heartbeat: float = HEARTBEAT) -> None:
        self.path, self.lifetime, self.heartbeat = path, lifetime, heartbeat
        self.owner = "|".join([here(), str(os.getpid()), started_at(os.getpid()), secrets.token_hex(6)])
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        with explained(self.path, "open"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = self._open()
            self._remove_dead()
        self._ended.clear()
        threading.Thread(target=self._renew, name="leases", daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        with self._lock, contextlib.suppress(sqlite3.Error):  # what is left expires
            self._connection.execute("DELETE FROM lease WHERE owner = ?", [self.owner])
        with self._lock:
            close(self._connection)

    def acquire(self, work: Sequence[str]) -> list[str]:
        """Acquire the leases of those pieces of work that no other run holds, and return them."""
        taken: list[str] = []
        with self._lock, explained(self.path, "write"), transaction(self._connection, self.path):
            for start in range(0, len(work), _CHUNK):
                some = list(work[start : start + _CHUNK])
                held = self._held(some)
                mine = [each for each in some if each not in held]
                until = time.time() + self.lifetime
                self._connection.executemany(
                    "INSERT OR REPLACE INTO lease (work, owner, expires) VALUES (?, ?, ?)",
                    [(each, self.owner, until) for each in mine],
                )
                taken += mine
        return taken

    def release(self, work: Iterable[str]) -> None:
        """Release pieces of work: they are done, or will not be done."""
        with self._lock, explained(self.path, "write"), transaction(self._connection, self.path):
            self._connection.executemany(
                "DELETE FROM lease WHERE work = ? AND owner = ?", [(each, self.owner) for each in work]
            )

    def is_alive(self, owner: str) -> bool:
        """Return whether the run of that name is still working, as far as can be known."""
        if owner == self.owner:
            return True
        known = process_is_alive(owner)
        if known is not None:
            return known
        with self._lock, explained(self.path, "read"):
            row = self._connection.execute("SELECT max(expires) FROM lease WHERE owner = ?", [owner]).fetchone()
        return bool(row[0] and row[0] > time.time())

    def _open(self, *, replace: bool = True) -> sqlite3.Connection:
        """Open the file, or a new one if it is damaged."""
        with contextlib.ExitStack() as stack:
            try:
                connection = connect_for_writing(self.path, durable=False)
                stack.callback(connection.close)
                if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                    raise sqlite3.DatabaseError("damaged")
                connection.execute(_TABLE)
                stack.pop_all()
                return connection
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError) or not replace:  # locked, or not writable
                    raise
        for name in (self.path.name, f"{self.path.name}-journal"):
            self.path.with_name(name).unlink(missing_ok=True)
        return self._open(replace=False)

    def _held(self, work: list[str]) -> set[str]:
        """Return the work that another run holds that has not ended."""
        marks = ", ".join("?" * len(work))
        query = f"SELECT work, owner, expires FROM lease WHERE work IN ({marks})"  # noqa: S608, values are bound
        now = time.time()
        rows = [row for row in self._connection.execute(query, work) if row["expires"] > now]
        owners = {row["owner"] for row in rows} - {self.owner}
        alive = {owner for owner in owners if process_is_alive(owner) is not False}
        return {row["work"] for row in rows if row["owner"] in alive}

    def _remove_dead(self) -> None:
        """Remove the leases of processes that have ended, and those that have expired."""
        owners = [row["owner"] for row in self._connection.execute("SELECT DISTINCT owner FROM lease")]
        dead = [(owner,) for owner in owners if process_is_alive(owner) is False]
        with transaction(self._connection, self.path):
            self._connection.executemany("DELETE FROM lease WHERE owner = ?", dead)
            self._connection.execute("DELETE FROM lease WHERE expires < ?", [time.time()])

    def _renew(self) -> None:
        while not self._ended.wait(self.heartbeat):
            with self._lock, contextlib.suppress(sqlite3.Error):  # the next renewal may succeed
                if not self._ended.is_set():
                    until = time.time() + self.lifetime
                    self._connection.execute("UPDATE lease SET expires = ? WHERE owner = ?", [until, self.owner])


@cache
def here() -> str:
    """Return a name of this machine since its last start, and of the process namespace."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8])
        parts.append(Path("/proc/self/ns/pid").readlink().name.strip("pid:[]"))
    return "/".join(parts).replace("|", "-")


def started_at(pid: int) -> str:
    """Return when a process was started; a process number may be given to another process later."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    return ""


def process_is_alive(owner: str) -> bool | None:
    """Return whether the process of an owner lives; None if it belongs to another machine."""
    place, pid, started, _ = [*owner.split("|"), "", "", ""][:4]
    if place != here() or not pid.isdigit():
        return None
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    return not started or started_at(int(pid)) == started
