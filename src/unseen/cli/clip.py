"""`unseen clip`: zero-shot classification by text prompts, over all classes of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import typer

from unseen.cli.application import Command, Group
from unseen.cli.run import run_draft, show_results, study_command
from unseen.cli.tables import say
from unseen.core.records import Details, Result

clip_commands = typer.Typer(
    name="clip", cls=Group, help="Prompts: classes known only by their names.", no_args_is_help=True
)


def show_clip(results: Sequence[Result]) -> None:
    """Print the tables of all metrics, then the leak audit of each dataset."""
    show_results(results)
    for audit in dict.fromkeys(f"{r.cell.dataset}: {Details.read(r.details).audit}" for r in results if r.ok):
        say(f"Leak audit of {audit}")


clip_commands.command("run", cls=Command, help="Classify the test images of DATA by text prompts; nothing is trained.")(
    study_command("clip", run=partial(run_draft, show=show_clip))
)
