"""What an engine is: it maps a function over items and gives the results as they come. The one on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from unseen.core.errors import WorkerLostError
from unseen.core.registry import Registry

if TYPE_CHECKING:
    from unseen.engines.pool import Pool

A = TypeVar("A")
B = TypeVar("B")

#: How often an item whose worker died is tried again.
RETRIES = 2


class Engine(Protocol):
    """Runs independent pieces of work. The pieces are functions of plain values, so that they can travel."""

    @property
    def slots(self) -> int:
        """Items at work side by side, at present; 1 means one after the other in this process."""

    def shares(self, home: Path) -> bool:
        """Whether workers see the files in `home`."""

    def map(
        self,
        function: Callable[[A], B],
        items: Iterable[A],
        *,
        lost: Callable[[A, str], B] | None = None,
        needs: Mapping[str, float] | None = None,
    ) -> Iterator[B]:
        """`function` of every item, in any order, as each is done. Exceptions travel back and are raised here.

        Args:
            items: asked for one by one, when there is somebody to do the next.
            lost: given an item whose worker died each time it was tried, and why, gives a result in its place;
                without it the map ends with a `WorkerLostError`.
            needs: what a worker must have, such as {"GPU": 1, "MEMORY": 2e9}, where workers say what they have.
        """


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
        self._pool: Pool | None = None

    @property
    def slots(self) -> int:
        return max(self.workers, 1)

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
        if self.workers <= 1:
            yield from map(function, items)
            return
        if self._pool is None:
            from unseen.engines.pool import Pool

            self._pool = Pool(self.workers)
        yield from self._pool.map(function, items, lost or no_longer)

    def close(self) -> None:
        """Let the processes go."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def no_longer(_item: Any, reason: str) -> Any:
    """What becomes of a lost item where nobody has said so."""
    raise WorkerLostError(f"{reason}. What was finished is kept: run the same command to go on.")


@contextmanager
def local_engine(workers: int = 1) -> Iterator[LocalEngine]:
    """An engine on this machine."""
    engine = LocalEngine(workers)
    try:
        yield engine
    finally:
        engine.close()
