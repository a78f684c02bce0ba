"""Work done here: in this process, or in several processes of this machine."""

from __future__ import annotations

import multiprocessing
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
        with ProcessPoolExecutor(self.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            for future in as_completed([pool.submit(function, item) for item in items]):
                yield future.result()


@contextmanager
def local_engine(workers: int = 1) -> Iterator[LocalEngine]:
    """An engine on this machine."""
    yield LocalEngine(workers)
