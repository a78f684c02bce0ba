"""Options from a study file, a command line or Python, checked once: names, types, choices and ranges.

The dataclass is the schema: its annotations say what is allowed (`tuple[int, ...]`, `Literal`, `Annotated[int,
Meta(ge=1)]`), `option(...)` the rest. msgspec does the checking; what is here makes its answers readable and adds
what a person may write: one value for a list of one, a count for seeds, a path relative to the study file.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from unseen.core.errors import UnseenError, UsageError, closest
from unseen.core.identity import FILE

T = TypeVar("T")

#: Whole numbers from 1 on, and from 0 on; shares of a whole, ends left out.
Positive = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(gt=0, lt=1)]
Rate = Annotated[float, Meta(gt=0)]

_WHERE = re.compile(r"(?P<what>.*) - at `\$(?:\.(?P<field>\w+))?(?P<rest>.*)`")


def make_options(
    kind: type[T], values: Mapping[str, Any], *, source: str, base: Path | None = None, texts: bool = False
) -> T:
    """An instance of the dataclass `kind`.

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
    hints = get_type_hints(kind, include_extras=True)
    given: dict[str, Any] = {}
    for key, value in values.items():
        if key not in fields:
            near = closest(str(key), fields)
            advice = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(fields)}."
            raise UsageError(f"{source}: unknown option {key!r}. {advice}")
        given[key] = _meant(value, hints[key], fields[key], base, texts=texts)
    try:
        return msgspec.convert(given, kind, strict=not texts, dec_hook=_decode)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, UnseenError):  # the dataclass's own word
            raise error.__cause__ from None
        raise UsageError(f"{source}: {_readable(str(error), given, hints)}") from None


def _meant(value: Any, hint: Any, field: dataclasses.Field[Any], base: Path | None, *, texts: bool) -> Any:
    """What a person means by a value: a list of one, a count of seeds, a file beside the study."""
    many = is_many(hint)
    counted = field.metadata.get("count")
    if texts and many and isinstance(value, str):
        value = [value]
    if texts and many and isinstance(value, list | tuple):
        named = any("," in str(text) for text in value)  # "22," is the seed 22, and 22 a count
        value = [part.strip() for text in value for part in str(text).split(",") if part.strip()]
        if counted and len(value) == 1 and not named and str(value[0]).isdecimal():
            value = int(value[0])
    if counted and isinstance(value, int) and not isinstance(value, bool):
        value = first_values(counted, value)
    if many and isinstance(value, str | int | float | bool) and not isinstance(value, bool):
        if counted and isinstance(value, str):
            return value  # seeds = "22" is a mistake, not one seed
        value = [value]
    if field.metadata.get("file") and isinstance(value, str) and base is not None:
        value = resolve_file(value, base)
    return value


def first_values(known: tuple[int, ...], count: int) -> list[int]:
    """The first `count` of some numbers; beyond them, numbers that follow on the largest."""
    more = range(max(known, default=-1) + 1, max(known, default=-1) + 1 + max(count - len(known), 0))
    return [*known[: max(count, 0)], *more]


def resolve_file(text: str, base: Path) -> str:
    """A value that may be a path, made absolute where it is one: a file is there, or `file:` says so."""
    path = base / Path(text.removeprefix(FILE)).expanduser()
    if text.startswith(FILE):
        return f"{FILE}{path.resolve()}"
    return str(path.resolve()) if text and path.is_file() else text


def is_many(hint: Any) -> bool:
    """Whether an annotation is of several values."""
    origin = get_origin(hint)
    if origin is Annotated:
        return is_many(get_args(hint)[0])
    if origin in (Union, UnionType):
        return any(is_many(part) for part in get_args(hint))
    return origin is tuple


def kinds_of(hint: Any) -> set[type]:
    """The plain types in an annotation, such as {int} for `tuple[Positive | Literal["all"], ...]`."""
    if isinstance(hint, type) and not get_args(hint):
        return {hint}
    return {kind for part in get_args(hint) if get_origin(hint) is not Literal for kind in kinds_of(part)}


def choices_of(hint: Any) -> list[str]:
    """The words that an annotation allows, if it names any."""
    if get_origin(hint) is Literal:
        return [str(word) for word in get_args(hint)]
    return [word for part in get_args(hint) for word in choices_of(part)]


def _readable(text: str, given: Mapping[str, Any], hints: Mapping[str, Any]) -> str:
    match = _WHERE.fullmatch(text)
    if match is None or match["field"] is None:
        return text
    field, rest = match["field"], match["rest"]
    value = given.get(field)
    position = re.fullmatch(r"\[(\d+)\]", rest)
    if position and isinstance(value, list | tuple):
        value = value[int(position[1])]
    what = re.sub(r", got `\w+`", "", match["what"])
    what = what.replace("`", "").replace("Expected", "expected").replace("array", "list")
    allowed = choices_of(hints[field])
    if allowed and "enum" in what:
        near = closest(str(value), allowed)
        number = "no number, and " if kinds_of(hints[field]) & {int, float} else ""
        what = f"{value!r} is {number}none of {', '.join(allowed)}" + (f". Did you mean {near[0]!r}?" if near else "")
    else:
        what = f"{what}, found {value!r}" + (f" (or one of {', '.join(allowed)})" if allowed else "")
    return f"{field}{rest}: {what}"


def _decode(kind: type, value: Any) -> Any:
    if kind is Path:
        if isinstance(value, str | Path):
            return Path(value)
        raise TypeError(f"Expected `path`, got `{type(value).__name__}`")
    raise NotImplementedError(f"options of type {kind}")
