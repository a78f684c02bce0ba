"""`unseen vtab`: the Visual Task Adaptation Benchmark, run, checked, compared with the paper and analysed as in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from unseen.cli.options import DATA_PANEL, DEFAULT_MODELS, Draft, HomeOption, JsonOption, split_names, study_command
from unseen.cli.parser import Command, Group, parameter
from unseen.cli.vtab.figures import analyse, chart
from unseen.cli.vtab.stored import cards_of, stored_results

if TYPE_CHECKING:
    from unseen.benchmarks.vtab.published_tables import Adaptation
    from unseen.core.records import Result

vtab_commands = typer.Typer(
    name="vtab", cls=Group, help="VTAB: unseen tasks, with a thousand labelled examples each.", no_args_is_help=True
)

SizeOption = Annotated[
    Literal["1000", "full"],
    typer.Option("--size", help="Labelled examples per task of VTAB.", rich_help_panel=DATA_PANEL),
]
TasksOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tasks",
        metavar="NAME ...",
        help="mini (the default), all, ready (tasks with data), a group, or names of tasks; beside DATA.",
        rich_help_panel=DATA_PANEL,
    ),
]
RootOption = Annotated[
    str,
    typer.Option("--root", metavar="FOLDER", help="VTAB's data; $UNSEEN_VTAB by default.", rich_help_panel=DATA_PANEL),
]


def _prepare(draft: Draft) -> None:
    """Suites and tasks become datasets."""
    from unseen.benchmarks.vtab.suites import suite

    tasks = split_names(draft.more["tasks"]) or ([] if draft.data else ["mini"])
    draft.data += [
        name for name in suite(tasks, size=draft.more["size"], root=draft.more["root"]) if name not in draft.data
    ]


vtab_commands.command(
    "run", cls=Command, help="Adapt models to tasks: choose on 200 examples, retrain on 1,000, test. Resumable."
)(
    study_command(
        "vtab",
        models=DEFAULT_MODELS,
        title="Visual Task Adaptation Benchmark",
        more=(
            parameter("tasks", TasksOption),
            parameter("size", SizeOption, "1000"),
            parameter("root", RootOption, ""),
        ),
        prepare=_prepare,
    )
)


@vtab_commands.command("check", cls=Command)
def check(
    root: Annotated[Path, typer.Argument(help="The folder that holds the data, in any of the known forms.")],
    hashes: Annotated[
        bool, typer.Option("--hash", help="Decode every image: hash the 1,000 examples, count images in two splits.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say for all 19 tasks what is below a folder, what is missing, and where to get it."""
    from dataclasses import asdict

    from unseen.cli.tables import console, print_json, print_table
    from unseen.core.errors import DataError
    from unseen.data.sources.vtab import check_root

    if not root.is_dir():
        raise DataError(f"there is no folder {str(root)!r}. Name the folder that holds the data of VTAB.")
    found = list(check_root(root.expanduser(), hashes=hashes))
    if as_json:
        print_json([asdict(status) for status in found])
        return
    rows = []
    for status in found:
        sizes = " / ".join(f"{status.sizes.get(s, 0):,}" for s in ("train", "val", "test")) if status.sizes else ""
        told = status.advice or ", ".join(f"{n} images shared by {pair}" for pair, n in status.shared.items())
        rows.append([status.task, status.group, status.state, sizes, status.hash, status.source or told])
    columns = ["task", "group", "state", "train / val / test", "hash", "where, or what to do"]
    kept = [k for k in range(6) if k != 4 or hashes]
    print_table([columns[k] for k in kept], [[row[k] for k in kept] for row in rows])
    for status in found:
        if status.source and (status.advice or status.shared):
            shared = ", ".join(f"{n} images shared by {pair}" for pair, n in status.shared.items())
            console().print(f"{status.task}: {'; '.join(filter(None, (status.advice, shared)))}", markup=False)
    ready = sum(status.state == "ready" for status in found)
    console().print(f"{ready} of 19 tasks are ready.")


vtab_commands.command("analyse", cls=Command)(analyse)
vtab_commands.command("chart", cls=Command)(chart)


@vtab_commands.command("compare", cls=Command)
def compare(
    scores: Annotated[
        Path | None,
        typer.Option("--own", metavar="FILE", help="A CSV file with model, task, score (percent), not your results."),
    ] = None,
    table: Annotated[
        str, typer.Option("--table", help="Published table: linear, lightweight or heavyweight. [default: fits yours]")
    ] = "",
    size: Annotated[
        Literal["1000", "full"] | None, typer.Option("--size", help="Only results of 1000 or full examples.")
    ] = None,
    models: Annotated[
        list[str] | None, typer.Option("--models", metavar="NAME ...", help="Only these models. [default: all]")
    ] = None,
    study: Annotated[str, typer.Option("--study", help="The study with your results.")] = "vtab",
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="Also write all results of the study to this .html.")
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank your models among the 18 published methods. Models that lack tasks or test images are listed, not ranked."""
    from unseen.benchmarks.vtab.analysis import model_scores
    from unseen.benchmarks.vtab.ranking import compare as compare_models
    from unseen.cli.papers import display_names, model_cards_of
    from unseen.cli.tables import console, print_json, print_model
    from unseen.core.errors import UnknownNameError

    tables: dict[str, Adaptation] = {"linear": "linear", "lightweight": "lightweight", "heavyweight": "heavyweight"}
    if table and table not in tables:
        raise UnknownNameError("published table", table, tuple(tables))
    stored = read_scores(scores, size or "1000") if scores else stored_results(study, home)
    if page is not None:
        from unseen.run.report import write_report

        write_report(stored, page, title=f"{study}: all results", cards=cards_of(stored, home))
        console(error=True).print(f"Page: {page}", soft_wrap=True)
    own = model_scores(stored)
    if wanted := split_names(models or []):
        known = list(dict.fromkeys(row.model for row in own))
        for name in wanted:
            if name not in known:
                raise UnknownNameError("model", name, known)
        own = [row for row in own if row.model in wanted]
    found = compare_models(own, table=tables.get(table), size=size)
    if as_json:
        print_json([row for ranking in found for row in ranking.to_rows()])
        return
    names = display_names(stored, model_cards_of(stored), {})
    for ranking in found:
        for model in ranking.tables(names):
            print_model(model)


def read_scores(path: Path, size: str) -> list[Result]:
    """Return the results of a user's own table: model, task, score in percent."""
    import csv

    from unseen.core.errors import DataError
    from unseen.core.records import Cell, Result
    from unseen.data.sources.vtab import vtab_task

    found: list[Result] = []
    seeds: dict[tuple[str, str], int] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            for row in csv.DictReader(stream):
                task = vtab_task(row["task"].strip().removeprefix("vtab:")).name
                dataset = f"vtab:{task}{'?size=full' if size == 'full' else ''}"
                key = row["model"].strip(), dataset
                seeds[key] = seeds.get(key, -1) + 1
                parameters = {"adaptation": "finetune", "sweep": "lightweight", "seed": seeds[key]}
                found.append(Result(Cell("vtab", *key, parameters), {"top1": float(row["score"]) / 100}))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not a table with the columns model, task and score: {error}.") from error
    if not found:
        raise DataError(f"{path} holds no scores.")
    return found
