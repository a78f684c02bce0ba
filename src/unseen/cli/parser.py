"""What the parser lacks: options with several values after one flag, and commands that are made when asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib.metadata import entry_points
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup


class Group(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _flags_without_type(super().get_params(ctx))


def _flags_without_type(parameters: list[Any]) -> list[Any]:
    """A flag takes no value, and its help shows no type of one."""
    for each in parameters:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return parameters


class Command(TyperCommand):
    """A command whose options with several values take them as `--models a b`, and whose options may be made late."""

    def get_params(self, ctx: Any) -> list[Any]:
        make = getattr(self.callback, "make", None)
        if make is not None:
            made = command_of(make())
            self.params, self.callback = made.params, made.callback
        return _flags_without_type(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        several = [p for p in self.get_params(ctx) if getattr(p, "multiple", False)]
        return super().parse_args(ctx, spread_lists(args, {name for p in several for name in p.opts}))


class Commands(Group):
    """The built-in commands, and one for each benchmark of a plug-in, which is imported when it is asked for."""

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
    from unseen.cli.options import study_command

    return Command(command, callback=study_command(benchmark), help=f"Run the benchmark {benchmark!r} of a plug-in.")


def _print_version(wanted: bool) -> None:
    if wanted:
        from unseen import __version__

        typer.echo(f"unseen {__version__}")
        raise typer.Exit


def root_options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave."),
    ] = False,
) -> None:
    """How well does a visual representation handle what it has never seen?"""


def made_late(make: Callable[[], Callable[..., None]]) -> Callable[[], None]:
    """A command's function that is made, with its options, when somebody asks for the command."""

    def stub() -> None:
        raise AssertionError("replaced before it is called")

    stub.make = make  # type: ignore[attr-defined]
    return stub


def command_of(function: Callable[..., None]) -> Any:
    """The parser's command for a function, its parameters read as Typer does."""
    alone = typer.Typer(add_completion=False)
    alone.command()(function)
    return typer.main.get_command(alone)


def with_parameters(parameters: Sequence[Parameter], body: Callable[[dict[str, Any]], None]) -> Callable[..., None]:
    """A function with these parameters, which calls `body` with their values."""

    def function(**values: Any) -> None:
        body(values)

    function.__signature__ = Signature(list(parameters))  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    return function


def spread_lists(arguments: Sequence[str], lists: Collection[str]) -> list[str]:
    """`--models a b` written as `--models a --models b`, which is how the parser wants it."""
    spread: list[str] = []
    current = ""
    for place, argument in enumerate(arguments):
        if argument == "--":
            return [*spread, *arguments[place:]]
        if argument.startswith("-"):
            name = argument.partition("=")[0]
            current = name if name in lists else ""
        elif current and spread[-1] != current:
            spread.append(current)
        spread.append(argument)
    return spread


def parameter(name: str, annotation: Any, default: Any = None) -> Parameter:
    """One parameter of a function that Typer reads."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
