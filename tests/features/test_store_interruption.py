"""Interrupted at any point, then resumed: the same bytes as an uninterrupted run, and at most one part done twice.

Two ways of dying are played through every step that the writer takes on the disk: the process is killed (what it did
so far stays), and the power is cut (whatever was not flushed is lost, or half there). Then the real thing: a process
that is killed with SIGKILL at random moments, and processes that want the same entry at once.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.core.errors import DiskFullError, StoreError
from unseen.features import FeatureStore

SCRIPT = Path(__file__).parent / "store_process.py"


class Died(BaseException):
    """The process is no more. Nothing may catch it and go on."""


class Machine:
    """A disk under `root` that fails at a given step, by way of the calls of `os` that the store makes.

    Args:
        steps: calls that succeed before the machine dies; None never dies.
        power: whether what was not flushed is lost with it.
        fault: raise this once instead of dying, and go on.
    """

    def __init__(self, root: Path, steps: int | None, *, power: bool = False, fault: int | None = None) -> None:
        self.root = root
        self.steps = steps
        self.power = power
        self.fault = fault
        self.taken = 0
        self.dead = False
        self.paths: dict[int, Path] = {}
        self.unflushed: set[Path] = set()
        self.undo: dict[Path, list] = {}  # by folder: how to lose a change of names that was not flushed
        self.real = {
            name: getattr(os, name) for name in ("open", "close", "write", "fsync", "replace", "unlink", "mkdir")
        }

    def __enter__(self) -> Machine:
        for name in self.real:
            setattr(os, name, getattr(self, name))
        return self

    def __exit__(self, *_: object) -> None:
        for name, call in self.real.items():
            setattr(os, name, call)
        if self.dead:
            for descriptor in list(self.paths):
                self.real["close"](descriptor)
            if self.power:
                self.lose()

    def step(self, kind: str) -> None:
        if self.dead:
            raise Died
        if self.taken == self.steps:
            if self.fault is None:
                self.dead = True
                raise Died
            if kind in ("open", "write", "fsync", "mkdir"):
                self.steps = None
                raise OSError(self.fault, os.strerror(self.fault))
        else:
            self.taken += 1

    def lose(self) -> None:
        for path in self.unflushed:
            if path.exists():
                os.truncate(path, path.stat().st_size // 2)
        for changes in self.undo.values():
            for change in reversed(changes):
                change()

    def mine(self, path) -> bool:
        return Path(path).is_relative_to(self.root) and ".locks" not in Path(path).parts

    def open(self, path, flags, *rest, **options):
        if not self.mine(path):
            return self.real["open"](path, flags, *rest, **options)
        path = Path(path)
        writes = bool(flags & os.O_WRONLY)
        if writes:
            self.step("open")
            if not path.exists():
                self.undo.setdefault(path.parent, []).append(lambda: path.unlink(missing_ok=True))
            self.unflushed.add(path)
        descriptor = self.real["open"](path, flags, *rest, **options)
        self.paths[descriptor] = path
        return descriptor

    def close(self, descriptor):
        # A dead process closes nothing by itself, but its descriptors must not leak into the tests.
        if self.dead and descriptor in self.paths:
            return
        self.paths.pop(descriptor, None)
        self.real["close"](descriptor)

    def write(self, descriptor, data):
        if descriptor in self.paths:
            self.step("write")
        return self.real["write"](descriptor, data)

    def fsync(self, descriptor):
        path = self.paths.get(descriptor)
        if path is None:
            return
        self.step("fsync")  # counted, not done: the test's own machine stays up
        self.unflushed.discard(path)
        self.undo.pop(path, None)

    def replace(self, source, target):
        source, target = Path(source), Path(target)
        if not self.mine(target):
            return self.real["replace"](source, target)
        self.step("replace")
        before = target.read_bytes() if target.exists() else None
        content = source.read_bytes()
        assert source not in self.unflushed, "renamed before it was flushed"

        def undo() -> None:
            source.write_bytes(content)
            target.unlink(missing_ok=True) if before is None else target.write_bytes(before)

        self.undo.setdefault(target.parent, []).append(undo)
        return self.real["replace"](source, target)

    def unlink(self, path, **options):
        if not self.mine(path):
            return self.real["unlink"](path, **options)
        self.step("unlink")
        path = Path(path)
        content = path.read_bytes()
        self.undo.setdefault(path.parent, []).append(lambda: path.write_bytes(content))
        return self.real["unlink"](path, **options)

    def mkdir(self, path, *rest, **options):
        if self.mine(path):
            self.step("mkdir")
        return self.real["mkdir"](path, *rest, **options)


@pytest.fixture(scope="module")
def sample(store_process):
    return store_process.Sample(11, 3, bad=frozenset({0, 1, 2, 7}))


@pytest.fixture(scope="module")
def reference(tmp_path_factory, sample, store_process):
    """The files of an uninterrupted run, and the number of steps that it takes."""
    store = FeatureStore(tmp_path_factory.mktemp("reference"))
    with Machine(store.root, None) as machine:
        sample.write(store)
    return store_process.snapshot(store, sample.key), machine.taken


def die(store, sample, step, *, power):
    """Run until the machine dies at `step`; return whether it did, and the parts that were begun."""
    begun = []
    rows = sample.rows

    def watched(first, last):
        begun.append(first)
        return rows(first, last)

    sample.rows = watched
    try:
        with Machine(store.root, step, power=power):
            sample.write(store)
    except Died:
        return True, begun
    finally:
        del sample.rows
    return False, begun


def check_what_is_left(store, sample, expected):
    """Between a kill and the re-run: nothing half-written is taken for whole."""
    assert store.verify() == []
    stored = store.find(sample.key)
    if stored is not None:
        assert {part.file: part.sha256 for part in stored.manifest.parts}
        assert (stored.path / "manifest.json").read_bytes() == expected["manifest.json"]


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
def test_death_at_every_step(tmp_path, sample, reference, store_process, power):
    expected, steps = reference
    assert steps > 60
    for step in range(steps):
        store = FeatureStore(tmp_path / str(step))
        died, begun = die(store, sample, step, power=power)
        assert died
        check_what_is_left(store, sample, expected)
        with Machine(store.root, None):
            redone = len(begun) + sample.write(store) - 4
        assert redone <= 1, f"{redone} parts were done twice after a death at step {step}"
        assert store_process.snapshot(store, sample.key) == expected, f"after a death at step {step}"


@settings(max_examples=40, deadline=None)
@given(deaths=st.lists(st.tuples(st.integers(0, 70), st.booleans()), min_size=1, max_size=5))
def test_several_deaths_in_a_row(tmp_path_factory, sample, reference, store_process, deaths):
    expected, _ = reference
    store = FeatureStore(tmp_path_factory.mktemp("store"))
    for step, power in deaths:
        die(store, sample, step, power=power)
        check_what_is_left(store, sample, expected)
    with Machine(store.root, None):
        sample.write(store)
    assert store_process.snapshot(store, sample.key) == expected


def test_death_at_every_step_of_resuming_a_corrupt_entry(tmp_path, sample, reference, store_process):
    """A death while a corrupt part is replaced leaves no gap."""
    expected, steps = reference
    for step in range(steps):
        store = FeatureStore(tmp_path / str(step))
        with Machine(store.root, None):
            sample.write(store, parts=3)
        (part,) = store.root.glob("*/*/*/*/part-00001.safetensors")
        part.write_bytes(part.read_bytes()[:-1])
        died, _ = die(store, sample, step, power=True)
        assert {problem.path.name for problem in store.verify()} <= {part.name}, "a listed part is gone"
        with Machine(store.root, None):
            sample.write(store)
        assert store_process.snapshot(store, sample.key) == expected
        if not died:
            return
    pytest.fail("the machine never lived to the end")


@pytest.mark.parametrize("parts", [0, 2])
def test_the_next_writer_removes_files_of_a_killed_one(tmp_path, sample, parts):
    store = FeatureStore(tmp_path)
    sample.write(store, parts=parts)
    (folder,) = [entry.path for entry in store.entries()]
    left = [".part-00002.safetensors.tmp", ".manifest.json.tmp", "part-00002.safetensors", "part-00009.safetensors"]
    for name in left:
        (folder / name).write_bytes(b"half a fi")
    (folder / "notes.txt").write_text("a file of the user's own")
    if parts == 0:
        (folder / "manifest.json").unlink()
    sample.write(store, parts=0)
    found = {path.name for path in folder.iterdir()}
    assert found == {
        "manifest.json",
        "notes.txt",
        *(f"part-{k:05d}.{kind}" for k in range(parts) for kind in ("json", "safetensors")),
    }


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_at_every_step(tmp_path, sample, reference, store_process, fault):
    expected, steps = reference
    refused = 0
    for step in range(steps):
        store = FeatureStore(tmp_path / str(step))
        try:
            with Machine(store.root, step, fault=fault):
                sample.write(store)
        except DiskFullError as error:
            refused += 1
            assert "it needs" in str(error)
            assert not list(store.root.rglob("*.tmp")), "the temporary file takes room that is short"
        check_what_is_left(store, sample, expected)
        with Machine(store.root, None):
            sample.write(store)
        assert store_process.snapshot(store, sample.key) == expected
    assert refused > 40


@pytest.mark.parametrize("most", [1, 7])
def test_short_writes_are_gone_on_with(tmp_path, monkeypatch, sample, reference, store_process, most):
    expected, _ = reference
    store = FeatureStore(tmp_path)
    write = os.write
    with monkeypatch.context() as patch, Machine(store.root, None):
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:most]))
        sample.write(store)
    assert store_process.snapshot(store, sample.key) == expected


def test_a_disk_that_takes_nothing_more_without_an_error(tmp_path, monkeypatch, sample):
    monkeypatch.setattr(os, "write", lambda _descriptor, _data: 0)
    with pytest.raises(DiskFullError):
        sample.write(FeatureStore(tmp_path))


# Real processes


def start(root: Path, *options: str, total: int = 120, part_size: int = 3) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), str(root), str(total), str(part_size), *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str], text: str = "") -> str:
    said, _ = process.communicate(text, timeout=60)
    return said.strip()


@pytest.fixture
def large(store_process):
    return store_process.Sample(120, 3, bad=frozenset({1, 5}))


@pytest.mark.slow
def test_kill_9_at_20_random_moments(tmp_path, large, store_process):
    whole = FeatureStore(tmp_path / "whole")
    begin = time.perf_counter()
    large.write(whole)
    duration = time.perf_counter() - begin
    expected = store_process.snapshot(whole, large.key)
    draw = random.Random(0)
    interrupted = 0
    for trial in range(20):
        store = FeatureStore(tmp_path / str(trial))
        process = start(store.root, "--pause", "0.002")
        assert line(process) == "holding"
        time.sleep(draw.uniform(0, duration + 40 * 0.002))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert store.verify() == []
        before = len(list(store.root.rglob("part-*.safetensors")))
        if store.find(large.key) is None:
            interrupted += 1
            assert 40 - large.write(store) >= before - 1, "more than one part was done twice"
        assert store_process.snapshot(store, large.key) == expected
    assert interrupted >= 10, "the moments were too late to show anything"


def test_two_processes_at_once(tmp_path, large, store_process):
    whole, store = FeatureStore(tmp_path / "whole"), FeatureStore(tmp_path / "store")
    large.write(whole)
    first = start(store.root, "--hold")
    assert line(first) == "holding"
    second = start(store.root)
    assert line(second) == "waiting"
    assert end(first, "go on\n") == "wrote 40"
    assert end(second).splitlines() == ["holding", "wrote 0"]
    assert store_process.snapshot(store, large.key) == store_process.snapshot(whole, large.key)


def test_a_waiting_process_resumes_after_the_first_is_killed(tmp_path, large, store_process):
    whole, store = FeatureStore(tmp_path / "whole"), FeatureStore(tmp_path / "store")
    large.write(whole)
    large.write(store, parts=15)
    first = start(store.root, "--hold")
    assert line(first) == "holding"
    second = start(store.root)
    assert line(second) == "waiting"
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert end(second).splitlines() == ["holding", "wrote 25"]
    assert store_process.snapshot(store, large.key) == store_process.snapshot(whole, large.key)


def test_waiting_has_an_end_where_one_is_asked_for(tmp_path, large):
    store = FeatureStore(tmp_path)
    process = start(store.root, "--hold")
    assert line(process) == "holding"
    waited = []
    with pytest.raises(StoreError, match=r"another process is writing .* not finished within 0\.1 s"):
        large.write(store, timeout=0.1, on_wait=lambda: waited.append(True))
    assert waited == [True]
    end(process, "go on\n")


def test_waiting_for_oneself_is_an_error_and_not_for_ever(tmp_path, sample):
    store = FeatureStore(tmp_path)
    with store.writer(sample.key, total=11, part_size=3), pytest.raises(StoreError, match="already"):
        sample.write(store)


def test_writers_of_several_keys_in_order_do_not_wait_for_one_another(tmp_path, store_process):
    """Two extractions of two layers each, over and over, both opening the keys in the order of their digests."""
    store = FeatureStore(tmp_path)
    keys = sorted((store_process.make_key(layer=layer) for layer in ("a", "b")), key=lambda key: key.digest)
    done = []

    def extract() -> None:
        for _ in range(5):
            with ExitStack() as stack:
                writers = [stack.enter_context(store.writer(key, total=0, part_size=1)) for key in keys]
                for writer in writers:
                    if not writer.complete:
                        writer.finish()
            done.append(True)

    threads = [threading.Thread(target=extract, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(done) == 10
