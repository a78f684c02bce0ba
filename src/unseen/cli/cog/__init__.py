"""`unseen cog`: the ImageNet-CoG benchmark; one module per kind of command."""

from __future__ import annotations

import typer

from unseen.cli.cog.check import check
from unseen.cli.cog.figures import chart, noise
from unseen.cli.cog.levels import levels
from unseen.cli.cog.run import FINETUNE, RUN
from unseen.cli.parser import Command, Group

cog_commands = typer.Typer(
    name="cog", cls=Group, help="ImageNet-CoG: generalization to unseen concepts, level by level.", no_args_is_help=True
)
cog_commands.command(
    "run", cls=Command, help="Learn classifiers on the seen concepts and on each level, for every model. Resumable."
)(RUN)
cog_commands.command(
    "finetune", cls=Command, help="Fine-tune on every level, and set frozen probes beside it (C.2). Resumable."
)(FINETUNE)
cog_commands.command("levels", cls=Command)(levels)
cog_commands.command("check", cls=Command)(check)
cog_commands.command("chart", cls=Command)(chart)
cog_commands.command("noise", cls=Command)(noise)
