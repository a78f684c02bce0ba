"""The registry: lazy, honest about duplicates, helpful on a miss."""

from __future__ import annotations

import sys

import pytest

from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.registry import Registry


def test_a_name_is_imported_when_asked_for() -> None:
    registry: Registry[object] = Registry("thing")
    registry.add("wave", "wave:open")
    sys.modules.pop("wave", None)
    assert list(registry) == ["wave"]
    assert "wave" not in sys.modules
    import wave

    assert registry.get("wave") is wave.open


def test_an_object_is_given_back_as_it_is() -> None:
    registry: Registry[object] = Registry("thing")

    @registry.register("f")
    def f() -> None: ...

    assert registry.get("f") is f
    assert "f" in registry
    assert len(registry) == 1


def test_a_taken_name_is_refused() -> None:
    registry: Registry[object] = Registry("thing")
    registry.add("a", "os:path")
    registry.add("a", "os:path")
    with pytest.raises(UsageError, match="registered already"):
        registry.add("a", "os:sep")


def test_a_miss_suggests() -> None:
    registry: Registry[object] = Registry("measure")
    registry.add("wu-palmer", "os:path")
    with pytest.raises(UnknownNameError, match=r"unknown measure 'wupalmer'\. Did you mean 'wu-palmer'") as caught:
        registry.get("wupalmer")
    assert caught.value.suggestions == ("wu-palmer",)
