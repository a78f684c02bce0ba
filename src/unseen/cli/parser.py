"""Typer's commands with list options (`--models a b`), hidden rare options (`--help-all`), aliases and examples."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Sequence
from functools import cache
from importlib.resources import files
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup, TyperOption

from unseen import __version__

#: Names of options in 0.1, which still work where a command has the new name.
ALIASES = {"--report": "--output", "--out": "--output", "--page": "--output", "--model": "--models"}


@cache
def examples() -> dict[str, list[str]]:
    """Return the examples of each command, by the words after `unseen`."""
    return tomllib.loads((files("unseen.cli") / "examples.toml").read_text(encoding="utf-8"))


if TYPE_CHECKING:
    _Base = TyperCommand
else:
    _Base = object


class _Help(_Base):
    """What commands and groups share: flags without a type, `--help-all`, aliases and examples."""

    def get_params(self, ctx: Any) -> list[Any]:
        found = super().get_params(ctx)
        for each in found:
            if getattr(each, "is_flag", False) and each.metavar is None:
                each.metavar = ""  # a flag takes no value
        rare = any(getattr(each, "hidden", False) for each in found)
        return [*found, _help_all()] if rare else found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = [each for each in self.get_params(ctx) if isinstance(each, TyperOption)]
        names = {name for each in options for name in (*each.opts, *each.secondary_opts)}
        several = {name for each in options if each.multiple for name in each.opts}
        known = [_renamed(argument, names) for argument in args]
        return super().parse_args(ctx, spread_lists(known, several, getattr(self, "commands", ())))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        if lines := examples().get(ctx.command_path.partition(" ")[2]):
            typer.echo("\n".join([" Examples:", *(f"   {line}" for line in lines)]))


class Group(_Help, TyperGroup):
    """A group of commands."""


class Command(_Help, TyperCommand):
    """A command; `made_late` makes its options when they are needed."""

    def get_params(self, ctx: object) -> list[Any]:
        make = getattr(self.callback, "make", None)
        if make is not None:
            made = _typer_command(make())
            self.params, self.callback = made.params, made.callback
        return super().get_params(ctx)


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        for each in ctx.command.params:
            vars(each)["hidden"] = False
        typer.echo(ctx.get_help())
        raise typer.Exit


@cache
def _help_all() -> Any:
    """Return the option `--help-all`, made by Typer."""
    option = Option("--help-all", callback=_show_all, is_eager=True, help="Show all options and exit.")
    function = with_parameters([parameter("help_all", Annotated[bool, option], False)], lambda values: None)
    (made,) = _typer_command(function).params
    made.expose_value, made.metavar = False, ""
    return made


def _renamed(argument: str, names: Collection[str]) -> str:
    """Return an argument with the present name of its option."""
    name, equals, value = argument.partition("=")
    new = ALIASES.get(name, "")
    return f"{new}{equals}{value}" if name not in names and new in names else argument


def make_command(name: str, target: Any, text: str) -> object:
    """Return the command of a function, or the group of a `typer.Typer`."""
    if isinstance(target, typer.Typer):
        found = typer.main.get_group(target)
        found.name = name
        return found
    return _typer_command(target, name=name, cls=Command, help=text)


def _typer_command(function: Callable[..., None], **settings: Any) -> Any:
    alone = typer.Typer(add_completion=False)
    alone.command(**settings)(function)
    return typer.main.get_command(alone)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unseen {__version__}")
        raise typer.Exit


def root_options(
    version: Annotated[
        bool,
        Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Evaluate how well visual representations handle what they have never seen."""


def made_late(make: Callable[[], Callable[..., None]]) -> Callable[[], None]:
    """Return a placeholder for the function of a command; `make` returns the function when it is needed."""

    def stub() -> None:
        raise AssertionError("Command.get_params replaces it before it is called")

    vars(stub)["make"] = make
    return stub


def with_parameters(parameters: Sequence[Parameter], body: Callable[[dict[str, object]], None]) -> Callable[..., None]:
    """Return a function with these parameters that calls `body` with their values."""

    def function(**values: Any) -> None:
        body(values)

    vars(function)["__signature__"] = Signature(list(parameters))
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    return function


def spread_lists(arguments: Sequence[str], lists: Collection[str], commands: Collection[str] = ()) -> list[str]:
    """Return `--models a b` as `--models a --models b`, which Typer parses; a list ends at the name of a command."""
    spread: list[str] = []
    current = ""
    for place, argument in enumerate(arguments):
        if argument == "--" or argument in commands:
            return [*spread, *arguments[place:]]
        if argument.startswith("-"):
            name = argument.partition("=")[0]
            current = name if name in lists else ""
        elif current and spread[-1] != current:
            spread.append(current)
        spread.append(argument)
    return spread


def parameter(name: str, annotation: object, default: object = None) -> Parameter:
    """Return one parameter of a function that Typer reads."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
