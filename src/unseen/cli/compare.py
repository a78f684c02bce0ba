"""`unseen compare A B`: everything that is stored of two models, side by side, with paired tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unseen.cli.options import HomeOption, JsonOption
from unseen.cli.results import BenchmarkOption, DatasetOption, StudyOption

if TYPE_CHECKING:
    from unseen.benchmarks.compare import Duel
    from unseen.results.grid import Summary


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A model that results are stored of (unseen results).")],
    second: Annotated[str, typer.Argument(metavar="B", help="The model to compare it with.")],
    study: StudyOption = None,
    benchmark: BenchmarkOption = None,
    dataset: DatasetOption = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="FILE", help="Where to write the page; HOME/reports/compare-A-B.html by default."
        ),
    ] = None,
    chart: Annotated[
        Path | None, typer.Option("--chart", metavar="FILE", help="Write the chart, too: .html, .svg, .png or .pdf.")
    ] = None,
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """Compare two models on every question that both answered, on the same test images where those are stored.

    A and B are ids, or parts of ids that only one model has: lite0 stands for packaged:efficientnet-lite0.
    """
    from unseen.benchmarks.compare import comparison_page, difference_chart, duels, summary_lines
    from unseen.cli.papers import dataset_cards_of, display_names, model_cards_of
    from unseen.cli.results import check_known, chosen_of, open_results
    from unseen.cli.tables import console, print_json
    from unseen.core.errors import UsageError
    from unseen.core.files import home as home_folder
    from unseen.reports import save_chart

    chosen = chosen_of(study=study, benchmark=benchmark, dataset=dataset)
    with open_results(home) as database:
        check_known(database, chosen)
        known = database.names("model")
        one, other = _model(first, known), _model(second, known)
        if one == other:
            raise UsageError(f"{one} is compared with itself. Name two models.")
        stored = database.latest(**chosen, include_failed=False)
    fights = duels(stored, one, other)
    found = [result for result in stored if result.cell.model in (one, other)]
    if not fights:
        raise UsageError(
            f"{one} and {other} have no comparable results: the same benchmark, data and settings of both are needed. "
            f"Run both in one study, such as: unseen probe DATA --models {one} {other}"
        )
    if as_json:
        print_json([_plain(duel) for duel in fights])
    cards = model_cards_of(found)
    names = display_names(found, cards, dataset_cards_of(found))
    stem = "-".join("".join(c if c.isalnum() else "-" for c in name).strip("-") for name in (one, other))
    page = report or home_folder(home) / "reports" / f"compare-{stem[:150]}.html"
    comparison_page(fights, one, other, names=names, cards=cards).write(page)
    screen = console(error=as_json)
    if not as_json:
        for line in summary_lines(fights, names, one, other):
            screen.print(line, soft_wrap=True)
    if chart is not None:
        drawn = difference_chart(fights, one, other, names)
        if drawn is None:
            raise UsageError("there is nothing to draw: no question has a percentage for an answer.")
        screen.print(f"Chart: {save_chart(drawn, chart)}", soft_wrap=True)
    screen.print(f"Report: {page}", soft_wrap=True)


def _model(asked: str, known: list[str]) -> str:
    """The one model that is called so, or whose id has this part."""
    from unseen.core.errors import UnknownNameError, UsageError

    if asked in known:
        return asked
    like = [name for name in known if asked in name]
    if len(like) > 1:
        raise UsageError(f"{asked!r} is part of several models: {', '.join(like[:6])}. Write one of them out.")
    if not like:
        raise UnknownNameError("model", asked, known, hint="Only models that have results can be compared.")
    return like[0]


def _plain(duel: Duel) -> dict[str, Any]:
    return {
        "benchmark": duel.benchmark,
        "dataset": duel.dataset,
        "setting": dict(duel.setting),
        "metric": duel.first.metric,
        "first": _side(duel.first),
        "second": _side(duel.second),
        "difference": duel.difference,
        "low": duel.low,
        "high": duel.high,
        "how": duel.how or "no test",
        "test_images": duel.images,
        "p": duel.p_value,
        "p_corrected": duel.corrected,
        "significant": bool(duel.verdict),
    }


def _side(summary: Summary) -> dict[str, Any]:
    interval = summary.interval
    return {
        "model": summary.model,
        "value": summary.value,
        "low": interval.low,
        "high": interval.high,
        "values": list(summary.values),
    }
