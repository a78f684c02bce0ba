"""The vocabulary of the command line, and commands made from the options of a benchmark.

Every field of a benchmark's dataclass becomes an option: its name with dashes, its help, its choices and its default.
Values go as texts to `unseen.core.options.make_options`, the one check that study files and Python go through too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from unseen.core.records import Result

DATA_PANEL, _PROTOCOL, _EXTRACTION, _RUNNING = (
    "Data and models",
    "Protocol",
    "Extraction of features",
    "Running and output",
)

HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="FOLDER",
        help="Where features and results are kept; $UNSEEN_HOME or the user's data folder by default.",
        rich_help_panel=_RUNNING,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON in full precision, and nothing else.", rich_help_panel=_RUNNING)
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Where to write the page; HOME/reports/STUDY.html by default.",
        rich_help_panel=_RUNNING,
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Check everything, say what would be done, do nothing.", rich_help_panel=_RUNNING),
]
EngineOption = Annotated[
    str, typer.Option("--engine", metavar="NAME", help="local, or dask for a cluster.", rich_help_panel=_RUNNING)
]
WorkersOption = Annotated[
    int,
    typer.Option(
        "--workers", metavar="N", min=1, help="Processes that evaluate side by side.", rich_help_panel=_RUNNING
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS|FILE",
        help="With --engine dask: a running scheduler, tcp://host:8786 or its scheduler file.",
        rich_help_panel=_RUNNING,
    ),
]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--models", metavar="NAME ...", help="Models; paths of checkpoints will do.", rich_help_panel=DATA_PANEL
    ),
]


@dataclass(frozen=True)
class Running:
    """Where and how a study runs, and where its answer goes: the same options in every command that runs one."""

    engine: str = "local"
    workers: int = 1
    scheduler: str | None = None
    report: Path | None = None
    as_json: bool = False
    dry_run: bool = False
    home: Path | None = None


def parameter(name: str, annotation: Any, default: Any = None) -> Parameter:
    """One parameter of a function that Typer reads."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


RUNNING = (
    parameter("engine", EngineOption, "local"),
    parameter("workers", WorkersOption, 1),
    parameter("scheduler", SchedulerOption),
    parameter("report", ReportOption),
    parameter("as_json", JsonOption, False),
    parameter("dry_run", DryRunOption, False),
    parameter("home", HomeOption),
)
#: Options whose names no field of a benchmark or of the extraction can have for itself.
TAKEN = frozenset(
    {"data", "models", "study", "engine", "workers", "scheduler", "report", "json", "dry_run", "home", "help"}
)


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


def split_names(names: Iterable[str] | None) -> list[str]:
    """Names given one by one, with commas, or both; a path that has a comma stays whole where it is there."""
    found: list[str] = []
    for name in names or ():
        whole = "," not in name or Path(name.partition(":")[2].partition("?")[0] or name).exists()
        found += [name] if whole else [part.strip() for part in name.split(",") if part.strip()]
    return found


def running(values: Mapping[str, Any]) -> Running:
    """The running options among a command's values."""
    return Running(**{each.name: values[each.name] for each in RUNNING})


# ── options from dataclasses ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Fields:
    """The options that a dataclass becomes.

    Attributes:
        kind: the dataclass.
        word: stands before an option whose name is taken, as in `--extraction-workers`, and tells parameters apart.
        panel: heads them in the help.
        taken: names that others have.
        defaults: texts instead of the dataclass's defaults; None where no default is to be shown or given.
    """

    kind: type
    word: str
    panel: str
    taken: Collection[str] = TAKEN
    defaults: Mapping[str, Any] | None = field(default_factory=dict)

    #: What a study says of itself, and a command line by its DATA.
    left_out = ("only",)

    def fields(self) -> list[dataclasses.Field[Any]]:
        return [each for each in dataclasses.fields(self.kind) if each.init and each.name not in self.left_out]

    def option_name(self, name: str) -> str:
        return f"--{f'{self.word}-{name}' if name in self.taken else name}".replace("_", "-")

    def parameters(self) -> list[Parameter]:
        hints = get_type_hints(self.kind, include_extras=True)
        return [self._parameter(each, hints[each.name]) for each in self.fields()]

    def given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """By field, the texts that differ from the defaults."""
        found = {each.name: values[self._key(each.name)] for each in self.fields()}
        return {name: value for name, value in found.items() if value is not None and value != self._default(name)}

    def _key(self, name: str) -> str:
        return f"{self.word.replace('-', '_')}__{name}"

    def _default(self, name: str) -> Any:
        """The dataclass's default as the command line writes it."""
        (value,) = [each.default for each in self.fields() if each.name == name]
        if isinstance(value, bool) or value is None:
            return value
        return [str(one) for one in value] if isinstance(value, tuple) else str(value)

    def _parameter(self, each: dataclasses.Field[Any], hint: Any) -> Parameter:
        from unseen.core.options import choices_of, is_many

        name = self.option_name(each.name)
        default = None if self.defaults is None else self.defaults.get(each.name, self._default(each.name))
        help_text, metavar = str(each.metadata.get("help", "")), _metavar(hint, each)
        if (words := choices_of(hint)) and metavar == "NAME":
            help_text += f" One of: {', '.join(words)}."
        if each.name in self.taken:
            help_text = f"Of the {self.word}, unlike --{each.name.replace('_', '-')}: {help_text}"
        kind: Any
        if isinstance(each.default, bool):
            kind = bool | None
            name = f"{name}/{name.replace('--', '--no-', 1)}" if each.default or self.defaults is None else name
        else:
            kind = list[str] | None if is_many(hint) else str | None
        made = typer.Option(name, metavar=metavar, help=help_text, rich_help_panel=self.panel)
        return parameter(self._key(each.name), Annotated[kind, made], default or (None if default == [] else default))


def _metavar(hint: Any, each: dataclasses.Field[Any]) -> str:
    """What stands behind an option in the help: its choices where they are short, else a word for its kind."""
    from unseen.core.options import choices_of, is_many, kinds_of

    kinds, words = kinds_of(hint), choices_of(hint)
    if each.metadata.get("dataset"):
        text = "DATA"
    elif Path in kinds:
        text = "FOLDER"
    elif each.metadata.get("file"):
        text = "NAME|FILE"
    else:
        numbers = ["N"] if int in kinds else ["X"] if float in kinds else []
        text = "|".join([*numbers, *words])
        text = text if 0 < len(text) <= 18 else "NAME"
    return f"{text} ..." if is_many(hint) else text


# ── the command of a benchmark ───────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Draft:
    """A study as a command line asks for it, before it is checked; a command's own hook may still change it.

    Attributes:
        options: of the benchmark, texts by field, defaults left out.
        extraction: the same of the extraction.
        beside: options of further benchmarks, by name.
        more: values of the command's own options.
    """

    name: str
    data: list[str]
    models: list[str]
    options: dict[str, Any]
    extraction: dict[str, Any]
    beside: dict[str, dict[str, Any]] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)


def study_command(
    benchmark: str,
    *,
    data: Sequence[str] = (),
    models: Sequence[str] = (),
    title: str = "",
    defaults: Mapping[str, Any] | None = None,
    more: Sequence[Parameter] = (),
    prepare: Callable[[Draft], None] | None = None,
    show: Callable[[Sequence[Result]], None] | None = None,
) -> Callable[[], None]:
    """The function of a command that runs one benchmark on DATA; register it with `cls=Command`.

    The benchmark is imported when the command is asked for.

    Args:
        benchmark: its registry name.
        data, models: what is taken where the command line names none.
        title: heads the page.
        defaults: texts by field where the command's default is not the dataclass's.
        more: options of the command's own.
        prepare: turns what was asked for into a study, such as the name of a suite into datasets.
        show: prints the results; tables of all metrics by default.
    """

    def make() -> Callable[..., None]:
        from unseen.benchmarks.benchmark import BENCHMARKS
        from unseen.features import Extraction

        kind = BENCHMARKS.get(benchmark)
        names = {each.name for each in more}
        own = Fields(kind, benchmark, _PROTOCOL, TAKEN | names, defaults or {})
        how = Fields(Extraction, "extraction", _EXTRACTION, {*TAKEN, *names, *(each.name for each in own.fields())})
        command = f"unseen {kind.command or benchmark}"

        def body(values: dict[str, Any]) -> None:
            draft = Draft(
                name=values["study"],
                data=split_names([*(values["data"] or ()), *(values["data_option"] or ())]) or list(data),
                models=split_names(values["models"]) or list(models),
                options=own.given(values),
                extraction=how.given(values),
                more={name: values[name] for name in names},
            )
            if prepare is not None:
                prepare(draft)
            run_draft(draft, benchmark, command, title or kind.question, running(values), show)

        parameters = [
            *_study_parameters(benchmark, data, models),
            *more,
            *own.parameters(),
            *how.parameters(),
            *RUNNING,
        ]
        return with_parameters(parameters, body)

    return made_late(make)


def _study_parameters(benchmark: str, data: Sequence[str], models: Sequence[str]) -> list[Parameter]:
    """DATA, --data, --models and --study."""
    about = f"Datasets, or folders of labelled images{f'; {_few(data)} by default' if data else ''}."
    argument = typer.Argument(metavar="DATA", help=about, show_default=False)
    again = typer.Option("--data", metavar="DATA ...", help="The same, as an option.", rich_help_panel=DATA_PANEL)
    which = f"Models; paths of checkpoints will do{f'; {_few(models)} by default' if models else ''}."
    chosen = typer.Option("--models", metavar="NAME ...", help=which, rich_help_panel=DATA_PANEL)
    filed = typer.Option(
        "--study", metavar="NAME", help="File the results under this name.", rich_help_panel=DATA_PANEL
    )
    return [
        parameter("data", Annotated[list[str] | None, argument]),
        parameter("data_option", Annotated[list[str] | None, again]),
        parameter("models", Annotated[list[str] | None, chosen]),
        parameter("study", Annotated[str, filed], benchmark),
    ]


def _few(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def run_draft(
    draft: Draft,
    benchmark: str,
    command: str,
    title: str,
    how: Running,
    show: Callable[[Sequence[Result]], None] | None = None,
) -> None:
    """Check a draft, and run it."""
    from unseen.benchmarks.benchmark import make_benchmark
    from unseen.cli.run import run_and_report
    from unseen.core.errors import UsageError
    from unseen.core.options import make_options
    from unseen.features import Extraction
    from unseen.study import Study

    if not draft.data:
        raise UsageError(f"{command}: name the data, such as: {command} photos/ (unseen ls datasets).")
    if not draft.models:
        raise UsageError(f"{command}: name the models, such as: --models timm:resnet50 mine.pth (unseen ls models).")
    here = Path.cwd()
    asked = {**draft.beside, benchmark: draft.options}
    study = Study(
        name=draft.name,
        title=title,
        models=tuple(draft.models),
        datasets=tuple(draft.data),
        benchmarks=[make_benchmark(n, given, source=command, base=here, texts=True) for n, given in asked.items()],
        extraction=make_options(Extraction, draft.extraction, source=command, base=here, texts=True),
        base=here,
        source=command,
    )
    run_and_report(study, how, show=show)
