"""Typed views of the plain mappings that results store: details of a benchmark, parameters of a cell.

A benchmark declares a frozen dataclass for everything that it stores beyond metrics. Code reads its fields instead of
looking up strings. Reading is tolerant: a missing or ill-typed value of an old or damaged result becomes the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self, get_type_hints

import msgspec

from unseen.core.identity import plain


@dataclass(frozen=True)
class Typed:
    """Base of typed details and parameters; every field needs a default."""

    @classmethod
    def read(cls, values: Mapping[str, object]) -> Self:
        """Return the view of a stored mapping; ignore keys that the class does not declare."""
        hints = _hints(cls)
        found: dict[str, Any] = {}
        for each in fields(cls):
            with suppress(KeyError, msgspec.ValidationError, TypeError):  # the value becomes the default
                found[each.name] = msgspec.convert(values[each.name], hints[each.name], strict=True)
        return cls(**found)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, as plain values."""
        found = {}
        for each in fields(self):
            value = getattr(self, each.name)
            default = each.default if each.default_factory is MISSING else each.default_factory()
            if value != default:
                found[each.name] = plain(value)
        return found


@dataclass(frozen=True)
class Details(Typed):
    """Details that results of several benchmarks store under the same names.

    Attributes:
        chance: value of guessing.
        correct, image_scores: packed outcomes per test image (`unseen.results.grid`).
        best, chosen: the selected hyper-parameters.
        per_class, per_label: accuracy or average precision by class or label; None without test images.
        labels: number of labels of images with several.
        audit: the sentence of the leak audit.
    """

    classes: int | None = None
    train_images: int | None = None
    test_images: int | None = None
    chance: float | None = None
    correct: str = ""
    image_scores: str = ""
    best: dict[str, Any] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)
    per_class: dict[str, float | None] = field(default_factory=dict)
    per_label: dict[str, float | None] = field(default_factory=dict)
    labels: int | None = None
    audit: str = ""


_HINTS: dict[type, dict[str, Any]] = {}


def _hints(kind: type) -> dict[str, object]:
    """Return the types of the fields of a class, resolved once per class."""
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]
