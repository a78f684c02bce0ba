"""A progress bar for extractions: images per second, time left, images skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


class RichProgress:
    """Draws one bar per extraction on standard error; where that is not a terminal, one line per extraction."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Any = None
        self._task: Any = None
        self._title = ""
        self._images = 0
        self._skipped = 0

    def begin(self, title: str, total: int, done: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._title, self._images, self._skipped = title, 0, 0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[skipped]}", style="yellow"),
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
        self._console.print(f"  {self._title}: {self._images} images{rate}{skips}", style="dim", markup=False)
