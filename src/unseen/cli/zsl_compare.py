"""`unseen zsl compare`: methods ranked over what was run, or over the paper's own tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unseen.cli.run import HomeOption

if TYPE_CHECKING:
    from unseen.benchmarks.zsl.compare import MethodRanks
    from unseen.core.records import Result


def compare(
    published: Annotated[
        bool, typer.Option("--published", help="Compare by the paper's own tables, and check its statements.")
    ] = False,
    metric: Annotated[list[str] | None, typer.Option(help="zsl, ts, tr or H; several times. [default: all]")] = None,
    split: Annotated[str | None, typer.Option(help="Only results of this split.")] = None,
    chart: Annotated[Path | None, typer.Option(help="Draw the first rank matrix to .html, .svg, .png or .pdf.")] = None,
    home: HomeOption = None,
) -> None:
    """Rank methods over datasets and folds: rank matrix, mean ranks, Friedman's test, Nemenyi's critical difference."""
    from unseen.benchmarks.zsl.compare import METRICS, published_ranks, rank_results
    from unseen.cli.tables import console
    from unseen.core.errors import DataError, UnknownNameError

    chosen = metric or list(METRICS)
    for name in chosen:
        if name not in METRICS:
            raise UnknownNameError("metric", name, METRICS)
    results = [] if published else _stored_results(home)
    found: list[tuple[str, MethodRanks]] = []
    for name in chosen:
        splits: tuple[str | None, ...] = ("PS", "SS") if published and name == "zsl" and split is None else (split,)
        for each in splits:
            ranks = published_ranks(name, each or "PS") if published else rank_results(results, name, each)
            if ranks is not None:
                found.append((f"{name}{f' on {each}' if each else ''}", ranks))
    if not found:
        raise DataError("there are no zero-shot results of two methods or more to compare. Run: unseen zsl run")
    for title, ranks in found:
        _print_ranks(title, ranks)
    if published:
        _print_published_checks()
    else:
        _print_studies(results)
    if chart is not None:
        from unseen.benchmarks.zsl.charts import rank_matrix_chart
        from unseen.reports.charts import save_chart

        console().print(f"Drawn to {save_chart(rank_matrix_chart(found[0][1]), chart)}.", soft_wrap=True)


def _stored_results(home: Path | None) -> list[Result]:
    from unseen.core.files import home as home_folder
    from unseen.results import FILE_NAME, ResultsDatabase, current

    with ResultsDatabase(home_folder(home) / FILE_NAME, read_only=True) as database:
        return list(current(database.latest(benchmark="zsl")))


def _print_ranks(title: str, ranks: MethodRanks) -> None:
    from unseen.cli.tables import print_table

    table = ranks.table
    rows = [
        [method, f"{mean:.2f}", *(str(count) if count else "·" for count in counts)]
        for method, mean, counts in zip(table.methods, table.mean_ranks.tolist(), table.counts.tolist(), strict=True)
    ]
    columns = ["method", "mean rank", *(str(i + 1) for i in range(len(table.methods)))]
    caption = f"{table.ranks.shape[1]} observations"
    if ranks.friedman is not None:
        test = ranks.friedman
        caption += (
            f"; Friedman chi-square {test.statistic:.1f}, p = {test.p_value:.2g} (Iman-Davenport p = "
            f"{test.f_p_value:.2g}); Nemenyi: mean ranks {ranks.critical_difference:.2f} apart differ at "
            f"{ranks.level:.0%}"
        )
    caption += f"; left out for gaps: {', '.join(ranks.left_out)}" if ranks.left_out else ""
    print_table(columns, rows, title=f"ranks by {title}", caption=caption, numeric=columns[1:])


def _print_published_checks() -> None:
    from unseen.benchmarks.zsl.compare import check_statements, cross_dataset_test, harmonic_mismatches
    from unseen.cli.tables import console, print_table

    rows = [[s.text, "follows" if s.holds else "does not follow", s.evidence] for s in check_statements()]
    print_table(["the paper says", "from its tables", "evidence"], rows, title="statements of the paper")
    for method, dataset, printed, recomputed in harmonic_mismatches():
        console().print(
            f"Table 6: H of {method} on {dataset} is printed as {printed}; ts and tr give {recomputed:.2f}."
        )
    test = cross_dataset_test()
    console().print(
        f"Table 4: the paired t-test over {test.pairs} pairs gives t = {test.statistic:.2f}, p = {test.p_value:.2f}; "
        "the text says p = 0.007.",
        soft_wrap=True,
    )


def _print_studies(results: Sequence[Result]) -> None:
    """SS against PS, across datasets, and transductive beside inductive, where there are results for it."""
    from unseen.benchmarks.zsl.studies import cross_dataset, inductive_and_transductive, splits_compared
    from unseen.cli.tables import console, print_table

    tables: list[tuple[str, list[str], list[list[Any]]]] = [
        splits_compared(results),
        inductive_and_transductive(results),
    ]
    for title, columns, rows in tables:
        if rows:
            shown = [
                [v if isinstance(v, str) else ("" if v is None else f"{100 * v:.1f}") for v in row] for row in rows
            ]
            print_table(columns, shown, title=title, numeric=columns[2:])
    test = cross_dataset(results)
    if test is not None:
        console().print(
            f"Across datasets: over {test.pairs} pairs with the same test set and another training set, the mean "
            f"difference is {100 * test.difference:.1f} points, t = {test.statistic:.2f}, p = {test.p_value:.2g}.",
            soft_wrap=True,
        )
