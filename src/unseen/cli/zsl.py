"""`unseen zsl`: zero-shot learning, run, and compared over what was run or over the paper's own tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unseen.cli.options import Draft, HomeOption, split_names, study_command
from unseen.cli.parser import Command, Group

if TYPE_CHECKING:
    from rich.text import Text

    from unseen.benchmarks.zsl.compare import MethodRanks
    from unseen.core.records import Result

zsl_commands = typer.Typer(
    name="zsl", cls=Group, help="Zero-shot learning: unseen classes, known only by a description.", no_args_is_help=True
)

_DEFAULT_MODEL = "packaged:efficientnet-lite0"
_PUBLISHED_SCHEME = "xlsa17:"
_WIDEST = 10  # columns of a table that a terminal shows
_SHOWN = ("zsl", "ts", "tr", "H", "AUSUC", "zsl_per_image")


def _prepare(draft: Draft) -> None:
    """Kinds of methods become methods, datasets of the paper get their split, and features of their own."""
    from unseen.data.load import expand_datasets

    options = draft.benchmarks["zsl"]
    split = str(options.get("split", "PS"))
    draft.data = [_with_split(each, split) for name in draft.data for each in expand_datasets(name)]
    if "test_on" in options:
        options["test_on"] = _with_split(options["test_on"], split)
    if "methods" in options:
        options["methods"] = _methods(split_names(options["methods"]))
    draft.models = draft.models or [_default_model(draft.data)]


def _methods(names: Sequence[str]) -> list[str]:
    """ "transductive", "inductive" and "generative" are names of kinds; the first two are of the paper's methods."""
    from unseen.zeroshot.catalogue import generative_methods, paper_methods, transductive_methods

    kinds = {
        "transductive": list(transductive_methods()),
        "inductive": [name for name in paper_methods() if name not in transductive_methods()],
        "generative": list(generative_methods()),
    }
    return [method for name in names for method in kinds.get(name, [name])]


def _with_split(name: str, split: str) -> str:
    """A dataset of the paper carries its split in its id; others are divided by the benchmark."""
    if name.startswith(_PUBLISHED_SCHEME) and split == "SS" and "split=" not in name:
        return f"{name}{'&' if '?' in name else '?'}split=SS"
    return name


def _default_model(names: Sequence[str]) -> str:
    """The features that the datasets bring, or the packaged model."""
    from unseen.benchmarks.zsl.protocol import given_model
    from unseen.core.errors import UsageError

    models = {given_model(name) for name in names}
    if models == {""}:
        return _DEFAULT_MODEL
    if len(models) > 1:
        raise UsageError(
            "xlsa17 data have features of their own, each file under its own name, and other data need a model: run "
            "them one by one."
        )
    return models.pop()


def show_zsl(results: Sequence[Result]) -> None:
    """Print a table of methods per model and dataset, the leak audit with each, then what failed."""
    from unseen.benchmarks.zsl.compare import CHOSEN, METHOD, settings
    from unseen.cli.results import show_results
    from unseen.cli.tables import console

    groups = settings(results, (METHOD,))
    for group in groups:
        if group.setting[CHOSEN] == "all folds":
            same = [g for g in groups if {**g.setting, CHOSEN: ""} == {**group.setting, CHOSEN: ""}]
            for own in group.by_model().values():
                _print_group(own, [result for one in same for result in one.results], group.words)
                console().print(f"Leak audit: {own[0].details['audit']}", soft_wrap=True)
    broken = [result for result in results if not result.ok]
    if broken or not results:
        show_results(broken, only_failed=bool(broken))


def _print_group(group: Sequence[Result], everything: Sequence[Result], words: str) -> None:
    from rich.text import Text

    from unseen.benchmarks.zsl.compare import robustness
    from unseen.benchmarks.zsl.published import printed_beside, printed_value
    from unseen.cli.tables import print_table
    from unseen.results import metric_style

    first = group[0].cell
    metrics = [m for m in _SHOWN if any(m in r.metrics for r in group)]
    paper = printed_beside(group[0])
    folds = robustness(everything)
    best = {m: max(r.metrics.get(m, 0.0) for r in group) for m in metrics}
    rows: list[list[str | Text]] = []
    for result in group:
        method, split = result.cell.parameters["method"], result.cell.parameters["split"]
        row: list[str | Text] = [method + (" (transductive)" if result.details.get("transductive") else "")]
        for metric in metrics:
            value = result.metrics.get(metric)
            style = "bold" if value is not None and value == best[metric] else ""
            shown = "" if value is None else metric_style(metric, "zsl").text(value)
            row.append(Text(shown + _bounds(result, metric), style=style))
        if folds:
            alone = folds.get((first.dataset, first.model, split, method), ())
            row.append(" ".join(metric_style("zsl", "zsl").text(value) for value in alone))
        if paper:
            printed = (printed_value(result, m) for m in ("zsl", "ts", "tr", "H"))
            row.append(" / ".join("–" if v is None else f"{100 * v:.1f}" for v in printed))
        rows.append(row)
    columns = ["method", *(metric_style(m, "zsl").heading for m in metrics)]
    columns += ["ZSL by fold"] * bool(folds) + ["paper: ZSL / ts / tr / H"] * paper
    caption = _caption(group[0]) + (f"; {words}" if words else "")
    print_table(columns, rows, title=_title(group[0]), caption=caption, numeric=columns[1:])


def _bounds(result: Result, metric: str) -> str:
    """Half of the interval over test images, as it stands behind a number."""
    low, high = (result.metrics.get(f"{metric}_{end}") for end in ("low", "high"))
    return "" if low is None or high is None else f" ±{50 * (high - low):.1f}"


def _title(result: Result) -> str:
    cell = result.cell
    tested = f", tested on {cell.parameters['test_on']}" if cell.parameters.get("test_on") else ""
    return f"{cell.dataset}{tested} · {cell.parameters['split']} · {cell.model}"


def _caption(result: Result) -> str:
    details, options = result.details, result.cell.parameters
    text = (
        f"{details['seen_classes']} seen, {details['unseen_classes']} unseen classes; {details['train_images']:,} "
        f"training, {details['test_images']:,} unseen and {details['seen_test_images']:,} seen test images; embedding "
        f"{details['embedding']} ({details['embedding_dimensions']}); chance {100 * details['chance']:.1f} %"
    )
    text += f"; calibrated stacking {options['calibration']}" if options["calibration"] else ""
    return text + "; per class unless said; ± half of the 95 % interval over test images"


zsl_commands.command(
    "run", cls=Command, help="Tune on validation classes, refit on all seen classes, test on unseen ones. Resumable."
)(study_command("zsl", data=("packaged:emoji",), title="Zero-shot learning", prepare=_prepare, show=show_zsl))


@zsl_commands.command("compare", cls=Command)
def compare(
    published: Annotated[
        bool, typer.Option("--published", help="Compare by the paper's own tables, and check its statements.")
    ] = False,
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME ...", help="zsl, ts, tr or H; all by default.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Only results of this split.")] = None,
    chart: Annotated[Path | None, typer.Option(help="Draw the first rank matrix to .html, .svg, .png or .pdf.")] = None,
    home: HomeOption = None,
) -> None:
    """Rank methods over datasets and folds: rank matrix, mean ranks, Friedman's test, Nemenyi's critical difference."""
    from unseen.benchmarks.zsl.compare import METRICS, published_ranks, ranks_by_setting
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
            several = [published_ranks(name, each or "PS")] if published else ranks_by_setting(results, name, each)
            title = f"{name}{f' on {each}' if each else ''}"
            found += [(f"{title} · {ranks.setting}" if ranks.setting else title, ranks) for ranks in several]
    if not found:
        raise DataError("there are no zero-shot results of two methods or more to compare. Run: unseen zsl run")
    for title, ranks in found:
        _print_ranks(title, ranks)
    if published:
        _print_published_checks()
        _print_published_tables()
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
    from unseen.benchmarks.zsl.figures import tested_words
    from unseen.cli.tables import print_table

    table = ranks.table
    rows = [
        [method, f"{mean:.2f}", *(str(count) if count else "·" for count in counts)]
        for method, mean, counts in zip(table.methods, table.mean_ranks.tolist(), table.counts.tolist(), strict=True)
    ]
    columns = ["method", "mean rank", *(str(i + 1) for i in range(len(table.methods)))]
    caption = f"{table.ranks.shape[1]} observations. {tested_words(ranks)}"
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


def _print_published_tables() -> None:
    """Tables 2 to 6 as printed."""
    from unseen.benchmarks.zsl.published import table
    from unseen.cli.tables import print_table

    for number in (2, 3, 4, 5, 6):
        found = table(number)
        for start in range(0, len(found.columns), _WIDEST):
            columns = found.columns[start : start + _WIDEST]
            values = {row: [found.value(row, column) for column in columns] for row in found.rows}
            rows = [[row, *("–" if v is None else f"{v:.1f}" for v in of_row)] for row, of_row in values.items()]
            print_table(["method", *columns], rows, title=f"Table {number}: {found.caption}", numeric=columns)


def _print_studies(results: Sequence[Result]) -> None:
    """SS against PS, across datasets, ImageNet splits, transductive beside inductive: what there are results for."""
    from unseen.benchmarks.zsl.studies import all_studies, cross_dataset_tests
    from unseen.cli.tables import console, print_table

    for title, columns, rows in all_studies(results):
        shown = [[v if isinstance(v, str) else ("" if v is None else f"{100 * v:.1f}") for v in row] for row in rows]
        texts = sum(isinstance(value, str) for value in rows[0])
        print_table(columns, shown, title=title, numeric=columns[texts:])
    for words, test in cross_dataset_tests(results):
        where = f"Across datasets ({words})" if words else "Across datasets"
        console().print(
            f"{where}: over {test.pairs} pairs with the same test set and another training set, the mean "
            f"difference is {100 * test.difference:.1f} points, t = {test.statistic:.2f}, p = {test.p_value:.2g}.",
            soft_wrap=True,
        )


@zsl_commands.command("look", cls=Command)
def look(
    data: Annotated[list[str], typer.Argument(metavar="DATA ...", help="Datasets, such as xlsa17:AWA1 xlsa17:AWA2.")],
    models: Annotated[
        list[str] | None, typer.Option("--models", metavar="NAME", help="Whose features; those of xlsa17 by default.")
    ] = None,
    images: Annotated[int, typer.Option(min=10, help="Images of unseen classes that t-SNE shows, per dataset.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the images that are drawn, and of t-SNE.")] = 0,
    chart: Annotated[Path | None, typer.Option(help="Draw to .html, .svg, .png or .pdf.")] = None,
    home: HomeOption = None,
) -> None:
    """Classes and images of each split beside Table 1 of the paper; images per class and t-SNE drawn (Fig. 2)."""
    from unseen.benchmarks.workbench import Workbench
    from unseen.benchmarks.zsl.look import class_counts, look_chart, statistics, tsne_points
    from unseen.cli.tables import console, print_table
    from unseen.core.files import home as home_folder
    from unseen.data.load import expand_datasets

    names = [each for name in split_names(data) for each in expand_datasets(name)]
    bench = Workbench(home_folder(home))
    columns, rows = statistics([bench.dataset(name) for name in names])
    print_table(columns, rows, title="datasets; the paper's Table 1 in brackets where it differs", numeric=columns[1:])
    if chart is None:
        return
    from unseen.reports.charts import save_chart

    counts = [row for name in names for row in class_counts(bench.dataset(name))]
    chosen = split_names(models) or [_default_model([name]) for name in names]
    points = [
        row
        for name, model in zip(names, chosen * len(names) if len(chosen) == 1 else chosen, strict=True)
        for row in tsne_points(bench, model, name, images=images, seed=seed)
    ]
    console().print(f"Drawn to {save_chart(look_chart(counts, points), chart)}.", soft_wrap=True)
