"""The table of commands, and Typer's commands with list options (`--models a b`), rare options and examples.

`unseen` imports the module of a command when the command runs, so a module may import what it needs at its top.
`examples.toml` has the examples of each command.

Every field of a benchmark's dataclass becomes an option: its name with dashes, its help, its choices and its default.
`unseen.core.identity.make_options` checks the values, as it does for study files and Python.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
import tomllib
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from importlib.resources import files
from inspect import Parameter, Signature
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup, TyperOption

from unseen import __version__
from unseen.core.errors import StoreWarning, UnseenError
from unseen.core.guard import passing_reason
from unseen.core.identity import Values, choices_of, is_many, kinds_of
from unseen.core.registry import load_object
from unseen.results.info import BENCHMARKS, info_of


@cache
def examples() -> dict[str, list[str]]:
    """Return the examples of each command, by the words after `unseen`."""
    return tomllib.loads((files("unseen.cli") / "examples.toml").read_text(encoding="utf-8"))


if TYPE_CHECKING:
    _Base = TyperCommand
else:
    _Base = object


class _Help(_Base):
    """What commands and groups share: flags without a type, `--help-all` and examples."""

    def get_params(self, ctx: Any) -> list[Any]:
        found = super().get_params(ctx)
        for each in found:
            if getattr(each, "is_flag", False) and each.metavar is None:
                each.metavar = ""  # a flag takes no value
        rare = any(getattr(each, "hidden", False) for each in found)
        return [*found, _help_all()] if rare else found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = [each for each in self.get_params(ctx) if isinstance(each, TyperOption)]
        several = {name for each in options if each.multiple for name in each.opts}
        return super().parse_args(ctx, spread_lists(args, several, getattr(self, "commands", ())))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.rich_markup_mode = None  # plain text: no boxes, and the same lines at any width
        super().format_help(ctx, formatter)
        if lines := examples().get(ctx.command_path.partition(" ")[2]):
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in lines))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section per panel, then the commands of a group."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            if record := each.get_help_record(ctx):
                panel = getattr(each, "rich_help_panel", None) or ("Options" if record[0][0] == "-" else "Arguments")
                panels.setdefault(panel, []).append(record)
        if isinstance(self, TyperGroup):
            commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
            panels["Commands"] = [
                (name, command.get_short_help_str(limit=100)) for name, command in commands if command
            ]
        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl(rows, col_max=26)


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
    function = with_parameters([parameter("help_all", Annotated[bool, option], False)], lambda **_values: None)
    (made,) = _typer_command(function).params
    made.expose_value, made.metavar = False, ""
    return made


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


def with_parameters(parameters: Sequence[Parameter], function: Callable[..., None]) -> Callable[..., None]:
    """Return a function of keyword arguments with these parameters, which Typer reads."""
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


# ---- the commands of `unseen` ----------------------------------------------------------------------------------------

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
    "audit": ("unseen.cli.audit:audit", "Find classes that a model has seen, and copies of images."),
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
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


# ---- options that all commands share, and options made from the fields of a benchmark --------------------------------

DATA_PANEL, _RUNNING = "Data and models", "Running and output"
#: Models of commands that run without --models.
DEFAULT_MODELS = (
    "packaged:efficientnet-lite0",
    "packaged:efficientnet-lite1",
    "packaged:efficientnet-lite2",
    "random:tf_efficientnet_lite0",
)
#: Extraction options that `--help` shows; `--help-all` shows all.
COMMON_EXTRACTION = ("device", "precision")


def _running(name: str, metavar: str, help: str, **more: Any) -> object:  # noqa: A002 - the word of the command line
    return Option(name, metavar=metavar, help=help, rich_help_panel=_RUNNING, **more)


_HOME = "Folder of features and results (default: $UNSEEN_HOME)."
HomeOption = Annotated[Path | None, _running("--home", "FOLDER", _HOME)]
JsonOption = Annotated[bool, _running("--json", "", "Print JSON in full precision instead of tables.")]
OutputOption = Annotated[
    Path | None, _running("--output", "FILE", "Path of the report; HOME/reports/STUDY.html by default.")
]
MODELS_HELP = "Model names or checkpoint paths"
ModelsOption = Annotated[
    list[str] | None, Option("--models", metavar="NAME ...", help=f"{MODELS_HELP}.", rich_help_panel=DATA_PANEL)
]
_SCHEDULER = "With --engine dask: a running scheduler, tcp://host:8786 or its scheduler file."


@dataclass(frozen=True)
class Running:
    """How a study runs and where its report goes: the same options in every command that runs one."""

    engine: Annotated[str, _running("--engine", "NAME", "local, or dask for a cluster.", hidden=True)] = "local"
    workers: Annotated[int, _running("--workers", "N", "Number of worker processes.", min=1)] = 1
    scheduler: Annotated[str | None, _running("--scheduler", "ADDRESS|FILE", _SCHEDULER, hidden=True)] = None
    output: OutputOption = None
    as_json: JsonOption = False
    all_metrics: Annotated[bool, _running("--all-metrics", "", "Print every metric.")] = False
    quiet: Annotated[bool, _running("--quiet", "", "Suppress progress output.")] = False
    dry_run: Annotated[bool, _running("--dry-run", "", "Check all names and files, print the plan, and stop.")] = False
    home: HomeOption = None

    @classmethod
    def parameters(cls) -> list[Parameter]:
        hints = get_type_hints(cls, include_extras=True)
        return [parameter(each.name, hints[each.name], each.default) for each in dataclasses.fields(cls)]

    @classmethod
    def among(cls, values: Mapping[str, Any]) -> Running:
        """Return the running options among the values of a command."""
        return cls(**{each.name: values[each.name] for each in dataclasses.fields(cls)})


#: Names of options that no field of a benchmark or of the extraction can have.
TAKEN = frozenset({"data", "models", "study", "json", "help", *(each.name for each in dataclasses.fields(Running))})


def split_names(names: Iterable[str] | None) -> list[str]:
    """Split names at commas, except in a path that exists."""
    found: list[str] = []
    for name in names or ():
        whole = "," not in name or Path(name.partition(":")[2].partition("?")[0] or name).exists()
        found += [name] if whole else [part.strip() for part in name.split(",") if part.strip()]
    return found


@dataclass(frozen=True)
class Fields:
    """The options of a dataclass.

    Attributes:
        kind: the dataclass.
        word: prefix of an option whose name is taken, as in `--extraction-workers`.
        panel: their heading in the help.
        taken: names of other options.
        defaults: texts that replace the defaults of the dataclass; None shows and uses no defaults.
        common: fields that `--help` shows; the others need `--help-all`. By default those without `rare` metadata.
    """

    kind: type
    word: str
    panel: str
    taken: Collection[str] = TAKEN
    defaults: Mapping[str, Any] | None = field(default_factory=dict)
    common: Collection[str] | None = None

    def fields(self) -> list[dataclasses.Field[Any]]:
        """Return the fields that are options; `only` belongs to study files."""
        return [each for each in dataclasses.fields(self.kind) if each.init and each.name != "only"]

    def option_name(self, name: str) -> str:
        return f"--{f'{self.word}-{name}' if name in self.taken else name}".replace("_", "-")

    def parameters(self) -> list[Parameter]:
        hints = get_type_hints(self.kind, include_extras=True)
        return [self._parameter(each, hints[each.name]) for each in self.fields()]

    def given(self, values: Mapping[str, object]) -> Values:
        """Return, by field, the texts on the command line that differ from the default that the help shows."""
        found = {each.name: values[self._key(each.name)] for each in self.fields()}
        shown = {name for name in found if self.defaults is not None and self.defaults.get(name, "") is not None}
        defaults = {name: self._default(name) if name in shown else None for name in found}
        return {name: value for name, value in found.items() if value is not None and value != defaults[name]}

    def _key(self, name: str) -> str:
        return f"{self.word.replace('-', '_')}__{name}"

    def _default(self, name: str) -> object:
        """Return the default of the dataclass as the command line writes it."""
        (value,) = [each.default for each in self.fields() if each.name == name]
        if isinstance(value, bool) or value is None:
            return value
        return [str(one) for one in value] if isinstance(value, tuple) else str(value)

    def _parameter(self, each: dataclasses.Field[object], hint: object) -> Parameter:
        name = self.option_name(each.name)
        default = None if self.defaults is None else self.defaults.get(each.name, self._default(each.name))
        help_text, metavar = str(each.metadata.get("help", "")), _metavar(hint, each)
        if (words := choices_of(hint)) and metavar == "NAME":
            help_text += f" One of: {', '.join(words)}."
        if each.name in self.taken:
            help_text = f"For the {self.word}: {help_text[0].lower()}{help_text[1:]}"
        kind: Any
        if isinstance(each.default, bool):
            kind = bool | None
            name = f"{name}/{name.replace('--', '--no-', 1)}" if each.default or self.defaults is None else name
        else:
            kind = list[str] | None if is_many(hint) else str | None
        rare = each.metadata.get("rare", False) if self.common is None else each.name not in self.common
        made = Option(name, metavar=metavar, help=help_text, rich_help_panel=self.panel, hidden=rare)
        return parameter(self._key(each.name), Annotated[kind, made], None if default == [] else default)


def _metavar(hint: object, each: dataclasses.Field[object]) -> str:
    """Return the placeholder of an option's value in the help: short choices, or a word for its type."""
    kinds, words = kinds_of(hint), choices_of(hint)
    if bool in kinds:
        return ""
    if each.metadata.get("dataset"):
        text = "DATA"
    elif Path in kinds:
        text = "FOLDER"
    elif each.metadata.get("file"):
        text = "N|FILE" if int in kinds else "NAME|FILE"
    else:
        numbers = ["N"] if int in kinds else ["X"] if float in kinds else []
        text = "|".join([*numbers, *words])
        text = text if 0 < len(text) <= 18 else "NAME"
    return f"{text} ..." if is_many(hint) else text


# ---- the console entry point -----------------------------------------------------------------------------------------

_INTERRUPTED = 130
_TERMINATED = 143
_HINT = "finished work is stored, run the same command to resume"


class _Terminated(BaseException):
    """The process received SIGTERM."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        with _sigterm_raises(), _warnings_as_lines():
            code = application(
                args=sys.argv[1:] if arguments is None else list(arguments), prog_name="unseen", standalone_mode=False
            )
    except UnseenError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except _Terminated:
        return _fail(f"terminated; {_HINT}", _TERMINATED)
    except Exception as error:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and passing_reason(error)):
            reason = f"out of memory ({error})" if isinstance(error, MemoryError) else error
            return _fail(f"{reason}; {_HINT}", UnseenError.exit_code)
        # Typer vendors its parser, so its usage errors have no public class.
        if not hasattr(error, "format_message") or not hasattr(error, "exit_code"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError" and hasattr(error, "show"):
            error.show()
            return int(error.exit_code)
        where = getattr(getattr(error, "ctx", None), "command_path", "unseen")
        return _fail(f"{error.format_message()} See: {where} --help", int(error.exit_code))
    if code == _INTERRUPTED:  # Typer returns this code after it has caught the interruption itself
        return _fail(f"interrupted; {_HINT}", _INTERRUPTED)
    return int(code or 0)


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print warnings of the stores as lines on standard error, each of them."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, StoreWarning):
            _print_line("warning", str(message))
        else:
            before(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", StoreWarning)
        before, warnings.showwarning = warnings.showwarning, show
        yield


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Raise an exception on SIGTERM, so that files are closed and locks are released."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise _Terminated

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # only the main thread can set handlers
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _fail(message: str, code: int) -> int:
    _print_line("error", message)
    return code


def _print_line(kind: str, message: str) -> None:
    from unseen.cli.tables import printable

    sys.stderr.write(f"unseen: {kind}: {printable(' '.join(message.split()))}\n")


def run() -> None:
    """Run `main` and exit with its code."""
    sys.exit(main())
