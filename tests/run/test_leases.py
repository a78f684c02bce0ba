"""Leases: what one run holds, another leaves alone until it is released or the process of its run ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unseen.run.record import Leases

TAKE = """
import sys
from pathlib import Path
from unseen.run.record import Leases
leases = Leases(Path(sys.argv[1])).__enter__()
print(leases.owner, len(leases.acquire(["a", "b"])), flush=True)
sys.stdin.read()
"""


def held(home: Path) -> int:
    folder = home / "leases"
    return sum(path.suffix != ".lock" for path in folder.iterdir()) if folder.is_dir() else 0


def test_two_runs_divide_the_work(tmp_path: Path) -> None:
    with Leases(tmp_path) as one, Leases(tmp_path) as other:
        assert one.owner != other.owner, "two runs of one process are two"
        assert one.acquire(["a", "b"]) == ["a", "b"]
        assert one.acquire(["a"]) == ["a"], "a run may acquire its own lease again"
        assert other.acquire(["a", "b", "c"]) == ["c"]
        assert other.acquire([]) == []
        one.release(["a"])
        other.release(iter("b"))  # not its own: nothing happens
        assert other.acquire(["a", "b"]) == ["a"]
        assert held(tmp_path) == 3
    assert not list((tmp_path / "leases").iterdir()), "a run that ends releases its leases"
    with Leases(tmp_path / "new" / "deep") as third:
        assert third.acquire(["a", "b", "c"]) == ["a", "b", "c"]


def test_a_run_that_ends_releases_its_own_leases_only(tmp_path: Path) -> None:
    with Leases(tmp_path) as one:
        one.acquire(["a"])
        with Leases(tmp_path) as other:
            other.acquire(["b"])
            assert one.is_alive(one.owner)
            assert one.is_alive(other.owner)
        assert not one.is_alive(other.owner)
        assert not one.is_alive("")
        assert not one.is_alive("unknown")
        assert held(tmp_path) == 1
        assert Leases(tmp_path).is_alive(one.owner), "without leases of its own"


def test_a_run_whose_file_is_removed_at_its_start_makes_it_again(tmp_path: Path) -> None:
    leases = Leases(tmp_path)
    (tmp_path / "leases").mkdir()
    (tmp_path / "leases" / f"{leases.owner}.lock").touch()
    with Leases(tmp_path):  # removes the files of runs that do not live
        assert [path.stem for path in (tmp_path / "leases").iterdir()] != [leases.owner]
        with leases:
            assert leases.acquire(["a"]) == ["a"]


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_path: Path, _target: Path) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    with Leases(tmp_path) as one, Leases(tmp_path) as other:
        assert one.acquire(["a"]) == other.acquire(["a"]) == ["a"], "runs do their work, without sharing it"
        one.release(["a"])


@pytest.mark.slow
def test_the_leases_of_a_killed_process_are_free_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TAKE, str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    owner, taken = process.stdout.readline().split()
    assert taken == "2"
    with Leases(tmp_path) as leases:
        assert leases.acquire(["a", "b"]) == []
        assert leases.is_alive(owner)
        process.kill()
        process.communicate()
        assert leases.acquire(["a"]) == ["a"]
        assert not leases.is_alive(owner)
        assert held(tmp_path) == 2
    with Leases(tmp_path):
        assert held(tmp_path) == 0, "what a killed run has left is removed"
