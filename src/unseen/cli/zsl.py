"""`unseen zsl`: zero-shot learning, run and compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from unseen.cli.run import DryRunOption, EngineOption, HomeOption, ReportOption, SchedulerOption, WorkersOption
from unseen.cli.zsl_compare import compare

if TYPE_CHECKING:
    from rich.text import Text

    from unseen.core.records import Result

zsl_commands = typer.Typer(
    name="zsl", help="Zero-shot learning: unseen classes, known only by a description.", no_args_is_help=True
)

_DEFAULT_DATA = "packaged:emoji"
_DEFAULT_MODEL = "packaged:efficientnet-lite0"
_PUBLISHED_MODEL = "xlsa17:res101"
_PUBLISHED_SCHEME = "xlsa17:"
_SHOWN = ("zsl", "ts", "tr", "H", "zsl_per_image")


@zsl_commands.command("run")
def run_zsl(
    data: Annotated[
        list[str] | None, typer.Option(help=f"A dataset; several times. [default: {_DEFAULT_DATA}]")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help=f"Whose features. [default: {_PUBLISHED_MODEL} with xlsa17 data, else {_DEFAULT_MODEL}]"),
    ] = None,
    methods: Annotated[str, typer.Option(help="all, inductive, transductive, or names with commas.")] = "all",
    split: Annotated[str, typer.Option(help="PS, SS, an ImageNet split such as 2-hops, or file:PATH.")] = "PS",
    embedding: Annotated[
        str, typer.Option(help="attributes, glove, text, wordnet, or a .npy, .csv or .tsv file.")
    ] = "auto",
    grid: Annotated[str, typer.Option(help="What is tried: full, or quick.")] = "full",
    robustness: Annotated[
        bool, typer.Option("--robustness", help="Also choose parameters on each validation fold alone.")
    ] = False,
    calibration: Annotated[str, typer.Option(help="Subtracted from scores of seen classes: a number, or auto.")] = "0",
    normalise: Annotated[str, typer.Option(help="Scale features: l2, standard or none.")] = "l2",
    share: Annotated[float, typer.Option(help="Of classes that are unseen, where the split is drawn.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
    test_on: Annotated[str, typer.Option(help="Test on another dataset with the same classes.")] = "",
    dry_run: DryRunOption = False,
    home: HomeOption = None,
    engine: EngineOption = "local",
    workers: WorkersOption = 1,
    scheduler: SchedulerOption = None,
    report: ReportOption = None,
) -> None:
    """Tune on validation classes, refit on all seen classes, test: accuracy on unseen classes, ts, tr and H."""
    from unseen.cli.run import make_engine_options, run_and_report
    from unseen.study import Study

    options = {
        "methods": _methods(methods),
        "split": split,
        "embedding": embedding,
        "grid": grid,
        "robustness": robustness,
        "calibration": _calibration(calibration),
        "normalise": normalise,
        "share": share,
        "seed": seed,
        "test_on": _with_split(test_on, split) if test_on else "",
    }
    names = [_with_split(name, split) for name in data or [_DEFAULT_DATA]]
    study = Study.parse(
        {
            "name": "zsl",
            "title": "Zero-shot learning",
            "models": model or [_default_model(names)],
            "datasets": names,
            "benchmarks": {"zsl": options},
        },
        source="unseen zsl run",
    )
    chosen = make_engine_options(engine, workers, scheduler)
    run_and_report(study, dry_run=dry_run, home=home, engine=chosen, report=report, show=show_zsl)


def _methods(text: str) -> list[str]:
    from unseen.zeroshot.catalogue import builtin_methods, transductive_methods

    if text == "transductive":
        return list(transductive_methods())
    if text == "inductive":
        return [name for name in builtin_methods() if name not in transductive_methods()]
    return [name.strip() for name in text.split(",") if name.strip()]


def _calibration(text: str) -> float | str:
    from unseen.core.errors import UsageError

    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--calibration {text!r} is neither a number nor auto.") from None


def _with_split(name: str, split: str) -> str:
    """A dataset of the paper carries its split in its id; others are divided by the benchmark."""
    if name.startswith(_PUBLISHED_SCHEME) and split == "SS" and "split=" not in name:
        return f"{name}{'&' if '?' in name else '?'}split=SS"
    return name


def _default_model(names: Sequence[str]) -> str:
    from unseen.core.errors import UsageError

    published = [name.startswith(_PUBLISHED_SCHEME) and "images=" not in name for name in names]
    if all(published):
        return _PUBLISHED_MODEL
    if any(published):
        raise UsageError("xlsa17 data have features of their own and the others need a model: run them one by one.")
    return _DEFAULT_MODEL


def show_zsl(results: Sequence[Result]) -> None:
    """Print a table of methods per model and dataset, the leak audit with each, then what failed."""
    from unseen.cli.results import show_results
    from unseen.cli.tables import console

    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.ok and result.cell.parameters["fold"] == "all":
            setting = {k: v for k, v in result.cell.parameters.items() if k != "method"}
            groups.setdefault(str((result.cell.dataset, result.cell.model, setting)), []).append(result)
    for group in groups.values():
        _print_group(group, results)
        console().print(f"Leak audit: {group[0].details['audit']}", soft_wrap=True)
    broken = [result for result in results if not result.ok]
    if broken or not results:
        show_results(broken, only_failed=bool(broken))


def _print_group(group: Sequence[Result], everything: Sequence[Result]) -> None:
    from rich.text import Text

    from unseen.benchmarks.zsl.compare import robustness
    from unseen.benchmarks.zsl.published import published_value
    from unseen.cli.tables import print_table
    from unseen.results import metric_style

    first = group[0].cell
    metrics = [m for m in _SHOWN if any(m in r.metrics for r in group)]
    paper = (
        first.model == _PUBLISHED_MODEL and not first.parameters["calibration"] and "test_on" not in first.parameters
    )
    folds = robustness(everything)
    best = {m: max(r.metrics.get(m, 0.0) for r in group) for m in metrics}
    rows: list[list[str | Text]] = []
    for result in group:
        method, split = result.cell.parameters["method"], result.cell.parameters["split"]
        row: list[str | Text] = [method + (" (transductive)" if result.details.get("transductive") else "")]
        for metric in metrics:
            value = result.metrics.get(metric)
            style = "bold" if value is not None and value == best[metric] else ""
            row.append(Text("" if value is None else metric_style(metric, "zsl").text(value), style=style))
        if folds:
            alone = folds.get((first.dataset, first.model, split, method), ())
            row.append(" ".join(metric_style("zsl", "zsl").text(value) for value in alone))
        if paper:
            printed = (published_value(first.dataset, method, m, split) for m in ("zsl", "ts", "tr", "H"))
            row.append(" / ".join("–" if v is None else f"{100 * v:.1f}" for v in printed))
        rows.append(row)
    columns = ["method", *(metric_style(m, "zsl").heading for m in metrics)]
    columns += ["ZSL by fold"] * bool(folds) + ["paper: ZSL / ts / tr / H"] * paper
    print_table(columns, rows, title=_title(group[0]), caption=_caption(group[0]), numeric=columns[1:])


def _title(result: Result) -> str:
    cell = result.cell
    tested = f", tested on {cell.parameters['test_on']}" if cell.parameters.get("test_on") else ""
    return f"{cell.dataset}{tested} · {cell.parameters['split']} · {cell.model}"


def _caption(result: Result) -> str:
    details, options = result.details, result.cell.parameters
    text = (
        f"{details['seen_classes']} seen, {details['unseen_classes']} unseen classes; {details['train_images']:,} "
        f"training, {details['test_images']:,} unseen and {details['seen_test_images']:,} seen test images; embedding "
        f"{details['embedding']} ({details['embedding_dimensions']}); chance {100 * details['chance']:.1f} %"
    )
    text += f"; calibrated stacking {options['calibration']}" if options["calibration"] else ""
    return text + "; per class unless said"


zsl_commands.command("compare")(compare)
