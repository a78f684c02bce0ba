"""Claims: what one run holds another leaves alone, until it is let go, runs out, or its process is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unseen.results.inbox import Claims, born, here, process_lives

TAKE = """
import sys
from pathlib import Path
from unseen.results.inbox import Claims
claims = Claims(Path(sys.argv[1])).__enter__()
print(claims.owner, len(claims.take(["a", "b"])), flush=True)
sys.stdin.read()
"""


def test_two_runs_divide_the_work(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Claims(path) as one, Claims(path) as other:
        assert one.take(["a", "b"]) == ["a", "b"]
        assert one.take(["a"]) == ["a"], "its own it may take again"
        assert other.take(["a", "b", "c"]) == ["c"]
        one.let_go(["a"])
        other.let_go(["b"])  # not its own: nothing happens
        assert other.take(["a", "b"]) == ["a"]
    with Claims(path) as third:
        assert third.take(["a", "b", "c"]) == ["a", "b", "c"], "whoever leaves lets go"


def test_a_claim_runs_out_unless_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unseen.results.inbox.process_lives", lambda _owner: None)  # as on another machine
    path = tmp_path / "results.sqlite"
    with Claims(path, lifetime=1.0, heartbeat=1e6) as stalled, Claims(path, lifetime=30.0, heartbeat=0.1) as steady:
        assert stalled.take(["a"]) == ["a"]
        assert steady.take(["b"]) == ["b"]
        with Claims(path, lifetime=30.0) as other:
            assert other.take(["b"]) == []
            time.sleep(1.2)
            assert other.take(["a", "b"]) == ["a"]
            assert not other.lives(stalled.owner)
            assert other.lives(steady.owner)


def test_a_heartbeat_renews(tmp_path: Path) -> None:
    with Claims(tmp_path / "results.sqlite", lifetime=60.0, heartbeat=0.1) as claims:
        claims.take(["a"])

        def expires() -> float:
            return float(claims._connection.execute("SELECT expires FROM claim").fetchone()[0])

        before, deadline = expires(), time.monotonic() + 60
        while expires() == before and time.monotonic() < deadline:
            time.sleep(0.1)
        assert expires() > before


@pytest.mark.slow
def test_the_claims_of_a_killed_process_are_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    command = [sys.executable, "-c", TAKE, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    owner, taken = process.stdout.readline().split()
    assert taken == "2"
    with Claims(path) as claims:
        assert claims.take(["a", "b"]) == []
        assert claims.lives(owner)
        process.kill()
        process.communicate()
        time.sleep(1.1)  # who was asked after a moment ago is not asked after again
        assert claims.take(["a", "b"]) == ["a", "b"]
        assert not claims.lives(owner)


def test_a_number_that_another_process_has_now(tmp_path: Path) -> None:
    mine = "|".join([here(), str(os.getpid()), born(os.getpid()), "x"])
    assert process_lives(mine) is True
    if born(os.getpid()):
        assert process_lives("|".join([here(), str(os.getpid()), "1", "x"])) is False
    assert process_lives(f"elsewhere|{os.getpid()}|1|x") is None
    assert process_lives("") is None
