"""Inputs to one reader after the other, in forked children: a crash, a hang or a flood of memory ends a child only."""

from __future__ import annotations

import mmap
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.fuzz.mutations import Damage

#: Seconds that a reader may take, and bytes that it may take beside what the process has.
SLOWEST, MEMORY = 5.0, 1 << 30
_BATCH = 400
_STATE = struct.Struct("<qddqqq")  # input in hand, CPU and clock when it began, read, refused, peak memory in kB
_FOREVER = 60.0


@dataclass(frozen=True)
class Reader:
    """A reader of files that others wrote.

    Attributes:
        name: in the table.
        files: a sound example: name to contents.
        read: reads the example from its folder.
        damage: how its first file is damaged.
    """

    name: str
    files: dict[str, bytes]
    read: Callable[[Path], object]
    damage: Damage


@dataclass
class Count:
    """What came of the inputs to one reader."""

    name: str
    inputs: int = 0
    read: int = 0
    refused: int = 0
    foreign: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    peak: int = 0

    @property
    def bad(self) -> int:
        return len(self.foreign) + len(self.crashes) + len(self.hangs)


def make_input(reader: Reader, number: int) -> bytes:
    """The damaged first file of an input, by its number: the same always."""
    rng = random.Random(zlib.crc32(reader.name.encode()) * 1_000_003 + number)
    return reader.damage(next(iter(reader.files.values())), rng)


def fuzz(readers: Iterable[Reader], inputs: int, first: int = 0) -> Iterator[Count]:
    """Counts by reader, each with `inputs` inputs from number `first` on."""
    for reader in readers:
        _check_sound(reader)
        count = Count(reader.name)
        number, end = first, first + inputs
        while number < end:
            number = _child(reader, number, min(number + _BATCH, end), count)
        count.inputs = inputs
        yield count


def _check_sound(reader: Reader) -> None:
    """A reader that refuses the sound example would be fuzzed to no purpose."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        _write(reader, Path(folder))
        reader.read(Path(folder))


def _write(reader: Reader, folder: Path) -> None:
    for name, content in reader.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _child(reader: Reader, first: int, end: int, count: Count) -> int:
    """Run some inputs in a child; return the number of the next."""
    shared = mmap.mmap(-1, 4096)
    shared[: _STATE.size] = _STATE.pack(first, 0.0, time.time() + _FOREVER, 0, 0, 0)
    notes, notes_in = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(notes)
        _work(reader, first, end, shared, notes_in)
    os.close(notes_in)
    status, hung = _wait(child, shared)
    with os.fdopen(notes, encoding="utf-8", errors="replace") as stream:
        count.foreign += stream.read().splitlines()
    at, _, _, read, refused, peak = _STATE.unpack(shared[: _STATE.size])
    count.read, count.refused, count.peak = count.read + read, count.refused + refused, max(count.peak, peak)
    if hung:
        count.hangs.append(f"{reader.name} {at}: more than {SLOWEST:g} s")
        return at + 1
    if os.WIFSIGNALED(status):
        count.crashes.append(f"{reader.name} {at}: {signal.Signals(os.WTERMSIG(status)).name}")
        return at + 1
    return end


def _wait(child: int, shared: mmap.mmap) -> tuple[int, bool]:
    """The child's status, and whether it was ended because an input took too long: by CPU time, for others work too."""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status, False
        _, cpu, clock, *_ = _STATE.unpack(shared[: _STATE.size])
        if time.time() - clock > SLOWEST and (_cpu(child) - cpu > SLOWEST or time.time() - clock > _FOREVER):
            os.kill(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1], True
        time.sleep(0.02)


def _cpu(child: int) -> float:
    words = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _work(reader: Reader, first: int, end: int, shared: mmap.mmap, notes: int) -> None:
    """The child: never returns."""
    from unseen.core.errors import UnseenError

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(1000)
    began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = refused = 0
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        for number in range(first, end):
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - began
            shared[: _STATE.size] = _STATE.pack(number, time.process_time(), time.time(), read, refused, peak)
            _write(reader, folder)
            (folder / next(iter(reader.files))).write_bytes(make_input(reader, number))
            try:
                reader.read(folder)
                read += 1
            except UnseenError:
                refused += 1
            except BaseException as error:  # noqa: BLE001 - that is what is looked for
                text = " ".join(f"{type(error).__name__}: {error}".split())[:200]
                os.write(notes, f"{reader.name} {number}: {text}\n".encode("utf-8", "replace"))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - began
        shared[: _STATE.size] = _STATE.pack(end, time.process_time(), time.time(), read, refused, peak)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)
