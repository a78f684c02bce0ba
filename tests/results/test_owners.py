"""Claims and the inbox, with processes, clocks and machines that are made up: nothing here waits."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import pytest

from unseen.core.errors import StoreError
from unseen.core.records import Cell, Result
from unseen.results import inbox as module
from unseen.results.inbox import Claims, Inbox, born, here, process_lives

ELSEWHERE = "elsewhere|12|34|x"


def result(seed: int) -> Result:
    return Result(Cell("probe", "m", "d", {"seed": seed}), {"top1": 0.5})


def held(claims: Claims) -> dict[str, str]:
    return {row["work"]: row["owner"] for row in claims._connection.execute("SELECT work, owner FROM claim")}


def put(claims: Claims, work: str, owner: str, expires: float) -> None:
    claims._connection.execute("INSERT INTO claim VALUES (?, ?, ?)", [work, owner, expires])


def dead() -> str:
    """The owner of a process of this machine that has ended."""
    child = subprocess.Popen(["sleep", "0"])
    child.wait()
    return f"{here()}|{child.pid}|1|x"


def test_an_owner_is_a_process_of_a_machine(path: Path) -> None:
    one, other = Claims(path), Claims(path)
    place, pid, started, _ = one.owner.split("|")
    assert (place, pid, started) == (here(), str(os.getpid()), born(os.getpid()))
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


def test_when_a_process_was_born() -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("there is no /proc here")
    child = subprocess.Popen(["sleep", "60"])
    try:
        first = born(child.pid)
        assert int(first) >= int(born(os.getpid())) > 0, "a child is the younger one"
        assert born(child.pid) == first
    finally:
        child.kill()
        child.wait()
    assert born(child.pid) == ""


def test_who_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    assert process_lives(dead()) is False
    me = f"{here()}|{os.getpid()}"
    assert process_lives(me) is True, "born nobody knows when"
    assert process_lives(f"{me}||x") is True
    assert process_lives(f"{me}|{born(os.getpid())}0|x") is False, "another has the number now"
    for odd in ("", here(), f"{here()}|", f"{here()}|a|1|x", f"{here()}|-1|1|x", f"x{me}"):
        assert process_lives(odd) is None

    def refused(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refused)
    assert process_lives(f"{me}|1|x") is True, "somebody else's"


def test_work_is_taken_in_lots(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 2)
    with Claims(path) as one, Claims(path) as other:
        assert one.take(["c", "e"]) == ["c", "e"]
        assert other.take(list("abcdefg")) == list("abdfg")
        assert other.take([]) == []
        assert held(one) == {**dict.fromkeys("ce", one.owner), **dict.fromkeys("abdfg", other.owner)}
        other.let_go(iter("ac"))
        assert set(held(one)) == set("bcdefg"), "nobody lets go of what is another's"


def test_claims_hold_as_long_as_they_say(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    with Claims(path, lifetime=7.0, heartbeat=1e6) as claims:
        put(claims, "over", ELSEWHERE, 1000.0)
        put(claims, "held", ELSEWHERE, 1000.5)
        put(claims, "other", "another|1|2|x", 1000.0)
        assert [claims.lives(owner) for owner in (ELSEWHERE, "another|1|2|x")] == [True, False]
        assert claims.take(["over", "held", "free"]) == ["over", "free"]
        found = dict(
            tuple(row) for row in claims._connection.execute("SELECT work, expires FROM claim WHERE work != 'other'")
        )
        assert found == {"over": 1007.0, "held": 1000.5, "free": 1007.0}


def test_a_beat_renews_for_as_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    with Claims(path, lifetime=7.0, heartbeat=0.01) as claims:
        claims.take(["own"])
        put(claims, "other", ELSEWHERE, 1000.5)
        now[0] = 1005.0
        deadline, found = time.monotonic() + 30, {}
        while found.get("own") != 1012.0 and time.monotonic() < deadline:
            time.sleep(0.01)
            with claims._lock:
                found = dict(tuple(row) for row in claims._connection.execute("SELECT work, expires FROM claim"))
    assert found == {"own": 1012.0, "other": 1000.5}


def test_what_has_run_out_and_the_dead_have_left_is_swept(path: Path) -> None:
    with Claims(path) as first:
        now = time.time()
        put(first, "gone", dead(), now + 1000)
        put(first, "over", ELSEWHERE, now - 1)
        put(first, "held", ELSEWHERE, now + 1000)
        first.take(["own"])
        with Claims(path) as second:
            assert set(held(second)) == {"held", "own"}
            assert second.take(["gone"]) == ["gone"]
        assert set(held(first)) == {"held", "own"}, "who leaves lets go of his own alone"


def test_the_dead_hold_nothing_and_are_asked_after_once_a_second(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answers: dict[str, bool | None] = {"a": True, "b": False, "c": None}
    monkeypatch.setattr(module, "process_lives", lambda owner: asked.append(owner) or answers[owner])
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with Claims(path, heartbeat=1e6) as claims:
        assert [claims._is_alive(owner) for owner in "abc"] == [True, False, True]
        answers |= {"a": False, "b": True}
        now[0] = 1.0
        assert [claims._is_alive(owner) for owner in "abc"] == [True, False, True], "as it was a moment ago"
        assert len(asked) == 3
        now[0] = 1.25
        assert [claims._is_alive(owner) for owner in "abc"] == [False, True, True]
        assert len(asked) == 6
        now[0] = 2.0
        claims._is_alive("a")
        assert len(asked) == 6, "the second is that since the last time"


def test_who_lives_elsewhere_is_known_by_claims(path: Path) -> None:
    with Claims(path) as claims:
        assert claims.lives(claims.owner)
        assert not claims.lives(ELSEWHERE)
        put(claims, "a", ELSEWHERE, time.time() - 5)
        assert not claims.lives(ELSEWHERE)
        put(claims, "b", ELSEWHERE, time.time() + 500)
        assert claims.lives(ELSEWHERE)
        owner = dead()
        put(claims, "c", owner, time.time() + 500)
        assert not claims.lives(owner)


def test_an_error_takes_nothing_and_lets_others_in(path: Path) -> None:
    with Claims(path) as claims:
        with pytest.raises(StoreError, match="cannot claim work in"):
            claims.take(["a", object()])  # type: ignore[list-item]
        assert not claims._connection.in_transaction
        assert held(claims) == {}
        assert claims.take(["a"]) == ["a"]


def test_a_claims_folder_is_made_and_its_thread_ends(tmp_path: Path) -> None:
    def beating() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "claims"}

    before = beating()
    with Claims(tmp_path / "new" / "deep" / "results.sqlite", heartbeat=0.01) as claims:
        (own,) = beating() - before
        assert own.daemon, "a run that ends does not wait for it"
        assert claims._connection.execute("PRAGMA synchronous").fetchone()[0] == 1
    own.join(10)
    assert not own.is_alive()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        claims._connection.execute("SELECT 1")


def test_results_are_collected_by_their_owner(tmp_path: Path) -> None:
    inbox, filed = Inbox(tmp_path), []
    inbox.collect("s", filed.append)  # no folder yet
    inbox.drop("s", "one")(result(1))
    inbox.drop("s", "two")(result(2))
    inbox.drop("s")(result(3))
    asked: list[str] = []
    inbox.collect("s", filed.append, lambda owner: asked.append(owner) or owner == "two")
    assert [r.cell.parameters["seed"] for r in filed] == [2]
    assert sorted(asked) == ["", "one", "two"]
    assert len(list((tmp_path / "inbox").iterdir())) == 2
    with inbox.collected("s", filed.append, lambda owner: owner == "one"):
        assert [thread.daemon for thread in threading.enumerate() if thread.name == "inbox"] == [True]
    assert [r.cell.parameters["seed"] for r in filed] == [2, 1]
    assert (tmp_path / "inbox").exists(), "somebody else's result lies there still"


def test_a_failure_of_the_work_passes_and_what_was_left_is_filed(tmp_path: Path) -> None:
    inbox, filed = Inbox(tmp_path), []
    with pytest.raises(ZeroDivisionError), inbox.collected("s", filed.append):
        inbox.drop("s")(result(1))
        raise ZeroDivisionError
    assert len(filed) == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "inbox"]


def test_a_failure_to_file_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.01)
    tried = threading.Event()
    asked: list[Result] = []

    def full(each: Result) -> None:
        asked.append(each)
        tried.set()
        raise OSError("full")

    with pytest.raises(OSError, match="full"), Inbox(tmp_path).collected("s", full):
        Inbox(tmp_path).drop("s")(result(1))
        assert tried.wait(30)
        time.sleep(0.1)
    assert len(asked) == 1
