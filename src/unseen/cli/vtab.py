"""`unseen vtab check` and `run`: the Visual Task Adaptation Benchmark. `vtab_compare.py` has the other commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from unseen.cli.cog_run import DEFAULT_MODELS, split_names
from unseen.cli.run import DryRunOption, EngineOption, HomeOption, ReportOption, SchedulerOption, WorkersOption

if TYPE_CHECKING:
    from unseen.core.records import Result

vtab_commands = typer.Typer(
    name="vtab", help="VTAB: unseen tasks, with a thousand labelled examples each.", no_args_is_help=True
)

STUDY = "vtab"
SizeOption = Annotated[Literal["1000", "full"], typer.Option("--size", help="Labelled examples per task.")]


@vtab_commands.command("check")
def check(
    root: Annotated[Path, typer.Argument(help="The folder that holds the data, in any of the known forms.")],
    hashes: Annotated[
        bool, typer.Option("--hash", help="Decode every image: hash the 1,000 examples, count images in two splits.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list.")] = False,
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


@vtab_commands.command("run")
def run(
    tasks: Annotated[
        list[str] | None,
        typer.Option("--tasks", help="mini, all, natural, specialized, structured, or names. [default: mini]"),
    ] = None,
    models: Annotated[
        list[str] | None, typer.Option("--models", help="Models; repeat the option or separate by commas.")
    ] = None,
    adaptation: Annotated[str, typer.Option(help="linear, finetune, or scratch.")] = "linear",
    sweep: Annotated[str, typer.Option(help="lightweight, or heavyweight (a random search).")] = "lightweight",
    size: SizeOption = "1000",
    root: Annotated[str, typer.Option(help="Where VTAB's data are. [default: $UNSEEN_VTAB]")] = "",
    rates: Annotated[str, typer.Option(help="Learning rates of the lightweight sweep.")] = "0.1,0.01",
    steps: Annotated[str, typer.Option(help="Numbers of steps of the lightweight sweep.")] = "2500,10000",
    batch_size: Annotated[int, typer.Option(min=1, help="Images per step.")] = 512,
    micro_batch: Annotated[int, typer.Option(min=0, help="Images per forward pass; 0 for the whole batch.")] = 0,
    budgets: Annotated[str, typer.Option(help="Report these numbers of steps one by one, such as 40,100,400.")] = "",
    trials: Annotated[int, typer.Option(min=1, help="Of the heavyweight search.")] = 100,
    longest: Annotated[int, typer.Option(min=0, help="Cap the steps of the heavyweight search; 0 for none.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Final runs per task; their median is reported.")] = 3,
    preprocessing: Annotated[str, typer.Option(help="plain (both sides resized), or own (the model's).")] = "plain",
    patches: Annotated[bool, typer.Option("--patches", help="Average nine patches (Appendix C).")] = False,
    name: Annotated[str, typer.Option("--study", help="File the results under this name.")] = STUDY,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
    engine: EngineOption = "local",
    workers: WorkersOption = 1,
    scheduler: SchedulerOption = None,
    report: ReportOption = None,
) -> None:
    """Adapt models to tasks: choose on 200 examples, retrain on 1,000, test; write the page. Run it again to go on."""
    from unseen.benchmarks.vtab.suites import suite
    from unseen.cli.run import make_engine_options, run_and_report
    from unseen.study import Study

    options: dict[str, Any] = {
        "adaptation": adaptation,
        "sweep": sweep,
        "learning_rates": _numbers(rates, float),
        "steps": _numbers(steps, int),
        "batch_size": batch_size,
        "micro_batch": micro_batch,
        "budgets": _numbers(budgets, int),
        "trials": trials,
        "longest": longest,
        "seeds": list(range(seeds)),
        "preprocessing": preprocessing,
        "patches": patches,
    }
    study = Study.parse(
        {
            "name": name,
            "title": "Visual Task Adaptation Benchmark",
            "models": split_names(models) or list(DEFAULT_MODELS),
            "datasets": suite(split_names(tasks) or ["mini"], size=size, root=root),
            "benchmarks": {"vtab": options},
        },
        source="unseen vtab run",
        base=Path.cwd(),
    )
    made = make_engine_options(engine, workers, scheduler)
    run_and_report(study, dry_run=dry_run, home=home, engine=made, report=report, show=show_vtab)


def show_vtab(results: Sequence[Result]) -> None:
    """Medians per task, and group means with their intervals."""
    from unseen.benchmarks.vtab.analysis import model_scores, ranked
    from unseen.cli.results import show_results
    from unseen.cli.tables import print_table

    own = model_scores(results)
    if not own:
        show_results(results)
        return
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
        title="Top-1 accuracy (%), median over seeds",
        numeric=(*heads, "mean [95 %]"),
    )


def _numbers(text: str, kind: type[float] | type[int]) -> list[Any]:
    from unseen.core.errors import UsageError

    try:
        return [kind(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise UsageError(f"{text!r} is not a list of numbers with commas between them: {error}.") from error
