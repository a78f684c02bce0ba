"""`unseen results`: what has been computed, as a table or in full precision for other programs; and its maintenance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from textwrap import indent
from typing import Annotated

import typer
from typer import Argument, Option

from unseen import __version__
from unseen.api.rerun import Rerun
from unseen.api.rerun import rerun as compute
from unseen.backbones.load import resolve_model
from unseen.benchmarks.citations import bibtex, citation_keys, method_paragraphs
from unseen.cli.application import Command, Group, HomeOption, JsonOption
from unseen.cli.run import dataset_cards_of, display_names, model_cards_of, open_results, show_results
from unseen.cli.tables import ConsoleProgress, confirm, console, count, print_json, say, say_written
from unseen.core.errors import CellsFailedError, StoreError, UnknownNameError, UsageError
from unseen.core.files import home as home_folder
from unseen.core.identity import Values, to_json
from unseen.core.records import Result
from unseen.data.load import resolve_dataset
from unseen.results import render
from unseen.results.comparability import older_note
from unseen.results.database import FILE_NAME, ResultsDatabase
from unseen.results.export import csv_lines, json_lines, write_lines
from unseen.results.repair import repair as repair_file
from unseen.results.table import Table, result_tables

Names = list[str] | None
#: Names by column.
Chosen = Values


def _only(name: str, what: str) -> object:
    return Option(name, metavar="NAME ...", help=f"Only these {what}.")


StudyOption = Annotated[Names, _only("--study", "studies")]
BenchmarkOption = Annotated[Names, _only("--benchmark", "benchmarks")]
ModelOption = Annotated[Names, _only("--models", "models")]
DatasetOption = Annotated[Names, _only("--dataset", "datasets")]

_LATEX_HEAD = r"% Made by `unseen results --latex`. In the preamble: \usepackage{booktabs}"

results_commands = typer.Typer(name="results", cls=Group, invoke_without_command=True)


@results_commands.callback()
def results(
    context: typer.Context,
    study: StudyOption = None,
    benchmark: BenchmarkOption = None,
    model: ModelOption = None,
    dataset: DatasetOption = None,
    metric: Annotated[Names, _only("--metric", "metrics")] = None,
    as_json: Annotated[
        bool, Option("--json", help="Print long form as JSON, with sweeps, details and run records.")
    ] = False,
    csv: Annotated[str, Option(metavar="FILE", help="Write long form as CSV; - is standard output.")] = "",
    latex: Annotated[
        str, Option(metavar="FILE", help="Write tables for a paper (booktabs) and what was done; - prints them.")
    ] = "",
    markdown: Annotated[str, Option(metavar="FILE", help="Write the same as Markdown; - is standard output.")] = "",
    bibtex: Annotated[
        str, Option(metavar="FILE", help="Write what to cite for these results; - is standard output.")
    ] = "",
    model_card: Annotated[
        str, Option(metavar="FILE", help="Write the model-index of a Hugging Face model card; - prints it.")
    ] = "",
    table: Annotated[
        bool, Option("--table", help="With --json and --csv: the tables of the terminal, in full precision.")
    ] = False,
    all_metrics: Annotated[bool, Option("--all-metrics", help="Show every metric.")] = False,
    failed: Annotated[bool, Option("--failed", help="Only cells that failed, with their reasons.")] = False,
    home: HomeOption = None,
) -> None:
    """Show the newest result of every cell, over seeds, with its 95 % confidence interval over test images.

    Tables are rounded; --json and --csv give every value in full precision, one row per (cell, metric). With
    --table, --json and --csv give the tables themselves: values, limits, test images, chance and marks.
    """
    texts = {"latex": latex, "markdown": markdown, "bibtex": bibtex, "model-card": model_card}
    exports = {"csv": csv, "json": "-" if as_json else ""}
    names = {"study": study, "benchmark": benchmark, "model": model, "dataset": dataset, "metric": metric}
    if context.invoked_subcommand is not None:
        if any((*names.values(), table, all_metrics, failed, home, *texts.values(), *exports.values())):
            raise UsageError(f"write options after the word: unseen results {context.invoked_subcommand} --study ...")
        return
    if [*texts.values(), *exports.values()].count("-") > 1:
        raise UsageError("only one of --json and the formats with - can go to standard output: give others a file.")
    with selected(home, names) as (database, chosen):
        chosen.pop("metric", None)
        if table:
            texts |= {"csv": exports.pop("csv"), "json": exports.pop("json")}
        if any(exports.values()):
            _export(database, chosen, metric, exports, only_failed=failed)
        if any(texts.values()):
            write_papers(database.latest(**chosen, include_failed=False), metric or (), texts)
        if any((*texts.values(), *exports.values())):
            return
        found = database.latest(**chosen)
    wanted = [result for result in found if not (failed and result.ok)]
    show_results(wanted, metric or (), only_failed=failed, all_metrics=all_metrics)


@results_commands.command("record", cls=Command)
def record(
    ids: Annotated[
        Names, Argument(metavar="ID", help="Number of a result, or the id of its cell (at least 4 digits of it).")
    ] = None,
    study: StudyOption = None,
    benchmark: BenchmarkOption = None,
    model: ModelOption = None,
    dataset: DatasetOption = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
    home: HomeOption = None,
) -> None:
    """Show the run record of results: what the evaluation received, what it used, and what it dropped and why."""
    names = {"study": study, "benchmark": benchmark, "model": model, "dataset": dataset}
    with selected(home, names) as (database, chosen):
        found = [database.find(text)[1] for text in ids] if ids else database.latest(**chosen, brief=True)
    if as_json:
        print_json([{"id": r.cell.id, **r.cell.to_dict(), "record": r.record.to_dict()} for r in found])
        return
    alike: dict[str, list[str]] = {}
    for result in found:
        cell = result.cell
        alike.setdefault(str(result.record), []).append(f"{cell.id} {cell.benchmark} · {cell.model} · {cell.dataset}")
    for text, cells in alike.items():
        say("\n".join([*cells, indent(text, "  ")]))
    if not found:
        say("There are no results yet.")


@results_commands.command("forget", cls=Command)
def forget(
    study: StudyOption = None,
    benchmark: BenchmarkOption = None,
    model: ModelOption = None,
    dataset: DatasetOption = None,
    failed: Annotated[bool, Option("--failed", help="Only cells that failed.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
    home: HomeOption = None,
) -> None:
    """Remove results for good, after a question. The next run of their study computes them again."""
    names = {"study": study, "benchmark": benchmark, "model": model, "dataset": dataset}
    if not any((*names.values(), failed)):
        raise UsageError("choose what to forget: --study, --models, --benchmark, --dataset, --failed, or several.")
    with selected(home, names) as (database, chosen):
        number, path = database.count(**chosen, failed=failed), database.path
    if not number:
        say("No matching results.")
        return
    whose = "; ".join(f"{column} {', '.join(listed)}" for column, listed in chosen.items()) or "all studies"
    matching = count(number, "failed result" if failed else "result")
    if not yes and not confirm(f"Forget {matching}, of {whose}?", "forgotten"):
        return
    with ResultsDatabase(path) as database:
        removed = database.forget(**chosen, failed=failed)
    say(f"{count(removed, 'result')} forgotten.")


@results_commands.command("verify", cls=Command)
def verify(as_json: JsonOption = False, home: HomeOption = None) -> None:
    """Check the digest of every stored result and the structure of the database; exit with code 2 on damage."""
    with open_results(home) as database:
        found, path = database.verify(), database.path
    total = count(found.checked, "result")
    if as_json:
        invalid = [{"id": number, "problem": problem} for number, problem in found.invalid.items()]
        values = {"checked": found.checked, "without_digest": found.unsealed, "invalid": invalid}
        print_json({**values, "structure": list(found.structure)})
    else:
        lines = [f"result {number}: {problem}" for number, problem in found.invalid.items()]
        lines += [f"structure: {line}" for line in found.structure]
        if found.unsealed:
            lines.append(f"{found.unsealed:,} of {total} have no digest: an earlier version stored them.")
        for line in lines:
            say(line)
    if found.invalid or found.structure:
        structure = ", and the structure of the file is damaged" if found.structure else ""
        raise StoreError(
            f"invalid results in {path}: {len(found.invalid):,} of {found.checked:,}{structure}. `unseen results "
            "repair` copies the valid ones into a new database; running the study again computes the others."
        )
    if not as_json:
        say(f"No damage found: {total} in {path}.")


@results_commands.command("repair", cls=Command)
def repair(home: HomeOption = None) -> None:
    """Copy all valid results of a damaged database into a new one. The damaged file is kept under another name.

    Stop runs that use this home first. Nothing is changed if no damage is found.
    """
    path = home_folder(home) / FILE_NAME
    try:
        with ResultsDatabase(path, read_only=True) as database:
            found = database.verify()
    except StoreError:
        found = None  # it cannot even be opened or read
    if found is not None and not found.invalid and not found.structure:
        say(f"No damage found: {count(found.checked, 'result')} in {path}. Nothing was changed.")
        return
    done = repair_file(path)
    for number, problem in done.lost.items():
        say(f"result {number} was not copied: {problem}")
    say(f"{count(done.kept, 'valid result')} copied into {path}. The damaged file is {done.backup}.")


@results_commands.command("rerun", cls=Command)
def rerun(
    identifier: Annotated[
        str, Argument(metavar="ID", help="Number of a result, or the id of its cell (at least 4 digits of it).")
    ],
    files: Annotated[
        Path | None, Option(metavar="FOLDER", help="Folder of the files that options of the result name.")
    ] = None,
    device: Annotated[str, Option(help="auto, cpu, cuda, cuda:1 or mps: where networks run.")] = "auto",
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """Compute a stored result again in a temporary home, and compare every metric; exit with code 3 if one differs.

    Features are extracted again. If a metric differs, what else has changed is listed: versions, device, weights, data.
    """

    with open_results(home) as database:
        _, stored = database.find(identifier)
    done = compute(stored, home=home, files=files, device=device, progress=ConsoleProgress(console(error=True)))
    if as_json:
        print_json(
            {
                "cell": stored.cell.id,
                "identical": done.identical,
                "metrics": {name: {"stored": old, "now": new} for name, (old, new) in done.metrics().items()},
                "errors": {"stored": stored.error, "now": done.now.error},
                "conditions": {name: {"stored": old, "now": new} for name, (old, new) in done.conditions().items()},
            }
        )
    else:
        _print_rerun(done)
    if not done.identical:
        raise CellsFailedError(f"the result of cell {stored.cell.id} is not the stored one.")


def _print_rerun(done: Rerun) -> None:
    cell, stored = done.stored.cell, done.stored
    say(f"{cell.benchmark} · {cell.model} · {cell.dataset}, stored {stored.recorded[:10]}, computed again:")
    if done.identical:
        say(f"Every metric is identical ({', '.join(stored.metrics) or 'none: it fails as it did'}).")
    for name, (old, new) in done.metrics().items():
        gap = "" if old is None or new is None else f", difference {new - old:+.3g}"
        say(f"  {name}: stored {old!r}, now {new!r}{gap}")
    if stored.error != done.now.error:
        say(f"  error: stored {stored.error!r}, now {done.now.error!r}")
    changed = done.conditions()
    say("What has changed:" if changed else "Versions, device, weights and data are the same.")
    for name, (before, now) in changed.items():
        say(f"  {name}: {before}, now {now}")


@contextmanager
def selected(
    home: Path | None, names: Mapping[str, Names], *, parts: bool = False
) -> Iterator[tuple[ResultsDatabase, Chosen]]:
    """Open the results of a home for reading; yield them, and by column the stored names of a selection.

    Args:
        names: by column.
        parts: whether patterns and parts of ids stand for models.

    Raises:
        UnknownNameError: a name has no result.
    """
    with open_results(home) as database:
        chosen: Chosen = {}
        for column, wanted in names.items():
            known = database.names(column) if wanted else []
            found = [
                like
                for name in wanted or ()
                for like in (_STORED[column](name, known, parts) if column in _STORED else [name])
            ]
            for name in found:
                if name not in known:
                    where = "These names are in" if known else "There are no results in"
                    raise UnknownNameError(column, name, known, hint=f"{where} {database.path}.")
            if found:
                chosen[column] = list(dict.fromkeys(found))
        yield database, chosen


def stored_models(name: str, known: Sequence[str], parts: bool = True) -> list[str]:
    """Return the stored models with an id, of a file with any options, or whose ids match a pattern or a part.

    If there is none, return the name unchanged.
    """
    like = _stored(name, known, resolve_model)
    return like or [each for each in known if parts and (fnmatchcase(each, name) or name in each)] or [name]


def _stored_datasets(name: str, known: Sequence[str], _parts: bool) -> list[str]:
    return _stored(name, known, resolve_dataset) or [name]


_STORED: Mapping[str, Callable[[str, Sequence[str], bool], list[str]]] = {
    "model": stored_models,
    "dataset": _stored_datasets,
}


def _stored(name: str, known: Sequence[str], resolve: Callable[[str, Path], str]) -> list[str]:
    """Return the stored id of a name or path, or the ids of its file or folder with any options."""
    resolved = name if name in known else resolve(name, Path())
    return [resolved] if resolved in known else [each for each in known if each.startswith(f"{resolved}?")]


def _export(
    database: ResultsDatabase, chosen: Chosen, metric: Names, targets: Mapping[str, str], *, only_failed: bool
) -> None:
    """Write long form row by row, and print on standard error what is left out."""
    query = {**chosen, "metric": metric, "only_failed": only_failed}
    parameters = database.parameter_names(**chosen)
    for form, target in targets.items():
        if target:
            rows = database.rows(**query, brief=form == "csv")
            write_lines(target, csv_lines(rows, parameters) if form == "csv" else json_lines(rows))
        say_written(target)
    if note := older_note(database.overtaken(**chosen)):
        say(f"{note}.", error=True)


def write_papers(found: Sequence[Result], metrics: Sequence[str], targets: Mapping[str, str]) -> None:
    """Write tables of results, methods and citations.

    Args:
        targets: by format ("latex", "markdown", "bibtex", "model-card", "csv" or "json"), the file, "-" for standard
            output, or "".

    Raises:
        UsageError: there is no result to write.
    """
    if not found:
        raise UsageError("there are no results to write: none has these names, or all of them failed.")
    cited = found, model_cards_of(found), dataset_cards_of(found)
    names = display_names(found)
    tables, methods = result_tables(found, names, metrics), method_paragraphs(found, names)
    if not tables:
        raise UsageError(f"no result has {' or '.join(metrics)}.")
    words = [f"{render.markdown_words(text)}\n" for text, _ in methods]
    texts: Mapping[str, Callable[[], str]] = {
        "bibtex": lambda: bibtex(*cited),
        "latex": lambda: _latex(tables, methods, citation_keys(*cited)),
        "markdown": lambda: "\n".join([*map(render.markdown_table, tables), *words]),
        "model-card": lambda: render.model_card(found, names, __version__),
        "csv": lambda: "\n".join(map(render.csv_table, tables)),
        "json": lambda: to_json([table.to_dict() for table in tables]) + "\n",
    }
    for form, target in targets.items():
        if target:
            write_lines(target, [texts[form]()])
            say_written(target)


def _latex(tables: Sequence[Table], methods: Sequence[tuple[str, Sequence[str]]], keys: Mapping[str, str]) -> str:
    """Return a file to \\input: all tables, then a paragraph on each benchmark."""
    paragraphs = [
        render.latex_text(text) + "".join(rf" \cite{{{keys[each]}}}" for each in ("unseen", *citations))
        for text, citations in methods
    ]
    shown = [render.latex_table(table, f"tab:unseen-{number}") for number, table in enumerate(tables, 1)]
    return "\n".join([_LATEX_HEAD, *shown, *(rf"\paragraph{{Protocol.}} {text}" + "\n" for text in paragraphs)])
