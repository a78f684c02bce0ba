"""Ids of stored objects, and the options that are part of them.

    identify(kind, version, part, part, ...) ─► 16 hex digits

A cell, a hyper-parameter search, a training state: each is identified by all that can change its numbers. Options are
dataclasses whose fields all count, unless `option(neutral="why")` declares that a field changes no number; a field
that points to a file counts with the file's content.

The dataclass is the schema, too: its annotations say what is allowed (`tuple[int, ...]`, `Literal`, `Annotated[int,
Meta(ge=1)]`), `option(...)` the rest. msgspec checks the values once, from a study file, a command line or Python; the
code here makes its messages readable and adds short forms: one value for a list of one, a count for seeds, a path
relative to the study file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from functools import cache, lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from unseen.core.errors import DataError, UsageError, closest, suggest

#: Plain values by name, as JSON has them.
Values = dict[str, Any]

#: Stands before a path in an option that may also be a word, such as `split = "file:mine.json"`.
FILE = "file:"

T = TypeVar("T")

#: Whole numbers from 1 on, and from 0 on; shares of a whole, ends left out.
Positive = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(gt=0, lt=1)]
Rate = Annotated[float, Meta(gt=0)]

_WHERE = re.compile(r"(?P<what>.*) - at `\$(?P<rest>.*)`")


def canonical_json(value: object) -> str:
    """Return JSON with sorted keys and no white space: the same text on any machine."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(value: object, *, length: int = 16) -> str:
    """Return the first `length` hex digits of the sha256 of a JSON value."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]


def identify(kind: str, version: str, *parts: object) -> str:
    """Return the id of a stored object.

    Args:
        kind: what it is, such as a benchmark's name.
        version: of the code that makes it; a changed number wants a changed version.
        parts: JSON values, all that can change it.
    """
    return digest([kind, version, *parts])


def option(
    default: object,
    *,
    help: str = "",  # noqa: A002 - the word of the command line
    neutral: str = "",
    axis: str = "",
    file: bool = False,
    dataset: bool = False,
    count: tuple[int, ...] = (),
    rare: bool = False,
) -> Any:
    """Declare a field of an options dataclass with its metadata.

    Args:
        help: one line, for `--help` and the docs.
        neutral: why the field changes no number; without it the field is part of the identity.
        axis: the cells' parameter that each value of this field becomes, such as "seed" for `seeds`.
        file: whether the value is, or may be, the path of a file, whose content then counts.
        dataset: whether the value names datasets, whose content then counts.
        count: the values that a single whole number selects from, as `seeds = 3` selects the first three.
        rare: whether only `--help-all` shows the option.
    """
    metadata = {"help": help, "neutral": neutral, "axis": axis, "file": file, "dataset": dataset, "count": count}
    return dataclasses.field(default=default, metadata={**metadata, "rare": rare})


def neutral_options(options: Any) -> dict[str, Any]:
    """Return every option that changes no number."""
    return {f.name: getattr(options, f.name) for f in dataclasses.fields(options) if f.metadata.get("neutral")}


def parameters_of(options: Any, *, leave_out: Collection[str] = ()) -> dict[str, Any]:
    """Return every option that may change a number, as JSON values; the caller adds the axes.

    Args:
        leave_out: fields that change no number beside the others' present values.
    """
    found = {}
    for field in dataclasses.fields(options):
        if field.metadata.get("neutral") or field.metadata.get("axis") or field.name in leave_out:
            continue
        value = getattr(options, field.name)
        found[field.name] = with_content(value) if field.metadata.get("file") else plain(value)
    return found


def plain(value: object) -> Any:
    """Return an option's value as a JSON value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return parameters_of(value)
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def with_content(value: str | Path) -> str:
    """Return a file option as the file's name and a digest of its content; any other value unchanged."""
    path = file_behind(value)
    return str(value) if path is None else f"{path.name}@{file_digest(path)[:12]}"


def file_behind(value: str | Path) -> Path | None:
    """Return the file that an option's value points to, or None if it is a word.

    Raises:
        DataError: it is written as a path, and no file is there.
    """
    text = str(value)
    path = Path(text.removeprefix(FILE)).expanduser()
    if path.is_file():
        return path
    if text.startswith(FILE) or isinstance(value, Path) or "/" in text or path.suffix in _FILE_SUFFIXES:
        raise DataError(f"there is no file {str(path)!r}.")
    return None


_FILE_SUFFIXES = (".txt", ".csv", ".tsv", ".json", ".npy", ".npz", ".mat", ".toml", ".gz", ".bin", ".vec", ".h5")


def file_digest(path: Path) -> str:
    """Return the sha256 of a file's content; an unchanged file is read once."""
    try:
        state = path.stat()
        return _file_digest(str(path.resolve()), state.st_size, state.st_mtime_ns)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


@lru_cache(maxsize=256)
def _file_digest(path: str, _size: int, _time: int) -> str:
    with open(path, "rb") as stream:  # noqa: PTH123 - file_digest takes an open file
        return hashlib.file_digest(stream, "sha256").hexdigest()


def to_json(value: object, *, indent: int | None = 2) -> str:
    """Return strict JSON: numbers that it lacks are "NaN", "Infinity" or "-Infinity", which `float` reads."""
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):  # a number that JSON lacks, or a mapping that is not a dictionary
        return json.dumps(_strict(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _strict(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {str(key): _strict(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(inner) for inner in value]
    return value


# ---- options from a study file, a command line or Python -------------------------------------------------------------


class OptionError(UsageError):
    """An option has a value that is not allowed."""

    def __init__(self, owner: str, detail: str) -> None:
        super().__init__(f"{owner}: {detail}")
        self.detail = detail


def check_options(options: Any) -> None:
    """Check every field of an options dataclass, and put what is meant in its place: for its `__post_init__`.

    Raises:
        OptionError: a value of a type, or outside the choices or range, that the field's annotation does not allow.
    """
    hints = type_hints(type(options))
    for field in dataclasses.fields(options):
        value = _meant(getattr(options, field.name), hints[field.name], field)
        checked = _convert(value, hints[field.name], type(options).__name__, field.name, strict=True)
        object.__setattr__(options, field.name, checked)


def make_options(
    kind: type[T], values: Mapping[str, object], *, source: str, base: Path | None = None, texts: bool = False
) -> T:
    """Return an instance of the options dataclass `kind`, which checks itself by `check_options`.

    Args:
        values: by field name.
        source: where they stand, to begin an error with, such as "study.toml [benchmarks.probe]".
        base: folder that files behind options are relative to.
        texts: whether numbers may be written as texts, as a command line gives them.

    Raises:
        UsageError: a name, type or value that is not allowed; one line that names it.
    """
    if not isinstance(values, Mapping):
        raise UsageError(f"{source}: a table is expected, not {type(values).__name__}.")
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}  # type: ignore[arg-type]
    hints = type_hints(kind)
    given: dict[str, Any] = {}
    try:
        for key, value in values.items():
            if key not in fields:
                raise UsageError(f"{source}: unknown option {key!r}. {suggest(str(key), fields)}")
            if texts:
                listed = _meant(_from_texts(value, hints[key]), hints[key], fields[key])
                value = _convert(listed, hints[key], kind.__name__, key, strict=False)
            if fields[key].metadata.get("file") and isinstance(value, str) and base is not None:
                value = resolve_file(value, base)
            given[key] = value
        return kind(**given)
    except OptionError as error:
        raise UsageError(f"{source}: {error.detail}") from None


#: Types of the fields of a class, resolved once per class.
type_hints: Callable[[type], dict[str, object]] = cache(partial(get_type_hints, include_extras=True))


def _convert(value: object, hint: object, owner: str, name: str, *, strict: bool) -> object:
    try:
        return msgspec.convert(value, hint, strict=strict, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise OptionError(owner, _readable(str(error), name, value, hint)) from None


def _from_texts(value: object, hint: object) -> object:
    """Split the text of a command line at commas for a field of several values; a single number stays a count."""
    if not is_many(hint):
        return value
    given = [str(text) for text in (value if isinstance(value, list | tuple) else [value])]
    parts = [part.strip() for text in given for part in text.split(",") if part.strip()]
    # "22," is the seed 22, and 22 a count.
    return int(parts[0]) if len(parts) == 1 and parts[0].isdecimal() and "," not in given[0] else parts


def _meant(value: object, hint: object, field: dataclasses.Field[object]) -> object:
    """Return the value that a shorthand means: a list of one, or a count of seeds."""
    if not is_many(hint) or isinstance(value, bool | list | tuple):
        return value
    if counted := field.metadata.get("count"):
        return first_values(counted, value) if isinstance(value, int) else value
    return [value] if isinstance(value, str | int | float) else value


def first_values(known: tuple[int, ...], count: int) -> list[int]:
    """Return the first `count` of some numbers, continued after the largest."""
    return [*islice(chain(known, itertools.count(max(known, default=-1) + 1)), max(count, 0))]


def resolve_file(text: str, base: Path) -> str:
    """Return a value as an absolute path if it is a file or starts with `file:`."""
    path = base / Path(text.removeprefix(FILE)).expanduser()
    if text.startswith(FILE):
        return f"{FILE}{path.resolve()}"
    return str(path.resolve()) if text and path.is_file() else text


def is_many(hint: object) -> bool:
    """Return whether an annotation allows several values."""
    origin = get_origin(hint)
    if origin is Annotated:
        return is_many(get_args(hint)[0])
    if origin in (Union, UnionType):
        return any(is_many(part) for part in get_args(hint))
    return origin is tuple


def kinds_of(hint: object) -> set[type]:
    """Return the plain types in an annotation, such as {int} for `tuple[Positive | Literal["all"], ...]`."""
    if isinstance(hint, type) and not get_args(hint):
        return {hint}
    return {kind for part in get_args(hint) if get_origin(hint) is not Literal for kind in kinds_of(part)}


def choices_of(hint: object) -> list[str]:
    """Return the words that an annotation allows, if it lists any."""
    if get_origin(hint) is Literal:
        return [str(word) for word in get_args(hint)]
    return [word for part in get_args(hint) for word in choices_of(part)]


def _readable(message: str, name: str, value: object, hint: object) -> str:
    """Return msgspec's message with the option's name, the value and what is allowed."""
    match = _WHERE.fullmatch(message)
    what, rest = (match["what"], match["rest"]) if match else (message, "")
    position = re.fullmatch(r"\[(\d+)\]", rest)
    if position and isinstance(value, list | tuple):
        value = value[int(position[1])]
    allowed = choices_of(hint)
    if allowed and "enum" in what:
        near = closest(str(value), allowed)
        number = "not a number, and " if kinds_of(hint) & {int, float} else ""
        text = f"{value!r} is {number}none of {', '.join(allowed)}" + (f". Did you mean {near[0]!r}?" if near else ".")
    else:
        what = (
            re.sub(r", got `\w+`", "", what).replace("`", "").replace("Expected", "expected").replace("array", "list")
        )
        text = f"{what}, found {value!r}" + (f" (or one of {', '.join(allowed)})." if allowed else ".")
    return f"{name}{rest}: {text}"


def _decode(kind: type, value: object) -> object:
    if kind is Path:
        if isinstance(value, str | Path):
            return Path(value)
        raise TypeError(f"Expected `path`, got `{type(value).__name__}`")
    raise NotImplementedError(f"options of type {kind}")
