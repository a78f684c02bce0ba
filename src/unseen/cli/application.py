"""All commands, one line each. A command's module imports nothing heavy before it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from unseen.cli.audit import audit
from unseen.cli.cog import cog_commands
from unseen.cli.cog_check import check as cog_check
from unseen.cli.cog_extra import finetune as cog_finetune
from unseen.cli.cog_extra import noise as cog_noise
from unseen.cli.cog_run import chart as cog_chart
from unseen.cli.cog_run import run as cog_run
from unseen.cli.features import features_commands
from unseen.cli.ls import ls
from unseen.cli.rank import rank
from unseen.cli.results import results_commands
from unseen.cli.run import demo, run
from unseen.cli.vtab import vtab_commands
from unseen.cli.vtab_compare import analyse as vtab_analyse
from unseen.cli.vtab_compare import compare as vtab_compare
from unseen.cli.zsl import zsl_commands

application = typer.Typer(
    name="unseen",
    help="How well does a visual representation handle what it has never seen?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from unseen import __version__

        typer.echo(f"unseen {__version__}")
        raise typer.Exit


@application.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave."),
    ] = False,
) -> None:
    """How well does a visual representation handle what it has never seen?"""


application.command()(demo)
application.command()(run)
cog_commands.command("run")(cog_run)
cog_commands.command("chart")(cog_chart)
cog_commands.command("check")(cog_check)
cog_commands.command("noise")(cog_noise)
cog_commands.command("finetune")(cog_finetune)
application.add_typer(cog_commands)
application.add_typer(zsl_commands)
application.add_typer(vtab_commands)
vtab_commands.command("compare")(vtab_compare)
vtab_commands.command("analyse")(vtab_analyse)
application.command()(audit)
application.command(context_settings={"allow_extra_args": True})(rank)
application.command()(ls)
application.add_typer(results_commands)
application.add_typer(features_commands)
