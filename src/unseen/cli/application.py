"""All commands, one line each. A command's module imports nothing heavy before it runs."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

from unseen.cli.audit import audit
from unseen.cli.cog import cog_commands
from unseen.cli.features import features_commands
from unseen.cli.ls import ls
from unseen.cli.options import study_command
from unseen.cli.parser import Command, Group
from unseen.cli.rank import rank
from unseen.cli.results import results_commands
from unseen.cli.run import file_command
from unseen.cli.vtab import vtab_commands
from unseen.cli.zsl import zsl_commands


class _Commands(Group):
    """The commands below, and one for each benchmark that a plug-in brings; it is imported when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        known = super().list_commands(ctx)
        return [*known, *(each.name for each in entry_points(group="unseen.benchmarks") if each.name not in known)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        built_in = super().get_command(ctx, cmd_name)
        if built_in is not None:
            return built_in
        if cmd_name in self.list_commands(ctx):
            return _benchmark_command(cmd_name, cmd_name)
        from unseen.benchmarks.benchmark import BENCHMARKS, find_command

        name = cmd_name if cmd_name in BENCHMARKS else find_command(cmd_name)
        return _benchmark_command(cmd_name, name) if name else None


def _benchmark_command(command: str, benchmark: str) -> Command:
    return Command(command, callback=study_command(benchmark), help=f"Run the benchmark {benchmark!r} of a plug-in.")


application = typer.Typer(
    name="unseen",
    cls=_Commands,
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


application.command("demo", cls=Command, help="Run the study `demo`, on real weights and images that are installed.")(
    file_command("demo")
)
application.command("run", cls=Command, help="Run a study: extract, evaluate what is not done, write the page.")(
    file_command()
)
application.command("probe", cls=Command, help="How well do frozen features separate the classes of DATA?")(
    study_command("probe")
)
application.add_typer(cog_commands)
application.add_typer(zsl_commands)
application.add_typer(vtab_commands)
application.command("rank", cls=Command, help="Which checkpoint should I fine-tune on DATA? Before any of them is.")(
    rank
)
application.command(cls=Command)(audit)
application.command(cls=Command)(ls)
application.add_typer(results_commands)
application.add_typer(features_commands)
