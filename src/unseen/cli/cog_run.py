"""`unseen cog run` and `unseen cog chart`: the benchmark on any dataset whose classes are concepts, and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unseen.cli.run import DryRunOption, EngineOption, HomeOption, ReportOption, SchedulerOption, WorkersOption

if TYPE_CHECKING:
    from unseen.core.records import Result

STUDY = "cog"
DEFAULT_MODELS = (
    "packaged:efficientnet-lite0",
    "packaged:efficientnet-lite1",
    "packaged:efficientnet-lite2",
    "random:tf_efficientnet_lite0",
)

DataOption = Annotated[
    str,
    typer.Option("--data", help="A dataset with WordNet ids (packaged:emoji, folder:PATH?wnids=FILE), or imagenet."),
]


def run(
    data: DataOption = "packaged:emoji",
    models: Annotated[
        list[str] | None, typer.Option("--models", help="Models; repeat the option or separate by commas.")
    ] = None,
    shots: Annotated[str, typer.Option(help="Training images per concept.")] = "1,2,4,8,16,32,64,128,all",
    seeds: Annotated[
        int, typer.Option(min=1, help="How many of the paper's seeds 22, 37, 45, 77, 93 (then others).")
    ] = 5,
    solver: Annotated[str, typer.Option(help="fast, or paper for the published search to the letter.")] = "fast",
    levels: Annotated[int, typer.Option(min=1, help="Levels of unseen concepts.")] = 5,
    size: Annotated[int, typer.Option(help="Classes per level; 0 for as many as there can be.")] = 0,
    measure: Annotated[str, typer.Option(help="What ranks unseen concepts: lin, wu-palmer, text ...")] = "lin",
    rerank: Annotated[str, typer.Option(help="Rank the chosen concepts anew by this measure (supplement D).")] = "",
    controls: Annotated[int, typer.Option(help="Random control levels beside (15 in supplement D).")] = 0,
    balanced: Annotated[int, typer.Option(help="Training images per class, equal for all (732 in A.4).")] = 0,
    seen: Annotated[str, typer.Option(help="imagenet-1k, or a file of the concepts trained on.")] = "imagenet-1k",
    ontology: Annotated[str, typer.Option(help="Your own is-a edges (.csv, .tsv, .json), not WordNet.")] = "",
    name: Annotated[str, typer.Option("--study", help="File the results under this name.")] = STUDY,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
    engine: EngineOption = "local",
    workers: WorkersOption = 1,
    scheduler: SchedulerOption = None,
    report: ReportOption = None,
) -> None:
    """Learn classifiers on the seen concepts and on each level, for every model; write the page. Resumable."""
    from unseen.cli.run import make_engine_options, run_and_report
    from unseen.study import Study

    options = {
        "shots": list(parse_shots(shots)),
        "seeds": list(paper_seeds(seeds)),
        "solver": solver,
        "levels": levels,
        "size": size,
        "measure": measure,
        "rerank": rerank,
        "controls": controls,
        "balanced": balanced,
        "seen": seen,
        "ontology": ontology,
    }
    study = Study.parse(
        {
            "name": name,
            "title": "Concept generalization",
            "models": split_names(models) or list(DEFAULT_MODELS),
            "datasets": datasets_of(data, levels),
            "benchmarks": {"cog": options},
            "extraction": {"truncated": "accept"} if data.startswith("imagenet") else {},
        },
        source="unseen cog run",
        base=Path.cwd(),
    )
    made = make_engine_options(engine, workers, scheduler)
    run_and_report(study, dry_run=dry_run, home=home, engine=made, report=report, show=show_levels)


def show_levels(results: Sequence[Result]) -> None:
    """Levels with the most images as a table, the trend and the slope in words, then what failed."""
    from rich.text import Text

    from unseen.benchmarks.cog import analysis
    from unseen.benchmarks.cog.domains import CONTROL
    from unseen.benchmarks.cog.section import trend_sentences
    from unseen.cli.results import show_results
    from unseen.cli.tables import console, print_table
    from unseen.reports.wording import short_names

    scores = analysis.level_scores(results)
    shown = [s for s in scores if s.shots == analysis.ALL and not s.level.startswith(CONTROL)]
    if shown:
        levels = analysis.order_levels(s.level for s in shown)
        models = list(dict.fromkeys(s.model for s in shown))
        best = {level: max(s.mean for s in shown if s.level == level) for level in levels}
        cells = {(s.model, s.level): s for s in shown}
        rows: list[list[str | Text]] = []
        for model in models:
            row = [cells.get((model, level)) for level in levels]
            texts = [
                Text(f"{100 * s.mean:.1f} ± {100 * s.std:.1f}", style="bold" if s.mean == best[s.level] else "")
                if s
                else Text("")
                for s in row
            ]
            rows.append([model, *texts])
        print_table(["model", *levels], rows, title="top-1 (%) with all images, by level", numeric=levels)
        names = short_names(models, {})
        lines = analysis.slopes(analysis.concept_scores(results))
        said = trend_sentences(scores, names) + [
            f"{analysis.slope_sentence(names[m], line)}." for m, line in lines.items()
        ]
        for sentence in said:
            console().print(sentence, soft_wrap=True, markup=False)
    if failed := [result for result in results if not result.ok]:
        show_results(failed)


CHARTS = ("levels", "relative", "few-shot", "few-shot-relative", "distance", "images", "controls")


def chart(
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(CHARTS)}.")],
    out: Annotated[Path, typer.Option("--out", help="Where to: .html, .svg, .png or .pdf.")],
    study: Annotated[str, typer.Option("--study", help="Whose results.")] = STUDY,
    baseline: Annotated[str | None, typer.Option(help="The model that others are compared with.")] = None,
    level: Annotated[str, typer.Option(help="Of few-shot charts.")] = "L5",
    home: HomeOption = None,
) -> None:
    """Draw one figure of the paper from stored results, for a page or a paper, and say what it shows."""
    from unseen.cli.tables import console
    from unseen.core.files import home as home_folder
    from unseen.reports import save_chart
    from unseen.results import FILE_NAME, ResultsDatabase

    with ResultsDatabase(home_folder(home) / FILE_NAME, read_only=True) as database:
        results = database.latest(study=study, benchmark="cog", include_failed=False)
    drawn, words = _draw(kind, results, baseline, level)
    save_chart(drawn, out)
    for line in words:
        console().print(line, soft_wrap=True)
    console().print(f"Chart: {out}", soft_wrap=True)


def _draw(kind: str, results: Sequence[Result], baseline: str | None, level: str) -> tuple[Any, list[str]]:
    """The chart, and what it shows in words."""
    from unseen.benchmarks.cog import analysis, charts
    from unseen.benchmarks.cog.section import trend_sentences
    from unseen.core.errors import DataError, UnknownNameError
    from unseen.reports.wording import short_names

    if kind not in CHARTS:
        raise UnknownNameError("chart", kind, CHARTS)
    if not results:
        raise DataError("there are no CoG results of that study yet. Make some with: unseen cog run")
    scores = analysis.level_scores(results)
    models = list(dict.fromkeys(score.model for score in scores))
    names = short_names(models, {})
    base = baseline or models[0]
    if kind == "levels":
        return charts.levels_chart(scores, names), trend_sentences(scores, names)
    if kind == "relative":
        pairs = [(base, model) for model in models if model != base]
        said = analysis.statements(analysis.duels(results, pairs), names)
        return charts.relative_chart(scores, names, base), said
    if kind in ("few-shot", "few-shot-relative"):
        relative = base if kind.endswith("relative") else None
        return charts.few_shot_chart(scores, names, level, relative), []
    if kind == "controls":
        return charts.control_chart(scores, names, base), []
    concepts = analysis.concept_scores(results)
    if kind == "images":
        return charts.images_chart(concepts), []
    lines = analysis.slopes(concepts)
    said = [analysis.slope_sentence(names[model], line) for model, line in lines.items()]
    return charts.distance_chart(concepts, lines, names), said


def datasets_of(data: str, levels: int) -> list[str]:
    """The datasets behind --data: `imagenet?train=8` is ImageNet-1K and every level, with options for the levels."""
    base, mark, query = data.partition("?")
    if base != "imagenet":
        return [data]
    return ["imagenet:in1k", *(f"imagenet:cog-l{level}{mark}{query}" for level in range(1, levels + 1))]


def split_names(names: Sequence[str] | None) -> list[str]:
    """Names given by several options, by commas, or both."""
    return [part.strip() for name in names or () for part in name.split(",") if part.strip()]


def parse_shots(text: str) -> tuple[int | str, ...]:
    """ "1,2,all" as numbers and "all"."""
    from unseen.core.errors import UsageError

    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if part != "all" and not part.isdigit():
            raise UsageError(f"--shots {text!r}: {part!r} is neither a number of images nor 'all'.")
    return tuple(part if part == "all" else int(part) for part in parts)


def paper_seeds(count: int) -> tuple[int, ...]:
    """The first seeds of the paper; beyond its five, numbers that count on."""
    from unseen.probes.protocol import SEEDS

    return SEEDS[:count] + tuple(range(100, 100 + count - len(SEEDS)))
