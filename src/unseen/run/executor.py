"""Executors: in this process, in processes of this machine, or on a Dask cluster, behind one protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from unseen.core.registry import Registry
from unseen.run.processes import ProcessPool, raise_lost

A = TypeVar("A")
B = TypeVar("B")


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
        lost: Callable[[A, str], B] | None = None,
        needs: Mapping[str, float] | None = None,
    ) -> Iterator[B]:
        """Yield `function` of every item as each is finished, in any order; raise exceptions of workers here.

        Args:
            items: consumed one by one, when a worker is free for the next.
            lost: returns the result of an item whose worker died at every attempt, from the item and the reason;
                without it the map raises `WorkerLostError`.
            needs: resources that a worker must have, such as {"GPU": 1, "MEMORY": 2e9}, if workers declare them.
        """


ENGINES: Registry[Callable[..., AbstractContextManager[Engine]]] = Registry("engine", "unseen.engines")
ENGINES.add("local", "unseen.run.executor:local_engine")
ENGINES.add("dask", "unseen.run.dask:dask_engine")


def make_engine(name: str, **options: object) -> AbstractContextManager[Engine]:
    """Return the engine called `name`, for a `with` block."""
    return ENGINES.get(name)(**options)


class LocalEngine:
    """Execute items one after the other in this process, or concurrently in `workers` processes."""

    def __init__(self, workers: int = 1) -> None:
        self.slots = max(workers, 1)
        self._pool = ProcessPool(workers) if workers > 1 else None

    def shares(self, home: Path) -> bool:
        return True

    def map(
        self,
        function: Callable[[A], B],
        items: Iterable[A],
        *,
        lost: Callable[[A, str], B] | None = None,
        needs: Mapping[str, float] | None = None,
    ) -> Iterator[B]:
        if self._pool is None:
            return map(function, items)
        return self._pool.map(function, items, lost or raise_lost)

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.close()


@contextmanager
def local_engine(workers: int = 1) -> Iterator[LocalEngine]:
    """Return an engine on this machine."""
    engine = LocalEngine(workers)
    try:
        yield engine
    finally:
        engine.close()
