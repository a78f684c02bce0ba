"""The table of commands: where each one is defined and its help; `examples.toml` has its examples.

`unseen` imports the module of a command when the command runs, so a module may import what it needs at its top.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import typer

from unseen.cli.parser import Command, Group, make_command, root_options
from unseen.core.registry import load_object
from unseen.results.info import BENCHMARKS, info_of

#: By name: "module:object", a function or a group of commands, and the help.
COMMANDS = {
    "demo": ("unseen.cli.run:demo", "Run all four benchmarks in minutes, on bundled weights and images."),
    "run": ("unseen.cli.run:run", "Run a study file: extract features, evaluate, write the report."),
    "probe": ("unseen.cli.run:probe", "Measure how well frozen features separate the classes of DATA."),
    "cog": ("unseen.cli.cog:cog_commands", "Unseen concepts (ImageNet-CoG)."),
    "zsl": ("unseen.cli.zsl:zsl_commands", "Unseen classes, known by a description (zero-shot learning)."),
    "clip": ("unseen.cli.clip:clip_commands", "Classify images by text prompts."),
    "vtab": ("unseen.cli.vtab:vtab_commands", "Unseen tasks with few labels (VTAB)."),
    "rank": ("unseen.cli.rank:rank", "Predict which checkpoint to fine-tune on DATA."),
    "check": ("unseen.cli.check:check", "Run sanity checks on your data and models."),
    "audit": ("unseen.cli.audit:audit", "Find classes that a model has seen, copies of images, and label errors."),
    "ls": ("unseen.cli.ls:ls", "List models, datasets, benchmarks, studies, methods or scores."),
    "doctor": ("unseen.cli.doctor:doctor", "Check this installation and suggest the next command."),
    "results": ("unseen.cli.results:results_commands", "Print, export, verify, repair and recompute results."),
    "report": ("unseen.cli.report:report", "Write the report of stored results."),
    "compare": ("unseen.cli.compare:compare", "Compare models on the same test images."),
    "leaderboard": ("unseen.cli.compare:leaderboard", "Rank models over stored results and exported files."),
    "features": ("unseen.cli.features:features_commands", "List, verify and remove stored features."),
}


class Commands(Group):
    """The built-in commands, and one for each benchmark of a plug-in; each is imported when it runs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # Names and helps, for lists and suggestions; `resolve_command` loads the command.
        self.commands.update({name: Command(name, help=text) for name, (_, text) in COMMANDS.items()})

    def list_commands(self, ctx: object) -> list[str]:
        plugins = (each.name for each in entry_points(group="unseen.benchmarks"))
        return [*COMMANDS, *(name for name in plugins if name not in COMMANDS)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS or (cmd_name not in self.list_commands(ctx) and not _benchmark_named(cmd_name)):
            return super().get_command(ctx, cmd_name)
        return Command(cmd_name, help=f"Run the benchmark {cmd_name!r} of a plug-in.")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name else command, rest


def load_command(name: str) -> Any:
    """Import and return a built-in command or group, or make the command of a benchmark."""
    if name in COMMANDS:
        target, text = COMMANDS[name]
        return make_command(name, load_object(target), text)
    command = load_object("unseen.cli.run:study_command")(_benchmark_named(name) or name)
    return make_command(name, command, f"Run the benchmark {name!r} of a plug-in.")


def _benchmark_named(name: str) -> str | None:
    return name if name in BENCHMARKS else next((n for n in BENCHMARKS if info_of(n).command == name), None)


application = typer.Typer(
    name="unseen",
    cls=Commands,
    callback=root_options,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
