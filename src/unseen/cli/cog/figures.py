"""`unseen cog chart` and `unseen cog noise`: figures from stored results, and images that are labelled wrong."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unseen.cli.cog.run import DEFAULT_MODELS
from unseen.cli.options import HomeOption, JsonOption, ModelsOption, split_names

if TYPE_CHECKING:
    from unseen.benchmarks.cog.noise import NoiseReport
    from unseen.core.records import ModelCard, Result

CHARTS = (
    "kin",
    "ranking",
    "levels",
    "relative",
    "few-shot",
    "few-shot-relative",
    "distance",
    "controls",
    "rankings",
    "images",
    "finetune",
)


def chart(
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(CHARTS)}.")],
    out: Annotated[Path, typer.Option("--out", help="Where to: .html, .svg, .png or .pdf.")],
    study: Annotated[str, typer.Option("--study", help="Whose results.")] = "cog",
    models: Annotated[
        list[str] | None, typer.Option("--models", metavar="NAME ...", help="Which models: ids, names or patterns.")
    ] = None,
    category: Annotated[str | None, typer.Option(help="Of models, such as self-supervision.")] = None,
    baseline: Annotated[str | None, typer.Option(help="The model that others are compared with.")] = None,
    level: Annotated[
        list[str] | None,
        typer.Option("--level", metavar="LEVEL ...", help="Of few-shot charts: L1 L3 L5, or all; three by default."),
    ] = None,
    seen: Annotated[
        str | None, typer.Option(help="Whose seen concepts, where there are runs with both: in1k or in1k-blurred.")
    ] = None,
    levels: Annotated[Path | None, typer.Option(help="Of ranking: a file that `unseen cog levels` wrote.")] = None,
    concept: Annotated[str | None, typer.Option(help="Of kin: a name or WordNet id, such as 'tiger cat'.")] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="DATA", help="Of kin and ranking: a dataset with pictures.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", metavar="NAME=VALUE", help="Which results, where a study holds several settings."),
    ] = None,
    home: HomeOption = None,
) -> None:
    """Draw one figure of the paper from stored results, for a page or a paper, and say what it shows."""
    from unseen.benchmarks import Workbench
    from unseen.benchmarks.cog.figures import Request, draw
    from unseen.cli.tables import console
    from unseen.core.errors import UnknownNameError
    from unseen.core.files import home as home_folder
    from unseen.data.load import resolve_dataset
    from unseen.reports import save_chart
    from unseen.reports.pictures import ClassPictures

    if kind not in CHARTS:
        raise UnknownNameError("chart", kind, CHARTS)
    bench = Workbench(home_folder(home))
    results = _results(bench.home, study) if kind != "kin" and levels is None else []
    request = Request(
        results,
        cards=known_cards({result.cell.model for result in results}),
        baseline=baseline,
        models=split_names(models),
        category=category,
        levels=split_names(level),
        seen=seen,
        setting=setting or (),
        picture=ClassPictures(bench.dataset, size=104),
        file=levels,
        concept=concept,
        data=bench.dataset(resolve_dataset(data, Path.cwd())) if data else None,
    )
    drawn, words = draw(kind, request)
    save_chart(drawn, out)
    for line in words:
        console().print(line, soft_wrap=True, markup=False)
    console().print(f"Chart: {out}", soft_wrap=True, markup=False)


def _results(home: Path, study: str) -> list[Result]:
    from unseen.results import FILE_NAME, ResultsDatabase

    with ResultsDatabase(home / FILE_NAME, read_only=True) as database:
        return [
            result
            for benchmark in ("cog", "cog-finetune")
            for result in database.latest(study=study, benchmark=benchmark, include_failed=False)
        ]


def known_cards(models: Collection[str]) -> dict[str, ModelCard]:
    """Cards of models as their sources list them, without loading any; those that are not listed have none."""
    from unseen.backbones.load import BACKBONES

    found: dict[str, ModelCard] = {}
    for scheme in {model.partition(":")[0] for model in models}:
        source = BACKBONES.get(scheme) if scheme in BACKBONES else None
        if source is not None and source.listed:
            found |= {card.id: card for card in source.cards() if card.id in models}
    return found


def noise(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A dataset whose classes have ids.")] = "packaged:emoji",
    data_option: Annotated[str | None, typer.Option("--data", metavar="DATA", help="The same, as an option.")] = None,
    models: ModelsOption = None,
    confidence: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Least calibrated probability of another concept.")
    ] = 0.7,
    agreement: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Least share of the nearest neighbours with its label.")
    ] = 0.7,
    levels: Annotated[int, typer.Option(min=1, help="Levels of unseen concepts.")] = 5,
    most: Annotated[int, typer.Option(min=0, help="Show at most so many images.")] = 20,
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """List images whose label two kinds of evidence speak against, for a person to look at (supplement A.3)."""
    from dataclasses import asdict

    from unseen.backbones.load import resolve_model
    from unseen.benchmarks import Workbench
    from unseen.benchmarks.cog.domains import DomainRecipe
    from unseen.benchmarks.cog.noise import label_noise
    from unseen.cli.progress import RichProgress
    from unseen.cli.tables import console, print_json
    from unseen.core.files import home as home_folder
    from unseen.data.load import resolve_dataset

    bench = Workbench(home_folder(home), progress=RichProgress(console(error=True)))
    name = resolve_dataset(data_option or data, Path.cwd())
    chosen = [resolve_model(each, Path.cwd()) for each in split_names(models) or DEFAULT_MODELS[:1]]
    recipe = DomainRecipe(levels=levels)
    reports = {
        model: label_noise(bench, model, name, recipe=recipe, confidence=confidence, agreement=agreement)
        for model in chosen
    }
    if as_json:
        print_json([{"model": model, **asdict(report)} for model, report in reports.items()])
        return
    for model, report in reports.items():
        _print_noise(model, report, most)


def _print_noise(model: str, report: NoiseReport, most: int) -> None:
    from unseen.cli.tables import console, print_table

    def place(name: str, domain: str) -> str:
        return f"{name} ({domain})" if domain else name

    rows = [
        [
            f"{s.split}: {s.image}",
            place(s.labelled, s.labelled_domain),
            place(s.suggested, s.suggested_domain),
            f"{s.confidence:.2f}",
            f"{s.own:.2f}",
            f"{s.agreement:.0%}",
        ]
        for s in report.suspects[:most]
    ]
    if rows:
        columns = ["image", "labelled", "looks like", "probability", "of its label", "neighbours"]
        numeric = ("probability", "of its label", "neighbours")
        print_table(columns, rows, title=model, numeric=numeric, prose=("image", "labelled", "looks like"))
    crossing = sum(
        bool(s.labelled_domain and s.suggested_domain) and s.labelled_domain != s.suggested_domain
        for s in report.suspects
    )
    shares = ", ".join(f"{pair} {share:.1%}" for pair, share in report.foreign.items())
    left = f" {report.left_out:,} images of classes with too few images were not judged." if report.left_out else ""
    found = (
        f"{model}: {len(report.suspects):,} of {report.images:,} images look like another of the "
        f"{report.classes:,} concepts, by a calibrated classifier that has not seen them (right on "
        f"{report.accuracy:.1%}) and by their neighbours; {crossing:,} of them like one of another level.{left}"
    )
    advice = (
        "Look at each before you change a label: an image may show two concepts. On photographs with 2 % of the "
        "labels flipped about nine of ten that were listed had been flipped (docs/cog.md)."
    )
    paper = (
        f"Supplement A.3, surer than 0.99 of concepts that the classifier does not know: {shares}. With few "
        "classes that is no evidence of a wrong label."
    )
    for line in (found, advice, paper):
        console().print(line, soft_wrap=True, markup=False)
