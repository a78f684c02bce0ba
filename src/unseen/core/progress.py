"""Progress of long work: the protocol, a no-op, and a log of messages; `unseen.cli.tables` has the console's."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives the events of one task after the other, such as the extraction of the features of a split."""

    def begin(self, title: str, total: int, done: int) -> None:
        """Start a task of `total` images, `done` of which were finished earlier."""
        return

    def advance(self, images: int, skipped: int) -> None:
        """Report `images` more as finished, `skipped` of them unreadable."""
        return

    def waiting(self, title: str) -> None:
        """Report that another process works on the task, and that this one waits for it."""
        return

    def note(self, text: str) -> None:
        """Report a message for the user, such as a damaged part that is extracted again."""
        return

    def end(self) -> None:
        """End the task, after success or failure."""
        return


class NoProgress(Progress):
    """Ignore all events."""


class MessageLog(NoProgress):
    """Collect messages and one line for each task, for a worker to send back to the process of the run."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._title, self._images = "", 0

    def begin(self, title: str, total: int, done: int) -> None:
        self._title, self._images = title, 0

    def advance(self, images: int, skipped: int) -> None:
        self._images += images

    def note(self, text: str) -> None:
        self.lines.append(text)

    def end(self) -> None:
        self.lines.append(f"{self._title}: {self._images} images")

    def take(self) -> tuple[str, ...]:
        """Return the lines collected so far, and forget them."""
        taken, self.lines = tuple(self.lines), []
        return taken
