"""Contract suite of engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from unseen.core.errors import DataError
from unseen.run.executor import Engine
from unseen.testing.claims import claim, refuses

_UNLUCKY = 13


def double(value: int) -> int:
    """Run in a worker, which imports it by its name."""
    if value == _UNLUCKY:
        raise DataError("thirteen")
    return 2 * value


def check_engine(make: Callable[[], AbstractContextManager[Engine]]) -> None:
    """Check an engine.

    Args:
        make: returns it, for a `with` block: `lambda: make_engine("mine", workers=2)`.
    """
    with make() as engine:
        found = sorted(engine.map(double, list(range(6))))
        claim(found == [0, 2, 4, 6, 8, 10], f"0 to 5 doubled are {found}: every item gives one result")
        claim(sorted(engine.map(double, [4, 4])) == [8, 8], "equal items are two pieces of work, not one")
        claim(list(engine.map(double, [])) == [], "no items give no results")
        message = refuses("an unlucky item", lambda: list(engine.map(double, [1, _UNLUCKY])), DataError)
        claim("thirteen" in message, f"an exception came back with another message: {message}")
        claim(list(engine.map(double, [4])) == [8], "the engine works after a failure")
        claim(engine.slots >= 1, f"{engine.slots} items are at work side by side")
        claim(isinstance(engine.shares(Path.cwd()), bool), "whether workers see a folder is a yes or a no")
        consumed: list[int] = []

        def lazily() -> Iterator[int]:
            for number in range(200):
                consumed.append(number)
                yield number + _UNLUCKY + 1

        results = engine.map(double, lazily(), lost=lambda item, _reason: -item, needs={"GPU": 1})
        next(results)
        claim(len(consumed) < 200, "items are consumed when a worker is free, not all at once")
        claim(len(list(results)) == 199, "every item gives one result, also where they come one by one")
