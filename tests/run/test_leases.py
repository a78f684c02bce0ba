"""Claims: what one run holds another leaves alone, until it is let go, runs out, or its process is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unseen.run.leases import Leases, here, process_is_alive, started_at

TAKE = """
import sys
from pathlib import Path
from unseen.run.leases import Leases
leases = Leases(Path(sys.argv[1])).__enter__()
print(leases.owner, len(leases.acquire(["a", "b"])), flush=True)
sys.stdin.read()
"""


def test_two_runs_divide_the_work(tmp_path: Path) -> None:
    path = tmp_path / "leases.sqlite"
    with Leases(path) as one, Leases(path) as other:
        assert one.acquire(["a", "b"]) == ["a", "b"]
        assert one.acquire(["a"]) == ["a"], "its own it may take again"
        assert other.acquire(["a", "b", "c"]) == ["c"]
        one.release(["a"])
        other.release(["b"])  # not its own: nothing happens
        assert other.acquire(["a", "b"]) == ["a"]
    with Leases(path) as third:
        assert third.acquire(["a", "b", "c"]) == ["a", "b", "c"], "a run that ends releases its leases"


def test_a_claim_runs_out_unless_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unseen.run.leases.process_is_alive", lambda _owner: None)  # as on another machine
    path = tmp_path / "leases.sqlite"
    with Leases(path, lifetime=1.0, heartbeat=1e6) as stalled, Leases(path, lifetime=30.0, heartbeat=0.1) as steady:
        assert stalled.acquire(["a"]) == ["a"]
        assert steady.acquire(["b"]) == ["b"]
        with Leases(path, lifetime=30.0) as other:
            assert other.acquire(["b"]) == []
            time.sleep(1.2)
            assert other.acquire(["a", "b"]) == ["a"]
            assert not other.is_alive(stalled.owner)
            assert other.is_alive(steady.owner)


def test_a_heartbeat_renews(tmp_path: Path) -> None:
    with Leases(tmp_path / "leases.sqlite", lifetime=60.0, heartbeat=0.1) as leases:
        leases.acquire(["a"])

        def expires() -> float:
            return float(leases._connection.execute("SELECT expires FROM lease").fetchone()[0])

        before, deadline = expires(), time.monotonic() + 60
        while expires() == before and time.monotonic() < deadline:
            time.sleep(0.1)
        assert expires() > before


@pytest.mark.slow
def test_the_leases_of_a_killed_process_are_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "leases.sqlite"
    command = [sys.executable, "-c", TAKE, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    owner, taken = process.stdout.readline().split()
    assert taken == "2"
    with Leases(path) as leases:
        assert leases.acquire(["a", "b"]) == []
        assert leases.is_alive(owner)
        process.kill()
        process.communicate()
        time.sleep(1.1)  # who was asked after a moment ago is not asked after again
        assert leases.acquire(["a", "b"]) == ["a", "b"]
        assert not leases.is_alive(owner)


@pytest.mark.slow
def test_what_the_dead_have_left_is_swept(tmp_path: Path) -> None:
    path = tmp_path / "leases.sqlite"
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate()
    with Leases(path) as other:
        assert other._connection.execute("SELECT count(*) FROM lease").fetchone()[0] == 0


def test_a_number_that_another_process_has_now(tmp_path: Path) -> None:
    mine = "|".join([here(), str(os.getpid()), started_at(os.getpid()), "x"])
    assert process_is_alive(mine) is True
    if started_at(os.getpid()):
        assert process_is_alive("|".join([here(), str(os.getpid()), "1", "x"])) is False
    assert process_is_alive(f"elsewhere|{os.getpid()}|1|x") is None
    assert process_is_alive("") is None
