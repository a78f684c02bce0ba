"""`unseen compare A B` and `unseen leaderboard`: stored results of two models, or of all models, compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from unseen.benchmarks.compare import (
    boards,
    comparison_table,
    duels,
    leaderboard_page,
    summary_lines,
)
from unseen.cli.application import HomeOption, JsonOption
from unseen.cli.results import (
    BenchmarkOption,
    DatasetOption,
    StudyOption,
    selected,
    stored_models,
)
from unseen.cli.run import display_names
from unseen.cli.tables import count, print_json, print_model, say
from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.files import home as home_folder
from unseen.results.export import merge


def compare(
    first: Annotated[str, Argument(metavar="A", help="A model with stored results (unseen results).")],
    second: Annotated[str, Argument(metavar="B", help="The model to compare it with.")],
    study: StudyOption = None,
    benchmark: BenchmarkOption = None,
    dataset: DatasetOption = None,
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """Compare two models on every question that both answered, on the same test images if their outcomes are stored.

    A and B are ids, or parts of ids that only one model has: lite0 stands for packaged:efficientnet-lite0.
    """

    with selected(home, {"study": study, "benchmark": benchmark, "dataset": dataset}) as (database, chosen):
        one, other = (_model(name, database.names("model")) for name in (first, second))
        if one == other:
            raise UsageError(f"{one} is compared with itself. Name two models.")
        stored = database.latest(**chosen, include_failed=False)
    found = duels(stored, one, other)
    if not found:
        raise UsageError(
            f"{one} and {other} have no comparable results: the same benchmark, data and settings of both are needed. "
            f"Run both in one study, such as: unseen probe DATA --models {one} {other}"
        )
    own = [result for result in stored if result.cell.model in (one, other)]
    names = display_names(own)
    if as_json:
        print_json(comparison_table(found, names).to_dict())
        return
    for line in summary_lines(found, names, one, other):
        say(line)


def _model(name: str, known: list[str]) -> str:
    """Return the model with this id, or the only one whose id contains it."""
    like = stored_models(name, known)
    if len(like) > 1:
        raise UsageError(f"{name!r} is part of several models: {', '.join(like[:6])}. Write one of them out.")
    if like[0] not in known:
        raise UnknownNameError("model", name, known, hint="Only models that have results can be compared.")
    return like[0]


def leaderboard(
    sources: Annotated[
        list[Path] | None,
        Argument(metavar="SOURCE", help="Homes, or results.sqlite files."),
    ] = None,
    out: Annotated[
        Path | None,
        Option("--output", metavar="FILE", help="Path of the report; HOME/reports/leaderboard.html by default."),
    ] = None,
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """Rank models whose results compare, with ranges of places, on a static page without a server."""
    merged = merge(sources or [home_folder(home)])
    tables = boards(merged.results, display_names(merged.results))
    page = leaderboard_page(merged, tables).write(out or home_folder(home) / "reports" / "leaderboard.html")
    if as_json:
        print_json([table.to_dict() for table in tables])
    for table in () if as_json else tables:
        print_model(table)
    say(f"Leaderboard: {page} ({count(len(tables), 'board')})", error=as_json)
