"""`unseen run` and `unseen probe`, and what every command that runs a study shares: plan, run, print, report."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from unseen.backbones.load import check_backbone, expand_models, resolve_model
from unseen.benchmarks import group_cells
from unseen.benchmarks.benchmark import make_benchmark
from unseen.benchmarks.workbench import Workbench, given_models
from unseen.cli.options import COMMON_EXTRACTION, DATA_PANEL, MODELS_HELP, TAKEN, Fields, Running, split_names
from unseen.cli.parser import made_late, parameter, with_parameters
from unseen.cli.progress import ConsoleReporter
from unseen.cli.results import show_results
from unseen.cli.tables import console, count, print_json, print_table, say
from unseen.core.errors import CellsFailedError, UsageError
from unseen.core.files import home as home_folder
from unseen.core.identity import Values
from unseen.core.names import Name
from unseen.core.options import make_options
from unseen.core.records import Result
from unseen.features import Extraction
from unseen.results.info import BENCHMARKS, info_of
from unseen.results.table import run_findings
from unseen.run.execute import Outcome, run_study
from unseen.run.executor import ENGINES, make_engine
from unseen.run.plan import Plan, count_images, plan_study
from unseen.run.study import Study

if TYPE_CHECKING:
    from rich.console import Console

    from unseen.benchmarks.audit import Check


# ---- commands made from benchmarks -----------------------------------------------------------------------------------


@dataclass
class Draft:
    """The study of a command line before it is checked; `prepare` of `study_command` may change it.

    Attributes:
        command: the words of the command, for messages.
        benchmarks: by name, the options on the command line: texts by field.
        extraction: the same for the extraction.
        more: values of the command's own options.
    """

    command: str
    name: str
    title: str
    data: list[str]
    models: list[str]
    benchmarks: dict[str, Values]
    extraction: Values
    more: Values
    home: Path | None = None


def study_command(
    benchmark: str,
    *,
    data: Sequence[str] = (),
    models: Sequence[str] = (),
    title: str = "",
    defaults: Mapping[str, Any] | None = None,
    more: Sequence[Parameter] = (),
    prepare: Callable[[Draft], None] | None = None,
    show: Callable[[Sequence[Result]], None] | None = None,
    run: Callable[[Draft, Running], None] | None = None,
) -> Callable[[], None]:
    """Return the function of a command that runs one benchmark on DATA; register it with `cls=Command`.

    The benchmark is imported when the command runs.

    Args:
        benchmark: its registry name.
        data, models: the default datasets and models.
        title: title of the report.
        defaults: texts by field that replace the defaults of the dataclass.
        more: options of this command only.
        prepare: changes the draft, for example replaces the name of a suite by its datasets.
        show: prints the results; prints the tables of the benchmark by default.
        run: runs the draft instead of `run_draft`.
    """

    def make() -> Callable[..., None]:
        kind, info = BENCHMARKS.get(benchmark), info_of(benchmark)
        names = {each.name for each in more}
        own = Fields(kind, benchmark, "Protocol", TAKEN | names, defaults or {})
        taken = TAKEN | names | {each.name for each in own.fields()}
        how = Fields(Extraction, "extraction", "Feature extraction", taken, common=COMMON_EXTRACTION)

        def body(values: Values) -> None:
            draft = Draft(
                command=f"unseen {info.command}",
                name=values["study"],
                title=title or info.question,
                data=split_names([*(values["data"] or ()), *(values["data_option"] or ())]) or list(data),
                models=split_names(values["models"]) or list(models),
                benchmarks={benchmark: own.given(values)},
                extraction=how.given(values),
                more={name: values[name] for name in names},
                home=values["home"],
            )
            if prepare is not None:
                _check_models(draft.models)
                prepare(draft)
            draft.models = draft.models or list(dict.fromkeys(m for name in draft.data for m in given_models(name)))
            if run is not None:
                run(draft, Running.among(values))
            else:
                run_draft(draft, Running.among(values), show)

        parameters = [
            *_study_parameters(benchmark, data, models),
            *more,
            *own.parameters(),
            *how.parameters(),
            *Running.parameters(),
        ]
        return with_parameters(parameters, body)

    return made_late(make)


def _check_models(models: Sequence[str]) -> None:
    """Raise `UnseenError` if a model does not exist, before a command reads data or writes a file."""
    for model in models:
        for name in expand_models(model):
            check_backbone(resolve_model(name, Path.cwd()))


def _study_parameters(benchmark: str, data: Sequence[str], models: Sequence[str]) -> list[Parameter]:
    """Return the parameters DATA, --data, --models and --study."""

    def option(name: str, metavar: str, text: str) -> Any:
        return Option(name, metavar=metavar, help=f"{text}.", rich_help_panel=DATA_PANEL)

    def otherwise(names: Sequence[str]) -> str:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"; {names[0]}{more} by default" if names else ""

    about = f"Datasets, or folders of labelled images{otherwise(data)}."
    argument, several = Argument(metavar="DATA", help=about, show_default=False), list[str] | None
    return [
        parameter("data", Annotated[several, argument]),
        parameter("data_option", Annotated[several, option("--data", "DATA ...", "Datasets, like the argument DATA")]),
        parameter("models", Annotated[several, option("--models", "NAME ...", MODELS_HELP + otherwise(models))]),
        parameter(
            "study",
            Annotated[str, option("--study", "NAME", "Name of the study that the results are stored under")],
            benchmark,
        ),
    ]


def run_draft(draft: Draft, how: Running, show: Callable[[Sequence[Result]], None] | None = None) -> None:
    """Check a draft, and run it."""
    here, command = Path.cwd(), draft.command
    if not draft.data:
        raise UsageError(f"{command}: name the data, such as: {command} photos/ (unseen ls datasets).")
    if not draft.models:
        raise UsageError(f"{command}: name the models, such as: --models timm:resnet50 mine.pth (unseen ls models).")
    study = Study(
        name=draft.name,
        title=draft.title,
        models=tuple(draft.models),
        datasets=tuple(draft.data),
        benchmarks=[
            make_benchmark(name, given, source=command, base=here, texts=True)
            for name, given in draft.benchmarks.items()
        ],
        extraction=make_options(Extraction, draft.extraction, source=command, base=here, texts=True),
        base=here,
        source=command,
    )
    run_and_report(study, how, show=show)


_STUDY = Argument(metavar="STUDY", help="A study file (TOML), or the name of a shipped one (unseen ls studies).")


#: Extraction settings on the command line, which replace those of a study file.
EXTRACTION = Fields(Extraction, "extraction", "Feature extraction (replaces settings of the study)", defaults=None)


def _run_file(values: dict[str, object]) -> None:
    run_and_report(overruled(Study.read(str(values["study"])), EXTRACTION.given(values)), Running.among(values))


run = with_parameters(
    [parameter("study", Annotated[str, _STUDY], ...), *Running.parameters(), *EXTRACTION.parameters()], _run_file
)
probe = study_command("probe")


def _run_demo(values: dict[str, object]) -> None:
    from unseen.benchmarks.audit import run_controls  # imports the search for copies and the leak audit

    study, how = overruled(Study.read("demo"), EXTRACTION.given(values)), Running.among(values)
    if values["shuffle_labels"]:
        run_and_report(_with_shuffled_labels(study), how, answers=True)
    else:
        run_and_report(study, how, answers=True, controls=run_controls)


def _with_shuffled_labels(study: Study) -> Study:
    """Return a study of the same benchmarks on the same images with permuted labels."""
    renamed = {name: str(Name.parse(name, {"shuffle_labels": 0})) for name in study.datasets}
    benchmarks = [
        replace(each, only=tuple(renamed[name] for name in each.only)) if each.only else each
        for each in study.protocols
    ]
    return replace(study, name=f"{study.name}-shuffled", datasets=tuple(renamed.values()), benchmarks=benchmarks)


_SHUFFLE = Option("--shuffle-labels", help="Permute all labels: a control that must find nothing significant.")
demo = with_parameters(
    [parameter("shuffle_labels", Annotated[bool, _SHUFFLE], False), *Running.parameters(), *EXTRACTION.parameters()],
    _run_demo,
)


def overruled(study: Study, given: dict[str, object]) -> Study:
    """Return the study with extraction settings from the command line."""
    if not given:
        return study
    made = make_options(type(study.extraction), given, source="unseen run", base=Path.cwd(), texts=True)
    chosen = {name: getattr(made, name) for name in given}
    if made.graphs is not None:
        chosen["graphs"] = Path.cwd() / made.graphs
    return replace(study, extraction=replace(study.extraction, **chosen))


def run_and_report(
    study: Study,
    how: Running,
    *,
    show: Callable[[Sequence[Result]], None] | None = None,
    answers: bool = False,
    controls: Callable[[Workbench, str, str], Iterable[Check]] | None = None,
) -> None:
    """Run a study with progress output, and print its tables or its JSON.

    Args:
        show: prints the results instead of the tables.
        answers: print one sentence per question instead of the tables.
        controls: returns checks with a known outcome, printed after the answers for the first dataset and model.

    Raises:
        CellsFailedError: some cells failed; the results of the others are stored, and the report is written.
    """
    home, screen = home_folder(how.home), console(error=True, quiet=how.quiet)
    ENGINES.get(how.engine)
    options = engine_options(how)
    if how.dry_run:
        show_plan(study, how)
        return
    reporter = ConsoleReporter(screen)
    bench = Workbench(home, how=study.extraction, progress=reporter)
    with make_engine(how.engine, **options) as engine, reporter.resumable(home):
        if link := getattr(engine, "dashboard", ""):
            screen.print(f"Dashboard: {link}", style="dim", soft_wrap=True)
        outcome = run_study(
            study,
            engine=engine,
            bench=bench,
            on_plan=reporter.plan,
            on_result=reporter.result,
            on_piece=reporter.piece,
            on_error="ignore",
            report=how.output or True,
        )
    if how.as_json:
        print_json(_outcome_json(outcome))
    else:
        if answers:
            for answer in outcome.answers:
                _print_answer(answer.question, answer.text)
            if controls is not None:
                checks = controls(bench, study.datasets[0], study.models[0])
                found = [f"{each.status}: {each.name} ({each.found})" for each in checks]
                _print_answer("Controls with a known outcome", "\n".join(found))
        elif show is not None and not how.all_metrics:
            show(outcome.results)
        else:
            show_results(outcome.results, all_metrics=how.all_metrics)
        say(f"Report: {outcome.page}")
    screen.print(f"{_counts(outcome)}.", style="dim")
    print_record_line(outcome.results, screen, how.home)
    if outcome.failed:
        first = outcome.failed[0]
        raise CellsFailedError(
            f"{len(outcome.failed)} of {count(len(outcome.results), 'cell')} failed. The first, {first.cell.benchmark} "
            f"of {first.cell.model} on {first.cell.dataset}: {first.error}"
        )


#: Characters of a line of an answer.
_ANSWER_WIDTH = 100


def _print_answer(question: str, text: str) -> None:
    say(f"\n{question}", "bold")
    width = min(console().width, _ANSWER_WIDTH)
    for line in text.splitlines():
        say(fill(line, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))


def print_record_line(results: Sequence[Result], screen: Console, home: Path | None = None) -> None:
    """Print the findings of the run records as one line, with the command that shows the full records.

    Print nothing if the evaluations used everything that they received.
    """
    notable = list(dict.fromkeys(result.cell.id for result in results if not result.record.clean))
    chosen = [identifier[:_SHORT_ID] for identifier in notable]
    if len(notable) > _FEW_IDS:
        shared = {name: {getattr(result.cell, name) for result in results} for name in ("benchmark", "dataset")}
        chosen = [f"--{name} {shlex.quote(values.pop())}" for name, values in shared.items() if len(values) == 1]
    print_findings(run_findings(results), chosen, screen, home)


def print_findings(found: Sequence[str], chosen: Sequence[str], screen: Console, home: Path | None) -> None:
    """Print findings as one line, with a command for the full records; nothing if there are none.

    Args:
        chosen: ids or options of `unseen results record` that select the results.
    """
    if found:
        place = [f"--home {shlex.quote(str(home))}"] if home is not None else []
        command = " ".join(["unseen results record", *chosen, *place])
        text = f"Note: {'; '.join(found)}. Full record: {command}"
        screen.print(text, style="yellow", soft_wrap=True)


#: Characters of a cell id in a printed command; `unseen results record` takes any unique beginning.
_SHORT_ID = 8
#: Ids that a printed command lists; more cells than that are selected by benchmark and dataset.
_FEW_IDS = 3


def _counts(outcome: Outcome) -> str:
    """Return how many cells were evaluated, failed, and had a result before."""
    failed = len(outcome.failed)
    stored = len(outcome.results) - outcome.evaluated - failed
    parts = [f"{count(outcome.evaluated, 'cell')} evaluated", f"{failed} failed" if failed else ""]
    parts += [f"{stored} cached" if stored else ""]
    return ", ".join(filter(None, parts))


def engine_options(how: Running) -> Values:
    """Return the options of the engine."""
    if how.scheduler is None:
        return {"workers": how.workers}
    if how.engine != "dask":
        raise UsageError("--scheduler needs --engine dask.")
    return {"workers": how.workers, "scheduler": scheduler_address(how.scheduler)}


def scheduler_address(text: str) -> str:
    """Return the address of a Dask scheduler: the text itself, or the address in a scheduler file."""
    path = Path(text).expanduser()
    if "://" in text or not (path.is_file() or path.suffix == ".json"):
        return text
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"--scheduler {text}: not a scheduler file with an address ({error!r}).") from None


def plan_json(plan: Plan) -> Values:
    """Return a plan as JSON values: every cell with its id, parameters, and whether it is done."""
    cells = [{"id": cell.id, **cell.to_dict(), "done": cell.id in plan.done} for cell in plan.cells]
    return {"study": plan.study.name, "cells": cells}


def _outcome_json(outcome: Outcome) -> Values:
    results = [
        {"id": r.cell.id, **r.cell.to_dict(), "metrics": r.metrics, "error": r.error, "seconds": r.seconds}
        | {"record": r.record.to_dict()}
        for r in outcome.results
    ]
    study, page = outcome.plan.study.name, str(outcome.page) if outcome.page else None
    return {
        "study": study,
        "evaluated": outcome.evaluated,
        "failed": len(outcome.failed),
        "report": page,
        "results": results,
    }


def show_plan(study: Study, how: Running) -> None:
    """Print the plan: the cells of each model on each dataset and the counts of the whole, or every cell as JSON."""
    bench = Workbench(home_folder(how.home), how=study.extraction)
    plan = plan_study(study, bench=bench)
    images, cached = count_images(plan, bench)
    if how.as_json:
        counts = {"models": len(plan.study.models), "datasets": len(plan.study.datasets)}
        counts |= {"cells": len(plan.remaining), "cached_cells": len(plan.done)}
        print_json({**plan_json(plan), "counts": {**counts, "images": images, "cached_images": cached}})
        return
    rows = []
    for group in group_cells(plan.cells):
        done = sum(cell.id in plan.done for cell in group)
        cells = [group[0].benchmark, group[0].model, group[0].dataset, str(len(group) - done)]
        rows.append([*cells, str(done)] if plan.done else cells)
    print_table(
        ["benchmark", "model", "dataset", "to do", *(["done"] if plan.done else [])],
        rows,
        title=f"{plan.study.name}: {count(len(plan.remaining), 'cell')} to do, {len(plan.done)} done",
        numeric=("to do", "done"),
        keep=("model", "dataset", "to do", "done"),
    )
    sizes = f"{count(len(plan.study.models), 'model')} on {count(len(plan.study.datasets), 'dataset')}"
    todo = f"{count(len(plan.remaining), 'cell')} to evaluate, {len(plan.done)} cached"
    text = f"{sizes}: {todo}; {count(images, 'image')} to extract, {cached:,} cached"
    say(text)
