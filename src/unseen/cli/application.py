"""All commands, one line each. A command's module imports nothing heavy before it runs."""

from __future__ import annotations

import typer

from unseen.cli.audit import audit
from unseen.cli.check import check
from unseen.cli.clip import clip_commands
from unseen.cli.cog import cog_commands
from unseen.cli.compare import compare, leaderboard
from unseen.cli.demo import demo
from unseen.cli.doctor import doctor
from unseen.cli.features import features_commands
from unseen.cli.ls import ls
from unseen.cli.options import study_command
from unseen.cli.parser import Command, Commands, root_options
from unseen.cli.rank import rank
from unseen.cli.report import report
from unseen.cli.results import results_commands
from unseen.cli.run import file_command
from unseen.cli.vtab import vtab_commands
from unseen.cli.zsl import zsl_commands

application = typer.Typer(
    name="unseen",
    cls=Commands,
    callback=root_options,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
application.command(
    "demo", cls=Command, help="All four questions in minutes, on real weights and images that are there."
)(demo)
application.command("run", cls=Command, help="Run a study: extract, evaluate what is not done, write the page.")(
    file_command()
)
application.command("probe", cls=Command, help="How well do frozen features separate the classes of DATA?")(
    study_command("probe")
)
application.add_typer(cog_commands)
application.add_typer(zsl_commands)
application.add_typer(clip_commands)
application.add_typer(vtab_commands)
application.command("rank", cls=Command, help="Which checkpoint should I fine-tune on DATA? Before any of them is.")(
    rank
)
application.command(cls=Command)(check)
application.command(cls=Command)(audit)
application.command(cls=Command)(ls)
application.command(cls=Command)(doctor)
application.add_typer(results_commands)
application.command(cls=Command)(report)
application.command(cls=Command)(compare)
application.command(cls=Command)(leaderboard)
application.add_typer(features_commands)
