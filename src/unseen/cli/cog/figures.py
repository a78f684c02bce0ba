"""`unseen cog chart` and `unseen cog noise`: figures from stored results, and images that are labelled wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unseen.cli.cog.run import DEFAULT_MODELS
from unseen.cli.options import HomeOption, JsonOption, ModelsOption, split_names

if TYPE_CHECKING:
    from unseen.core.records import Result

CHARTS = ("levels", "relative", "few-shot", "few-shot-relative", "distance", "images", "controls")


def chart(
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(CHARTS)}.")],
    out: Annotated[Path, typer.Option("--out", help="Where to: .html, .svg, .png or .pdf.")],
    study: Annotated[str, typer.Option("--study", help="Whose results.")] = "cog",
    baseline: Annotated[str | None, typer.Option(help="The model that others are compared with.")] = None,
    level: Annotated[str, typer.Option(help="Of few-shot charts.")] = "L5",
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", metavar="NAME=VALUE", help="Which results, where a study holds several settings."),
    ] = None,
    home: HomeOption = None,
) -> None:
    """Draw one figure of the paper from stored results, for a page or a paper, and say what it shows."""
    from unseen.benchmarks.cog.analysis import settings
    from unseen.cli.tables import console
    from unseen.core.files import home as home_folder
    from unseen.reports import save_chart
    from unseen.results import FILE_NAME, ResultsDatabase, only
    from unseen.results.comparability import older_said

    with ResultsDatabase(home_folder(home) / FILE_NAME, read_only=True) as database:
        groups = settings(database.latest(study=study, benchmark="cog", include_failed=False))
    chosen = only(groups, setting or ()) if groups else None
    drawn, words = _draw(kind, chosen.results if chosen else (), baseline, level)
    save_chart(drawn, out)
    if chosen and chosen.older:
        words.append(f"{older_said(chosen.older)}.")
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


def noise(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A dataset whose classes have ids.")] = "packaged:emoji",
    data_option: Annotated[str | None, typer.Option("--data", metavar="DATA", help="The same, as an option.")] = None,
    models: ModelsOption = None,
    threshold: Annotated[float, typer.Option(min=0.0, max=1.0, help="Confidence above which to list an image.")] = 0.99,
    levels: Annotated[int, typer.Option(min=1, help="Levels of unseen concepts.")] = 5,
    most: Annotated[int, typer.Option(min=0, help="Show at most so many images per pair.")] = 5,
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """List images that a classifier of other concepts is sure of: missing labels, most of the time (supplement A.3)."""
    from dataclasses import asdict

    from unseen.backbones.load import resolve_model
    from unseen.benchmarks import Workbench
    from unseen.benchmarks.cog.domains import DomainRecipe
    from unseen.benchmarks.cog.noise import label_noise
    from unseen.cli.progress import RichProgress
    from unseen.cli.tables import console, print_json, print_table
    from unseen.core.files import home as home_folder
    from unseen.data.load import resolve_dataset

    bench = Workbench(home_folder(home), progress=RichProgress(console(error=True)))
    name = resolve_dataset(data_option or data, Path.cwd())
    reports = {
        model: label_noise(bench, model, name, recipe=DomainRecipe(levels=levels), threshold=threshold)
        for model in [resolve_model(each, Path.cwd()) for each in split_names(models) or DEFAULT_MODELS[:1]]
    }
    if as_json:
        print_json([{"model": model, **asdict(one)} for model, found in reports.items() for one in found])
        return
    for model, found in reports.items():
        rows = [[r.classifier, r.domain, f"{r.images:,}", f"{r.share:.1%}"] for r in found]
        print_table(
            ["classifier of", "images of", "images", "surer than asked"],
            rows,
            title=f"{model}: predictions above {threshold:g} for concepts that the classifier does not know",
            numeric=("images", "surer than asked"),
        )
        seen = [
            [r.classifier, s.image, s.true, s.predicted, f"{s.confidence:.4f}"]
            for r in found
            for s in r.suspects[:most]
        ]
        if seen:
            columns = ["classifier of", "image", "labelled", "predicted", "confidence"]
            print_table(columns, seen, numeric=("confidence",), prose=("labelled", "predicted"))
