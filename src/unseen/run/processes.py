"""Processes of this machine, each with its own accelerator and its share of the cores.

A process that dies is replaced. Its item is tried again, `RETRIES` times; then the item is lost, with the reason, and
the other items continue. A process ends when its parent ends, in any way: it watches the pipe that only the parent
keeps open.

`concurrent.futures.ProcessPoolExecutor` and loky are not used because of one fault: after the death of one worker both
fail all pending items and report neither which item it had nor its exit code, so that one image that exhausts the
memory would end a study.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from unseen.core.errors import UnseenError, WorkerLostError
from unseen.core.extras import ALL_CUDA_VARIABLE, cores
from unseen.core.extras import CUDA_VARIABLE as VARIABLE

if TYPE_CHECKING:
    from filelock import FileLock

A = TypeVar("A")
B = TypeVar("B")

#: How often an item whose worker died is tried again.
RETRIES = 2
RESUME = "Finished work is stored: run the same command to resume."
#: Seconds that a process has to end by itself.
_PATIENCE = 10.0
#: Abort after this many deaths per worker before the first finished item.
_FAILED_STARTS = 3

_DRIVER = Path("/proc/driver/nvidia/gpus")

#: Locks of devices that this process has acquired; they are held until it ends.
_DEVICE_LOCKS: list[FileLock] = []


def raise_lost(_item: object, reason: str) -> NoReturn:
    """Default handler for lost items: raise `WorkerLostError`."""
    raise WorkerLostError(f"{reason}. {RESUME}")


# ---- devices and cores -----------------------------------------------------------------------------------------------


def devices() -> list[str]:
    """Return the CUDA devices that this process may use, by number or id, without torch or the driver's library."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() and name.strip() != "-1"]
    return [str(i) for i in range(len(list(_DRIVER.iterdir())))] if _DRIVER.is_dir() else []


def environment(number: int, count: int, found: list[str] | None = None) -> dict[str, str]:
    """Return the environment variables of process `number` of `count`: one device, and its share of the cores.

    Processes that see all devices would all use the first.
    """
    found = devices() if found is None else found
    several = len(found) > 1
    device = {VARIABLE: found[number % len(found)], ALL_CUDA_VARIABLE: ",".join(found)} if several else {}
    return {**device, "OMP_NUM_THREADS": str(threads_each(count))}


def threads_each(count: int) -> int:
    """Return the threads of each of `count` processes, which together use every core once, or OMP_NUM_THREADS."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    share = max(cores() // max(count, 1), 1)
    return min(share, int(limit)) if limit.isdigit() and int(limit) else share


def take_device(folder: Path | None = None, find: Callable[[], list[str]] = devices) -> str | None:
    """Acquire a device of this machine that no other worker process has, and make it the only visible one.

    A process that sees one device keeps it. If all are taken, processes share them evenly.

    Returns:
        The device; None if there is none.
    """
    found = find()
    if len(found) < 2:
        return found[0] if found else None
    from filelock import FileLock, Timeout  # imports asyncio

    folder = folder or Path(tempfile.gettempdir()) / f"unseen-devices-{os.getuid() if hasattr(os, 'getuid') else 0}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for turn in range(16):
        for name in found:
            lock = FileLock(folder / f"{turn}-{name.replace('/', '_')}.lock", thread_local=False)
            with contextlib.suppress(Timeout):
                lock.acquire(timeout=0)
                _DEVICE_LOCKS.append(lock)
                os.environ[VARIABLE] = name
                return name
    os.environ[VARIABLE] = found[os.getpid() % len(found)]
    return os.environ[VARIABLE]


# ---- the pool --------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Worker:
    """A process, the parent's end of its pipe, and its current item with the number of earlier attempts."""

    process: SpawnProcess
    connection: Connection
    number: int
    item: tuple[Any, int] | None = None
    started: bool = False

    def stop(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


class ProcessPool:
    """`count` processes that serve all maps; they start with the first."""

    def __init__(self, count: int) -> None:
        self.count = count
        # Spawned, not forked: torch and ONNX Runtime do not survive a fork with their threads.
        self._context = multiprocessing.get_context("spawn")
        self._devices = devices()
        self._workers: list[_Worker] = []
        self._failed_starts = 0

    def map(self, function: Callable[[A], B], items: Iterable[A], lost: Callable[[A, str], B]) -> Iterator[B]:
        """Yield `function` of each item as it is finished, and `lost` of items whose process died too often."""
        waiting = iter(items)
        retries: deque[tuple[A, int]] = deque()
        try:
            while True:
                for worker in self._idle():
                    nothing: tuple[A, int] | None = None
                    item = retries.popleft() if retries else next(((each, 0) for each in waiting), nothing)
                    if item is None:
                        break
                    worker.item = item
                    with contextlib.suppress(OSError):  # it has died, which `_answer` detects
                        worker.connection.send((function, item[0]))
                if not (busy := [worker for worker in self._workers if worker.item is not None]):
                    return
                for worker in _ready(busy):
                    assert worker.item is not None
                    item, worker.item = worker.item, None
                    answer = _answer(worker)
                    if answer is None:
                        reason = self._remove(worker)
                        if item[1] < RETRIES:
                            retries.append((item[0], item[1] + 1))
                        else:
                            yield lost(item[0], f"{reason}, {RETRIES + 1} times")
                        continue
                    worker.started, self._failed_starts = True, 0
                    if answer[1] is not None:
                        raise answer[1]
                    yield answer[0]
        except BaseException:
            self._stop_all()  # an interrupted run does not wait for unfinished items
            raise

    def close(self) -> None:
        """Let the processes end by themselves; kill those that do not."""
        for worker in self._workers:
            worker.connection.close()
        for worker in self._workers:
            worker.process.join(_PATIENCE)
        self._stop_all()

    def _idle(self) -> list[_Worker]:
        """Return the processes without an item, after starting the missing ones."""
        present = {worker.number for worker in self._workers}
        for number in sorted(set(range(self.count)) - present):
            ours, theirs = self._context.Pipe()
            variables = environment(number, self.count, self._devices)
            process = self._context.Process(target=_serve, args=(theirs, variables), daemon=False)
            process.start()
            theirs.close()
            self._workers.append(_Worker(process, ours, number))
        return [worker for worker in self._workers if worker.item is None]

    def _remove(self, worker: _Worker) -> str:
        """Remove a dead worker and return the reason of its death."""
        worker.connection.close()
        worker.process.join(_PATIENCE)
        worker.stop()
        self._workers.remove(worker)
        reason = f"the worker process was ended {_cause(worker.process.exitcode)} while at it"
        if not worker.started:
            self._failed_starts += 1
            if self._failed_starts > _FAILED_STARTS * self.count:
                raise WorkerLostError(f"{reason}; no worker process lives to do anything.")
        return reason

    def _stop_all(self) -> None:
        for worker in self._workers:
            worker.stop()
        self._workers = []


def _ready(busy: list[_Worker]) -> list[_Worker]:
    """Wait, and return the workers that have answered or died."""
    found = wait([each for worker in busy for each in (worker.connection, worker.process.sentinel)])
    return [worker for worker in busy if worker.connection in found or worker.process.sentinel in found]


def _answer(worker: _Worker) -> tuple[Any, BaseException | None] | None:
    """Return the value or the exception of a worker; None if it has died."""
    try:
        if not worker.connection.poll():
            return None
        answer: tuple[Any, BaseException | None] = pickle.loads(worker.connection.recv_bytes())  # noqa: S301 - our own
        return answer
    except (EOFError, OSError):
        return None


def _cause(code: int | None) -> str:
    if code is None or code >= 0:
        return f"with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"


def _serve(connection: Connection, variables: dict[str, str]) -> None:
    """Run the loop of a worker process."""
    # Ctrl-C reaches every process of a terminal; the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(variables)
    end_with_parent()
    while True:
        try:
            function, item = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer = pickle.dumps((function(item), None))
        except BaseException as error:  # noqa: BLE001 - sent back, and raised in the parent
            answer = pickle.dumps((None, _portable(error)))
        try:
            connection.send_bytes(answer)
        except OSError:
            return


def end_with_parent() -> None:
    """End this process at once when its parent has ended."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def _portable(error: BaseException) -> BaseException:
    """Return an exception that can be pickled: the exception itself, or an error with its message."""
    try:
        copy: BaseException = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
        return copy
    except Exception:  # noqa: BLE001 - the exception's own code runs here
        kind = UnseenError if isinstance(error, UnseenError) else RuntimeError
        return kind(str(error) if isinstance(error, UnseenError) else f"{type(error).__name__}: {error}")
