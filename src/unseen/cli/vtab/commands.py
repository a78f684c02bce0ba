"""`unseen vtab check`, `fetch`, `compare`, `chart` and `analyse`: data, your models among the published, the paper."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from unseen.benchmarks import Workbench
from unseen.benchmarks.vtab.analysis import linear_taus, published_settings, vtab_settings
from unseen.benchmarks.vtab.figures import FIGURES, draw, one_spec
from unseen.benchmarks.vtab.info import IMAGENET_BENCHMARK
from unseen.benchmarks.vtab.published_tables import (
    Adaptation,
    Size,
    published_result,
    read_results_file,
    score_table,
)
from unseen.benchmarks.vtab.ranking import compare as compare_models
from unseen.benchmarks.vtab.section import (
    aggregation_table,
    human_table,
    literature_table,
    own_aggregation_tables,
    subset_table,
    tau_cell,
)
from unseen.cli.options import DATA_PANEL, HomeOption, JsonOption, split_names
from unseen.cli.papers import display_names
from unseen.cli.results import open_results
from unseen.cli.tables import print_json, print_model, print_table, say
from unseen.core.errors import DataError, UnknownNameError
from unseen.core.files import home as home_folder
from unseen.core.records import Cell, ModelCard, Result
from unseen.data.sources.vtab import check_root, default_root, fetch_task, vtab_task, vtab_tasks
from unseen.metrics.subsets import left_out_taus, unseen_pair_accuracy
from unseen.reports import save_chart
from unseen.reports.blocks import Material
from unseen.results.table import Table, TableCell
from unseen.run.report import write_report

_SizeOption = Annotated[
    Literal["1000", "full"],
    Option("--size", help="Labelled examples per task of the published methods.", rich_help_panel=DATA_PANEL),
]
_StudyOption = Annotated[
    str | None, Option("--study", help="Also for the results of this study, such as vtab; without, the paper's.")
]
_TABLES: dict[str, Adaptation] = {"linear": "linear", "lightweight": "lightweight", "heavyweight": "heavyweight"}


def check(
    root: Annotated[Path, Argument(help="The folder that holds the data, in any of the known forms.")],
    hashes: Annotated[
        bool, Option("--hash", help="Decode every image: hash the 1,000 examples, count images in two splits.")
    ] = False,
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
        shared = [f"{n} images shared by {pair}" for pair, n in status.shared.items()]
        advice = "; ".join(filter(None, (status.advice, ", ".join(shared))))
        whose = status.selection.partition(",")[0]
        row = [status.task, status.group, status.state, sizes, whose, *([status.hash] if hashes else [])]
        rows.append([*row, status.source or advice])
        notes += [f"{status.task}: {advice}"] if status.source and advice else []
    columns = ["task", "group", "state", "train / val / test", "1,000 examples", *(["hash"] if hashes else [])]
    columns.append("where, or what to do")
    print_table(columns, rows)
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
    seen: set[str] = set()
    last: dict[str, int] = {}

    def tell(name: str, done: int, size: int) -> None:
        share = 100 * done // size if size else 0
        if share // 10 > last.get(name, -1):
            last[name] = share // 10
            say(f"{name}: {done:,} of {size:,} bytes", error=True)

    failed: list[str] = []
    for task in map(vtab_task, names):
        if task.data in seen:
            continue
        seen.add(task.data)
        try:
            for path in fetch_task(task, folder, tell):
                say(f"{task.name}: {path}, {path.stat().st_size:,} bytes")
        except DataError as error:
            failed.append(str(error))
    if len(failed) < len(seen):
        say(f"Next: unseen vtab check {folder}")
    if failed:
        raise DataError(" ".join(failed))


def chart(
    name: Annotated[str, Argument(metavar="NAME", help=f"One of: {', '.join(FIGURES)}.")],
    out: Annotated[Path, Option("--output", help="File to write: .html, .svg, .png or .pdf.")],
    size: _SizeOption = "1000",
    study: _StudyOption = None,
    only: Annotated[
        Literal["published", "own"] | None, Option("--only", help="The published methods, or your results.")
    ] = None,
    home: HomeOption = None,
) -> None:
    results = _stored_results(study, home) if study and only != "published" else []
    own = vtab_settings(Material(results, _cards_of(results, home) if name == "scale" else {}))
    figures = draw(name, own, size=size, published=only != "own")
    save_chart(one_spec(figures), out)
    for figure in figures:
        say(f"{figure.title}. {figure.description}")
    say(f"Chart: {out}")


def analyse(
    size: _SizeOption = "1000",
    results_file: Annotated[
        Path | None, Option("--results", help="The authors' results file, instead of the paper's Table 6.")
    ] = None,
    count: Annotated[int, Option(min=1, help="How many subsets to show.")] = 10,
    subset_size: Annotated[int, Option(min=1, max=18, help="Tasks per subset.")] = 5,
    study: _StudyOption = None,
    home: HomeOption = None,
) -> None:
    table = read_results_file(results_file, size) if results_file else score_table("lightweight", size)
    tables = [aggregation_table(table, size)]
    for setting in vtab_settings(Material(_stored_results(study, home))) if study else ():
        if not (own := own_aggregation_tables(setting.scores)):
            words = f" · {setting.group.words}" if setting.group.words else ""
            say(f"Aggregations need three models and two tasks that all have{words}.")
        tables += own
    _, taus = linear_taus(published_settings(size))[0]
    ordered = sorted(taus.items(), key=lambda item: -item[1])
    rows = [[TableCell(info.title), tau_cell(tau)] for info, tau in ordered]
    linear = Table("Linear against fine-tuning (Figure 5): Kendall's tau", ["task", "tau"], rows)
    tables += [subset_table(table, size, subset_size, count), linear, human_table({}, {}, size)]
    for each in [*tables, literature_table({}, {})]:
        print_model(each)
    say(f"An unseen pair is ranked right with probability {unseen_pair_accuracy(table.scores):.3f}.")
    say(f"The others predict a left-out task with tau {left_out_taus(table.scores).mean():.3f}.")


def compare(
    scores: Annotated[
        Path | None,
        Option("--own", metavar="FILE", help="A CSV file with model, task, score (percent), not your results."),
    ] = None,
    table: Annotated[
        str, Option("--table", help="Published table: linear, lightweight or heavyweight. [default: fits yours]")
    ] = "",
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
    page: Annotated[
        Path | None, Option("--output", metavar="FILE", help="Also write all results of the study to this .html.")
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    if table and table not in _TABLES:
        raise UnknownNameError("published table", table, tuple(_TABLES))
    stored = _read_scores(scores, size or "1000") if scores else _stored_results(study, home)
    if page is not None:
        write_report(stored, page, title=f"{study}: all results", cards=_cards_of(stored, home))
        say(f"Page: {page}", error=True)
    wanted, known = split_names(models), list(dict.fromkeys(result.cell.model for result in stored))
    if unknown := set(wanted).difference(known):
        raise UnknownNameError("model", min(unknown), known)
    chosen = [result for result in stored if result.cell.model in (wanted or known)]
    more = _read_published(literature, size or "1000") if literature else []
    found = compare_models(chosen, table=_TABLES.get(table), size=size, literature=more)
    if as_json:
        print_json([row for ranking in found for row in ranking.to_rows()])
        return
    for model in (model for ranking in found for model in ranking.tables(display_names(stored))):
        print_model(model)


def _rows_of(path: Path, columns: Sequence[str]) -> Iterator[tuple[float, str, list[str]]]:
    """Yield the score in percent, the task and the other columns of each row of a CSV file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream))
        if not rows:
            raise DataError(f"{path} holds no scores.")
        for row in rows:
            task, score = vtab_task(row["task"].strip().removeprefix("vtab:")).name, float(row["score"])
            if not 0 <= score <= 100:
                raise ValueError(f"{score} is not a percentage")
            yield score, task, [row[name].strip() for name in columns]
    except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
        names = ", ".join([*columns, "task"])
        raise DataError(f"{path} is not a table with the columns {names} and score: {error}.") from error


def _read_scores(path: Path, size: Size) -> list[Result]:
    """Return the results of a user's own table: model, task, score in percent."""
    found: list[Result] = []
    seeds: dict[tuple[str, str], int] = {}
    for score, task, (model,) in _rows_of(path, ["model"]):
        key = model, f"vtab:{task}{'?size=full' if size == 'full' else ''}"
        seeds[key] = seeds.get(key, -1) + 1
        parameters = {"adaptation": "finetune", "sweep": "lightweight", "seed": seeds[key]}
        found.append(Result(Cell("vtab", *key, parameters), {"top1": score / 100}))
    return found


def _read_published(path: Path, size: Size) -> list[Result]:
    """Return published results of a table: method, task, score in percent, source."""
    parameters: dict[str, object] = {"adaptation": "finetune", "sweep": "lightweight"}
    found = []
    for score, task, (method, source) in _rows_of(path, ["method", "source"]):
        if not source:
            raise DataError(f"{path}: {method} on {task} has no source. Name the paper and the table of every row.")
        found.append(published_result(method, task, size, score, parameters, source))
    return found


def _stored_results(study: str, home: Path | None) -> list[Result]:
    """Return the newest successes of a study's VTAB cells, and of its probes, which have accuracies on ImageNet."""
    with open_results(home) as database:
        return database.latest(study, include_failed=False, benchmark=("vtab", IMAGENET_BENCHMARK))


def _cards_of(results: Sequence[Result], home: Path | None) -> dict[str, ModelCard]:
    return Workbench(home_folder(home)).cards(result.cell.model for result in results)
