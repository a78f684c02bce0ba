"""`unseen run` and `unseen demo`: a study from its file to its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from unseen.core.records import Result
    from unseen.study import Plan, Study

HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home", help="Where features and results are kept. [default: $UNSEEN_HOME or the user's data folder]"
    ),
]
EngineOption = Annotated[str, typer.Option("--engine", help="local, or dask for a cluster.")]
WorkersOption = Annotated[int, typer.Option("--workers", min=1, help="Processes that evaluate side by side.")]
SchedulerOption = Annotated[
    str | None, typer.Option("--scheduler", help="With --engine dask: address of a running scheduler, tcp://host:8786.")
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", help="Where to write the page. [default: HOME/reports/STUDY.html]")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


def run(
    study: Annotated[Path, typer.Argument(help="The study file (TOML): models x datasets x benchmarks.")],
    dry_run: DryRunOption = False,
    home: HomeOption = None,
    engine: EngineOption = "local",
    workers: WorkersOption = 1,
    scheduler: SchedulerOption = None,
    report: ReportOption = None,
) -> None:
    """Run a study: extract what is missing, evaluate what is not done, write the page. Run it again to go on."""
    from unseen.study import Study

    run_and_report(
        Study.read(study),
        dry_run=dry_run,
        home=home,
        engine=make_engine_options(engine, workers, scheduler),
        report=report,
    )


def demo(
    dry_run: DryRunOption = False,
    home: HomeOption = None,
    report: ReportOption = None,
) -> None:
    """Run the embedded study on real weights and images that came with the installation (the `demo` extra)."""
    from importlib.resources import as_file, files

    from unseen.study import Study

    with as_file(files("unseen.studies") / "demo.toml") as path:
        study = Study.read(path)
    run_and_report(study, dry_run=dry_run, home=home, engine=("local", {"workers": 1}), report=report)


def make_engine_options(name: str, workers: int, scheduler: str | None) -> tuple[str, dict[str, Any]]:
    """The engine's name and its options, from what the command line says."""
    from unseen.core.errors import UsageError

    if scheduler is not None and name != "dask":
        raise UsageError("--scheduler goes with --engine dask.")
    return name, {"workers": workers, **({"scheduler": scheduler} if scheduler else {})}


def run_and_report(
    study: Study,
    *,
    dry_run: bool,
    home: Path | None,
    engine: tuple[str, dict[str, Any]],
    report: Path | None,
    show: Callable[[Sequence[Result]], None] | None = None,
) -> None:
    """Run a study with a progress bar, write its page, print its tables, by `show` where a command has its own."""
    from unseen.cli.progress import RichProgress
    from unseen.cli.results import show_results
    from unseen.cli.tables import console
    from unseen.core.errors import CellsFailedError
    from unseen.core.files import home as home_folder
    from unseen.engines import make_engine
    from unseen.study import plan_study, run_study

    folder = home_folder(home)
    screen = console(error=True)
    if dry_run:
        show_plan(plan_study(study, folder))
        return
    name, options = engine
    with make_engine(name, **options) as workers:
        outcome = run_study(
            study,
            folder,
            workers,
            progress=RichProgress(screen),
            on_result=lambda result: _tell(screen, result),
            report=report or True,
        )
    (show or show_results)(outcome.results)
    done = len(outcome.plan.cells) - outcome.evaluated
    kept = f", {done} were there already" if done else ""
    screen.print(f"{outcome.evaluated} cells evaluated{kept}.", style="dim")
    console().print(f"Report: {outcome.page}", soft_wrap=True)
    if outcome.failed:
        raise CellsFailedError(
            f"{len(outcome.failed)} of {len(outcome.results)} cells failed. The first: {outcome.failed[0].error}"
        )


def _tell(screen: Console, result: Result) -> None:
    """A line for a cell that failed, as it does."""
    if not result.ok:
        text = f"  {result.cell.model} on {result.cell.dataset}: failed: {result.error}"
        screen.print(text, style="red", markup=False)


def show_plan(plan: Plan) -> None:
    from unseen.benchmarks import group_cells
    from unseen.cli.tables import print_table

    rows = []
    for group in group_cells(plan.cells):
        done = sum(cell.id in plan.done for cell in group)
        rows.append([group[0].benchmark, group[0].model, group[0].dataset, str(len(group) - done), str(done)])
    print_table(
        ["benchmark", "model", "dataset", "to do", "done"],
        rows,
        title=f"{plan.study.name}: {len(plan.remaining)} cells to do, {len(plan.done)} done",
        numeric=("to do", "done"),
    )
