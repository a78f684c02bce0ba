"""`unseen cog`: the ImageNet-CoG benchmark. The module of a command is imported when the command runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import typer

from unseen.cli.parser import Command, Group, made_late
from unseen.core.registry import load_object

_RUN, _LEVELS = "unseen.cli.cog.run", "unseen.cli.cog.levels"
_COMMANDS = {
    "run": (f"{_RUN}:RUN", "Train classifiers on the seen concepts and on each level, for every model. Resumable."),
    "finetune": (f"{_RUN}:FINETUNE", "Fine-tune on every level and compare with frozen probes (C.2). Resumable."),
    "levels": (f"{_LEVELS}:levels", "Build levels of unseen concepts, increasingly distant from the seen ones."),
    "check": (f"{_LEVELS}:check", "List missing and short concepts of ImageNet; with --plan, print the cost of a run."),
    "chart": (f"{_RUN}:chart", "Draw one figure of the paper from stored results, and describe what it shows."),
    "noise": (f"{_RUN}:noise", "List images whose label two kinds of evidence contradict, for review (A.3)."),
}


def _load(target: str) -> Callable[..., None]:
    found: Any = load_object(target)
    make: Callable[[], Callable[..., None]] = getattr(found, "make", lambda: found)
    return make()


cog_commands = typer.Typer(
    name="cog", cls=Group, help="ImageNet-CoG: generalization to unseen concepts, level by level.", no_args_is_help=True
)
for _name, (_target, _help) in _COMMANDS.items():
    cog_commands.command(_name, cls=Command, help=_help)(made_late(partial(_load, _target)))
