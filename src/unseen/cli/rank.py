"""`unseen rank`: which checkpoint should I fine-tune?"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Annotated

from typer import Option

from unseen.benchmarks.benchmark import make_benchmark
from unseen.benchmarks.rank.budget import find_weights
from unseen.benchmarks.rank.candidates import CheckpointRanking
from unseen.benchmarks.rank.table import DECIDING, candidates_table
from unseen.cli.application import Running, parameter
from unseen.cli.run import Draft, engine_of, print_findings, show_plan, study_command
from unseen.cli.tables import ConsoleProgress, console, print_json, print_table, say
from unseen.core.errors import CellsFailedError, UsageError
from unseen.core.files import format_size
from unseen.core.files import home as home_folder
from unseen.core.identity import make_options
from unseen.core.names import as_number
from unseen.features import Extraction
from unseen.reports.wording import counted as count
from unseen.reports.wording import duration, short_names
from unseen.run.study import Study

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}

_MORE = [
    parameter(
        "budget",
        Annotated[
            str | None,
            Option("--budget", help="Time limit, such as 90s, 10m or 1h: images are sampled to fit."),
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
            Option(
                min=1,
                metavar="N",
                hidden=True,
                help="Evaluate only the N candidates that were the best on earlier tasks.",
            ),
        ],
    ),
    parameter(
        "delete_weights",
        Annotated[
            bool, Option("--delete-weights", hidden=True, help="Remove downloaded weights as soon as they are used.")
        ],
        False,
    ),
    parameter(
        "prior",
        Annotated[
            Path | None,
            Option(
                metavar="FILE",
                hidden=True,
                help="Accuracies on earlier tasks for --first (CSV), beside the stored results.",
            ),
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
        if not how.as_json:
            _show_costs(planned, home_folder(how.home))
        return
    with engine_of(how) as engine:
        ranking = rank_checkpoints(
            draft.data[0],
            draft.models,
            **draft.more | {"budget": budget},
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
        raise CellsFailedError(f"{len(ranking.failed)} of {len(ranking.candidates)} candidates failed.")


rank = study_command("rank", more=_MORE, run=_run)


def _show_costs(study: Study, home: Path) -> None:
    """Print where the weights of the checkpoints are, what has to be downloaded, and the time of the extraction."""
    from unseen.api.ranking import extraction_seconds  # loads torch

    found = {model: find_weights(model) for model in study.models}
    hub = {model: weights for model, weights in found.items() if weights.repository}
    if hub:
        rows = [
            [model, "cached" if w.path else "to download", "unknown" if w.size is None else format_size(w.size)]
            for model, w in hub.items()
        ]
        print_table(["checkpoint", "weights", "size"], rows, numeric=("size",), keep=("checkpoint", "weights"))
        missing = [weights.size for weights in hub.values() if weights.path is None]
        unknown = f", and {missing.count(None)} of unknown size" if None in missing else ""
        free = format_size(shutil.disk_usage(home if home.exists() else home.parent).free)
        say(
            f"{count(len(missing), 'checkpoint')} of {len(hub)} to download: {format_size(sum(filter(None, missing)))}"
            f"{unknown}; {free} is free"
        )
    seconds, measured = extraction_seconds(study, home)
    if measured:
        say(
            f"Extraction: about {duration(seconds)} for {count(measured, 'checkpoint')} at the speed of earlier "
            f"rankings; {len(study.models) - measured} not measured"
        )


def parse_duration(text: str) -> float:
    """Return the seconds of "90s", "10m", "1.5h"; a number without a unit is seconds."""
    number, unit = (text[:-1], text[-1:]) if text[-1:] in _UNITS else (text, "s")
    seconds = (as_number(number) or 0.0) * _UNITS[unit]
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
        keep=DECIDING,
        caption=" ".join(table.notes).replace("Bold:", "*:") + f" {ranking.seconds:.0f} s in all.",
    )
    for note in ranking.all_notes:
        say(f"Note: {note}.", "dim")
    for reason in dict.fromkeys(candidate.error for candidate in ranking.failed):
        say(f"Failed: {', '.join(c.label for c in ranking.failed if c.error == reason)}: {reason}", "red")
    for text in filter(None, (ranking.front_text({}), ranking.per_class_text({}))):
        say(text)
    say(ranking.recommendation, "bold")
    if ranking.page:
        say(f"Report: {ranking.page}")
