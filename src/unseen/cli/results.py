"""`unseen results`: what has been computed, as a table or in full precision for other programs; and forgetting it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unseen.cli.tables import say

if TYPE_CHECKING:
    from rich.text import Text

    from unseen.core.records import Result
    from unseen.results import ResultsDatabase
    from unseen.results.grid import Grid

    Cells = list[list[str | Text]]

Names = list[str] | None

StudyOption = Annotated[Names, typer.Option("--study", help="Only this study. May be given several times.")]
BenchmarkOption = Annotated[Names, typer.Option("--benchmark", help="Only this benchmark. May be given several times.")]
ModelOption = Annotated[Names, typer.Option("--model", help="Only this model. May be given several times.")]
DatasetOption = Annotated[Names, typer.Option("--dataset", help="Only this dataset. May be given several times.")]
HomeOption = Annotated[Path | None, typer.Option("--home", help="Where results are kept. Default: UNSEEN_HOME.")]

results_commands = typer.Typer(name="results", invoke_without_command=True)


@results_commands.callback()
def results(
    context: typer.Context,
    study: StudyOption = None,
    benchmark: BenchmarkOption = None,
    model: ModelOption = None,
    dataset: DatasetOption = None,
    metric: Annotated[Names, typer.Option(help="Only this metric. May be given several times.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print long form as JSON, with sweeps and details.")] = False,
    csv: Annotated[str, typer.Option(metavar="FILE", help="Write long form as CSV; - is standard output.")] = "",
    parquet: Annotated[
        str, typer.Option(metavar="FILE", help="Write long form as Parquet; - is standard output.")
    ] = "",
    latex: Annotated[
        str, typer.Option(metavar="FILE", help="Write tables for a paper (booktabs) and what was done; - prints them.")
    ] = "",
    markdown: Annotated[
        str, typer.Option(metavar="FILE", help="Write the same as Markdown; - is standard output.")
    ] = "",
    bibtex: Annotated[
        str, typer.Option(metavar="FILE", help="Write what to cite for these results; - is standard output.")
    ] = "",
    failed: Annotated[bool, typer.Option("--failed", help="Only cells that failed, with their reasons.")] = False,
    home: HomeOption = None,
) -> None:
    """Show the newest result of every cell: mean ± standard deviation over seeds, the best of a column in bold.

    Tables are rounded; --json, --csv and --parquet give every value in full precision, one row per (cell, metric).
    """
    from unseen.core.errors import UsageError

    chosen = chosen_of(study=study, benchmark=benchmark, model=model, dataset=dataset)
    if context.invoked_subcommand is not None:
        if chosen or metric or as_json or csv or parquet or latex or markdown or bibtex or failed or home:
            raise UsageError(f"write options after the word: unseen results {context.invoked_subcommand} --study ...")
        return
    if as_json + [csv, parquet, latex, markdown, bibtex].count("-") > 1:
        raise UsageError("only one of --json and the formats with - can go to standard output: give others a file.")
    with open_results(home) as database:
        check_known(database, {**chosen, **({"metric": metric} if metric else {})})
        if as_json or csv or parquet:
            _export(database, chosen, metric, only_failed=failed, as_json=as_json, csv=csv, parquet=parquet)
        if latex or markdown or bibtex:
            from unseen.cli.papers import write_papers

            found = database.latest(**chosen, include_failed=False)
            write_papers(found, metric or (), latex=latex, markdown=markdown, bibtex=bibtex)
        if as_json or csv or parquet or latex or markdown or bibtex:
            return
        found = database.latest(**chosen, brief=True)
    show_results([result for result in found if not (failed and result.ok)], metric or (), only_failed=failed)


@results_commands.command("forget")
def forget(
    study: StudyOption = None,
    benchmark: BenchmarkOption = None,
    model: ModelOption = None,
    dataset: DatasetOption = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only cells that failed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    home: HomeOption = None,
) -> None:
    """Remove results for good, after saying how many and asking. The next run of their study computes them again."""
    from unseen.core.errors import UsageError
    from unseen.results import ResultsDatabase

    chosen = chosen_of(study=study, benchmark=benchmark, model=model, dataset=dataset)
    if not chosen and not failed:
        raise UsageError("say what to forget: --study, --model, --benchmark, --dataset, --failed, or several of them.")
    with open_results(home) as database:
        check_known(database, chosen)
        count, path = database.count(**chosen, failed=failed), database.path
    told = f"{count:,} {'failed ' if failed else ''}{'result' if count == 1 else 'results'}"
    if not count:
        say("There is nothing of that to forget.")
        return
    try:
        if not yes and not typer.confirm(f"Forget {told}, of {_spoken(chosen)}?"):
            say("Nothing was forgotten.")
            return
    except typer.Abort:
        raise UsageError("nothing was forgotten: there was no answer. Add --yes to forget without asking.") from None
    with ResultsDatabase(path) as database:
        removed = database.forget(**chosen, failed=failed)
    say(f"{removed:,} {'result' if removed == 1 else 'results'} forgotten.")


def open_results(home: Path | None) -> ResultsDatabase:
    from unseen.core.files import home as home_folder
    from unseen.results import FILE_NAME, ResultsDatabase

    return ResultsDatabase(home_folder(home) / FILE_NAME, read_only=True)


def chosen_of(**names: Names) -> dict[str, Any]:
    return {column: given for column, given in names.items() if given}


def _spoken(chosen: dict[str, list[str]]) -> str:
    return "; ".join(f"{column} {', '.join(names)}" for column, names in chosen.items()) or "all studies"


def check_known(database: ResultsDatabase, chosen: dict[str, list[str]]) -> None:
    from unseen.core.errors import UnknownNameError

    for column, names in chosen.items():
        known = database.names(column)
        for name in names:
            if name not in known:
                raise UnknownNameError(column, name, known, hint=f"Only what {database.path} holds can be asked for.")


def _export(
    database: ResultsDatabase,
    chosen: dict[str, Any],
    metric: Names,
    *,
    only_failed: bool,
    as_json: bool,
    csv: str,
    parquet: str,
) -> None:
    """Write long form row by row, and say on standard error what is left out."""
    from unseen.results.comparability import older_said
    from unseen.results.export import csv_lines, json_lines, write_lines, write_parquet

    asked = {**chosen, "metric": metric, "only_failed": only_failed}
    kinds = database.parameter_kinds(**chosen) if csv or parquet else {}
    if parquet:
        write_parquet(database.rows(**asked), kinds, parquet)
        say_written(parquet)
    if csv:
        write_lines(csv, csv_lines(database.rows(**asked, brief=True), kinds))
        say_written(csv)
    if as_json:
        write_lines("-", json_lines(database.rows(**asked)))
    if said := older_said(database.overtaken(**chosen)):
        say(f"{said}.", error=True)


def say_written(target: str) -> None:
    """Say on standard error what was written, where it was a file."""
    if target != "-":
        say(f"Written to {target}.", error=True)


def show_results(found: Sequence[Result], metrics: Sequence[str] = (), *, only_failed: bool = False) -> None:
    """Print a table per benchmark, then the cells that failed with their reasons.

    Args:
        metrics: the metrics to show; by default those that fit (see `unseen.results.grid.grids`).
    """
    from unseen.cli.tables import console
    from unseen.results import current
    from unseen.results.grid import grids
    from unseen.results.styles import undescribed

    if unknown := undescribed(found):
        from unseen.benchmarks.benchmark import load_styles  # which imports much more than a table takes

        load_styles(unknown)
    shown = [] if only_failed else grids(found, metrics)
    for grid in shown:
        _print_grid(grid)
    broken = [result for result in current(found) if not result.ok]
    if broken:
        if shown:
            console().print()
        _print_failures(broken)
    elif only_failed:
        console().print("No cell has failed.")
    elif not shown:
        console().print(f"No result has {' or '.join(metrics)}." if found else "There are no results yet.")


def _print_grid(grid: Grid) -> None:
    """A table of models by columns; turned where only that fits; else without the columns that do not fit."""
    from rich.text import Text

    from unseen.cli.tables import console, print_table

    titles = grid.titles()
    best = {column: grid.best(column) for column in grid.columns}

    def text(model: str, number: int) -> Text:
        column = grid.columns[number]
        summary = grid.cells.get((model, column))
        shown = "" if summary is None else summary.text if summary.std != 0 else summary.style.text(summary.mean)
        return Text(shown, style="bold" if model in best[column] else "")

    places = range(len(titles))
    wide: Cells = [["model", *titles]]
    wide += [[model, *(text(model, n) for n in places)] for model in grid.models]
    turned: Cells = [["", *grid.models]]
    turned += [[titles[n], *(text(model, n) for model in grid.models)] for n in places]
    notes = [_seeds(grid)]
    width = console().width
    table = wide if _fitting(wide, width) == len(titles) or _fitting(turned, width) < len(grid.models) else turned
    fitting = _fitting(table, width)
    console().print(Text(_title(grid), style="bold"), soft_wrap=True)
    if not fitting:
        for model in grid.models:
            console().print(Text(f"  {model}"), soft_wrap=True)
            for n in places:
                console().print(Text(f"    {titles[n]}: ") + text(model, n), soft_wrap=True)
    else:
        first, *rows = (row[: fitting + 1] for row in table)
        heads = [str(head) for head in first]
        if _width(heads, rows) > width:  # headings give way, in time: ids would be folded as well
            heads = [head.replace(" · ", "\n").replace(" ", "\n") for head in heads]
        print_table(heads, rows, numeric=heads[1:])
        if left := len(table[0]) - 1 - fitting:
            notes.append(f"{left} more {'column does' if left == 1 else 'columns do'} not fit; --csv - has all")
    if grid.older:
        from unseen.results.comparability import older_said

        notes.append(older_said(grid.older))
    if said := "; ".join(note for note in notes if note):
        console().print(Text(f"  {said}", style="dim"), soft_wrap=True)


def _fitting(table: Cells, width: int) -> int:
    """How many columns after the first fit with no id and no number broken; headings may break between words."""
    heads, *rows = table
    words = [max(str(head).split(" "), key=len) for head in heads]
    count = len(heads)
    while count > 1 and _width(words[:count], rows) > width:
        count -= 1
    return 0 if _width(words[:count], rows) > width else count - 1


def _width(heads: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> int:
    """Of a printed table, with the space and the rule beside each column."""
    longest = [max(len(head), *(len(str(row[n])) for row in rows)) for n, head in enumerate(heads)]
    return sum(longest) + 3 * len(heads) + 1


def _title(grid: Grid) -> str:
    """What all columns share: the benchmark, and the dataset and metric where there is one."""
    parts = [grid.benchmark]
    datasets, metrics = {c.dataset for c in grid.columns}, {c.metric for c in grid.columns}
    if len(datasets) == 1:
        parts.extend(datasets)
    if len(metrics) == 1:
        parts.append(grid.columns[0].style.heading)
    return " · ".join(parts)


def _seeds(grid: Grid) -> str:
    counts = {len(summary.values) for summary in grid.cells.values()}
    if counts == {1}:
        return ""
    seeds = str(max(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    agree = any(summary.std == 0 for summary in grid.cells.values())
    return f"mean ± standard deviation over {seeds} seeds{', none where they agree' if agree else ''}"


def _print_failures(broken: Sequence[Result]) -> None:
    """What failed, cells of one model, dataset and reason together."""
    from rich.text import Text

    from unseen.cli.tables import console, count
    from unseen.reports.wording import setting_text

    alike: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in broken:
        cell = result.cell
        reason = " ".join(result.error.split())
        alike.setdefault((cell.benchmark, cell.model, cell.dataset, reason), []).append(result)
    screen = console()
    screen.print(Text(f"{count(len(broken), 'cell')} failed", style="bold"))
    for (benchmark, model, dataset, reason), cells in alike.items():
        more = f", and {len(cells) - 1:,} more" if len(cells) > 1 else ""
        screen.print(Text(f"  {benchmark} · {model} · {dataset}"), soft_wrap=True)
        screen.print(Text(f"    {setting_text(cells[0].cell.parameters)}{more}", style="dim"), soft_wrap=True)
        screen.print(Text(f"    {reason}", style="red"), soft_wrap=True)
