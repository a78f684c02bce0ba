"""Processes of this machine that take items one by one, and whose death costs one item a try.

A process that ends on its own account is replaced. The item it had is tried again, `RETRIES` times; then it is lost,
with the reason, and the others go on. A process ends when its parent does, however that ended: it watches the pipe that
only the parent's end keeps open.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

from unseen.core.errors import UnseenError, WorkerLostError
from unseen.engines.devices import devices, environment
from unseen.engines.engine import RETRIES

A = TypeVar("A")
B = TypeVar("B")

#: Seconds that a process is given to end by itself.
_PATIENCE = 10.0
#: So many deaths before a process has done its first item mean that none will live.
_STILLBORN = 3


@dataclass(eq=False)
class _Worker:
    """A process, our end of its pipe, and what it has in hand."""

    process: SpawnProcess
    connection: Connection
    number: int
    hand: tuple[Any, int] | None = None
    alive: bool = False

    def stop(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


class Pool:
    """`count` processes, each with its own device and its share of the cores. They serve all maps."""

    def __init__(self, count: int) -> None:
        self.count = count
        # Spawned, not forked: torch and ONNX Runtime do not survive a fork with their threads.
        self._context = multiprocessing.get_context("spawn")
        self._devices = devices()
        self._workers: list[_Worker] = []
        self._stillborn = 0

    def map(
        self, function: Callable[[A], B], items: Iterable[A], lost: Callable[[A, str], B], retries: int = RETRIES
    ) -> Iterator[B]:
        """`function` of each item as it is done; `lost` of those whose process died `retries` + 1 times."""
        waiting = iter(items)
        again: deque[tuple[A, int]] = deque()
        try:
            while True:
                for worker in self._idle():
                    nothing: tuple[A, int] | None = None
                    item = again.popleft() if again else next(((each, 0) for each in waiting), nothing)
                    if item is None:
                        break
                    worker.hand = item
                    with contextlib.suppress(OSError):  # it has died: the look below says so
                        worker.connection.send((function, item[0]))
                if not (busy := [worker for worker in self._workers if worker.hand is not None]):
                    return
                for worker in _ready(busy):
                    assert worker.hand is not None
                    item, worker.hand = worker.hand, None
                    answer = _answer(worker)
                    if answer is None:
                        reason = self._bury(worker)
                        if item[1] < retries:
                            again.append((item[0], item[1] + 1))
                        else:
                            yield lost(item[0], f"{reason}, {retries + 1} times")
                        continue
                    worker.alive, self._stillborn = True, 0
                    if answer[1] is not None:
                        raise answer[1]
                    yield answer[0]
        except BaseException:
            # Whoever ends the run does not wait for the queue: what is finished is kept.
            self._end_all()
            raise

    def close(self) -> None:
        """Let the processes end by themselves, and see that they do."""
        for worker in self._workers:
            worker.connection.close()
        for worker in self._workers:
            worker.process.join(_PATIENCE)
        self._end_all()

    def _idle(self) -> list[_Worker]:
        """Processes with empty hands, new ones in place of the dead among them."""
        taken = {worker.number for worker in self._workers}
        for number in sorted(set(range(self.count)) - taken):
            ours, theirs = self._context.Pipe()
            given = environment(number, self.count, self._devices)
            process = self._context.Process(target=_serve, args=(theirs, given), daemon=False)
            process.start()
            theirs.close()
            self._workers.append(_Worker(process, ours, number))
        return [worker for worker in self._workers if worker.hand is None]

    def _bury(self, worker: _Worker) -> str:
        """Take a dead process away, and say what it died of."""
        worker.connection.close()
        worker.process.join(_PATIENCE)
        worker.stop()
        self._workers.remove(worker)
        reason = f"the worker process was ended {_cause(worker.process.exitcode)} while at it"
        if not worker.alive:
            self._stillborn += 1
            if self._stillborn > _STILLBORN * self.count:
                raise WorkerLostError(f"{reason}; no worker process lives to do anything.")
        return reason

    def _end_all(self) -> None:
        for worker in self._workers:
            worker.stop()
        self._workers = []


def _ready(busy: list[_Worker]) -> list[_Worker]:
    """Those who have answered or died."""
    found = wait([each for worker in busy for each in (worker.connection, worker.process.sentinel)])
    return [worker for worker in busy if worker.connection in found or worker.process.sentinel in found]


def _answer(worker: _Worker) -> tuple[Any, BaseException | None] | None:
    """A value, or an exception; None from the dead."""
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


def _serve(connection: Connection, given: dict[str, str]) -> None:
    """The life of a worker process."""
    # Ctrl-C reaches every process of a terminal; it is the parent that answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(given)
    end_with_parent()
    while True:
        try:
            function, item = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer = pickle.dumps((function(item), None))
        except BaseException as error:  # noqa: BLE001 - it travels back and is raised there
            answer = pickle.dumps((None, _portable(error)))
        try:
            connection.send_bytes(answer)
        except OSError:
            return


def end_with_parent() -> None:
    """End this process at once when its parent has ended, whatever it is doing."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def _portable(error: BaseException) -> BaseException:
    """An exception that survives the way; one that does not becomes an error of the same words."""
    try:
        return pickle.loads(pickle.dumps(error))  # type: ignore[no-any-return]  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - whatever its own code raises
        kind = UnseenError if isinstance(error, UnseenError) else RuntimeError
        return kind(str(error) if isinstance(error, UnseenError) else f"{type(error).__name__}: {error}")
