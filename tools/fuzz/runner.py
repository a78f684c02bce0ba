"""Inputs to one reader after the other, in forked children: a crash, a hang or a flood of memory ends a child only."""

from __future__ import annotations

import json
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.fuzz.mutations import Damage

#: Seconds of CPU time that an input may take, its processes included, and bytes beside those that the process has.
SLOWEST, MEMORY = 20.0, 1 << 30
#: Peak memory of an input above which it counts as a violation, in kB.
BUDGET = 700_000
BATCH = 250
#: Input in hand, CPU and clock when it began, read, refused, peak memory in kB, process that reads for trials.
_STATE = struct.Struct("<qddqqqq")
_FOREVER = 600.0


@dataclass(frozen=True)
class Reader:
    """A reader of files that others wrote.

    Attributes:
        name: in the table.
        files: a sound example: name to contents.
        read: reads the example from its folder.
        damage: how its first file is damaged.
        entry: the public entry point that it belongs to, if it is one.
        damages: how other files are damaged, by name; an input has one damaged file.
        also: other sound contents of the damaged file, whose reading fills caches that all inputs share.
    """

    name: str
    files: dict[str, bytes]
    read: Callable[[Path], object]
    damage: Damage
    entry: str = ""
    damages: dict[str, Damage] = field(default_factory=dict)
    also: Sequence[bytes] = ()


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
    cpu: float = 0.0

    @property
    def bad(self) -> int:
        return len(self.foreign) + len(self.crashes) + len(self.hangs) + (self.peak > BUDGET)

    def add(self, other: Count) -> None:
        """Add the outcome of other inputs."""
        for name in ("inputs", "read", "refused", "foreign", "crashes", "hangs", "cpu"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.peak = max(self.peak, other.peak)


def make_input(reader: Reader, number: int) -> tuple[str, bytes]:
    """Return the name and content of the damaged file of an input, which its number determines."""
    rng = random.Random(zlib.crc32(reader.name.encode()) * 1_000_003 + number)
    damages = reader.damages or {next(iter(reader.files)): reader.damage}
    name = rng.choice(sorted(damages))
    return name, damages[name](reader.files[name], rng)


def read_state(state: Path) -> dict[tuple[str, int, int], Count]:
    """Return the finished batches in a file, by reader, first input and end."""
    batches = [json.loads(line) for line in state.read_text().splitlines()]
    return {(name, begin, end): Count(**fields) for name, begin, end, fields in batches}


def fuzz(
    readers: Iterable[Reader], inputs: int, first: int = 0, state: Path | None = None, batch: int = BATCH
) -> Iterator[Count]:
    """Yield counts by reader, each with `inputs` inputs from number `first` on.

    Args:
        state: file with a line per finished batch; those that it lists are not run again.
        batch: inputs of one child.
    """
    known = read_state(state) if state is not None and state.is_file() else {}
    for reader in readers:
        total, checked = Count(reader.name), False
        for begin in range(first, first + inputs, batch):
            end = min(begin + batch, first + inputs)
            count = known.get((reader.name, begin, end))
            if count is None:
                if not checked:
                    _check_sound(reader)
                    checked = True
                count, number = Count(reader.name, inputs=end - begin), begin
                before = os.times()
                while number < end:
                    number = _child(reader, number, end, count)
                after = os.times()
                count.cpu = after.children_user + after.children_system - before.children_user - before.children_system
                if state is not None:
                    with state.open("a") as stream:
                        stream.write(json.dumps([reader.name, begin, end, vars(count)]) + "\n")
            total.add(count)
        yield total


def _check_sound(reader: Reader) -> None:
    """A reader that refuses the sound example would be fuzzed to no purpose."""
    from unseen.core import isolate
    from unseen.core.errors import UnseenError

    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        _write(reader, Path(folder))
        here, start = Path.cwd(), isolate._START
        isolate._START = trials = _Trials()
        try:
            reader.read(Path(folder))
            for content in reader.also:
                Path(folder, next(iter(reader.damages))).write_bytes(content)
                with suppress(UnseenError):
                    reader.read(Path(folder))
        finally:
            trials.end()
            isolate._START = start
            os.chdir(here)


def _write(reader: Reader, folder: Path) -> None:
    for name, content in reader.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _child(reader: Reader, first: int, end: int, count: Count) -> int:
    """Run some inputs in a child; return the number of the next."""
    shared = mmap.mmap(-1, 4096)
    shared[: _STATE.size] = _STATE.pack(first, 0.0, time.time() + _FOREVER, 0, 0, 0, 0)
    notes, notes_in = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(notes)
        _work(reader, first, end, shared, notes_in)
    os.close(notes_in)
    status, hung = _wait(child, shared)
    with os.fdopen(notes, encoding="utf-8", errors="replace") as stream:
        count.foreign += stream.read().splitlines()
    at, _, _, read, refused, peak, _ = _STATE.unpack(shared[: _STATE.size])
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
        _, cpu, clock, *_, trials = _STATE.unpack(shared[: _STATE.size])
        if time.time() - clock > SLOWEST and (_cpu(child, trials) - cpu > SLOWEST or time.time() - clock > _FOREVER):
            os.killpg(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1], True
        time.sleep(0.02)


def _cpu(*processes: int) -> float:
    """Return the CPU time of processes and of those that they waited for; 0 stands for none."""
    ticks = 0
    for process in filter(None, processes):
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _work(reader: Reader, first: int, end: int, shared: mmap.mmap, notes: int) -> None:
    """The child: never returns."""
    from unseen.core import isolate
    from unseen.core.errors import UnseenError

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(1000)
    began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = refused = 0
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    damaged = ""
    isolate._START = trials = _Trials()
    _write(reader, folder)

    def note(number: int) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - began
        cpu = _cpu(os.getpid(), trials.process)
        shared[: _STATE.size] = _STATE.pack(number, cpu, time.time(), read, refused, peak, trials.process)

    trials.begun = lambda: note(number)
    try:
        for number in range(first, end):
            note(number)
            name, content = make_input(reader, number)
            if damaged:
                (folder / damaged).write_bytes(reader.files[damaged])
            (folder / name).write_bytes(content)
            damaged = name
            try:
                reader.read(folder)
                read += 1
            except UnseenError:
                refused += 1
            except BaseException as error:  # noqa: BLE001 - that is what is looked for
                text = " ".join(f"{type(error).__name__}: {error}".split())[:200]
                os.write(notes, f"{reader.name} {number}: {text}\n".encode("utf-8", "replace"))
        note(end)
        trials.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


class _Trials:
    """Calls the readers of trials in one process with the limits of each; a new one follows when it has ended.

    The process is a copy of this one, which has the libraries already. `unseen` starts a new interpreter per trial.
    """

    def __init__(self) -> None:
        self.process = 0
        self.begun: Callable[[], None] = lambda: None

    def __call__(self, trial: Any) -> tuple[int, str]:
        if not self.process:
            self._start()
        self._ask.write(json.dumps(asdict(trial)).encode() + b"\n")
        self._ask.flush()
        if answer := self._answers.readline():
            code, line = json.loads(answer)
            return code, line
        return self.end(), ""

    def _start(self) -> None:
        from unseen.core import isolate

        asked, ask = os.pipe()
        answers, answer = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(ask)
            try:
                hard = resource.getrlimit(resource.RLIMIT_AS)[1]
                resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, hard))
                with os.fdopen(asked, "rb") as stream:
                    for line in stream:
                        answered = json.dumps(isolate.call(isolate.Trial(**json.loads(line))))
                        os.write(answer, answered.encode() + b"\n")
                os._exit(0)
            finally:
                os._exit(70)
        os.close(asked), os.close(answer)
        self._ask, self._answers = os.fdopen(ask, "wb"), os.fdopen(answers, "rb")
        self.begun()

    def end(self) -> int:
        """End the process, if there is one; return its exit code."""
        if not self.process:
            return 0
        self._ask.close(), self._answers.close()
        _, status = os.waitpid(self.process, 0)
        self.process = 0
        return os.waitstatus_to_exitcode(status)
