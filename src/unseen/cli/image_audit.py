"""`unseen audit --images`: copies among the images of a dataset, between its splits, and against another set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unseen.data.duplicates import DuplicateReport


def audit_image_copies(
    data: str,
    *,
    against: str | None,
    model: str | None,
    crops: bool,
    threshold: float | None,
    drop: Path | None,
    page: Path | None,
    as_json: bool,
    out: Path | None,
    home: Path | None,
) -> None:
    """Search, print, and write the page, the list of images to drop and the JSON."""
    import typer

    from unseen.backbones.load import resolve_model
    from unseen.benchmarks import Workbench
    from unseen.benchmarks.audit import audit_images
    from unseen.cli.progress import ConsoleProgress
    from unseen.cli.tables import console, print_json
    from unseen.core.files import home as home_folder
    from unseen.core.files import write_whole
    from unseen.data.duplicates import THRESHOLD
    from unseen.reports.audit import drop_list, write_copies_page
    from unseen.results.export import to_json

    bench = Workbench(home_folder(home), progress=ConsoleProgress(console(error=True)))
    least = THRESHOLD if threshold is None else threshold
    chosen = resolve_model(model, Path.cwd()) if model else None
    with _Bar() as bar:
        report, used = audit_images(
            bench, data, against, model=chosen, progress=bar, threshold=least, parts=crops, workers=2
        )
    how = method_line(report, used, least, crops)
    if as_json:
        print_json({**report.to_dict(), "method": how})
    else:
        _print(report, how)
    if out is not None:
        write_whole(out, to_json({**report.to_dict(), "method": how}) + "\n")
        typer.echo(f"Written to {out}.", err=True)
    if drop is not None:
        write_whole(drop, drop_list(report))
        typer.echo(f"{len(report.drop):,} images to drop written to {drop}.", err=True)
    if page is not None:
        classes = bench.dataset(report.images.name).class_names
        typer.echo(f"Page: {write_copies_page(report, page, how=how, classes=classes)}", err=True)


def method_line(report: DuplicateReport, model: str, threshold: float, crops: bool) -> str:
    """How the copies were found, in a sentence for a paper."""
    against = report.against
    if against is not None and against.open is None:
        return (
            f"Candidates by cosine similarity of {model} features; the images of {against.name} were not at hand, so "
            "none is confirmed by its pixels."
        )
    crop = "or as a part of one another" if crops else "whole"
    return (
        f"Equal files by content; further candidates by cosine similarity of {model} features (at least "
        f"{threshold:g}), each confirmed by a perceptual hash and the pixels laid over each other, {crop} "
        f"({report.compared:,} candidates compared)."
    )


def _print(report: DuplicateReport, how: str) -> None:
    from unseen.cli.tables import console, print_table

    other = report.against or report.images
    rows = [
        [
            pair.kind.value,
            report.images.names[pair.first],
            report.images.split_of(pair.first),
            other.names[pair.second],
            other.split_of(pair.second),
            "" if pair.correlation is None else f"{pair.correlation:.3f}",
        ]
        for pair in report.pairs[:20]
    ]
    if rows:
        columns = ["kind", "image", "split", "copy", "its split", "pixels agree"]
        print_table(columns, rows, numeric=("pixels agree",), prose=("image", "copy"))
    if len(report.pairs) > len(rows):
        console().print(f"and {len(report.pairs) - len(rows):,} more pairs: --page shows them, --out writes them.")
    for name, reason in list(report.unreadable.items())[:5]:
        console().print(f"could not be opened: {name}: {reason}", markup=False)
    console().print(report.summary, style="bold", markup=False, soft_wrap=True)
    console().print(how, markup=False, soft_wrap=True)


class _Bar:
    """A bar per stage on standard error; nothing where that is not a terminal."""

    def __enter__(self) -> _Bar:
        from rich.progress import Progress

        from unseen.cli.tables import console

        out = console(error=True)
        self._bar: Any = Progress(console=out, transient=True, disable=not out.is_terminal)
        self._tasks: dict[str, Any] = {}
        self._started = False
        return self

    def __call__(self, stage: str, done: int, total: int) -> None:
        if not self._started:  # not before: extraction has a bar of its own
            self._bar.start()
            self._started = True
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(f"comparing {stage}", total=total)
        self._bar.update(self._tasks[stage], completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        if self._started:
            self._bar.stop()
