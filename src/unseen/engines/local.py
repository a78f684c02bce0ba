"""Work done here: in this process, or in several processes of this machine."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


class LocalEngine:
    """One item after the other in this process, or side by side in `workers` processes."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    def map(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        if self.workers <= 1:
            yield from map(function, items)
            return
        # Spawned, not forked: torch and ONNX Runtime do not survive a fork with their threads.
        others, context = multiprocessing.active_children(), multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self.workers, mp_context=context, initializer=_leave_interruptions) as pool:
            try:
                for future in as_completed([pool.submit(function, item) for item in items]):
                    yield future.result()
            except BaseException:
                # Whoever ends the run does not wait for the queue: what is finished is kept.
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in multiprocessing.active_children():
                    if worker not in others:
                        worker.terminate()
                raise


def _leave_interruptions() -> None:
    """Ctrl-C reaches every process of a terminal; it is the parent that answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def local_engine(workers: int = 1) -> Iterator[LocalEngine]:
    """An engine on this machine."""
    yield LocalEngine(workers)
