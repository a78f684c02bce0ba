"""`unseen zsl`: run zero-shot learning, compare stored results, and print the tables of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from unseen.benchmarks.workbench import Workbench, given_models
from unseen.benchmarks.zsl.analysis import METRICS, dataset_sizes, ranks_by_setting
from unseen.benchmarks.zsl.protocol import DEFAULT_MODEL
from unseen.benchmarks.zsl.published import printed_table, published_at_home, published_results
from unseen.benchmarks.zsl.section import rank_matrix
from unseen.benchmarks.zsl.tables import all_studies, zsl_tables
from unseen.cli.application import Command, Group, HomeOption, split_names
from unseen.cli.run import Draft, display_names, open_results, run_draft, show_results, study_command
from unseen.cli.tables import print_model, say
from unseen.core.errors import DataError, UsageError
from unseen.core.files import home as home_folder
from unseen.core.records import Result
from unseen.data.load import expand_datasets, resolve_dataset
from unseen.data.sources.features import FeatureDataset
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
    given = [bool(given_models(name)) for name in draft.data]
    if not draft.models and any(given) != all(given):
        raise UsageError("some datasets have features and others do not: run them one by one.")
    if not any(given):
        draft.models = draft.models or [DEFAULT_MODEL]


def _with_split(name: str, split: str) -> str:
    """Add the split to the id of a dataset of the paper; the benchmark divides other datasets."""
    if name.startswith(_PUBLISHED_SCHEME) and split == "SS" and "split=" not in name:
        return f"{name}{'&' if '?' in name else '?'}split=SS"
    return name


def show_zsl(results: Sequence[Result]) -> None:
    """Print a table of methods per model and dataset, then what failed."""
    for table in zsl_tables([result for result in results if result.ok], display_names(results)):
        print_model(table)
    broken = [result for result in results if not result.ok]
    if broken or not results:
        show_results(broken, only_failed=bool(broken))


zsl_commands.command(
    "run", cls=Command, help="Tune on validation classes, refit on all seen classes, test on unseen ones. Resumable."
)(study_command("zsl", data=("packaged:emoji",), prepare=_prepare, run=partial(run_draft, show=show_zsl)))


@zsl_commands.command("compare", cls=Command)
def compare(
    published: Annotated[bool, Option("--published", help="Compare by the paper's own tables.")] = False,
    chart: Annotated[Path | None, Option(help="Draw the first rank matrix to .html, .svg, .png or .pdf.")] = None,
    home: HomeOption = None,
) -> None:
    """Rank methods over datasets and folds: rank matrix, mean ranks, Friedman's test, Nemenyi's critical difference."""

    results = list(published_results().values())
    if not published:
        with open_results(home) as database:
            results = current(database.latest(benchmark="zsl"))
    ranked = published_at_home() if published else results
    found = [ranks for metric in METRICS for ranks in ranks_by_setting(ranked, metric)]
    if not found:
        raise DataError("there are no zero-shot results of two methods or more to compare. Run: unseen zsl run")
    tables = [*(ranks.to_table() for ranks in found), *all_studies(results)]
    for table in (*tables, *map(printed_table, range(2, 7) if published else ())):
        print_model(table)
    if chart is not None:
        say(f"Drawn to {save_chart(rank_matrix(found[0]), chart)}.")


def describe_features(dataset: FeatureDataset) -> str:
    """Return how a file of features was interpreted."""
    texts, protocol = [len(own) for own in dataset.descriptions], dataset.protocol
    named = "without names" if all(map(str.isdecimal, dataset.class_names)) else f"({dataset.class_names[0]!r} first)"
    found = [
        dataset.card.notes,
        f"models {', '.join(f'features:{name}' for name in dataset.given_features)}",
        f"labels are {'numbers' if dataset.target == 'number' else 'classes'}",
        f"{len(dataset.class_names)} classes {named}",
        f"images: {', '.join(f'{name} {len(split):,}' for name, split in dataset.splits.items())}",
        f"its split of zero-shot learning, {protocol}" if protocol else "--split samples unseen classes",
        f"{len(dataset.folds)} folds of classes" if dataset.folds else "folds of classes are sampled",
        "class embeddings: " + ("none, give --embedding" if dataset.attributes is None else "attributes"),
        f"{min(texts)} to {max(texts)} descriptions per class" if texts else "",
    ]
    return "; ".join(filter(None, found)) + "."


@zsl_commands.command("look", cls=Command)
def look(
    data: Annotated[list[str], Argument(metavar="DATA ...", help="Datasets, such as xlsa17:AWA1 xlsa17:AWA2.")],
    home: HomeOption = None,
) -> None:
    """Print classes and images of each split beside Table 1, and how a `features:` file was interpreted."""

    names = [resolve_dataset(each, Path()) for name in split_names(data) for each in expand_datasets(name)]
    bench = Workbench(home_folder(home))
    datasets = [bench.dataset(name) for name in names]
    print_model(dataset_sizes(datasets))
    for dataset in datasets:
        if isinstance(dataset, FeatureDataset) and dataset.card.notes:
            say(f"{dataset.id}: {describe_features(dataset)}")
