"""`unseen vtab chart` and `unseen vtab analyse`: the figures and tables of the paper, for its methods and for yours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from unseen.cli.options import DATA_PANEL, HomeOption
from unseen.cli.vtab.stored import cards_of, stored_results

if TYPE_CHECKING:
    from unseen.benchmarks.vtab.published_tables import ScoreTable

#: As in `unseen.benchmarks.vtab.figures`, which is not loaded for a help text; a test holds the two together.
CHARTS = (
    "groups",
    "kinds",
    "pairs",
    "linear",
    "sweeps",
    "aggregations",
    "metrics",
    "budgets",
    "task-budgets",
    "good-values",
    "violins",
    "scale",
    "unseen-tasks",
)

_SizeOption = Annotated[
    Literal["1000", "full"],
    typer.Option("--size", help="Labelled examples per task of the published methods.", rich_help_panel=DATA_PANEL),
]
_StudyOption = Annotated[
    str | None, typer.Option("--study", help="Also for the results of this study, such as vtab; without, the paper's.")
]


def chart(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of: {', '.join(CHARTS)}.")],
    out: Annotated[Path, typer.Option("--out", help="Where to: .html, .svg, .png or .pdf.")],
    size: _SizeOption = "1000",
    study: _StudyOption = None,
    only: Annotated[
        Literal["published", "own"] | None, typer.Option("--only", help="The published methods, or your results.")
    ] = None,
    home: HomeOption = None,
) -> None:
    """Draw a figure of the paper: for the published methods, and for your results where a study is named."""
    from unseen.benchmarks.vtab.figures import draw, one_spec
    from unseen.benchmarks.vtab.own_figures import Own
    from unseen.cli.tables import console
    from unseen.reports import save_chart

    results = stored_results(study, home) if study and only != "published" else []
    own = Own(results, cards_of(results, home) if name == "scale" else {})
    figures = draw(name, own, size=size, published=only != "own")
    save_chart(one_spec(figures), out)
    for figure in figures:
        console().print(f"{figure.title}. {figure.description}", soft_wrap=True, markup=False)
    console().print(f"Chart: {out}", soft_wrap=True)


def analyse(
    size: _SizeOption = "1000",
    results_file: Annotated[
        Path | None, typer.Option("--results", help="The authors' results file, instead of the paper's Table 6.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many subsets to show.")] = 10,
    subset_size: Annotated[int, typer.Option(min=1, max=18, help="Tasks per subset.")] = 5,
    study: _StudyOption = None,
    home: HomeOption = None,
) -> None:
    """Recompute what the paper says of its own benchmark, and the same for your results where a study is named."""
    from unseen.benchmarks.vtab.published_tables import (
        aggregation_taus,
        published_aggregations,
        read_results_file,
        score_table,
        task_titles,
    )
    from unseen.benchmarks.vtab.relations import linear_against_finetuning
    from unseen.cli.tables import console, print_table
    from unseen.metrics.aggregation import agreement_with_mean
    from unseen.metrics.subsets import left_out_taus, unseen_pair_accuracy

    table = read_results_file(results_file, size) if results_file else score_table("lightweight", size)
    titles = task_titles()
    taus = agreement_with_mean(table.scores, published_aggregations())
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
    _print_readings(table.scores, printed["balduzzi"])
    if study:
        _print_own(study, home)
    _print_subsets(table, size, subset_size, count)
    console().print(f"An unseen pair is ranked right with probability {unseen_pair_accuracy(table.scores):.3f}.")
    console().print(f"The others predict a left-out task with tau {left_out_taus(table.scores).mean():.3f}.")
    agreement = linear_against_finetuning(size)
    shown = [[titles[task], f"{tau:.2f}"] for task, tau in sorted(agreement.items(), key=lambda item: -item[1])]
    print_table(["task", "tau"], shown, title="Linear against fine-tuning (Figure 5)", numeric=("tau",))
    _print_people(titles)


def _print_readings(scores: object, printed: tuple[float, float]) -> None:
    from unseen.benchmarks.vtab.published_tables import balduzzi_readings
    from unseen.cli.tables import print_table

    print_table(
        ["game", "own weights", "away by", "weights of full", "away by "],
        [
            [name, f"{own:.3f}", _away(own, *printed), f"{full:.3f}", _away(full, *printed)]
            for name, (own, full) in balduzzi_readings(scores).items()  # type: ignore[arg-type]
        ],
        title="What the weighting of Balduzzi et al. can mean",
        numeric=("own weights", "away by", "weights of full", "away by "),
    )


def _print_own(study: str, home: Path | None) -> None:
    from unseen.benchmarks.vtab.analysis import by_setting, model_scores
    from unseen.benchmarks.vtab.tables import own_aggregations
    from unseen.cli.tables import console, print_table

    for models in by_setting(model_scores(stored_results(study, home))):
        said = f" · {models[0].setting}" if models[0].setting else ""
        found = own_aggregations(models)
        if not found:
            console().print(f"Aggregations need three models and two tasks that all have{said}.", markup=False)
            continue
        print_table(
            ["aggregation", "tau", "± std"],
            [[name, f"{tau:.3f}", f"{std:.3f}"] for name, (tau, std) in found.items()],
            title=f"The same for your {len(models)} models, over 100 draws of single repeats{said}",
            numeric=("tau", "± std"),
        )


def _print_subsets(table: ScoreTable, size: Literal["1000", "full"], subset_size: int, count: int) -> None:
    from unseen.benchmarks.vtab.published_tables import best_subsets, task_titles
    from unseen.cli.tables import print_table
    from unseen.metrics.subsets import search_subsets

    titles, search = task_titles(), search_subsets(table.scores, subset_size)
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


def _print_people(titles: Mapping[str, str]) -> None:
    from unseen.benchmarks.vtab.published_tables import human_scores, literature
    from unseen.cli.tables import print_table

    rows: Sequence[Sequence[str]] = [
        [titles[task], f"{row['chance']:.1f}", f"{row['human']:.1f}"] for task, row in human_scores().items()
    ]
    print_table(
        ["task", "chance", "raters"],
        rows,
        title="Human raters, mean per-class accuracy (Table 3)",
        numeric=("chance", "raters"),
    )
    print_table(
        ["task", "metric", "Sup-Ex-100%", "literature", "of"],
        [[titles[r.task], r.metric, f"{r.ours:.1f}", f"{r.theirs:.1f}", r.reference] for r in literature()],
        title="The best published method beside the literature, all examples (Table 8)",
        numeric=("Sup-Ex-100%", "literature"),
    )


def _away(value: float, printed: float, deviation: float) -> str:
    return f"{(value - printed) / deviation:+.1f} std"
