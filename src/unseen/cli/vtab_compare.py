"""`unseen vtab compare` and `analyse`: a model among the published ones, and what the paper says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unseen.cli.run import HomeOption
from unseen.cli.vtab import STUDY, SizeOption

if TYPE_CHECKING:
    from unseen.benchmarks.vtab.analysis import ModelScores, Standing


def compare(
    scores: Annotated[
        Path | None, typer.Option("--scores", help="A CSV file with model, task, score (percent), not your results.")
    ] = None,
    table: Annotated[
        str, typer.Option("--table", help="Published table: linear, lightweight or heavyweight. [default: fits yours]")
    ] = "",
    size: SizeOption = "1000",
    study: Annotated[str, typer.Option("--study", help="Whose results.")] = STUDY,
    home: HomeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list.")] = False,
) -> None:
    """Put your models among the 18 published methods, on the tasks that all of them have."""
    from dataclasses import asdict

    from unseen.benchmarks.vtab.analysis import PUBLISHED, standings
    from unseen.cli.tables import print_json
    from unseen.core.errors import UnknownNameError

    if table and table not in ("linear", "lightweight", "heavyweight"):
        raise UnknownNameError("published table", table, ("linear", "lightweight", "heavyweight"))
    own = read_scores(scores, size) if scores else [s for s in _stored(study, home) if s.size == size]
    kinds = dict.fromkeys(PUBLISHED[s.adaptation, s.sweep] for s in own)
    for kind in [table] if table else list(kinds) or ["lightweight"]:
        chosen = [s for s in own if table or PUBLISHED[s.adaptation, s.sweep] == kind]
        found = standings(chosen, adaptation=kind, size=size)
        if as_json:
            print_json([asdict(row) for row in found])
        else:
            _print_standings(found, kind, size)


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


def _print_standings(rows: Sequence[Standing], kind: str, size: str) -> None:
    from rich.text import Text

    from unseen.benchmarks.vtab.published_tables import task_titles
    from unseen.cli.tables import print_table

    titles = task_titles()
    tasks = list(rows[0].scores)
    shown: list[list[str | Text]] = []
    for place, row in enumerate(rows, 1):
        style = "bold" if row.own else ""
        values = [str(place), row.method, *(f"{row.scores[t]:.1f}" for t in tasks), f"{row.mean:.1f}"]
        shown.append([Text(value, style=style) for value in values])
    heads = [titles[task] for task in tasks]
    print_table(
        ["", "method", *heads, "mean"],
        shown,
        title=f"Among the published methods: {kind}, {size} examples, {len(tasks)} tasks",
        caption="Yours in bold. Published: Zhai et al., 2019, ResNet-50 pretrained on ImageNet.",
        numeric=("", *heads, "mean"),
    )


def _away(value: float, printed: float, deviation: float) -> str:
    return f"{(value - printed) / deviation:+.1f} std"
