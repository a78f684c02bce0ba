"""Ids and their options."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.core.errors import UsageError
from unseen.data.names import DatasetName, Options


@pytest.mark.parametrize(
    ("text", "scheme", "name", "options"),
    [
        ("packaged:grocery", "packaged", "grocery", {}),
        ("packaged:grocery?labels=coarse", "packaged", "grocery", {"labels": "coarse"}),
        ("folder:/a/b?test=0.2&seed=3", "folder", "/a/b", {"seed": "3", "test": "0.2"}),
        ("folder:/a:b/c?", "folder", "/a:b/c?", {}),
        ("folder:/what?/b", "folder", "/what?/b", {}),
        ("folder:/what?/b?seed=1", "folder", "/what?/b", {"seed": "1"}),
        ("folder:x?train=my%20list%26.txt", "folder", "x", {"train": "my list&.txt"}),
        ("mine", "mine", "", {}),
        ("mine?size=3", "mine", "", {"size": "3"}),
    ],
)
def test_ids_are_read(text: str, scheme: str, name: str, options: dict[str, str]) -> None:
    parsed = DatasetName.parse(text)
    assert (parsed.scheme, parsed.name, dict(parsed.options)) == (scheme, name, options)


_KEYS = st.text("abcdefgh_", min_size=1, max_size=5)


@given(
    st.sampled_from(["folder", "packaged"]),
    st.text("ab/ é?:.", min_size=1),
    st.dictionaries(_KEYS, st.text(), max_size=3),
)
def test_the_canonical_id_reads_back(scheme: str, name: str, options: dict[str, str]) -> None:
    written = DatasetName.parse(f"{scheme}:{name}", options)
    if options or not name.endswith("?"):
        assert DatasetName.parse(str(written)) == written


def test_keyword_options_win_and_none_removes() -> None:
    parsed = DatasetName.parse("x:y?b=1&a=2", {"b": 3, "a": None, "c": True})
    assert str(parsed) == "x:y?b=3&c=true"


def test_bad_ids_are_refused() -> None:
    with pytest.raises(UsageError, match="gives the option 'a' twice"):
        DatasetName.parse("x:y?a=1&a=2")
    with pytest.raises(UsageError, match="has no scheme"):
        DatasetName.parse(":y")


def test_options_are_typed_and_complete() -> None:
    options = Options("x:y", {"n": "3", "share": "0.5", "kind": "b", "colour": "red"})
    assert options.integer("n") == 3
    assert options.fraction("share") == 0.5
    assert options.choice("kind", ("a", "b")) == "b"
    assert options.choice("other", ("a", "b")) == "a"
    assert options.text("color") is None
    with pytest.raises(UsageError, match=r"'x:y' has no option 'colour'. Did you mean 'color'"):
        options.finish()


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("x", lambda o: o.integer("k")),
        ("-1", lambda o: o.integer("k")),
        ("0", lambda o: o.integer("k", at_least=1)),
        ("1", lambda o: o.fraction("k")),
        ("nan", lambda o: o.fraction("k")),
        ("c", lambda o: o.choice("k", ("a", "b"))),
    ],
)
def test_bad_values_are_named(value: str, read) -> None:
    with pytest.raises(UsageError, match=f"option k='{value}' should be"):
        read(Options("x:y", {"k": value}))
