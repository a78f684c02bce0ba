"""Typed views of the plain mappings that results store: details of a benchmark, parameters of a cell.

A benchmark declares a frozen dataclass for everything that it stores beyond metrics. Code reads its fields instead of
looking up strings. Reading is tolerant: a missing or ill-typed value of an old or damaged result becomes the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, Self, get_type_hints

import msgspec

from unseen.core.identity import plain


@dataclass(frozen=True)
class Typed:
    """Base of typed details and parameters; every field needs a default."""

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Return the view of a stored mapping; ignore keys that the class does not declare."""
        hints = _hints(cls)
        found: dict[str, Any] = {}
        for field in fields(cls):
            with suppress(KeyError, msgspec.ValidationError, TypeError):  # the value becomes the default
                found[field.name] = msgspec.convert(values[field.name], hints[field.name], strict=True)
        return cls(**found)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, as plain values."""
        found = {}
        for field in fields(self):
            value = getattr(self, field.name)
            default = field.default if field.default_factory is MISSING else field.default_factory()
            if value != default:
                found[field.name] = plain(value)
        return found


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of the fields of a class."""
    return get_type_hints(kind)
