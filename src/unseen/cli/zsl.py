"""`unseen zsl`: run zero-shot learning, compare stored results, and print the tables of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from unseen.benchmarks.workbench import Workbench, given_models
from unseen.benchmarks.zsl.analysis import (
    METRICS,
    MethodRanks,
    check_statements,
    cross_dataset_test,
    cross_dataset_tests,
    dataset_sizes,
    harmonic_mismatches,
    published_ranks,
    ranks_by_setting,
)
from unseen.benchmarks.zsl.protocol import DEFAULT_MODEL
from unseen.benchmarks.zsl.published import printed_tables
from unseen.benchmarks.zsl.section import look_chart, rank_matrix
from unseen.benchmarks.zsl.tables import all_studies, zsl_tables
from unseen.cli.options import HomeOption, split_names
from unseen.cli.papers import display_names
from unseen.cli.parser import Command, Group
from unseen.cli.results import open_results, show_results
from unseen.cli.run import Draft, study_command
from unseen.cli.tables import print_model, say
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.files import home as home_folder
from unseen.core.records import Result
from unseen.data.load import expand_datasets, resolve_dataset
from unseen.data.sources.features import FeatureDataset
from unseen.reports.blocks import plain_table
from unseen.reports.charts import save_chart
from unseen.results import current

zsl_commands = typer.Typer(
    name="zsl", cls=Group, help="Zero-shot learning: unseen classes, known only by a description.", no_args_is_help=True
)

_PUBLISHED_SCHEME = "xlsa17:"


def _prepare(draft: Draft) -> None:
    """Give the datasets of the paper their split, and take the features that they bring as the default model."""

    options = draft.benchmarks["zsl"]
    split = str(options.get("split", "PS"))
    draft.data = [_with_split(each, split) for name in draft.data for each in expand_datasets(name)]
    if "test_on" in options:
        options["test_on"] = _with_split(options["test_on"], split)
    if "methods" in options:
        options["methods"] = split_names(options["methods"])
    draft.models = draft.models or _default_models(draft.data)


def _with_split(name: str, split: str) -> str:
    """Add the split to the id of a dataset of the paper; the benchmark divides other datasets."""
    if name.startswith(_PUBLISHED_SCHEME) and split == "SS" and "split=" not in name:
        return f"{name}{'&' if '?' in name else '?'}split=SS"
    return name


def _default_models(names: Sequence[str]) -> list[str]:
    """Return the names of the features that the datasets have, or of the packaged model."""

    models = [given_models(name) for name in names]
    if not any(models):
        return [DEFAULT_MODEL]
    if not all(models):
        raise UsageError("some datasets have features and others do not: run them one by one.")
    return list(dict.fromkeys(model for own in models for model in own))


def show_zsl(results: Sequence[Result]) -> None:
    """Print a table of methods per model and dataset, then what failed."""
    for table in zsl_tables([result for result in results if result.ok], display_names(results)):
        print_model(table)
    broken = [result for result in results if not result.ok]
    if broken or not results:
        show_results(broken, only_failed=bool(broken))


zsl_commands.command(
    "run", cls=Command, help="Tune on validation classes, refit on all seen classes, test on unseen ones. Resumable."
)(study_command("zsl", data=("packaged:emoji",), title="Zero-shot learning", prepare=_prepare, show=show_zsl))


@zsl_commands.command("compare", cls=Command)
def compare(
    published: Annotated[
        bool, Option("--published", help="Compare by the paper's own tables, and check its statements.")
    ] = False,
    metric: Annotated[list[str] | None, Option(metavar="NAME ...", help="zsl, ts, tr or H; all by default.")] = None,
    split: Annotated[str | None, Option(help="Only results of this split.")] = None,
    chart: Annotated[Path | None, Option(help="Draw the first rank matrix to .html, .svg, .png or .pdf.")] = None,
    home: HomeOption = None,
) -> None:
    """Rank methods over datasets and folds: rank matrix, mean ranks, Friedman's test, Nemenyi's critical difference."""

    chosen = metric or list(METRICS)
    for name in chosen:
        if name not in METRICS:
            raise UnknownNameError("metric", name, METRICS)
    results: list[Result] = []
    if not published:
        with open_results(home) as database:
            results = current(database.latest(benchmark="zsl"))
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
        print_model(ranks.to_table(title))
    if published:
        _print_published()
    else:
        _print_studies(results)
    if chart is not None:
        say(f"Drawn to {save_chart(rank_matrix(found[0][1]), chart)}.")


def _print_published() -> None:
    """Print which statements of the paper follow from its tables, and Tables 2 to 6."""

    rows = [(s.text, "follows" if s.holds else "does not follow", s.evidence) for s in check_statements()]
    print_model(plain_table("statements of the paper", ["the paper says", "from its tables", "evidence"], rows))
    for method, dataset, printed, recomputed in harmonic_mismatches():
        say(f"Table 6: H of {method} on {dataset} is printed as {printed}; ts and tr give {recomputed:.2f}.")
    test = cross_dataset_test()
    say(
        f"Table 4: the paired t-test over {test.pairs} pairs gives t = {test.statistic:.2f}, p = {test.p_value:.2f}; "
        "the text says p = 0.007.",
    )
    for table in (part for number in (2, 3, 4, 5, 6) for part in printed_tables(number)):
        print_model(table)


def _print_studies(results: Sequence[Result]) -> None:
    """Print SS against PS, across datasets, ImageNet splits, and transductive beside inductive methods."""

    for table in all_studies(results):
        print_model(table)
    for words, test in cross_dataset_tests(results):
        where = f"Across datasets ({words})" if words else "Across datasets"
        say(
            f"{where}: over {test.pairs} pairs with the same test set and another training set, the mean "
            f"difference is {100 * test.difference:.1f} points, t = {test.statistic:.2f}, p = {test.p_value:.2g}.",
        )


def describe_features(dataset: FeatureDataset) -> str:
    """Return how a file of features was interpreted."""
    counts = [f"{name} {len(split):,}" for name, split in dataset.splits.items()]
    unnamed = all(name.isdecimal() for name in dataset.class_names)
    texts = [len(own) for own in dataset.descriptions]
    split = (
        f"its split of zero-shot learning, {dataset.protocol}" if dataset.protocol else "no split of zero-shot learning"
    )
    found = [
        dataset.card.notes,
        f"models {', '.join(f'features:{name}' for name in dataset.given_features)}",
        f"labels are {'numbers' if dataset.target == 'number' else dataset.target}",
        f"{len(dataset.class_names)} classes "
        + ("without names" if unnamed else f"({dataset.class_names[0]!r} first)"),
        f"images: {', '.join(counts)}",
        split + ("" if dataset.protocol else ": --split samples unseen classes"),
        f"{len(dataset.folds)} folds of classes" if dataset.folds else "folds of classes are sampled",
        "class embeddings: " + ("none, give --embedding" if dataset.attributes is None else "attributes"),
        f"{min(texts)} to {max(texts)} descriptions per class" if texts else "",
    ]
    return "; ".join(filter(None, found)) + "."


@zsl_commands.command("look", cls=Command)
def look(
    data: Annotated[list[str], Argument(metavar="DATA ...", help="Datasets, such as xlsa17:AWA1 xlsa17:AWA2.")],
    models: Annotated[
        list[str] | None, Option("--models", metavar="NAME", help="Whose features; those of xlsa17 by default.")
    ] = None,
    images: Annotated[int, Option(min=10, help="Images of unseen classes that t-SNE shows, per dataset.")] = 1000,
    seed: Annotated[int, Option(help="Random seed of the sampled images and of t-SNE.")] = 0,
    chart: Annotated[Path | None, Option(help="Draw to .html, .svg, .png or .pdf.")] = None,
    home: HomeOption = None,
) -> None:
    """Print classes and images of each split beside Table 1 of the paper; draw images per class and t-SNE (Fig. 2)."""

    names = [resolve_dataset(each, Path()) for name in split_names(data) for each in expand_datasets(name)]
    bench = Workbench(home_folder(home))
    datasets = [bench.dataset(name) for name in names]
    print_model(dataset_sizes(datasets))
    for dataset in datasets:
        if isinstance(dataset, FeatureDataset) and dataset.card.notes:
            say(f"{dataset.id}: {describe_features(dataset)}")
    if chart is not None:
        chosen = split_names(models) or [_default_models([name])[0] for name in names]
        chosen = chosen * len(names) if len(chosen) == 1 else chosen
        drawn = look_chart(bench, names, chosen, images=images, seed=seed)
        say(f"Drawn to {save_chart(drawn, chart)}.")
