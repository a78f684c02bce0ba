"""The registry: lazy, honest about duplicates, helpful on a miss."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.registry import PluginError, Registry


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


def test_a_broken_plugin_raises_and_is_listed_with_its_reason() -> None:
    registry: Registry[object] = Registry("thing")
    registry.add("good", "os:sep")
    registry.add("gone", "no_such_package:x")
    registry.add("empty", "os:nothing_there")
    found = dict(registry.entries())
    assert found["good"] == os.sep
    assert isinstance(found["gone"], PluginError) and isinstance(found["empty"], PluginError)
    assert found["gone"].reason == "cannot be loaded: No module named 'no_such_package'"
    with pytest.raises(PluginError, match=r"thing 'empty' cannot be loaded: .*nothing_there.*Mend or uninstall"):
        registry.get("empty")


def test_an_entry_is_made_once_from_what_was_registered() -> None:
    def make(name: str, found: object) -> tuple[str, object]:
        if not isinstance(found, str):
            raise TypeError("not a text")
        return name, found

    registry: Registry[tuple[str, object]] = Registry("thing", make=make)
    registry.add("a", "os:sep")
    registry.add("b", 3)
    assert registry.get("a") == ("a", os.sep)
    assert registry.get("a") is registry.get("a")
    assert str(dict(registry.entries())["b"]).startswith("thing 'b' cannot be loaded: not a text")


def test_lazy_exports_are_read_from_what_type_checkers_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lazy_package"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "from unseen.core.registry import lazy_exports\n"
        "if TYPE_CHECKING:\n"
        "    from lazy_package.inner import Thing as Thing\n"
        "    from lazy_package.named import named as named\n"
        "    from wave import open as open\n"
        "else:\n"
        "    __all__, __getattr__, __dir__ = lazy_exports(__name__)\n"
    )
    (package / "inner.py").write_text("class Thing: pass\n")
    (package / "named.py").write_text("def named(): return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("wave", None)
    import lazy_package.named  # would leave the module under the function's name

    assert lazy_package.__all__ == dir(lazy_package) == ["Thing", "named", "open"]
    assert "lazy_package.inner" not in sys.modules and "wave" not in sys.modules
    assert lazy_package.named() == 1
    assert lazy_package.Thing is sys.modules["lazy_package.inner"].Thing
    with pytest.raises(AttributeError, match="module 'lazy_package' has no attribute 'Thign'"):
        lazy_package.Thign  # noqa: B018


def test_another_target_is_refused_wherever_it_stands_in_the_alphabet() -> None:
    for first, second in (("os:path", "os:sep"), ("os:sep", "os:path")):
        registry: Registry[object] = Registry("thing")
        registry.add("a", first)
        with pytest.raises(UsageError, match=f"registered already, as '{first}'"):
            registry.add("a", second)
        assert registry.get("a") is (os.sep if first == "os:sep" else os.path)


def test_plug_ins_are_read_once_where_they_are_needed_and_take_no_name_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    asked: list[str] = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return [EntryPoint("own", "os:path", group), EntryPoint("theirs", "os:linesep", group)]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    registry: Registry[object] = Registry("thing", "unseen.things")
    registry.add("own", "os:sep")
    assert registry.get("own") == os.sep and asked == []
    assert "theirs" in registry and registry.get("theirs") == os.linesep
    assert list(registry) == ["own", "theirs"] and len(registry) == 2 and "no" not in registry
    assert registry.get("own") == os.sep and asked == ["unseen.things"]
    alone: Registry[object] = Registry("thing")
    assert "theirs" not in alone and list(alone) == [] and len(asked) == 1
