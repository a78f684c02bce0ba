"""Leases and the inbox, with processes, clocks and machines that are made up: nothing here waits."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from unseen.core.errors import StoreError
from unseen.core.records import Cell, Result
from unseen.run import leases as module
from unseen.run import record as inbox_module
from unseen.run.leases import Leases, here, process_is_alive, started_at
from unseen.run.record import Inbox

ELSEWHERE = "elsewhere|12|34|x"


def anyone(_owner: str) -> bool:
    return True


def result(seed: int) -> Result:
    return Result(Cell("probe", "m", "d", {"seed": seed}), {"top1": 0.5})


def held(leases: Leases) -> dict[str, str]:
    return {row["work"]: row["owner"] for row in leases._connection.execute("SELECT work, owner FROM lease")}


def put(leases: Leases, work: str, owner: str, expires: float) -> None:
    leases._connection.execute("INSERT INTO lease VALUES (?, ?, ?)", [work, owner, expires])


def dead() -> str:
    """The owner of a process of this machine that has ended."""
    child = subprocess.Popen(["sleep", "0"])
    child.wait()
    return f"{here()}|{child.pid}|1|x"


def test_an_owner_is_a_process_of_a_machine(path: Path) -> None:
    one, other = Leases(path), Leases(path)
    place, pid, started, _ = one.owner.split("|")
    assert (place, pid, started) == (here(), str(os.getpid()), started_at(os.getpid()))
    assert one.owner != other.owner, "two runs of one process are two"
    assert (one.lifetime, one.heartbeat) == (60.0, 15.0)


def test_here_has_no_mark_between_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "odd|name")
    found = here.__wrapped__()
    assert found.split("/")[0] == "odd-name"
    assert "|" not in found
    if Path("/proc/self/ns/pid").exists():
        boot, space = found.split("/")[1:]
        assert (len(boot), space.isdecimal()) == (8, True)
    assert here() is here()


def test_when_a_process_was_started_at() -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("there is no /proc here")
    child = subprocess.Popen(["sleep", "60"])
    try:
        first = started_at(child.pid)
        assert int(first) >= int(started_at(os.getpid())) > 0, "a child is the younger one"
        assert started_at(child.pid) == first
    finally:
        child.kill()
        child.wait()
    assert started_at(child.pid) == ""


def test_who_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    assert process_is_alive(dead()) is False
    me = f"{here()}|{os.getpid()}"
    assert process_is_alive(me) is True, "with an unknown start time"
    assert process_is_alive(f"{me}||x") is True
    assert process_is_alive(f"{me}|{started_at(os.getpid())}0|x") is False, "another has the number now"
    for odd in ("", here(), f"{here()}|", f"{here()}|a|1|x", f"{here()}|-1|1|x", f"x{me}"):
        assert process_is_alive(odd) is None

    def refused(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refused)
    assert process_is_alive(f"{me}|1|x") is True, "a process of another user"


def test_work_is_taken_in_lots(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 2)
    with Leases(path) as one, Leases(path) as other:
        assert one.acquire(["c", "e"]) == ["c", "e"]
        assert other.acquire(list("abcdefg")) == list("abdfg")
        assert other.acquire([]) == []
        assert held(one) == {**dict.fromkeys("ce", one.owner), **dict.fromkeys("abdfg", other.owner)}
        other.release(iter("ac"))
        assert set(held(one)) == set("bcdefg"), "a run releases only its own leases"


def test_leases_last_as_long_as_they_say(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    with Leases(path, lifetime=7.0, heartbeat=1e6) as leases:
        put(leases, "over", ELSEWHERE, 1000.0)
        put(leases, "held", ELSEWHERE, 1000.5)
        put(leases, "other", "another|1|2|x", 1000.0)
        assert [leases.is_alive(owner) for owner in (ELSEWHERE, "another|1|2|x")] == [True, False]
        assert leases.acquire(["over", "held", "free"]) == ["over", "free"]
        found = dict(
            tuple(row) for row in leases._connection.execute("SELECT work, expires FROM lease WHERE work != 'other'")
        )
        assert found == {"over": 1007.0, "held": 1000.5, "free": 1007.0}


def test_a_beat_renews_for_as_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    with Leases(path, lifetime=7.0, heartbeat=0.01) as leases:
        leases.acquire(["own"])
        put(leases, "other", ELSEWHERE, 1000.5)
        now[0] = 1005.0
        deadline, found = time.monotonic() + 30, {}
        while found.get("own") != 1012.0 and time.monotonic() < deadline:
            time.sleep(0.01)
            with leases._lock:
                found = dict(tuple(row) for row in leases._connection.execute("SELECT work, expires FROM lease"))
    assert found == {"own": 1012.0, "other": 1000.5}


def test_what_has_run_out_and_the_dead_have_left_is_swept(path: Path) -> None:
    with Leases(path) as first:
        now = time.time()
        put(first, "gone", dead(), now + 1000)
        put(first, "over", ELSEWHERE, now - 1)
        put(first, "held", ELSEWHERE, now + 1000)
        first.acquire(["own"])
        with Leases(path) as second:
            assert set(held(second)) == {"held", "own"}
            assert second.acquire(["gone"]) == ["gone"]
        assert set(held(first)) == {"held", "own"}, "who leaves lets go of his own alone"


def test_dead_processes_hold_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each owner is checked once for each chunk of work, however many leases it has."""
    checked: list[str] = []
    alive: dict[str, bool | None] = {}
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(Leases(path, heartbeat=1e6)) for _ in range(3))
        assert first.acquire(["a", "b"]) == ["a", "b"]
        assert second.acquire(["c"]) == ["c"]
        monkeypatch.setattr(module, "process_is_alive", lambda owner: checked.append(owner) or alive[owner])
        alive |= {first.owner: True, second.owner: None}
        assert third.acquire(list("abcd")) == ["d"], "a process of another machine may be alive"
        assert sorted(checked) == sorted([first.owner, second.owner])
        alive[first.owner] = False
        assert third.acquire(list("abcd")) == ["a", "b", "d"]


def test_runs_of_other_machines_are_alive_while_they_hold_leases(path: Path) -> None:
    with Leases(path) as leases:
        assert leases.is_alive(leases.owner)
        assert not leases.is_alive(ELSEWHERE)
        put(leases, "a", ELSEWHERE, time.time() - 5)
        assert not leases.is_alive(ELSEWHERE)
        put(leases, "b", ELSEWHERE, time.time() + 500)
        assert leases.is_alive(ELSEWHERE)
        owner = dead()
        put(leases, "c", owner, time.time() + 500)
        assert not leases.is_alive(owner)


def test_an_error_takes_nothing_and_lets_others_in(path: Path) -> None:
    with Leases(path) as leases:
        with pytest.raises(StoreError, match="cannot write"):
            leases.acquire(["a", object()])  # type: ignore[list-item]
        assert not leases._connection.in_transaction
        assert held(leases) == {}
        assert leases.acquire(["a"]) == ["a"]


def test_a_leases_folder_is_made_and_its_thread_ends(tmp_path: Path) -> None:
    def beating() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "leases"}

    before = beating()
    with Leases(tmp_path / "new" / "deep" / "leases.sqlite", heartbeat=0.01) as leases:
        (own,) = beating() - before
        assert own.daemon, "a run that ends does not wait for it"
        assert leases._connection.execute("PRAGMA synchronous").fetchone()[0] == 0
    own.join(10)
    assert not own.is_alive()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        leases._connection.execute("SELECT 1")


def test_results_are_collected_by_their_owner(tmp_path: Path) -> None:
    inbox, filed = Inbox(tmp_path), []
    inbox.collect("s", filed.append)  # no folder yet
    inbox.write(result(1), "s", "one")
    inbox.write(result(2), "s", "two")
    inbox.write(result(3), "s")
    asked: list[str] = []
    inbox.collect("s", filed.append, lambda owner: asked.append(owner) or owner == "two")
    assert [r.cell.parameters["seed"] for r in filed] == [2]
    assert sorted(asked) == ["", "one", "two"]
    assert len(list((tmp_path / "inbox").iterdir())) == 2
    with inbox.watched("s", filed.append, lambda owner: owner == "one"):
        assert [thread.daemon for thread in threading.enumerate() if thread.name == "inbox"] == [True]
    assert [r.cell.parameters["seed"] for r in filed] == [2, 1]
    assert (tmp_path / "inbox").exists(), "the result of another run stays"


def test_a_failure_of_the_work_passes_and_what_was_left_is_filed(tmp_path: Path) -> None:
    inbox, filed = Inbox(tmp_path), []
    with pytest.raises(ZeroDivisionError), inbox.watched("s", filed.append, anyone):
        inbox.write(result(1), "s")
        raise ZeroDivisionError
    assert len(filed) == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "inbox"]


def test_a_failure_to_file_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "PAUSE", 0.01)
    tried = threading.Event()
    asked: list[Result] = []

    def full(each: Result) -> None:
        asked.append(each)
        tried.set()
        raise OSError("full")

    with pytest.raises(OSError, match="full"), Inbox(tmp_path).watched("s", full, anyone):
        Inbox(tmp_path).write(result(1), "s")
        assert tried.wait(30)
        time.sleep(0.1)
    assert len(asked) == 1
