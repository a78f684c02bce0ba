"""`unseen vtab`: the Visual Task Adaptation Benchmark, run, checked, compared with the paper and analysed as in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from unseen.cli.cog.run import DEFAULT_MODELS
from unseen.cli.options import DATA_PANEL, Draft, HomeOption, JsonOption, split_names, study_command
from unseen.cli.parser import Command, Group, parameter

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
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put your models among the 18 published methods, on the tasks that all of them have."""
    from dataclasses import asdict

    from unseen.benchmarks.vtab.analysis import comparisons
    from unseen.cli.tables import console, print_json
    from unseen.core.errors import DataError, UnknownNameError

    if table and table not in ("linear", "lightweight", "heavyweight"):
        raise UnknownNameError("published table", table, ("linear", "lightweight", "heavyweight"))
    found = comparisons(read_scores(scores, size or "1000") if scores else _stored(study, home), table=table, size=size)
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


@vtab_commands.command("analyse", cls=Command)
def analyse(
    size: SizeOption = "1000",
    results_file: Annotated[
        Path | None, typer.Option("--results", help="The authors' results file, instead of the paper's Table 6.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many subsets to show.")] = 10,
    subset_size: Annotated[int, typer.Option(min=1, max=18, help="Tasks per subset.")] = 5,
) -> None:
    """Recompute what the paper says of its own benchmark: aggregations, representative subsets, linear evaluation."""
    from unseen.benchmarks.vtab.analysis import linear_against_finetuning
    from unseen.benchmarks.vtab.published_tables import (
        aggregation_taus,
        best_subsets,
        read_results_file,
        score_table,
        task_titles,
    )
    from unseen.cli.tables import console, print_table
    from unseen.data.sources.vtab.tasks import vtab_tasks
    from unseen.metrics.aggregation import aggregations, agreement_with_mean
    from unseen.metrics.subsets import left_out_taus, search_subsets, unseen_pair_accuracy

    table = read_results_file(results_file, size) if results_file else score_table("lightweight", size)
    rows, titles = vtab_tasks().values(), task_titles()
    taus = agreement_with_mean(table.scores, aggregations([r.data for r in rows], [r.group for r in rows]))
    printed = aggregation_taus(size)
    print_table(
        ["aggregation", "tau", "paper", "± std", "away by"],
        [
            [name, f"{tau:.3f}", f"{printed[name][0]:.3f}", f"{printed[name][1]:.3f}", _away(tau, *printed[name])]
            for name, tau in taus.items()
        ],
        title="Kendall's tau with the mean (Table 4)",
        numeric=("tau", "paper", "± std", "away by"),
    )
    search = search_subsets(table.scores, subset_size)
    shown = [
        [f"{search.taus[k]:.3f}", ", ".join(titles[table.tasks[t]] for t in search.subsets[k])] for k in range(count)
    ]
    print_table(["tau", "tasks"], shown, title=f"Best of {len(search.taus):,} subsets of {subset_size}")
    if subset_size == 5:
        known = []
        for subset in best_subsets(size):
            tau, better = search.tau_of([table.tasks.index(task) for task in subset.tasks])
            names = ", ".join(titles[task] for task in subset.tasks)
            known.append([f"{subset.tau:.3f}", f"{tau:.3f}", f"{better:,}", names])
        print_table(["paper", "here", "better ones", "tasks"], known, title="The subsets of Table 5")
    console().print(f"An unseen pair is ranked right with probability {unseen_pair_accuracy(table.scores):.3f}.")
    console().print(f"The others predict a left-out task with tau {left_out_taus(table.scores).mean():.3f}.")
    agreement = linear_against_finetuning(size)
    shown = [[titles[task], f"{tau:.2f}"] for task, tau in sorted(agreement.items(), key=lambda item: -item[1])]
    print_table(["task", "tau"], shown, title="Linear against fine-tuning (Figure 5)", numeric=("tau",))


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


def _stored(study: str, home: Path | None) -> list[ModelScores]:
    from unseen.benchmarks.vtab.analysis import model_scores
    from unseen.core.files import home as home_folder
    from unseen.results import FILE_NAME, ResultsDatabase

    with ResultsDatabase(home_folder(home) / FILE_NAME, read_only=True) as database:
        return model_scores(database.latest(study=study, benchmark="vtab", include_failed=False))


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


def _away(value: float, printed: float, deviation: float) -> str:
    return f"{(value - printed) / deviation:+.1f} std"
