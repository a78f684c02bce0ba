"""Dataset ids: `scheme:name?option=value&option=value`, and the options in them.

The scheme ends at the first colon. What follows the last `?` is options, if every part of it has an equals sign;
otherwise the question mark belongs to the name. Values may be percent-encoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote, unquote

from unseen.core.errors import UsageError, closest

_SAFE = "/,.:~+@ "  # kept readable; `%`, `&`, `=`, `?` and `#` are not


@dataclass(frozen=True)
class DatasetName:
    """The parts of a dataset id."""

    scheme: str
    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, options: Mapping[str, Any] | None = None) -> Self:
        """Read an id. `options` are added to those in it, and win over them; None takes one away."""
        head, found = _cut_options(text)
        scheme, _, name = head.partition(":")
        if not scheme:
            raise UsageError(f"dataset {text!r} has no scheme. Write it like folder:PATH or packaged:grocery.")
        for key, value in (options or {}).items():
            if value is None:
                found.pop(key, None)
            else:
                found[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return cls(scheme, name, dict(sorted(found.items())))

    def __str__(self) -> str:
        """The canonical id: options in alphabetical order."""
        base = f"{self.scheme}:{self.name}" if self.name else self.scheme
        if not self.options:
            return base
        return base + "?" + "&".join(f"{key}={quote(value, safe=_SAFE)}" for key, value in self.options.items())

    def without(self, *keys: str) -> DatasetName:
        return DatasetName(self.scheme, self.name, {k: v for k, v in self.options.items() if k not in keys})


def _cut_options(text: str) -> tuple[str, dict[str, str]]:
    head, mark, query = text.rpartition("?")
    parts = query.split("&")
    if not mark or not all("=" in part for part in parts):
        return text, {}
    options: dict[str, str] = {}
    for part in parts:
        key, _, value = part.partition("=")
        if key in options:
            raise UsageError(f"dataset {text!r} gives the option {key!r} twice")
        options[key] = unquote(value)
    return head, options


class Options:
    """The options of an id. Whoever reads one thereby says that it is known; `finish` refuses the others."""

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
        if value is None:
            return None
        number = as_number(value)
        if number is None or not 0 <= number < 1:
            raise self.error(key, "a share from 0 to less than 1, such as 0.2")
        return number

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """One of `choices`; the first where the option is not given."""
        value = self.text(key)
        if value is None:
            return choices[0]
        if value not in choices:
            raise self.error(key, "one of " + ", ".join(choices))
        return value

    def error(self, key: str, allowed: str) -> UsageError:
        return UsageError(f"dataset {self.dataset!r}: option {key}={self._values[key]!r} should be {allowed}.")

    def finish(self) -> None:
        """Refuse options that nobody has read."""
        for key in self._values:
            if key not in self._known:
                near = closest(key, self._known)
                advice = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(sorted(self._known))}."
                raise UsageError(f"dataset {self.dataset!r} has no option {key!r}. {advice}")


def as_number(text: str) -> float | None:
    """The number that `text` is, or None."""
    try:
        return float(text)
    except ValueError:
        return None
