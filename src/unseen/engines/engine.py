"""What an engine is: it maps a function over items and gives the results as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from unseen.core.registry import Registry

A = TypeVar("A")
B = TypeVar("B")


class Engine(Protocol):
    """Runs independent pieces of work. The pieces are functions of plain values, so that they can travel."""

    def map(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        """`function` of every item, in any order, as each is done. Exceptions travel back and are raised here."""


ENGINES: Registry[Callable[..., AbstractContextManager[Engine]]] = Registry("engine", "unseen.engines")
ENGINES.add("local", "unseen.engines.local:local_engine")
ENGINES.add("dask", "unseen.engines.dask:dask_engine")


def make_engine(name: str, **options: Any) -> AbstractContextManager[Engine]:
    """The engine called `name`, to be used in a `with` block."""
    return ENGINES.get(name)(**options)
