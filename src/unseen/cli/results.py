"""`unseen results`: what has been computed, as a table or in full precision for other programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from unseen.core.records import Result
    from unseen.results import ResultsDatabase
    from unseen.results.grid import Grid

Names = list[str] | None


#: A table with more columns than these is turned.
_MOST_COLUMNS = 8


def results(
    study: Annotated[Names, typer.Option(help="Only this study. May be given several times.")] = None,
    benchmark: Annotated[Names, typer.Option(help="Only this benchmark. May be given several times.")] = None,
    model: Annotated[Names, typer.Option(help="Only this model. May be given several times.")] = None,
    dataset: Annotated[Names, typer.Option(help="Only this dataset. May be given several times.")] = None,
    metric: Annotated[Names, typer.Option(help="Only this metric. May be given several times.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print long form as JSON, with sweeps and details.")] = False,
    csv: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write long form as CSV; - is standard output.")
    ] = None,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE", help="Write long form as Parquet.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only cells that failed, with their reasons.")] = False,
    home: Annotated[Path | None, typer.Option(help="Where results are kept. Default: UNSEEN_HOME.")] = None,
) -> None:
    """Show the newest result of every cell: mean ± standard deviation over seeds, the best of a column in bold.

    Tables are rounded; --json, --csv and --parquet give every value in full precision, one row per (cell, metric).
    """
    from unseen.core.errors import UsageError
    from unseen.core.files import home as home_folder
    from unseen.results import FILE_NAME, ResultsDatabase, newest_revisions

    if as_json and csv == "-":
        raise UsageError("--json and --csv - both print to standard output. Give --csv a file, or choose one of them.")
    with ResultsDatabase(home_folder(home) / FILE_NAME, read_only=True) as database:
        chosen = {"study": study, "benchmark": benchmark, "model": model, "dataset": dataset}
        for column, names in chosen.items():
            _check_known(database, column, names)
        found = [r for r in newest_revisions(database.latest(**_given(chosen))) if not (failed and r.ok)]
        _check_metrics(found, metric)
        if as_json or csv or parquet:
            kept = {result.cell.id for result in found}
            rows = [row for row in database.rows(**_given(chosen), metric=metric) if row["cell"] in kept]
            _export(rows, as_json=as_json, csv=csv, parquet=parquet)
            return
    show_results(found, metric or (), only_failed=failed)


def _given(chosen: dict[str, Names]) -> dict[str, Any]:
    return {column: names for column, names in chosen.items() if names}


def _check_known(database: ResultsDatabase, column: str, names: Names) -> None:
    from unseen.core.errors import UnknownNameError

    for name in names or ():
        known = database.names(column)
        if name not in known:
            raise UnknownNameError(column, name, known, hint=f"Only what {database.path} holds can be asked for.")


def _check_metrics(found: Sequence[Result], wanted: Names) -> None:
    from unseen.core.errors import UnknownNameError

    known = {name for result in found for name in result.metrics}
    for name in wanted or ():
        if known and name not in known:
            raise UnknownNameError("metric", name, known)


def _export(rows: list[dict[str, object]], *, as_json: bool, csv: str | None, parquet: Path | None) -> None:
    from unseen.cli.tables import print_json
    from unseen.core.files import write_whole
    from unseen.results.export import to_csv, write_parquet

    if parquet:
        write_parquet(rows, parquet)
    if csv == "-":
        sys.stdout.write(to_csv(rows))
    elif csv:
        write_whole(Path(csv), to_csv(rows).encode())
    if as_json:
        print_json(rows)


def show_results(found: Sequence[Result], metrics: Sequence[str] = (), *, only_failed: bool = False) -> None:
    """Print a table per benchmark, then the cells that failed with their reasons.

    Args:
        metrics: the metrics to show; by default those that fit (see `unseen.results.grid.grids`).
    """
    from unseen.cli.tables import console
    from unseen.results.grid import grids

    if not only_failed:
        for grid in grids(found, metrics):
            _print_grid(grid)
    broken = [result for result in found if not result.ok]
    if broken:
        if not only_failed:
            console().print()
        _print_failures(broken)
    elif only_failed:
        console().print("No cell has failed.")
    elif not found:
        console().print("There are no results yet.")


def _print_grid(grid: Grid) -> None:
    from rich.text import Text

    from unseen.cli.tables import print_table

    best = {column: grid.best(column) for column in grid.columns}
    if len(grid.columns) > _MOST_COLUMNS:
        _print_long(grid)
        return
    rows: list[list[str | Text]] = []
    for model in grid.models:
        texts: list[str | Text] = []
        for column in grid.columns:
            summary = grid.cells.get((model, column))
            style = "bold" if model in best[column] else ""
            texts.append(Text(summary.text if summary else "", style=style))
        rows.append([model, *texts])
    titles = [grid.title(column) for column in grid.columns]
    print_table(["model", *titles], rows, title=_title(grid), caption=_caption(grid), numeric=titles)


def _print_long(grid: Grid) -> None:
    """A grid too wide for a screen, turned: models are the columns."""
    from rich.text import Text

    from unseen.cli.tables import print_table

    rows: list[list[str | Text]] = []
    for column in grid.columns:
        best = grid.best(column)
        found = [(model, grid.cells.get((model, column))) for model in grid.models]
        texts = [Text(s.text if s else "", style="bold" if model in best else "") for model, s in found]
        rows.append([grid.title(column), *texts])
    print_table(["", *grid.models], rows, title=_title(grid), caption=_caption(grid), numeric=grid.models)


def _title(grid: Grid) -> str:
    """What all columns share: the benchmark, and the dataset and metric where there is one."""
    parts = [grid.benchmark]
    datasets, metrics = {c.dataset for c in grid.columns}, {c.metric for c in grid.columns}
    if len(datasets) == 1:
        parts.extend(datasets)
    if len(metrics) == 1:
        parts.append(grid.columns[0].measure.heading)
    return " · ".join(parts)


def _caption(grid: Grid) -> str:
    counts = {len(summary.values) for summary in grid.cells.values()}
    if counts == {1}:
        return ""
    seeds = str(max(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    return f"mean ± standard deviation over {seeds} seeds"


def _print_failures(broken: Sequence[Result]) -> None:
    from unseen.cli.tables import print_table
    from unseen.core.identity import canonical_json

    rows = []
    for result in broken:
        cell = result.cell
        setting = ", ".join(
            f"{name}={value if isinstance(value, str) else canonical_json(value)}"
            for name, value in sorted(cell.parameters.items())
        )
        rows.append([cell.benchmark, cell.model, cell.dataset, setting, " ".join(result.error.split())])
    count = f"{len(broken)} cell{'s' if len(broken) > 1 else ''} failed"
    print_table(["benchmark", "model", "dataset", "parameters", "reason"], rows, title=count)
