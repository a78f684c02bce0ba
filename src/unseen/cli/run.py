"""`unseen run` and `unseen probe`, and what every command that runs a study shares: plan, run, print, report."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from inspect import Parameter
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from unseen.backbones.load import BACKBONES, check_backbone, expand_models, resolve_model
from unseen.benchmarks import group_cells
from unseen.benchmarks.benchmark import make_benchmark
from unseen.benchmarks.workbench import Workbench, given_models
from unseen.cli.application import (
    COMMON_EXTRACTION,
    DATA_PANEL,
    MODELS_HELP,
    TAKEN,
    Fields,
    Running,
    made_late,
    parameter,
    split_names,
    with_parameters,
)
from unseen.cli.tables import ConsoleReporter, console, count, print_json, print_model, print_table, say
from unseen.core.errors import CellsFailedError, UsageError
from unseen.core.files import home as home_folder
from unseen.core.identity import Values, make_options
from unseen.core.names import Name
from unseen.core.records import DatasetCard, ModelCard, Result
from unseen.core.registry import C, Catalogue, S
from unseen.data.load import SOURCES
from unseen.features import Extraction
from unseen.reports.wording import setting_text, short_names
from unseen.results.comparability import current
from unseen.results.database import FILE_NAME, ResultsDatabase
from unseen.results.info import BENCHMARKS, headline_first, info_of
from unseen.results.table import result_tables, run_findings
from unseen.run.execute import Outcome, failure_text, run_study
from unseen.run.executor import Engine, make_engine
from unseen.run.study import Study, count_images, plan_study

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
    defaults: Mapping[str, Any] | None = None,
    more: Sequence[Parameter] = (),
    prepare: Callable[[Draft], None] | None = None,
    run: Callable[[Draft, Running], None] | None = None,
) -> Callable[[], None]:
    """Return the function of a command that runs one benchmark on DATA; register it with `cls=Command`.

    The benchmark is imported when the command runs.

    Args:
        benchmark: its registry name.
        data, models: the default datasets and models.
        defaults: texts by field that replace the defaults of the dataclass.
        more: options of this command only.
        prepare: changes the draft, for example replaces the name of a suite by its datasets.
        run: runs the draft; `run_draft` by default.
    """

    def make() -> Callable[..., None]:
        kind, info = BENCHMARKS.get(benchmark), info_of(benchmark)
        names = {each.name for each in more}
        own = Fields(kind, benchmark, "Protocol", TAKEN | names, defaults or {})
        taken = TAKEN | names | {each.name for each in own.fields()}
        how = Fields(Extraction, "extraction", "Feature extraction", taken, common=COMMON_EXTRACTION)

        def body(**values: Any) -> None:
            draft = Draft(
                command=f"unseen {info.command}",
                name=values["study"],
                title=info.question,
                data=split_names([*(values["data"] or ()), *(values["data_option"] or ())]) or list(data),
                models=split_names(values["models"]) or list(models),
                benchmarks={benchmark: own.given(values)},
                extraction=how.given(values),
                more={name: values[name] for name in names},
                home=values["home"],
            )
            if prepare is not None:
                for name in draft.models:  # before the command reads data or writes a file
                    for model in expand_models(name):
                        check_backbone(resolve_model(model, Path.cwd()))
                prepare(draft)
            draft.models = draft.models or list(dict.fromkeys(m for name in draft.data for m in given_models(name)))
            (run or run_draft)(draft, Running.among(values))

        own_parameters = [*_study_parameters(benchmark, data, models), *more, *own.parameters()]
        return with_parameters([*own_parameters, *how.parameters(), *Running.parameters()], body)

    return made_late(make)


def _study_parameters(benchmark: str, data: Sequence[str], models: Sequence[str]) -> list[Parameter]:
    """Return the parameters DATA, --data, --models and --study."""

    def option(name: str, metavar: str, text: str, names: Sequence[str] = ()) -> Any:
        return Option(f"--{name}", metavar=metavar, help=otherwise(text, names), rich_help_panel=DATA_PANEL)

    def otherwise(text: str, names: Sequence[str]) -> str:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"{text}; {names[0]}{more} by default." if names else f"{text}."

    about, several = otherwise("Datasets, or folders of labelled images", data), list[str] | None
    return [
        parameter("data", Annotated[several, Argument(metavar="DATA", help=about, show_default=False)]),
        parameter("data_option", Annotated[several, option("data", "DATA ...", "Datasets, like the argument DATA")]),
        parameter("models", Annotated[several, option("models", "NAME ...", MODELS_HELP, models)]),
        parameter("study", Annotated[str, option("study", "NAME", "Study that results are stored under")], benchmark),
    ]


def run_draft(draft: Draft, how: Running, show: Callable[[Sequence[Result]], None] | None = None) -> None:
    """Check a draft, and run it; `show` prints the results instead of the tables of the benchmark."""
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
_REPLACED = "Feature extraction (replaces settings of the study)"
EXTRACTION = Fields(Extraction, "extraction", _REPLACED, defaults=None, common=COMMON_EXTRACTION)


def _file_command(first: Parameter, body: Callable[..., None]) -> Callable[..., None]:
    return with_parameters([first, *Running.parameters(), *EXTRACTION.parameters()], body)


def _run_file(**values: Any) -> None:
    run_and_report(_read(values["study"], values), Running.among(values))


def _run_demo(**values: Any) -> None:
    from unseen.benchmarks.audit import run_controls  # imports the search for copies and the leak audit

    study, shuffled = _read("demo", values), values["shuffle_labels"]
    study = _with_shuffled_labels(study) if shuffled else study
    run_and_report(study, Running.among(values), answers=True, controls=None if shuffled else run_controls)


def _with_shuffled_labels(study: Study) -> Study:
    """Return a study of the same benchmarks on the same images with permuted labels."""
    renamed = {name: str(Name.parse(name, {"shuffle_labels": 0})) for name in study.datasets}
    benchmarks = [
        replace(each, only=tuple(renamed[name] for name in each.only)) if each.only else each
        for each in study.protocols
    ]
    return replace(study, name=f"{study.name}-shuffled", datasets=tuple(renamed.values()), benchmarks=benchmarks)


_SHUFFLE = Option("--shuffle-labels", help="Permute all labels: a control that must find nothing significant.")
probe = study_command("probe")
run = _file_command(parameter("study", Annotated[str, _STUDY], ...), _run_file)
demo = _file_command(parameter("shuffle_labels", Annotated[bool, _SHUFFLE], False), _run_demo)


def _read(name: str, values: Values) -> Study:
    """Return a study with the extraction settings of the command line."""
    study, given = Study.read(name), EXTRACTION.given(values)
    made = make_options(Extraction, given, source="unseen run", base=Path.cwd(), texts=True)
    chosen = {each: getattr(made, each) for each in given}
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
    engine_context = engine_of(how)
    if how.dry_run:
        show_plan(study, how)
        return
    reporter = ConsoleReporter(screen)
    bench = Workbench(home, how=study.extraction, progress=reporter)
    with engine_context as engine, reporter.resumable(home):
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
            found = [(answer.question, answer.text) for answer in outcome.answers]
            if controls is not None:
                checks = controls(bench, study.datasets[0], study.models[0])
                lines = [f"{each.status}: {each.name} ({each.found})" for each in checks]
                found.append(("Controls with a known outcome", "\n".join(lines)))
            _print_answers(found)
        elif show is not None and not how.all_metrics:
            show(outcome.results)
        else:
            show_results(outcome.results, all_metrics=how.all_metrics)
        say(f"Report: {outcome.page}")
    failed, total = outcome.failed, len(outcome.results)
    cached = total - outcome.evaluated - len(failed)
    parts = [f"{count(outcome.evaluated, 'cell')} evaluated", f"{len(failed)} failed" if failed else ""]
    screen.print(f"{', '.join(filter(None, [*parts, f'{cached} cached' if cached else '']))}.", style="dim")
    print_findings(run_findings(outcome.results), [f"--study {shlex.quote(study.name)}"], screen, how.home)
    if failed:
        raise CellsFailedError(f"{len(failed)} of {count(total, 'cell')} failed. The first: {failure_text(failed[0])}")


def _print_answers(answers: Iterable[tuple[str, str]]) -> None:
    width = min(console().width, 100)
    for question, text in answers:
        say(f"\n{question}", "bold")
        for line in text.splitlines():
            say(fill(line, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))


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


def engine_of(how: Running) -> AbstractContextManager[Engine | None]:
    """Return the engine for a `with` block; None if this process does the work."""
    if how.scheduler is not None and how.engine != "dask":
        raise UsageError("--scheduler needs --engine dask.")
    if how.engine == "local" and how.workers <= 1:
        return nullcontext()
    more = {} if how.scheduler is None else {"scheduler": scheduler_address(how.scheduler)}
    return make_engine(how.engine, workers=how.workers, **more)


def scheduler_address(text: str) -> str:
    """Return the address of a Dask scheduler: the text itself, or the address in a scheduler file."""
    path = Path(text).expanduser()
    if "://" in text or not (path.is_file() or path.suffix == ".json"):
        return text
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"--scheduler {text}: not a scheduler file with an address ({error!r}).") from None


def _outcome_json(outcome: Outcome) -> Values:
    results = [
        {"id": r.cell.id, **r.cell.to_dict(), "metrics": r.metrics, "error": r.error, "seconds": r.seconds}
        | {"record": r.record.to_dict()}
        for r in outcome.results
    ]
    counts = {"study": outcome.plan.study.name, "evaluated": outcome.evaluated, "failed": len(outcome.failed)}
    return {**counts, "report": str(outcome.page) if outcome.page else None, "results": results}


def show_plan(study: Study, how: Running) -> None:
    """Print the plan: the cells of each model on each dataset and the counts of the whole, or every cell as JSON."""
    bench = Workbench(home_folder(how.home), how=study.extraction)
    plan = plan_study(study, bench=bench)
    images, cached = count_images(plan, bench)
    if how.as_json:
        counts = {"models": len(study.models), "datasets": len(study.datasets)}
        counts |= {"cells": len(plan.remaining), "cached_cells": len(plan.done)}
        listed = [{"id": cell.id, **cell.to_dict(), "done": cell.id in plan.done} for cell in plan.cells]
        counts |= {"images": images, "cached_images": cached}
        print_json({"study": study.name, "cells": listed, "counts": counts})
        return
    rows = []
    for group in group_cells(plan.cells):
        done = sum(cell.id in plan.done for cell in group)
        rows.append([group[0].benchmark, group[0].model, group[0].dataset, str(len(group) - done), str(done)])
    columns = ["benchmark", "model", "dataset", "to do", "done"]
    title = f"{study.name}: {count(len(plan.remaining), 'cell')} to do"
    print_table(columns, rows, title=title, numeric=columns[3:], keep=columns[1:])
    say(
        f"{count(len(study.models), 'model')} on {count(len(study.datasets), 'dataset')}: "
        f"{count(len(plan.remaining), 'cell')} to evaluate, {len(plan.done)} cached; "
        f"{count(images, 'image')} to extract, {cached:,} cached"
    )


def show_results(
    found: Sequence[Result],
    metrics: Sequence[str] = (),
    *,
    only_failed: bool = False,
    all_metrics: bool = False,
) -> None:
    """Print a table per benchmark, then the cells that failed with their reasons.

    Args:
        metrics: the metrics to show; by default those that each benchmark declares.
        all_metrics: show every metric.
    """

    if all_metrics:
        metrics = list(dict.fromkeys(n for r in found for n in headline_first(r.metrics, r.cell.benchmark)))
    good = [] if only_failed else [result for result in found if result.ok]
    shown = result_tables(good, display_names(good), metrics)
    for table in shown:
        print_model(table)
    failed = [result for result in current(found) if not result.ok]
    print_failures(failed)
    if only_failed and not failed:
        say("No cell has failed.")
    elif not failed and not shown:
        say(f"No result has {' or '.join(metrics)}." if found else "There are no results yet.")


def print_failures(failed: Sequence[Result]) -> None:
    """Print the cells that failed, those of one model, dataset and reason together."""
    alike: dict[str, list[Result]] = {}
    for result in failed:
        cell, reason = result.cell, " ".join(result.error.split())
        alike.setdefault(f"  {cell.benchmark} · {cell.model} · {cell.dataset}\n    {reason}", []).append(result)
    if failed:
        say(f"{count(len(failed), 'cell')} failed", "bold")
    for text, cells in alike.items():
        more = f", and {len(cells) - 1:,} more" if len(cells) > 1 else ""
        say(text, "red")
        say(f"    {setting_text(cells[0].cell.parameters)}{more}", "dim")


def display_names(found: Sequence[Result]) -> dict[str, str]:
    """Return the names to show of benchmarks, models and datasets, by id."""
    benchmarks = {name: info_of(name).title for name in {result.cell.benchmark for result in found}}
    models = dict.fromkeys(result.cell.model for result in found)
    data = short_names({result.cell.dataset for result in found}, dataset_cards_of(found))
    return {**benchmarks, **short_names(models, model_cards_of(found)), **data}


def model_cards_of(found: Collection[Result]) -> dict[str, ModelCard]:
    """Return the cards of the models of some results that their sources list, without loading a model."""
    return _listed_cards(BACKBONES, {result.cell.model for result in found})


def _listed_cards(catalogue: Catalogue[S, C], names: Collection[str]) -> dict[str, C]:
    """Return the listed cards with these ids; other sources are not imported."""
    schemes = {name.partition("?")[0].partition(":")[0] for name in names}
    sources = [catalogue.get(scheme) for scheme in sorted(schemes) if scheme in catalogue]
    return {card.id: card for source in sources if source.listed for card in source.cards() if card.id in names}


def dataset_cards_of(found: Collection[Result]) -> dict[str, DatasetCard]:
    """Return the cards of datasets that are listed by name, with their options, such as `?labels=coarse`, in the name.

    The folder of the data (`root`) is no part of a name.
    """
    datasets = {result.cell.dataset for result in found}
    listed, cards = _listed_cards(SOURCES, {name.partition("?")[0] for name in datasets}), {}
    for dataset in datasets:
        if card := listed.get(dataset.partition("?")[0]):
            own = Name.parse(dataset).options.items()
            options = [f"{key} {value}" for key, value in own if key not in ("root", "shuffle_labels")]
            cards[dataset] = replace(card, id=dataset, name=", ".join([card.name or card.id, *options]))
    return cards


def open_results(home: Path | None) -> ResultsDatabase:
    """Open the results of a home for reading."""
    return ResultsDatabase(home_folder(home) / FILE_NAME, read_only=True)
