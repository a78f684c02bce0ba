"""Typed views of stored mappings: round trip, defaults for missing or ill-typed values, unknown keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unseen.core.records import Typed


@dataclass(frozen=True)
class View(Typed):
    classes: int = 0
    chance: float | None = None
    names: tuple[str, ...] = ()
    per_class: Mapping[str, float | None] = field(default_factory=dict)


def test_round_trip() -> None:
    view = View(3, 0.5, ("a", "b"), {"a": 0.25, "b": None})
    assert view.to_dict() == {
        "classes": 3,
        "chance": 0.5,
        "names": ["a", "b"],
        "per_class": {"a": 0.25, "b": None},
    }
    assert View.read(view.to_dict()) == view
    assert View().to_dict() == {}


def test_missing_and_ill_typed_values_become_defaults() -> None:
    assert View.read({"classes": "three", "chance": 1, "names": ["a", 2], "other": 7}) == View(chance=1.0)
    assert View.read({}) == View()
