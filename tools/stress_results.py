"""Append to one results database from several processes that start, exit and are killed at random.

    python -m tools.stress_results --rounds 20 --slots 8 --appends 200

Each slot runs one process after another until its appends are acknowledged. A process opens the database and the
leases as a run does, appends some results, and exits or is killed with SIGKILL. After each round every acknowledged
result must exist with its metrics, and SQLite's integrity check must pass.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import shutil
import signal
import sqlite3
import struct
import sys
import tempfile
import time
import warnings
from pathlib import Path

from unseen.core.records import Cell, Result
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.run.record import Leases

_NUMBER = struct.Struct("<i")


def make_result(slot: int, number: int) -> Result:
    """Return the result that a slot appends under a number."""
    cell = Cell("probe", f"model-{slot}", "data", {"seed": number, "shots": "all"})
    details = {"own": f"{number:04d}" + "x" * (number % 7) * 100, "shared": ["y" * 300]}
    return Result(cell, {"top1": slot + number / 1000, "top5": 1.0}, details=details)


def append_some(home: Path, slot: int, first: int, count: int, acknowledge: int) -> None:
    """Append results as a run does, and write each number to the pipe after its append has returned."""
    with ResultsDatabase(home / FILE_NAME) as database, Leases(home) as leases:
        for number in range(first, first + count):
            work = [f"{slot}-{number}"]
            leases.acquire(work)
            database.append("stress", make_result(slot, number))
            os.write(acknowledge, _NUMBER.pack(number))
            leases.release(work)


class _Slot:
    """One process after another, until all appends of the slot are acknowledged."""

    def __init__(self, home: Path, number: int, appends: int, choices: random.Random, burst: int) -> None:
        self.home, self.number, self.appends, self.choices, self.burst = home, number, appends, choices, burst
        self.acknowledged: set[int] = set()
        self.next, self.pid, self.pipe, self.killed = 0, 0, -1, 0

    def start(self) -> None:
        reading, writing = os.pipe()
        count = min(self.choices.randint(1, self.burst), self.appends - len(self.acknowledged))
        delay = self.choices.uniform(0, self.burst / 2000)
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(reading)
                warnings.simplefilter("ignore")  # waiting for a lock is not a failure, also where warnings are errors
                time.sleep(delay)
                append_some(self.home, self.number, self.next, count, writing)
                code = 0
            except BaseException as error:  # noqa: BLE001 - the child must not return into the parent's code
                os.write(2, f"slot {self.number}: {type(error).__name__}: {error}\n".encode())
            finally:
                os._exit(code)
        os.close(writing)
        self.pipe, self.next = reading, self.next + count
        kill = self.choices.random() < 0.4
        self.kill_at = time.monotonic() + self.choices.uniform(0, self.burst * 0.0075) if kill else None

    def fileno(self) -> int:
        return self.pipe

    def kill_if_due(self) -> None:
        if self.kill_at is not None and time.monotonic() > self.kill_at:
            os.kill(self.pid, signal.SIGKILL)
            self.kill_at, self.killed = None, self.killed + 1

    def step(self) -> str:
        """Read acknowledgements, and return why the process ended or ""."""
        data = os.read(self.pipe, 4096)
        self.acknowledged.update(number for (number,) in _NUMBER.iter_unpack(data))
        if data:
            return ""
        os.close(self.pipe)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return "ended" if status in (0, -signal.SIGKILL) else f"exit code {status}"


def run_round(home: Path, slots: int, appends: int, seed: int, burst: int = 40) -> tuple[list[str], int, int]:
    """Run one round in which each process appends at most `burst` results.

    Returns:
        Problems, the number of acknowledged results, and the number of processes that were killed.
    """
    choices = random.Random(seed)
    running = [_Slot(home, number, appends, random.Random(choices.random()), burst) for number in range(slots)]
    everyone, problems = list(running), list[str]()
    for slot in running:
        slot.start()
    while running:
        due = min((slot.kill_at for slot in running if slot.kill_at is not None), default=None)
        ready, _, _ = select.select(running, [], [], None if due is None else max(0.0, due - time.monotonic()))
        for slot in running:
            slot.kill_if_due()
        for slot in ready:
            if ended := slot.step():
                problems += [f"slot {slot.number}: {ended}"] if ended != "ended" else []
                if ended != "ended" or len(slot.acknowledged) >= appends:
                    running.remove(slot)
                else:
                    slot.start()
    wanted = {(slot.number, number) for slot in everyone for number in slot.acknowledged}
    return [*problems, *check(home, wanted)], len(wanted), sum(slot.killed for slot in everyone)


def check(home: Path, wanted: set[tuple[int, int]]) -> list[str]:
    """Return what is wrong with the database: lost results, wrong metrics, damage."""
    problems = []
    with sqlite3.connect(home / FILE_NAME) as connection:
        try:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check")]
        except sqlite3.Error as error:
            found = [str(error)]
    connection.close()
    problems += [] if found == ["ok"] else [f"integrity check: {found[0]}"]
    try:
        with ResultsDatabase(home / FILE_NAME, read_only=True) as database:
            stored = {
                (int(result.cell.model.removeprefix("model-")), result.cell.parameters["seed"]): result
                for result in database.latest()
            }
    except Exception as error:  # noqa: BLE001 - any error is a finding here
        return [*problems, f"{type(error).__name__}: {error}"]
    lost = wanted - set(stored)
    problems += [f"{len(lost)} of {len(wanted)} acknowledged results are lost"] if lost else []
    wrong = [key for key in wanted & set(stored) if stored[key] != make_result(*key)]
    return [*problems, *([f"{len(wrong)} results differ from what was appended"] if wrong else [])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--appends", type=int, default=200)
    parser.add_argument("--burst", type=int, default=40, help="most appends of one process")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failed = 0
    for number in range(options.rounds):
        home = Path(tempfile.mkdtemp())
        began = time.monotonic()
        seed = options.seed + number
        problems, count, killed = run_round(home, options.slots, options.appends, seed, options.burst)
        print(
            f"round {number + 1}: {count} acknowledged, {killed} killed, {time.monotonic() - began:.1f} s:",
            "; ".join(problems) or "ok",
            flush=True,
        )
        failed += bool(problems)
        shutil.rmtree(home)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
