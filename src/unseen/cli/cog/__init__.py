"""`unseen cog`: the ImageNet-CoG benchmark."""

from __future__ import annotations

import typer

from unseen.cli.application import Command, Group
from unseen.cli.cog.levels import check, levels
from unseen.cli.cog.run import chart, finetune, noise, run

cog_commands = typer.Typer(
    name="cog", cls=Group, help="ImageNet-CoG: generalization to unseen concepts, level by level.", no_args_is_help=True
)
for _name, _function, _help in (
    ("run", run, "Train classifiers on the seen concepts and on each level, for every model. Resumable."),
    ("finetune", finetune, "Fine-tune on every level and compare with frozen probes (supplement C.2). Resumable."),
    ("levels", levels, "Build levels of unseen concepts, increasingly distant from the seen ones."),
    ("check", check, "Count the images of ImageNet-CoG; with --plan, print the cost of a run."),
    ("chart", chart, "Draw one figure of the paper from stored results, and describe what it shows."),
    (
        "noise",
        noise,
        "Print how often classifiers are sure of images of concepts that they do not know (supplement A.3).",
    ),
):
    cog_commands.command(_name, cls=Command, help=_help)(_function)
