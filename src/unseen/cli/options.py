"""Options that all commands share, and commands made from the options of a benchmark.

Every field of a benchmark's dataclass becomes an option: its name with dashes, its help, its choices and its default.
`unseen.core.options.make_options` checks the values, as it does for study files and Python.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from typer import Option

from unseen.cli.parser import parameter
from unseen.core.identity import Values
from unseen.core.options import choices_of, is_many, kinds_of

if TYPE_CHECKING:
    pass

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


_HOME = "Folder of features and results; $UNSEEN_HOME or the user's data folder by default."
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
            help_text = f"For the {self.word}: {help_text}"
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
