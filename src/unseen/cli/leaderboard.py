"""`unseen leaderboard`: every comparable result of a home, or of several homes and exports, as boards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unseen.cli.options import HomeOption, JsonOption


def leaderboard(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SOURCE", help="Homes, results.sqlite files, or what `unseen results --json` printed."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Where to write the page; HOME/reports/leaderboard.html by default."
        ),
    ] = None,
    markdown: Annotated[
        str, typer.Option(metavar="FILE", help="Write the boards as Markdown, too; - is standard output.")
    ] = "",
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """Rank models wherever their results compare, and say which places are shared; a static page without a server."""
    from unseen.benchmarks.leaderboard import board_json, board_table, boards, leaderboard_page
    from unseen.cli.papers import dataset_cards_of, display_names, model_cards_of
    from unseen.cli.results import say_written
    from unseen.cli.tables import console, count, print_json, print_model
    from unseen.core.errors import UsageError
    from unseen.core.files import home as home_folder
    from unseen.results.export import merge, write_lines
    from unseen.results.render import markdown_table

    if as_json and markdown == "-":
        raise UsageError("only one of --json and --markdown - can go to standard output.")
    merged = merge(sources or [home_folder(home)])
    found = boards(merged.results)
    names = display_names(merged.results, model_cards_of(merged.results), dataset_cards_of(merged.results))
    page = leaderboard_page(merged, names=names).write(out or home_folder(home) / "reports" / "leaderboard.html")
    if as_json:
        print_json([board_json(board, names) for board in found])
    if markdown:
        write_lines(markdown, ["\n".join(markdown_table(board_table(board, names)) for board in found)])
        say_written(markdown)
    if not as_json and markdown != "-":
        for board in found:
            print_model(board_table(board, names))
    screen = console(error=as_json or markdown == "-")
    if merged.differing:
        screen.print(f"{count(len(merged.differing), 'cell')} with other numbers in another source: the newest counts.")
    screen.print(f"Leaderboard: {page} ({count(len(found), 'board')})", soft_wrap=True)
