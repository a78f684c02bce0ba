"""Executors: in this process, in processes of this machine, or on a Dask cluster, behind one protocol.

Each process of this machine has its own accelerator and its share of the cores. A process that dies is replaced. Its
item is tried again, `RETRIES` times; then the item is lost, with the reason, and the other items continue. A process
ends when its parent ends, in any way.

Each worker is a `ProcessPoolExecutor` of one process because of one fault: after the death of one process, an executor
fails all its pending items and does not report which of them the process had, so that one image that exhausts the
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
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager
from itertools import islice
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol, Self, TypeVar

from unseen.core.errors import UnseenError, WorkerLostError
from unseen.core.extras import ALL_CUDA_VARIABLE, cores
from unseen.core.extras import CUDA_VARIABLE as VARIABLE
from unseen.core.registry import Registry

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

#: Spawned, not forked: torch and ONNX Runtime do not survive a fork with their threads.
_CONTEXT = multiprocessing.get_context("spawn")
_DRIVER = Path("/proc/driver/nvidia/gpus")

#: Locks of devices that this process has acquired; they are held until it ends.
_DEVICE_LOCKS: list[FileLock] = []


def raise_lost(_item: object, reason: str) -> NoReturn:
    """Default handler for lost items: raise `WorkerLostError`."""
    raise WorkerLostError(f"{reason}. {RESUME}")


class Engine(Protocol):
    """Executes independent items of work. Functions and items are picklable, so that they can be sent to workers."""

    @property
    def slots(self) -> int:
        """Number of concurrent workers; 1 means that items run one after the other in this process."""

    def shares(self, home: Path) -> bool:
        """Return whether workers see the files in `home`."""

    def map(
        self,
        function: Callable[[A], B],
        items: Iterable[A],
        *,
        lost: Callable[[A, str], B] = raise_lost,
        needs: Mapping[str, float] | None = None,
    ) -> Iterator[B]:
        """Yield `function` of every item as each is finished, in any order; raise exceptions of workers here.

        Args:
            items: consumed one by one, when a worker is free for the next.
            lost: returns the result of an item whose worker died at every attempt, from the item and the reason;
                by default the map raises `WorkerLostError`.
            needs: resources that a worker must have, such as {"GPU": 1, "MEMORY": 2e9}, if workers declare them.
        """


ENGINES: Registry[Callable[..., AbstractContextManager[Engine]]] = Registry("engine", "unseen.engines")
ENGINES.add("local", "unseen.run.executor:LocalEngine")
ENGINES.add("dask", "unseen.run.dask:dask_engine")


def make_engine(name: str, **options: object) -> AbstractContextManager[Engine]:
    """Return the engine called `name`, for a `with` block."""
    return ENGINES.get(name)(**options)


# ---- devices and cores -----------------------------------------------------------------------------------------------


def devices() -> list[str]:
    """Return the CUDA devices that this process may use, by number or id, without torch or the driver's library."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() and name.strip() != "-1"]
    return [str(i) for i in range(len(list(_DRIVER.iterdir())))] if _DRIVER.is_dir() else []


def environment(number: int, count: int) -> dict[str, str]:
    """Return the environment variables of process `number` of `count`: one device, and its share of the cores.

    Processes that see all devices would all use the first.
    """
    found = devices()
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


# ---- processes of this machine ---------------------------------------------------------------------------------------


class _Worker:
    """One process, which starts with its first item.

    Attributes:
        started: whether it has finished an item.
    """

    def __init__(self, variables: dict[str, str]) -> None:
        self.variables, self.started = variables, False
        self.executor = ProcessPoolExecutor(1, _CONTEXT, initializer=_start, initargs=(variables,))
        self.process: BaseProcess | None = None

    def submit(self, function: Callable[[A], B], item: A) -> Future[B]:
        before = set(multiprocessing.active_children())
        try:
            future = self.executor.submit(_call, function, item)
        except BrokenExecutor as error:  # the process has died since its last item
            future = Future()
            future.set_exception(error)
        self.process = self.process or next(iter(set(multiprocessing.active_children()) - before), None)
        return future

    def stop(self, patience: float = 0.0) -> str:
        """End the process after some seconds, and return how it ended."""
        self.executor.shutdown(wait=False, cancel_futures=True)
        if self.process is None:
            return "at its start"
        self.process.join(patience)
        self.process.kill()
        self.process.join()
        code = _exit_code(self.process)
        if code >= 0:
            return f"with code {code}"
        names = {each.value: each.name for each in signal.Signals}
        return f"by {names.get(-code, f'signal {-code}')}{' (out of memory?)' if -code == signal.SIGKILL else ''}"


def _exit_code(process: BaseProcess) -> int:
    """Return the exit code of a process that has ended.

    The executor's own thread may have read the code a moment ago without having stored it yet. Until it has,
    `exitcode` is None.
    """
    deadline = time.monotonic() + _PATIENCE
    while (code := process.exitcode) is None and time.monotonic() < deadline:
        time.sleep(0.001)
    return code or 0


class LocalEngine:
    """Execute items one after the other in this process, or concurrently in `workers` processes, in a `with` block."""

    def __init__(self, workers: int = 1) -> None:
        self.slots = max(workers, 1)
        self._failed_starts = 0
        self._workers = self._make_workers()

    def _make_workers(self) -> list[_Worker]:
        return [_Worker(environment(number, self.slots)) for number in range(self.slots) if self.slots > 1]

    def shares(self, home: Path) -> bool:
        return True

    def map(
        self,
        function: Callable[[A], B],
        items: Iterable[A],
        *,
        lost: Callable[[A, str], B] = raise_lost,
        needs: Mapping[str, float] | None = None,
    ) -> Iterator[B]:
        return self._map(function, items, lost) if self._workers else map(function, items)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Let the processes end by themselves; kill those that do not."""
        for worker in self._workers:
            worker.executor.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.stop(_PATIENCE)

    def _map(self, function: Callable[[A], B], items: Iterable[A], lost: Callable[[A, str], B]) -> Iterator[B]:
        waiting = ((each, 0) for each in items)
        retries: deque[tuple[A, int]] = deque()
        running: dict[Future[B], tuple[int, A, int]] = {}
        try:
            while True:
                for number in set(range(self.slots)) - {number for number, _, _ in running.values()}:
                    for item in [retries.popleft()] if retries else islice(waiting, 1):
                        running[self._workers[number].submit(function, item[0])] = (number, *item)
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    number, each, attempts = running.pop(future)
                    try:
                        answer = future.result()
                    except BrokenExecutor:
                        reason = self._replace(number)
                        if attempts < RETRIES:
                            retries.append((each, attempts + 1))
                        else:
                            yield lost(each, f"{reason}, {RETRIES + 1} times")
                        continue
                    self._workers[number].started, self._failed_starts = True, 0
                    yield answer
        except BaseException:
            for worker in self._workers:  # an interrupted run does not wait for unfinished items
                worker.stop()
            self._workers = self._make_workers()
            raise

    def _replace(self, number: int) -> str:
        """Replace a dead worker and return the reason of its death."""
        dead = self._workers[number]
        reason = f"the worker process was ended {dead.stop(_PATIENCE)} during its task"
        self._failed_starts += not dead.started
        if self._failed_starts > _FAILED_STARTS * self.slots:
            raise WorkerLostError(f"{reason}; no worker process could be started.")
        self._workers[number] = _Worker(dead.variables)
        return reason


def _start(variables: dict[str, str]) -> None:
    """Prepare a worker process."""
    # Ctrl-C reaches every process of a terminal; the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(variables)
    end_with_parent()


def _call(function: Callable[[A], B], item: A) -> B:
    """Return the result of a function, or raise an exception that can be sent back."""
    try:
        return function(item)
    except BaseException as error:  # noqa: BLE001 - raised in the parent
        raise _portable(error) from None


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
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - the exception's own code runs here
        known = isinstance(error, UnseenError)
        return UnseenError(str(error)) if known else RuntimeError(f"{type(error).__name__}: {error}")
    return error
