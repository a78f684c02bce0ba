"""`unseen vtab`: the Visual Task Adaptation Benchmark, run, checked, compared with the paper and analysed as in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from unseen.cli.cog.run import DEFAULT_MODELS
from unseen.cli.options import DATA_PANEL, Draft, HomeOption, JsonOption, split_names, study_command
from unseen.cli.parser import Command, Group, parameter
from unseen.cli.vtab.figures import analyse, chart
from unseen.cli.vtab.stored import cards_of, stored_results

if TYPE_CHECKING:
    from unseen.benchmarks.vtab.analysis import Comparison, ModelScores
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
        help="mini (the default), all, ready (what is there), a group, or names of tasks; beside DATA.",
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


def show_vtab(results: Sequence[Result]) -> None:
    """Medians per task, and group means with their intervals, setting by setting."""
    from unseen.benchmarks.vtab.analysis import by_setting, model_scores
    from unseen.cli.results import show_results

    own = model_scores(results)
    if not own:
        show_results(results)
        return
    for models in by_setting(own):
        _show_setting(models)


def _show_setting(own: Sequence[ModelScores]) -> None:
    from unseen.benchmarks.vtab.analysis import ranked
    from unseen.cli.tables import print_table

    tasks = list(dict.fromkeys(task for scores in own for task in scores.runs))
    titles = {task: scores.tasks[task].title for scores in own for task in scores.runs}
    rows = []
    for scores, lacking in ranked(own):
        medians, mean = scores.medians, scores.groups()["all"]
        values = [f"{100 * medians[task]:.1f}" if task in medians else "–" for task in tasks]
        shown = f"{100 * mean.value:.1f} [{100 * mean.low:.1f}, {100 * mean.high:.1f}]"
        rows.append([scores.model, scores.adaptation, *values, f"{lacking} missing" if lacking else shown])
    heads = [titles[task] for task in tasks]
    print_table(
        ["model", "adaptation", *heads, "mean [95 %]"],
        rows,
        title="Top-1 accuracy (%), median over seeds" + (f" · {own[0].setting}" if own[0].setting else ""),
        numeric=(*heads, "mean [95 %]"),
    )


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
        show=show_vtab,
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
    study: Annotated[str, typer.Option("--study", help="Whose results.")] = "vtab",
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="Also write all results of the study to this .html.")
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put your models among the 18 published methods, on the tasks that all of them have."""
    from dataclasses import asdict

    from unseen.benchmarks.vtab.analysis import comparisons, model_scores
    from unseen.cli.tables import console, print_json
    from unseen.core.errors import DataError, UnknownNameError

    if table and table not in ("linear", "lightweight", "heavyweight"):
        raise UnknownNameError("published table", table, ("linear", "lightweight", "heavyweight"))
    stored = [] if scores else stored_results(study, home)
    if page is not None:
        from unseen.study import write_report

        write_report(stored, page, title=f"{study}: all results", cards=cards_of(stored, home))
        console(error=True).print(f"Page: {page}", soft_wrap=True)
    found = comparisons(read_scores(scores, size or "1000") if scores else model_scores(stored), table=table, size=size)
    if not any(comparison.rows for comparison in found):
        raise DataError(found[0].note)
    if as_json:
        place = [{"setting": c.setting, "table": c.table, "size": c.size} for c in found]
        print_json([{**asdict(row), **where} for c, where in zip(found, place, strict=True) for row in c.rows])
        return
    for comparison in found:
        if comparison.rows:
            _print_standings(comparison)
        else:
            console().print(f"{comparison.setting}: {comparison.note}", soft_wrap=True, markup=False)


def read_scores(path: Path, size: str) -> list[ModelScores]:
    """A user's own table: model, task, score in percent."""
    import csv

    from unseen.benchmarks.vtab.analysis import ModelScores
    from unseen.benchmarks.vtab.suites import task_info
    from unseen.core.errors import DataError
    from unseen.data.sources.vtab import vtab_task

    found: dict[str, dict[str, tuple[float, ...]]] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            for row in csv.DictReader(stream):
                task = vtab_task(row["task"].strip().removeprefix("vtab:")).name
                runs = found.setdefault(row["model"].strip(), {})
                runs[task] = (*runs.get(task, ()), float(row["score"]) / 100)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not a table with the columns model, task and score: {error}.") from error
    if not found:
        raise DataError(f"{path} holds no scores.")
    infos = {task: task_info(f"vtab:{task}") for runs in found.values() for task in runs}
    return [
        ModelScores(model, "finetune", "lightweight", size, runs, {t: infos[t] for t in runs})
        for model, runs in found.items()
    ]


def _print_standings(comparison: Comparison) -> None:
    from rich.text import Text

    from unseen.benchmarks.vtab.published_tables import task_titles
    from unseen.cli.tables import print_table

    titles = task_titles()
    rows, tasks = comparison.rows, list(comparison.rows[0].scores)
    shown: list[list[str | Text]] = []
    for place, row in enumerate(rows, 1):
        style = "bold" if row.own else ""
        values = [str(place), row.method, *(f"{row.scores[t]:.1f}" for t in tasks), f"{row.mean:.1f}"]
        shown.append([Text(value, style=style) for value in values])
    heads = [titles[task] for task in tasks]
    print_table(
        ["", "method", *heads, "mean"],
        shown,
        title=f"Among the published methods: {comparison.table}, {comparison.size} examples, {len(tasks)} tasks"
        + (f" · {comparison.setting}" if comparison.setting else ""),
        caption="Yours in bold. Published: Zhai et al., 2019, ResNet-50 pretrained on ImageNet.",
        numeric=("", *heads, "mean"),
    )
