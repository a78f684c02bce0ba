"""Between runs and their workers: results on their way to the one writer of the database, and who is at work on what.

The inbox is a folder of small files. A worker leaves each result as a file of its own, whole or not at all, as soon as
it is known; the process that runs the study collects them. It works wherever workers share the home folder, on any
engine. A worker that is killed has left what it finished, and what a killed collector did not collect is found by the
next run.

Runs on one home share their work instead of doing it twice: each claims a piece before it does it and lets go when it
is done. A claim holds for a minute and is renewed while its run lives; that of a process of this machine that has ended
is free at once. A claim is a hint, not a lock: whoever works without one, or on one that ran out, does the same work
again and comes to the same result.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from unseen.core.files import write_whole
from unseen.core.records import Result
from unseen.results.connection import connect_for_writing, explained
from unseen.results.schema import prepare, to_json

#: Seconds between two looks into the folder.
PAUSE = 0.5


class Inbox:
    """The folder `HOME/inbox`."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "inbox"

    def drop(self, study: str, owner: str = "") -> Callable[[Result], None]:
        """What a worker of the run called `owner` calls with each result."""

        def leave(result: Result) -> None:
            content = to_json("result", {"study": study, "owner": owner, "result": result.to_dict()})
            # Not flushed to the disk: what a power cut takes away here is one cell, which is done again.
            write_whole(self.folder / f"{result.cell.id}.json", content, flush=False)

        return leave

    def collect(
        self, study: str, file: Callable[[Result], None], mine: Callable[[str], bool] = lambda _owner: True
    ) -> None:
        """File what lies there for a study and is `mine` by its owner, and remove it."""
        for path in sorted(self.folder.glob("*.json")) if self.folder.is_dir() else ():
            try:
                values = json.loads(path.read_text(encoding="utf-8"))
                if values["study"] != study or not mine(str(values.get("owner", ""))):
                    continue
                result = Result.from_dict(values["result"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # another process has taken it, or it is no file of ours
            file(result)
            path.unlink(missing_ok=True)

    @contextmanager
    def collected(
        self, study: str, file: Callable[[Result], None], mine: Callable[[str], bool] = lambda _owner: True
    ) -> Iterator[None]:
        """While in force, what workers leave is filed within a second."""
        lock, ended = threading.Lock(), threading.Event()
        failure: list[BaseException] = []

        def look() -> None:
            with lock:
                self.collect(study, file, mine)

        def keep_looking() -> None:
            while not ended.wait(PAUSE):
                try:
                    look()
                except BaseException as error:  # noqa: BLE001 - told by the thread that waits for the work
                    failure.append(error)
                    return

        watcher = threading.Thread(target=keep_looking, name="inbox", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            if not failure:
                look()
        if failure:
            raise failure[0]
        with suppress(OSError):
            self.folder.rmdir()


#: Seconds that a claim holds, and between two renewals.
LIFETIME, HEARTBEAT = 60.0, 15.0
_CHUNK = 400


class Claims:
    """The claims of one run in the results database at `path`; used in a `with` block, which lets go of all."""

    def __init__(self, path: Path, *, lifetime: float = LIFETIME, heartbeat: float = HEARTBEAT) -> None:
        self.path, self.lifetime, self.heartbeat = path, lifetime, heartbeat
        self.owner = "|".join([here(), str(os.getpid()), born(os.getpid()), secrets.token_hex(6)])
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._alive: dict[str, tuple[float, bool]] = {}

    def __enter__(self) -> Self:
        with explained(self.path, "open"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = connect_for_writing(self.path)
            prepare(self._connection, self.path, writable=True)
            # A claim that a power cut takes away costs nothing but doing the work again.
            self._connection.execute("PRAGMA synchronous = NORMAL")
        self._ended.clear()
        threading.Thread(target=self._beat, name="claims", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        with self._lock, contextlib.suppress(sqlite3.Error):  # what is left runs out by itself
            self._connection.execute("DELETE FROM claim WHERE owner = ?", [self.owner])
        with self._lock:
            self._connection.close()

    def take(self, work: Sequence[str]) -> list[str]:
        """Claim those pieces of work that nobody else is at, and say which they are."""
        taken: list[str] = []
        with self._lock, explained(self.path, "claim work in"):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for start in range(0, len(work), _CHUNK):
                    some = list(work[start : start + _CHUNK])
                    held = self._held(some)
                    mine = [each for each in some if each not in held]
                    until = time.time() + self.lifetime
                    self._connection.executemany(
                        "INSERT OR REPLACE INTO claim (work, owner, expires) VALUES (?, ?, ?)",
                        [(each, self.owner, until) for each in mine],
                    )
                    taken += mine
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        return taken

    def let_go(self, work: Iterable[str]) -> None:
        """Give pieces of work back: they are done, or will not be."""
        with self._lock, explained(self.path, "claim work in"):
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "DELETE FROM claim WHERE work = ? AND owner = ?", [(each, self.owner) for each in work]
            )
            self._connection.execute("COMMIT")

    def lives(self, owner: str) -> bool:
        """Whether the run of that name is at work still, as far as can be known."""
        if owner == self.owner:
            return True
        known = process_lives(owner)
        if known is not None:
            return known
        with self._lock, explained(self.path, "read"):
            row = self._connection.execute("SELECT max(expires) FROM claim WHERE owner = ?", [owner]).fetchone()
        return bool(row[0] and row[0] > time.time())

    def _held(self, work: list[str]) -> set[str]:
        """Those that somebody else holds, and has not died over."""
        marks = ", ".join("?" * len(work))
        query = f"SELECT work, owner, expires FROM claim WHERE work IN ({marks})"  # noqa: S608, values are bound
        rows = self._connection.execute(query, work).fetchall()
        now = time.time()
        return {
            row["work"]
            for row in rows
            if row["owner"] != self.owner and row["expires"] > now and self._is_alive(row["owner"])
        }

    def _is_alive(self, owner: str) -> bool:
        """Looked up once a second."""
        now = time.monotonic()
        asked, answer = self._alive.get(owner, (-1.0, True))
        if now - asked > 1.0 or asked < 0:
            answer = process_lives(owner) is not False
            self._alive[owner] = now, answer
        return answer

    def _beat(self) -> None:
        while not self._ended.wait(self.heartbeat):
            with self._lock, contextlib.suppress(sqlite3.Error):  # the next beat may come through
                if not self._ended.is_set():
                    until = time.time() + self.lifetime
                    self._connection.execute("UPDATE claim SET expires = ? WHERE owner = ?", [until, self.owner])


@cache
def here() -> str:
    """This machine since it was started, and the part of it whose processes can be seen from here."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8])
        parts.append(Path("/proc/self/ns/pid").readlink().name.strip("pid:[]"))
    return "/".join(parts).replace("|", "-")


def born(pid: int) -> str:
    """When a process was started, as its machine counts: a number may be given to another process later."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    return ""


def process_lives(owner: str) -> bool | None:
    """Whether the process behind an owner lives; None where it is of another machine."""
    place, pid, started, _ = [*owner.split("|"), "", "", ""][:4]
    if place != here() or not pid.isdigit():
        return None
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return not started or born(int(pid)) == started
