"""`unseen rank`: which checkpoint should I fine-tune?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unseen.benchmarks.rank.records import Candidate, CheckpointRanking

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def rank(
    context: typer.Context,
    data: Annotated[str, typer.Option("--data", help="The labelled images, such as folder:PATH or packaged:grocery.")],
    models: Annotated[
        list[str],
        typer.Option("--models", help="Checkpoints: names after it up to the next option, or --models once for each."),
    ],
    score: Annotated[
        str | None, typer.Option("--score", help="Ids of scores, with commas; unseen ls scores lists them.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many checkpoints to recommend.")] = 1,
    layers: Annotated[str, typer.Option("--layers", help="Layers to score, with commas.")] = "pooled",
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="Time for the whole, such as 90s, 10m or 1h: images are sampled to fit."),
    ] = None,
    resamples: Annotated[int, typer.Option("--resamples", min=0, help="Half-samples behind the confidence.")] = 40,
    seed: Annotated[int, typer.Option("--seed", help="Of samples and of scores that draw.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in full precision.")] = False,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Also write a page.")] = None,
    home: Annotated[
        Path | None,
        typer.Option("--home", help="Where features are kept. [default: $UNSEEN_HOME or the user's data folder]"),
    ] = None,
) -> None:
    """Rank checkpoints for a labelled set of images, before any of them is fine-tuned.

    unseen rank --data folder:photos --models timm:resnet50 packaged:efficientnet-lite0 file:mine.pth?arch=timm:resnet50
    """
    from unseen.benchmarks.rank.checkpoints import DEFAULT_SCORES, rank_checkpoints
    from unseen.cli.progress import RichProgress
    from unseen.cli.tables import console, print_json
    from unseen.core.errors import CellsFailedError

    ranking = rank_checkpoints(
        data,
        [*models, *context.args],
        scores=_listed(score) if score else DEFAULT_SCORES,
        top=top,
        layers=_listed(layers),
        budget=parse_duration(budget) if budget else None,
        resamples=resamples,
        seed=seed,
        home=home,
        progress=RichProgress(console(error=True)),
    )
    if report is not None:
        write_page(ranking, report)
    if as_json:
        print_json(ranking.to_dict())
    else:
        _show(ranking)
        if report is not None:
            console().print(f"Report: {report}", soft_wrap=True)
    if ranking.failed:
        first = ranking.failed[0]
        raise CellsFailedError(
            f"{len(ranking.failed)} of {len(ranking.candidates)} candidates failed. "
            f"The first, {first.label}: {first.error}"
        )


def parse_duration(text: str) -> float:
    """Seconds of "90s", "10m", "1.5h"; a bare number is seconds."""
    from unseen.core.errors import UsageError

    unit = _UNITS.get(text[-1:].lower())
    try:
        seconds = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"budget {text!r} is not a time. Write it like 90s, 10m or 1h.")
    return seconds


def write_page(ranking: CheckpointRanking, path: Path) -> Path:
    """The page of a ranking."""
    from unseen.core.records import ModelCard
    from unseen.study import write_report

    cards = {
        c.model: ModelCard(id=c.model, parameters=c.parameters, flops=c.flops, feature_dim=c.dimensions)
        for c in ranking.candidates
        if not c.error
    }
    return write_report(ranking.results(), path, title="Which checkpoint to fine-tune", cards=cards)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _show(ranking: CheckpointRanking) -> None:
    from unseen.cli.tables import console, print_table

    shown = [name for name in ranking.scores if any(name in c.scores for c in ranking.candidates)]
    columns = ["#", "checkpoint", "mean rank", "first in", *shown, "extracted", "scored", "parameters", "FLOPs"]
    print_table(
        columns,
        [_row(candidate, shown) for candidate in ranking.candidates],
        title=f"{ranking.dataset}: {ranking.images} of {ranking.total} images, {ranking.classes} classes",
        numeric=[column for column in columns if column != "checkpoint"],
        caption=f"mean rank over {', '.join(ranking.counted) or 'no score'}, with its 95 % interval over "
        f"{ranking.resamples} half-samples; {ranking.seconds:.0f} s in all",
    )
    screen = console()
    for note in dict.fromkeys([*ranking.notes, *(n for c in ranking.candidates for n in c.notes)]):
        screen.print(f"Note: {note}.", style="dim", markup=False, soft_wrap=True)
    for candidate in ranking.failed:
        screen.print(f"Failed: {candidate.label}: {candidate.error}", style="red", markup=False, soft_wrap=True)
    screen.print(ranking.recommendation, style="bold", markup=False, soft_wrap=True)


def _row(candidate: Candidate, shown: list[str]) -> list[str]:
    from unseen.reports.wording import amount

    if candidate.error:
        return ["–", candidate.label, "failed", *[""] * (len(shown) + 5)]
    interval = f" ({candidate.low:.1f} to {candidate.high:.1f})" if candidate.low == candidate.low else ""
    first = f"{100 * candidate.first_share:.0f} %" if candidate.first_share == candidate.first_share else ""
    return [
        str(candidate.rank),
        candidate.label,
        f"{candidate.mean_rank:.1f}{interval}",
        first,
        *(f"{candidate.scores[name]:.4g}" if name in candidate.scores else "–" for name in shown),
        f"{candidate.extraction_seconds:.1f} s",
        f"{candidate.scoring_seconds:.1f} s",
        amount(candidate.parameters),
        amount(candidate.flops),
    ]
