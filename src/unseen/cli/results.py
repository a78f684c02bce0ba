"""`unseen results`: what has been computed, as a table or in full precision for other programs; and its upkeep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unseen.cli import integrity
from unseen.cli.parser import Command
from unseen.cli.tables import say

if TYPE_CHECKING:
    from unseen.core.records import Cell, Result
    from unseen.results import ResultsDatabase

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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print long form as JSON, with sweeps, details and run records.")
    ] = False,
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
    table: Annotated[
        bool, typer.Option("--table", help="With --json and --csv: the tables of the terminal, in full precision.")
    ] = False,
    all_metrics: Annotated[bool, typer.Option("--all-metrics", help="Show every metric.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only cells that failed, with their reasons.")] = False,
    home: HomeOption = None,
) -> None:
    """Show the newest result of every cell, over seeds, with its 95 % confidence interval over test images.

    Tables are rounded; --json, --csv and --parquet give every value in full precision, one row per (cell, metric). With
    --table, --json and --csv give the tables themselves: values, limits, test images, chance and marks.
    """
    from unseen.core.errors import UsageError

    chosen = chosen_of(study=study, benchmark=benchmark, model=model, dataset=dataset)
    if context.invoked_subcommand is not None:
        if any((chosen, metric, as_json, csv, parquet, latex, markdown, bibtex, table, all_metrics, failed, home)):
            raise UsageError(f"write options after the word: unseen results {context.invoked_subcommand} --study ...")
        return
    if as_json + [csv, parquet, latex, markdown, bibtex].count("-") > 1:
        raise UsageError("only one of --json and the formats with - can go to standard output: give others a file.")
    with open_results(home) as database:
        chosen = _with_stored_models(database, chosen)
        check_known(database, {**chosen, **({"metric": metric} if metric else {})})
        if table and (as_json or csv):
            from unseen.cli.papers import write_tables

            write_tables(database.latest(**chosen, include_failed=False), metric or (), as_json=as_json, csv=csv)
        elif as_json or csv or parquet:
            _export(database, chosen, metric, only_failed=failed, as_json=as_json, csv=csv, parquet=parquet)
        if latex or markdown or bibtex:
            from unseen.cli.papers import write_papers

            found = database.latest(**chosen, include_failed=False)
            write_papers(found, metric or (), latex=latex, markdown=markdown, bibtex=bibtex)
        if as_json or csv or parquet or latex or markdown or bibtex:
            return
        found = database.latest(**chosen)
    wanted = [result for result in found if not (failed and result.ok)]
    show_results(wanted, metric or (), only_failed=failed, all_metrics=all_metrics)


@results_commands.command("record")
def record(
    ids: Annotated[Names, typer.Argument(metavar="ID", help="Cell id, or the beginning of one.")] = None,
    study: StudyOption = None,
    benchmark: BenchmarkOption = None,
    model: ModelOption = None,
    dataset: DatasetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    home: HomeOption = None,
) -> None:
    """Show the run record of results: what the evaluation received, what it used, and what it dropped and why."""
    from unseen.cli.tables import print_json

    chosen = chosen_of(study=study, benchmark=benchmark, model=model, dataset=dataset)
    with open_results(home) as database:
        check_known(database, chosen)
        cells = [result.cell for result in database.latest(**chosen, brief=True)]
        found = database.cells(_with_ids(cells, ids) if ids else cells)
    if as_json:
        print_json([{"id": r.cell.id, **r.cell.to_dict(), "record": r.record.to_dict()} for r in found])
        return
    alike: dict[str, list[Result]] = {}
    for result in found:
        alike.setdefault(str(result.record), []).append(result)
    for text, results in alike.items():
        for result in results:
            say(f"{result.cell.id} {result.cell.benchmark} · {result.cell.model} · {result.cell.dataset}")
        say(f"  {text.replace(chr(10), chr(10) + '  ')}")
    if not found:
        say("There are no results yet.")


def _with_ids(cells: Sequence[Cell], ids: Sequence[str]) -> list[Cell]:
    """Return the cells whose ids begin with these texts, one for each text.

    Raises:
        UnknownNameError: no id begins with a text.
        UsageError: several ids begin with it.
    """
    from unseen.core.errors import UnknownNameError, UsageError

    known = {cell.id: cell for cell in cells}
    found = []
    for text in ids:
        matching = [identifier for identifier in known if text and identifier.startswith(text)]
        if not matching:
            raise UnknownNameError("cell", text, known, hint="`unseen results --json` lists the ids of all cells.")
        if len(matching) > 1:
            raise UsageError(f"{text!r} is the beginning of {len(matching)} cell ids. Write more of it: {matching[0]}.")
        found.append(known[matching[0]])
    return found


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
        chosen = _with_stored_models(database, chosen)
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


results_commands.command("verify", cls=Command)(integrity.verify)
results_commands.command("repair", cls=Command)(integrity.repair)
results_commands.command("rerun", cls=Command)(integrity.rerun)


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
                raise UnknownNameError(column, name, known, hint=f"These names are in {database.path}.")


def _with_stored_models(database: ResultsDatabase, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the selection with models as they are stored; a plain path stands for its file, with any options."""
    from unseen.backbones.load import resolve_model

    if "model" not in chosen:
        return chosen
    known, found = database.names("model"), list[str]()
    for name in chosen["model"]:
        resolved = name if name in known else resolve_model(name, Path())
        with_options = [each for each in known if each.startswith(f"{resolved}?")]
        found += [resolved] if resolved in known else with_options or [name]
    return {**chosen, "model": list(dict.fromkeys(found))}


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
    from unseen.results.comparability import older_note
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
    if said := older_note(database.overtaken(**chosen)):
        say(f"{said}.", error=True)


def say_written(target: str) -> None:
    """Say on standard error what was written, where it was a file."""
    if target != "-":
        say(f"Written to {target}.", error=True)


def show_results(
    found: Sequence[Result],
    metrics: Sequence[str] = (),
    *,
    only_failed: bool = False,
    all_metrics: bool = False,
) -> None:
    """Print a table per benchmark, then the cells that failed with their reasons.

    Args:
        metrics: the metrics to show; by default those that each benchmark declares.
        all_metrics: show every metric.
    """
    from unseen.cli.papers import dataset_cards_of, display_names, model_cards_of
    from unseen.cli.tables import console, print_model
    from unseen.results import current
    from unseen.results.info import headline_first
    from unseen.results.table import result_tables

    if all_metrics:
        metrics = list(dict.fromkeys(n for r in found for n in headline_first(r.metrics, r.cell.benchmark)))
    names = display_names(found, model_cards_of(found), dataset_cards_of(found))
    shown = [] if only_failed else result_tables([r for r in found if r.ok], names, metrics)
    for table in shown:
        print_model(table)
    broken = [result for result in current(found) if not result.ok]
    if broken:
        if shown:
            console().print()
        _print_failures(broken)
    elif only_failed:
        console().print("No cell has failed.")
    elif not shown:
        console().print(f"No result has {' or '.join(metrics)}." if found else "There are no results yet.")


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
