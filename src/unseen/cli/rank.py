"""`unseen rank`: which checkpoint should I fine-tune?"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from typer import Option

from unseen.benchmarks.benchmark import make_benchmark
from unseen.benchmarks.rank.candidates import CheckpointRanking
from unseen.benchmarks.rank.table import DECIDING, candidates_table
from unseen.cli.options import Running
from unseen.cli.parser import parameter
from unseen.cli.progress import ConsoleProgress
from unseen.cli.run import Draft, engine_options, print_findings, show_plan, study_command
from unseen.cli.tables import console, print_json, print_table, say
from unseen.core.errors import CellsFailedError, UsageError
from unseen.core.options import make_options
from unseen.features import Extraction
from unseen.reports.wording import short_names
from unseen.run.executor import make_engine

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}

_MORE = [
    parameter("top", Annotated[int, Option("--top", min=1, help="How many checkpoints to recommend.")], 1),
    parameter(
        "budget",
        Annotated[
            str | None,
            Option("--budget", help="Time limit, such as 90s, 10m or 1h: images are sampled to fit."),
        ],
    ),
    parameter(
        "halving",
        Annotated[
            bool | None,
            Option(
                "--halving/--no-halving",
                help="Score all candidates on a few images first, and only those that may be the best on all; by "
                "default if it saves time.",
            ),
        ],
    ),
    parameter(
        "finetune_top",
        Annotated[
            int, Option("--finetune-top", min=0, metavar="N", help="Fine-tune the first N, to confirm the order.")
        ],
        0,
    ),
    parameter(
        "first",
        Annotated[
            int | None,
            Option(min=1, metavar="N", help="Evaluate only the N candidates that were the best on earlier tasks."),
        ],
    ),
    parameter(
        "prior",
        Annotated[
            Path | None,
            Option(metavar="FILE", help="Accuracies on earlier tasks for --first (CSV), beside the stored results."),
        ],
    ),
]


def _run(draft: Draft, how: Running) -> None:
    """Rank the checkpoints of a draft; a checkpoint that is not available is in the answer with its reason."""
    from unseen.api.ranking import rank_checkpoints, rank_study  # loads torch

    here, chosen = Path.cwd(), draft.benchmarks["rank"]
    if len(draft.data) != 1:
        raise UsageError("name the labelled images once: unseen rank DATA --models ..., or --data DATA.")
    checked = make_benchmark("rank", chosen, source=draft.command, base=here, texts=True)
    options = {name: getattr(checked, name) for name in chosen}
    extraction = make_options(Extraction, draft.extraction, source=draft.command, base=here, texts=True)
    budget = parse_duration(draft.more["budget"]) if draft.more["budget"] else None
    if how.dry_run:
        planned, _ = rank_study(draft.data[0], draft.models, name=draft.name, how=extraction, **options)
        show_plan(planned, how)
        return
    with make_engine(how.engine, **engine_options(how)) as engine:
        ranking = rank_checkpoints(
            draft.data[0],
            draft.models,
            top=draft.more["top"],
            budget=budget,
            halving=draft.more["halving"],
            finetune_top=draft.more["finetune_top"],
            first=draft.more["first"],
            prior=draft.more["prior"],
            name=draft.name,
            home=how.home,
            how=extraction,
            engine=engine,
            progress=ConsoleProgress(console(error=True, quiet=how.quiet)),
            report=how.output or True,
            **options,
        )
    if how.as_json:
        print_json(ranking.to_dict())
    else:
        _show(ranking, str(getattr(checked, "split", "")))
    results = ["--benchmark rank", f"--dataset {shlex.quote(ranking.dataset)}"]
    print_findings(ranking.record.findings(), results, console(error=True, quiet=how.quiet), how.home)
    if ranking.failed:
        first = ranking.failed[0]
        raise CellsFailedError(
            f"{len(ranking.failed)} of {len(ranking.candidates)} candidates failed. "
            f"The first, {first.label}: {first.error}"
        )


rank = study_command("rank", more=_MORE, run=_run)


def parse_duration(text: str) -> float:
    """Return the seconds of "90s", "10m", "1.5h"; a number without a unit is seconds."""
    unit = _UNITS.get(text[-1:].lower())
    try:
        seconds = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"budget {text!r} is not a time. Write it like 90s, 10m or 1h.")
    return seconds


def _show(ranking: CheckpointRanking, split: str) -> None:
    from rich.text import Text

    table = candidates_table(ranking, short_names([c.model for c in ranking.candidates], {}))
    about = f": {ranking.images} of {ranking.total} images{ranking.targets_text}" if ranking.images else ""
    rows = [
        [Text(f"{cell.full}*", style="bold") if cell.mark else cell.full for cell in (row[1], row[0], *row[2:])]
        for row in table.rows
    ]
    columns = [table.columns[1], table.columns[0], *table.columns[2:]]
    print_table(
        columns,
        rows,
        title=f"{ranking.dataset}, split {split}{about}",
        numeric=[column for column in columns if column != "checkpoint"],
        prose=(),
        keep=("checkpoint", *DECIDING),
        caption=" ".join(table.notes).replace("Bold:", "*:") + f" {ranking.seconds:.0f} s in all.",
    )
    for note in ranking.all_notes:
        say(f"Note: {note}.", "dim")
    for candidate in ranking.failed:
        say(f"Failed: {candidate.label}: {candidate.error}", "red")
    for text in (ranking.front_text({}), ranking.per_class_text({})):
        if text:
            say(text)
    say(ranking.recommendation, "bold")
    if ranking.page:
        say(f"Report: {ranking.page}")
