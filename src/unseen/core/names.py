"""One grammar for models and datasets: `scheme:rest?option=value&option=value`.

The scheme ends at the first colon. What follows the last `?` is options, if every part of it has an equals sign;
otherwise the question mark belongs to the rest. Values may be percent-encoded. The canonical text has its options in
alphabetical order: one thing, one name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self
from urllib.parse import quote, unquote

from unseen.core.errors import UsageError, suggest

_WNID = re.compile(r"n\d{8}")
_WINDOWS_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SAFE = "/,.:~+@ *"  # kept readable; `%`, `&`, `=`, `?` and `#` are not


#: What is shown although `str.isprintable` is false: the spaces of numbers and units.
_SPACES = "\n\u00a0\u2009\u202f"


def printable(text: str) -> str:
    """Replace characters that would control a terminal."""
    return "".join(c if c.isprintable() or c in _SPACES else "\N{REPLACEMENT CHARACTER}" for c in text)


@dataclass(frozen=True)
class Name:
    """The parts of a name.

    Attributes:
        scheme: which source loads it.
        rest: what that source calls it.
        options: what stood behind the question mark.
    """

    scheme: str
    rest: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: object, options: Mapping[str, object] | None = None) -> Self:
        """Read a name. `options` are added to those in it, and win over them; None takes one away."""
        if not isinstance(text, str):
            raise UsageError(f"a name is expected, such as packaged:grocery, not {type(text).__name__}.")
        head, found = _cut_options(text)
        scheme, _, rest = head.partition(":")
        if not scheme:
            raise UsageError(f"{text!r} has no scheme. Write it like folder:PATH, packaged:grocery or timm:resnet50.")
        for key, value in (options or {}).items():
            if value is None:
                found.pop(key, None)
            else:
                found[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return cls(scheme, rest, dict(sorted(found.items())))

    def __str__(self) -> str:
        base = f"{self.scheme}:{self.rest}" if self.rest else self.scheme
        if not self.options:
            return base
        return base + "?" + "&".join(f"{key}={quote(value, safe=_SAFE)}" for key, value in self.options.items())

    def without(self, *keys: str) -> Self:
        return replace(self, options={k: v for k, v in self.options.items() if k not in keys})

    def flag(self, option: str) -> bool:
        """Return whether a yes/no option is on."""
        value = self.options.get(option, "false").lower()
        if value not in ("true", "false", "1", "0", "yes", "no"):
            raise UsageError(f"option {option}={value} of {self.scheme}:{self.rest} is not true or false")
        return value in ("true", "1", "yes")

    def resolved(self, base: Path, paths: Collection[str]) -> Self:
        """Return the name with absolute paths: the rest if `paths` has "", and the existing options in `paths`.

        An option that is not an existing path may be a number (`test=0.2`) or relative to the data: its source decides.
        """
        options = dict(self.options)
        for key in options.keys() & set(paths):
            path = str(_absolute(options[key], base))
            options[key] = path if _exists(base, path) else options[key]
        rest = str(_absolute(self.rest, base)) if "" in paths and self.rest else self.rest
        return replace(self, rest=rest, options=options)


def is_wnid(text: str) -> bool:
    """Return whether `text` has the form of a WordNet id: n and eight digits."""
    return _WNID.fullmatch(text) is not None


def _exists(base: Path, text: str) -> bool:
    with suppress(OSError, ValueError, RuntimeError):  # no file can have that name
        return (base / Path(text).expanduser()).exists()
    return False


def from_path(text: str, scheme: str, known: Callable[[str], bool], base: Path) -> str:
    """Return a plain path (`photos/`, `mine.pth`) as a name of `scheme`; a name with a known scheme unchanged.

    Args:
        known: whether a word is a scheme.
        base: folder that relative paths are taken from.
    """
    head, mark, query = text.partition("?")
    first, colon, _ = head.partition(":")
    exists = _exists(base, head)
    if known(first) and (colon or not exists):
        return text
    looks_like_path = head.startswith((".", "/", "~")) or "/" in head or "\\" in head or bool(Path(head).suffix)
    if exists or _WINDOWS_DRIVE.match(head) or (looks_like_path and not colon):
        return f"{scheme}:{head}{mark}{query}"
    return text


def _absolute(text: str, base: Path) -> Path:
    try:
        return (base / Path(text).expanduser()).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{text[:80]!r} is not a path: {error}.") from None


def _cut_options(text: str) -> tuple[str, dict[str, str]]:
    head, mark, query = text.rpartition("?")
    parts = query.split("&")
    if not mark or not all("=" in part for part in parts):
        return text, {}
    options: dict[str, str] = {}
    for part in parts:
        key, _, value = part.partition("=")
        if key in options:
            raise UsageError(f"{text!r} gives the option {key!r} twice")
        options[key] = unquote(value)
    return head, options


class Options:
    """The options of an id. Reading an option marks it as known; `finish` raises if another one is left."""

    def __init__(self, dataset: str, values: Mapping[str, str]) -> None:
        self.dataset = dataset
        self._values = dict(values)
        self._known: set[str] = set()

    def text(self, key: str) -> str | None:
        self._known.add(key)
        return self._values.get(key)

    def integer(self, key: str, *, at_least: int = 0) -> int | None:
        value = self.text(key)
        if value is None:
            return None
        if not value.lstrip("-").isdecimal() or int(value) < at_least:
            raise self.error(key, f"a whole number from {at_least} on")
        return int(value)

    def fraction(self, key: str) -> float | None:
        value = self.text(key)
        number = None if value is None else as_number(value)
        if value is not None and (number is None or not 0 <= number < 1):
            raise self.error(key, "a share from 0 to less than 1, such as 0.2")
        return number

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """Return one of `choices`; the first if the option is missing."""
        value = self.text(key)
        if value is not None and value not in choices:
            raise self.error(key, "one of " + ", ".join(choices))
        return choices[0] if value is None else value

    def error(self, key: str, allowed: str) -> UsageError:
        return UsageError(f"dataset {self.dataset!r}: option {key}={self._values[key]!r} should be {allowed}.")

    def finish(self) -> None:
        """Raise if an option has not been read."""
        for key in self._values:
            if key not in self._known:
                advice = suggest(key, sorted(self._known))
                raise UsageError(f"dataset {self.dataset!r} has no option {key!r}. {advice}")


def as_number(text: str) -> float | None:
    """Return `text` as a number, or None."""
    try:
        return float(text)
    except ValueError:
        return None
