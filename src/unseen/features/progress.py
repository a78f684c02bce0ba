"""How an extraction tells the world how it goes."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told how an extraction goes; the command line draws a bar from it."""

    def begin(self, title: str, total: int, done: int) -> None:
        """An extraction of `total` images starts, `done` of which are in the store already."""

    def advance(self, images: int, skipped: int) -> None:
        """`images` more are through, `skipped` of them unreadable."""

    def waiting(self, title: str) -> None:
        """Another process is extracting the same features: waiting for it."""

    def note(self, text: str) -> None:
        """Something that the user should know, such as a damaged part that is done again."""

    def end(self) -> None:
        """The extraction is over, well or not."""


class NoProgress:
    """Tells nobody."""

    def begin(self, title: str, total: int, done: int) -> None: ...
    def advance(self, images: int, skipped: int) -> None: ...
    def waiting(self, title: str) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self) -> None: ...
