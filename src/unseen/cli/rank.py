"""`unseen rank`: which checkpoint should I fine-tune?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from unseen.cli.run import DryRunOption, EngineOption, HomeOption, ReportOption, SchedulerOption, WorkersOption

if TYPE_CHECKING:
    from unseen.benchmarks.rank.answer import Candidate, CheckpointRanking

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def rank(
    context: typer.Context,
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="The labelled images; also as --data.")] = None,
    data_option: Annotated[
        str | None, typer.Option("--data", help="The labelled images, such as folder:PATH or packaged:grocery.")
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option("--models", help="Checkpoints: names after it up to the next option, or --models once for each."),
    ] = None,
    score: Annotated[
        str | None, typer.Option("--score", "--scores", help="Ids with commas; unseen ls scores lists them.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many checkpoints to recommend.")] = 1,
    layers: Annotated[str, typer.Option("--layers", help="Layers to score, with commas.")] = "pooled",
    split: Annotated[str, typer.Option("--split", help="Whose images are scored.")] = "train",
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="Time for the whole, such as 90s, 10m or 1h: images are sampled to fit."),
    ] = None,
    sample: Annotated[int, typer.Option("--sample", min=0, help="Images to score, by class; 0 means all.")] = 0,
    resamples: Annotated[int, typer.Option("--resamples", min=0, help="Half-samples behind the confidence.")] = 40,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of samples and of scores that draw.")] = 0,
    study: Annotated[str, typer.Option("--study", help="File the results under this name.")] = "rank",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in full precision.")] = False,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
    engine: EngineOption = "local",
    workers: WorkersOption = 1,
    scheduler: SchedulerOption = None,
    report: ReportOption = None,
) -> None:
    """Rank checkpoints for a labelled set of images, before any of them is fine-tuned. Run it again to go on.

    unseen rank photos/ --models timm:resnet50 packaged:efficientnet-lite0 file:mine.pth?arch=timm:resnet50
    """
    from unseen.api import rank_checkpoints, rank_study
    from unseen.cli.progress import RichProgress
    from unseen.cli.run import make_engine_options, show_plan
    from unseen.cli.tables import console, print_json
    from unseen.core.errors import CellsFailedError, UsageError
    from unseen.engines import make_engine
    from unseen.study import plan_study

    if (data is None) == (data_option is None):
        raise UsageError("name the labelled images once: unseen rank DATA --models ..., or --data DATA.")
    images, names = data or data_option or "", [*(models or []), *context.args]
    options: dict[str, Any] = {"layers": _listed(layers), "split": split, "sample": sample}
    options |= {"resamples": resamples, "seed": seed, **({"scores": _listed(score)} if score is not None else {})}
    seconds = parse_duration(budget) if budget else None
    if dry_run:
        planned, _ = rank_study(images, names, name=study, **options)
        show_plan(plan_study(planned, home))
        return
    kind, how = make_engine_options(engine, workers, scheduler)
    with make_engine(kind, **how) as running:
        ranking = rank_checkpoints(
            images,
            names,
            top=top,
            budget=seconds,
            name=study,
            home=home,
            engine=running,
            progress=RichProgress(console(error=True)),
            report=report or True,
            **options,
        )
    if as_json:
        print_json(ranking.to_dict())
    else:
        _show(ranking)
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


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _show(ranking: CheckpointRanking) -> None:
    from unseen.cli.tables import console, print_table

    shown = [name for name in ranking.scores if any(name in c.scores for c in ranking.candidates)]
    columns = ["#", "checkpoint", "mean rank", "first in", *shown, "extracted", "scored", "parameters", "FLOPs"]
    about = f": {ranking.images} of {ranking.total} images, {ranking.classes} classes" if ranking.images else ""
    print_table(
        columns,
        [_row(candidate, shown) for candidate in ranking.candidates],
        title=f"{ranking.dataset}{about}",
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
    if ranking.page:
        screen.print(f"Report: {ranking.page}", soft_wrap=True)


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
