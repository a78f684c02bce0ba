"""A progress bar for extractions: images per second, time left, images skipped."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


#: Between two lines of an extraction where there is no terminal to draw a bar on.
_SECONDS = 30.0


class RichProgress:
    """Draws one bar per extraction on standard error; where that is no terminal, a line now and then and at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Any = None
        self._task: Any = None
        self._title = ""
        self._images = self._skipped = self._total = self._done = 0
        self._told = 0.0

    def begin(self, title: str, total: int, done: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from unseen.cli.tables import printable

        title = printable(title)
        self._told, self._total, self._done = monotonic(), total, done
        self._title, self._images, self._skipped = title, 0, 0
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            TimeRemainingColumn(),
            TextColumn("{task.fields[skipped]}", style="yellow", markup=False),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._bar.start()
        self._task = self._bar.add_task(title, total=total, completed=done, rate="", skipped="")

    def advance(self, images: int, skipped: int) -> None:
        self._images += images
        self._skipped += skipped
        if self._bar is None:
            return
        self._done += images
        if not self._console.is_terminal and monotonic() - self._told > _SECONDS:
            self._told = monotonic()
            self._console.print(f"  {self._title}: {self._done:,} of {self._total:,} images", style="dim")
        elapsed = self._bar.tasks[0].elapsed or 0.0
        rate = f"{self._images / elapsed:.0f} images/s" if elapsed > 0 else ""
        skips = f"{self._skipped} skipped" if self._skipped else ""
        self._bar.update(self._task, advance=images, rate=rate, skipped=skips)

    def waiting(self, title: str) -> None:
        self._console.print(f"{title}: another process is extracting this; waiting for it", style="dim", markup=False)

    def note(self, text: str) -> None:
        self._console.print(text, style="yellow", markup=False)

    def end(self) -> None:
        if self._bar is None:
            return
        elapsed = self._bar.tasks[0].elapsed or 0.0
        self._bar.stop()
        self._bar = None
        rate = f" ({self._images / elapsed:.0f} images/s)" if elapsed > 0 else ""
        skips = f", {self._skipped} unreadable and skipped" if self._skipped else ""
        from unseen.cli.tables import count

        self._console.print(f"  {self._title}: {count(self._images, 'image')}{rate}{skips}", style="dim", markup=False)
