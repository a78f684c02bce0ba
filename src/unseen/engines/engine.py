"""What an engine is: it maps a function over items and gives the results as they come. The one on this machine."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeVar

from unseen.core.registry import Registry

A = TypeVar("A")
B = TypeVar("B")


class Engine(Protocol):
    """Runs independent pieces of work. The pieces are functions of plain values, so that they can travel."""

    def map(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        """`function` of every item, in any order, as each is done. Exceptions travel back and are raised here."""


ENGINES: Registry[Callable[..., AbstractContextManager[Engine]]] = Registry("engine", "unseen.engines")
ENGINES.add("local", "unseen.engines.engine:local_engine")
ENGINES.add("dask", "unseen.engines.dask:dask_engine")


def make_engine(name: str, **options: Any) -> AbstractContextManager[Engine]:
    """The engine called `name`, to be used in a `with` block."""
    return ENGINES.get(name)(**options)


class LocalEngine:
    """One item after the other in this process, or side by side in `workers` processes, which serve all maps."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._others: list[BaseProcess] = []

    def map(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        if self.workers <= 1:
            yield from map(function, items)
            return
        if self._pool is None:
            self._others = list(multiprocessing.active_children())
            # Spawned, not forked: torch and ONNX Runtime do not survive a fork with their threads.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, mp_context=context, initializer=_leave_interruptions)
        pool = self._pool
        try:
            for future in as_completed([pool.submit(function, item) for item in items]):
                yield future.result()
        except BaseException:
            # Whoever ends the run does not wait for the queue: what is finished is kept.
            self._pool = None
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                if worker not in self._others:
                    worker.terminate()
            raise

    def close(self) -> None:
        """Let the processes go."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _leave_interruptions() -> None:
    """Ctrl-C reaches every process of a terminal; it is the parent that answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def local_engine(workers: int = 1) -> Iterator[LocalEngine]:
    """An engine on this machine."""
    engine = LocalEngine(workers)
    try:
        yield engine
    finally:
        engine.close()
