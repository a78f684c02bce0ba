"""`unseen vtab`: the Visual Task Adaptation Benchmark. The module of a command is imported when the command runs."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer
from typer import Option

from unseen.cli.application import DATA_PANEL, DEFAULT_MODELS, Command, Group, made_late, parameter, split_names
from unseen.cli.run import Draft, study_command
from unseen.core.registry import load_object

_COMMANDS = {
    "check": "List for all 19 tasks the data below a folder, what is missing, and where to get it.",
    "fetch": "Download the files of tasks, with resumption and checksums, and unpack them.",
    "analyse": "Recompute the paper's statements about its own benchmark.",
    "chart": "Draw a figure of the paper: for the published methods, and with --study for your results.",
    "compare": "Rank your models among the 18 published methods. Models that lack tasks or test images are listed, not "
    "ranked.",
}

_SizeOption = Annotated[
    Literal["1000", "full"],
    Option("--size", help="Labelled examples per task of VTAB.", rich_help_panel=DATA_PANEL),
]
_TasksOption = Annotated[
    list[str] | None,
    Option(
        "--tasks",
        metavar="NAME ...",
        help="mini (the default), all, ready (tasks with data), a group, or names of tasks; in addition to DATA.",
        rich_help_panel=DATA_PANEL,
    ),
]
_RootOption = Annotated[
    str,
    Option("--root", metavar="FOLDER", help="VTAB's data; $UNSEEN_VTAB by default.", rich_help_panel=DATA_PANEL),
]


def _prepare(draft: Draft) -> None:
    """Replace suites and tasks by datasets."""
    suite = load_object("unseen.benchmarks.vtab.protocol:suite")
    tasks = split_names(draft.more["tasks"]) or ([] if draft.data else ["mini"])
    found = suite(tasks, size=draft.more["size"], root=draft.more["root"])
    draft.data += [name for name in found if name not in draft.data]


vtab_commands = typer.Typer(
    name="vtab", cls=Group, help="VTAB: unseen tasks, with a thousand labelled examples each.", no_args_is_help=True
)
vtab_commands.command(
    "run", cls=Command, help="Adapt models to tasks: choose on 200 examples, retrain on 1,000, test. Resumable."
)(
    study_command(
        "vtab",
        models=DEFAULT_MODELS,
        more=(
            parameter("tasks", _TasksOption),
            parameter("size", _SizeOption, "1000"),
            parameter("root", _RootOption, ""),
        ),
        prepare=_prepare,
    )
)
for _name, _help in _COMMANDS.items():
    vtab_commands.command(_name, cls=Command, help=_help)(
        made_late(partial(load_object, f"unseen.cli.vtab.commands:{_name}"))
    )
