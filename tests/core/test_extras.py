"""Optional packages: whether they are there, and how to get them."""

from __future__ import annotations

import json

import pytest

from unseen.core import extras
from unseen.core.errors import MissingExtraError
from unseen.core.extras import EXTRAS, extra_note, import_extra, installed


def test_a_list_says_what_is_installed_and_how_to_install_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "there", ("a module that exists", "json"))
    monkeypatch.setitem(EXTRAS, "gone", ("what is not", "no_such_package"))
    assert installed("there") and not installed("gone")
    assert extra_note("there") == "extra there: installed"
    assert extra_note("gone") == "extra gone: pip install 'unseen[gone]'"
    assert extra_note("") == ""


def test_a_module_is_imported_or_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "gone", ("what is not", "no_such_package"))
    assert import_extra("json", "gone") is json
    with pytest.raises(MissingExtraError, match=r"no_such_package \(what is not\).*unseen\[gone\]"):
        import_extra("no_such_package.inner", "gone")
