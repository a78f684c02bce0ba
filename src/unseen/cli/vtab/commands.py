"""`unseen vtab check`, `fetch`, `compare`, `chart` and `analyse`: data, your models among the published, the paper."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from unseen.benchmarks import Workbench
from unseen.benchmarks.vtab.analysis import linear_taus, published_settings, vtab_settings
from unseen.benchmarks.vtab.figures import FIGURES, draw
from unseen.benchmarks.vtab.info import IMAGENET_BENCHMARK
from unseen.benchmarks.vtab.published_tables import (
    Size,
    published_result,
    score_table,
)
from unseen.benchmarks.vtab.ranking import compare as compare_models
from unseen.benchmarks.vtab.section import (
    aggregation_table,
    human_table,
    literature_table,
    subset_table,
)
from unseen.cli.application import DATA_PANEL, HomeOption, JsonOption, split_names
from unseen.cli.run import display_names, open_results
from unseen.cli.tables import print_json, print_model, print_table, say
from unseen.core.errors import DataError, UnknownNameError
from unseen.core.files import home as home_folder
from unseen.core.records import ModelCard, Result
from unseen.data.sources.vtab import check_root, default_root, fetch_task, vtab_task, vtab_tasks
from unseen.metrics.subsets import left_out_taus, unseen_pair_accuracy
from unseen.reports import save_chart
from unseen.reports.blocks import Material, plain_table

_SizeOption = Annotated[
    Literal["1000", "full"],
    Option("--size", help="Labelled examples per task of the published methods.", rich_help_panel=DATA_PANEL),
]
#: How models of tables without other information were adapted.
_TUNED: dict[str, object] = {"adaptation": "finetune", "sweep": "lightweight"}


def check(
    root: Annotated[Path, Argument(help="The folder that holds the data, in any of the known forms.")],
    hashes: Annotated[bool, Option("--hash", help="Decode every image, and hash the 1,000 examples.")] = False,
    as_json: JsonOption = False,
) -> None:
    if not root.is_dir():
        raise DataError(f"there is no folder {str(root)!r}. Name the folder that holds the data of VTAB.")
    found = list(check_root(root.expanduser(), hashes=hashes))
    if as_json:
        print_json([asdict(status) for status in found])
        return
    rows, notes = [], []
    for status in found:
        sizes = " / ".join(f"{status.sizes.get(s, 0):,}" for s in ("train", "val", "test")) if status.sizes else ""
        whose = status.selection.partition(",")[0]
        hash_ = status.hash or status.split_hash
        rows.append([status.task, status.group, status.state, sizes, whose, hash_, status.source or status.advice])
        notes += [f"{status.task}: {status.advice}"] if status.source and status.advice else []
    print_table(
        ["task", "group", "state", "train / val / test", "1,000 examples", "hash", "where, or what to do"], rows
    )
    for note in notes:
        say(note)
    say(f"{sum(status.state == 'ready' for status in found)} of 19 tasks are ready.")


def fetch(
    tasks: Annotated[list[str], Argument(metavar="TASK ...", help="Tasks of VTAB, such as dtd, or all.")],
    root: Annotated[
        Path | None, Option("--root", metavar="FOLDER", help="Where to put the files; $UNSEEN_VTAB by default.")
    ] = None,
) -> None:
    folder = (root or default_root()).expanduser()
    names = list(vtab_tasks()) if tasks == ["all"] else tasks
    last: dict[str, int] = {}

    def tell(name: str, done: int, size: int) -> None:
        share = 100 * done // size if size else 0
        if share // 10 > last.get(name, -1):
            last[name] = share // 10
            say(f"{name}: {done:,} of {size:,} bytes", error=True)

    failed: list[str] = []
    chosen = {task.data: task for task in map(vtab_task, names)}  # tasks share files
    for task in chosen.values():
        try:
            for path in fetch_task(task, folder, tell):
                say(f"{task.name}: {path}, {path.stat().st_size:,} bytes")
        except DataError as error:
            failed.append(str(error))
    if len(failed) < len(chosen):
        say(f"Next: unseen vtab check {folder}")
    if failed:
        raise DataError(" ".join(failed))


def chart(
    name: Annotated[str, Argument(metavar="NAME", help=f"One of: {', '.join(FIGURES)}.")],
    out: Annotated[Path, Option("--output", help="File to write: .html, .svg, .png or .pdf.")],
    size: _SizeOption = "1000",
    study: Annotated[
        str | None, Option("--study", help="Also for the results of this study, such as vtab; without, the paper's.")
    ] = None,
    home: HomeOption = None,
) -> None:
    results = _stored_results(study, home) if study else []
    own = vtab_settings(Material(results, _cards_of(results, home) if name in ("scale", "imagenet") else {}))
    for number, figure in enumerate(draw(name, own, size=size), 1):
        path = save_chart(figure.vega, out if number == 1 else out.with_stem(f"{out.stem}-{number}"))
        say(f"{path}: {figure.title}. {figure.description}")


def analyse(
    size: _SizeOption = "1000",
    count: Annotated[int, Option(min=1, help="How many subsets to show.")] = 10,
) -> None:
    table = score_table("lightweight", size)
    _, taus = linear_taus(published_settings(size))[0]
    ordered = sorted(taus.items(), key=lambda item: -item[1])
    rows = [[info.title, f"{tau:.3f}"] for info, tau in ordered]
    linear = plain_table("Linear against fine-tuning (Figure 5): Kendall's tau", ["task", "tau"], rows)
    for each in (aggregation_table(table, size), subset_table(table, size, count), linear, human_table()):
        print_model(each)
    print_model(literature_table())
    say(f"An unseen pair is ranked right with probability {unseen_pair_accuracy(table.scores):.3f}.")
    say(f"The others predict a left-out task with tau {left_out_taus(table.scores).mean():.3f}.")


def compare(
    size: Annotated[
        Literal["1000", "full"] | None, Option("--size", help="Only results of 1000 or full examples.")
    ] = None,
    models: Annotated[
        list[str] | None, Option("--models", metavar="NAME ...", help="Only these models. [default: all]")
    ] = None,
    literature: Annotated[
        Path | None,
        Option("--published", metavar="FILE", help="A CSV file of more published rows: method, task, score, source."),
    ] = None,
    study: Annotated[str, Option("--study", help="The study with your results.")] = "vtab",
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    stored = _stored_results(study, home)
    wanted, known = split_names(models), list(dict.fromkeys(result.cell.model for result in stored))
    if unknown := set(wanted).difference(known):
        raise UnknownNameError("model", min(unknown), known)
    chosen = [result for result in stored if result.cell.model in (wanted or known)]
    more = _read_csv(literature, size or "1000") if literature else []
    found = compare_models(chosen, size=size, literature=more)
    tables = [table for ranking in found for table in ranking.tables(display_names(stored))]
    if as_json:
        print_json([table.to_dict() for table in tables])
        return
    for table in tables:
        print_model(table)


def _read_csv(path: Path, size: Size) -> list[Result]:
    """Return the results of a table of the literature: method, task, score in percent, source."""
    found: list[Result] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream))
        for row in rows:
            name, source = row["method"].strip(), row["source"].strip()
            task, score = vtab_task(row["task"].strip().removeprefix("vtab:")).name, float(row["score"])
            if not 0 <= score <= 100:
                raise ValueError(f"{score} is not a percentage")
            if not source:
                raise DataError(f"{path}: {name} on {task} has no source. Name the paper and the table of every row.")
            found.append(published_result(name, task, size, score, _TUNED, source))
    except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataError(f"{path} is not a table with the columns method, source, task and score: {error}.") from error
    if not found:
        raise DataError(f"{path} holds no scores.")
    return found


def _stored_results(study: str, home: Path | None) -> list[Result]:
    """Return the newest successes of a study's VTAB cells, and of its probes, which have accuracies on ImageNet."""
    with open_results(home) as database:
        return database.latest(study=study, include_failed=False, benchmark=("vtab", IMAGENET_BENCHMARK))


def _cards_of(results: Sequence[Result], home: Path | None) -> dict[str, ModelCard]:
    return Workbench(home_folder(home)).cards(result.cell.model for result in results)
