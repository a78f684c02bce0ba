"""Ids of stored objects.

    identify(kind, version, part, part, ...) ─► 16 hex digits

A cell, a hyper-parameter search, a training state: each is identified by all that can change its numbers. Options are
dataclasses whose fields all count, unless `option(neutral="why")` declares that a field changes no number; a field
that points to a file counts with the file's content.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from unseen.core.errors import DataError

#: Plain values by name, as JSON has them.
Values = dict[str, Any]

#: Stands before a path in an option that may also be a word, such as `split = "file:mine.json"`.
FILE = "file:"


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
