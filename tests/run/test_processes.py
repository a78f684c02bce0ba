"""Processes that die: an item is tried again, then lost with its reason; the others go on; none outlives the parent."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.background import _ENVIRONMENT

from unseen.core.errors import UnknownNameError, UnseenError, WorkerLostError
from unseen.run import executor as devices
from unseen.run.executor import make_engine

PATIENCE = 240.0


@pytest.fixture(autouse=True)
def spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start processes as for a user; other tests fork them."""
    monkeypatch.setattr(devices, "_CONTEXT", multiprocessing.get_context("spawn"))
    monkeypatch.setattr(devices, "environment", _ENVIRONMENT)


def mortal(item: tuple[str, int]) -> int:
    """Dies of every item 13; of item 7 only the first time."""
    folder, number = item
    with (Path(folder) / f"tried-{number}").open("a") as file:
        file.write(f"{os.getpid()}\n")
    tries = len((Path(folder) / f"tried-{number}").read_text().splitlines())
    if number == 13 or (number == 7 and tries == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    return number * 10


@pytest.mark.slow
def test_a_death_costs_one_item_a_try(tmp_path: Path) -> None:
    items = [(str(tmp_path), number) for number in (1, 7, 13, 2, 3)]
    lost: list[str] = []

    def said(item: tuple[str, int], reason: str) -> int:
        lost.append(reason)
        return -item[1]

    with make_engine("local", workers=2) as engine:
        assert sorted(engine.map(mortal, items, lost=said)) == [-13, 10, 20, 30, 70]
        assert lost == ["the worker process was ended by SIGKILL (out of memory?) during its task, 3 times"]
        assert len((tmp_path / "tried-13").read_text().splitlines()) == 3
        assert len((tmp_path / "tried-7").read_text().splitlines()) == 2
        with pytest.raises(WorkerLostError, match=r"SIGKILL.*run the same command"):
            list(engine.map(mortal, [(str(tmp_path), 13)]))
        assert list(engine.map(mortal, [(str(tmp_path), 4)])) == [40], "after all that it goes on"


def unlucky(_item: int) -> None:
    raise UnknownNameError("thing", "x", ["y", "xx"])


def unsendable(_item: int) -> object:
    return lambda: None


@pytest.mark.slow
def test_what_cannot_travel_becomes_words() -> None:
    with make_engine("local", workers=2) as engine:
        with pytest.raises(UnseenError, match="unknown thing 'x'"):
            list(engine.map(unlucky, [1]))
        with pytest.raises((RuntimeError, AttributeError, pickle.PicklingError), match=r"pickle"):
            list(engine.map(unsendable, [1]))


@pytest.mark.slow
def test_items_are_consumed_when_a_worker_is_free(tmp_path: Path) -> None:
    asked: list[int] = []

    def items() -> object:
        for number in range(1, 7):
            asked.append(number)
            yield str(tmp_path), number * 100

    with make_engine("local", workers=2) as engine:
        results = engine.map(mortal, items())  # type: ignore[arg-type]
        next(results)
        assert len(asked) <= 4, "two in hand, and as many as were done since"
        assert len(list(results)) == 5


def worker_environment(folder: str) -> str:
    return folder


@pytest.mark.slow
def test_processes_that_never_do_anything_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_start", os.abort)  # takes no argument: the initializer fails
    with (
        make_engine("local", workers=2) as engine,
        pytest.raises(WorkerLostError, match="no worker process could be started"),
    ):
        list(engine.map(worker_environment, ["x"] * 20, lost=lambda item, _reason: None))


@pytest.mark.slow
def test_a_process_that_dies_between_two_items_is_replaced(tmp_path: Path) -> None:
    with make_engine("local", workers=2) as engine:
        first = set(engine.map(own_process, [0.5, 0.5]))
        assert len(first) == 2
        for number in first:
            os.kill(number, signal.SIGKILL)
        wait_for(lambda: not any(map(lives, first)))
        assert not first & set(engine.map(own_process, [0.0] * 4))


def own_process(pause: float) -> int:
    time.sleep(pause)
    return os.getpid()


PARENT = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_processes import linger
from unseen.engines import make_engine

if __name__ == "__main__":
    with make_engine("local", workers=2) as engine:
        list(engine.map(linger, [{folder!r}] * 4))
"""


def linger(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    deadline = time.monotonic() + 10 * PATIENCE
    while time.monotonic() < deadline:
        sum(range(100_000))


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(what: object, patience: float = PATIENCE) -> bool:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if what():  # type: ignore[operator]
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_children_end_with_their_parent(number: signal.Signals, tmp_path: Path) -> None:
    folder = tmp_path / "pids"
    folder.mkdir()
    (tmp_path / "parent.py").write_text(PARENT.format(tests=str(Path(__file__).parent), folder=str(folder)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, str(tmp_path / "parent.py")], env=environment)
    try:
        assert wait_for(lambda: len(list(folder.iterdir())) == 2)
        children = [int(path.name) for path in folder.iterdir()]
        assert all(map(lives, children))
        parent.send_signal(number)
        parent.wait(PATIENCE)
        assert wait_for(lambda: not any(map(lives, children))), "they do not live on, nor begin the next item"
        assert len(list(folder.iterdir())) == 2
    finally:
        parent.kill()


@pytest.mark.parametrize(
    ("visible", "expected"), [("0,1,2", ["0", "1", "2", "0"]), ("GPU-a,GPU-b", ["GPU-a", "GPU-b", "GPU-a", "GPU-b"])]
)
def test_each_process_sees_one_device(visible: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [devices.environment(number, 4)["CUDA_VISIBLE_DEVICES"] for number in range(4)] == expected
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert devices.devices() == []
    assert "CUDA_VISIBLE_DEVICES" not in devices.environment(1, 4)


def device(_item: int) -> tuple[int, str, str]:
    time.sleep(0.5)
    return os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"], os.environ["OMP_NUM_THREADS"]


@pytest.mark.slow
def test_workers_get_different_devices_and_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    monkeypatch.setattr(devices, "cores", lambda: 6)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with make_engine("local", workers=3) as engine:
        seen = set(engine.map(device, list(range(12))))
    assert sorted(name for _, name, _ in seen) == ["4", "5", "6"]
    assert {threads for _, _, threads in seen} == {"2"}


def test_no_more_threads_than_the_user_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert [devices.threads_each(n) for n in (1, 2, 4, 16)] == [3, 3, 2, 1]
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert [devices.threads_each(n) for n in (1, 2, 4, 16)] == [8, 4, 2, 1]


TAKE = """
import os, sys, time
from pathlib import Path
from unseen.run.executor import take_device
print(take_device(Path(sys.argv[1]), lambda: ["0", "1"]), os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_processes_that_were_started_by_others_take_turns(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TAKE, str(tmp_path)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    try:
        said = [process.stdout.readline().split() for process in processes if process.stdout]
    finally:
        for process in processes:
            process.communicate("")
    assert sorted(taken for taken, _ in said) == ["0", "0", "1", "1"], "two each, and never all on the first"
    assert all(taken == visible for taken, visible in said)


def test_a_process_with_one_device_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert devices.take_device(tmp_path) == "3"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert devices.take_device(tmp_path) is None
