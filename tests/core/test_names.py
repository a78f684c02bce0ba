"""One grammar for models and datasets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.core.errors import UsageError
from unseen.core.names import Name, Options, from_path


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
    parsed = Name.parse(text)
    assert (parsed.scheme, parsed.rest, dict(parsed.options)) == (scheme, name, options)


_KEYS = st.text("abcdefgh_", min_size=1, max_size=5)


@given(
    st.sampled_from(["folder", "packaged"]),
    st.text("ab/ é?:.", min_size=1),
    st.dictionaries(_KEYS, st.text(), max_size=3),
)
def test_the_canonical_id_reads_back(scheme: str, name: str, options: dict[str, str]) -> None:
    written = Name.parse(f"{scheme}:{name}", options)
    if options or not name.endswith("?"):
        assert Name.parse(str(written)) == written


def test_keyword_options_win_and_none_removes() -> None:
    parsed = Name.parse("x:y?b=1&a=2", {"b": 3, "a": None, "c": True})
    assert str(parsed) == "x:y?b=3&c=true"


def test_bad_ids_are_refused() -> None:
    with pytest.raises(UsageError, match="gives the option 'a' twice"):
        Name.parse("x:y?a=1&a=2")
    with pytest.raises(UsageError, match="has no scheme"):
        Name.parse(":y")


def test_flags() -> None:
    assert Name.parse("x:y?a=yes&b=0").flag("a")
    assert not Name.parse("x:y?a=yes&b=0").flag("b")
    assert not Name.parse("x:y").flag("a")
    with pytest.raises(UsageError, match="not true or false"):
        Name.parse("x:y?a=maybe").flag("a")


def test_paths_are_made_absolute_where_they_are_paths(tmp_path: Path) -> None:
    (tmp_path / "list.txt").touch()
    name = Name.parse("folder:photos?train=list.txt&test=0.2&wnids=gone.tsv&seed=3")
    found = name.resolved(tmp_path, ("", "train", "test", "wnids"))
    assert found.rest == str(tmp_path / "photos")
    assert dict(found.options) == {
        "train": str(tmp_path / "list.txt"),
        "test": "0.2",
        "wnids": "gone.tsv",  # not here: it may be relative to the data
        "seed": "3",
    }
    assert Name.parse("timm:resnet50").resolved(tmp_path, ()) == Name.parse("timm:resnet50")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("photos", "folder:photos"),
        ("photos/", "folder:photos/"),
        ("./nowhere", "folder:./nowhere"),
        ("/a/b?seed=3", "folder:/a/b?seed=3"),
        ("~/pictures", "folder:~/pictures"),
        ("list.csv", "folder:list.csv"),
        ("folder:photos", "folder:photos"),
        ("packaged:grocery", "packaged:grocery"),
        ("packged:grocery", "packged:grocery"),
        ("word", "word"),
        ("known", "known"),
        ("C:\\data\\photos", "folder:C:\\data\\photos"),
        ("D:/photos?seed=3", "folder:D:/photos?seed=3"),
    ],
)
def test_plain_paths(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    assert from_path(text, "folder", ("folder", "packaged", "known").__contains__, tmp_path) == expected


def test_options_are_typed_and_complete() -> None:
    options = Options("x:y", {"n": "3", "share": "0.5", "kind": "b", "colour": "red"})
    assert options.integer("n") == 3
    assert options.fraction("share") == 0.5
    assert Options("x:y", {"share": "0"}).fraction("share") == 0.0
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
        ("-0.5", lambda o: o.fraction("k")),
        ("half", lambda o: o.fraction("k")),
        ("nan", lambda o: o.fraction("k")),
        ("c", lambda o: o.choice("k", ("a", "b"))),
    ],
)
def test_bad_values_are_named(value: str, read) -> None:
    with pytest.raises(UsageError, match=f"option k='{value}' should be"):
        read(Options("x:y", {"k": value}))


def test_what_no_file_can_be_called_is_no_path(tmp_path: Path) -> None:
    known = ("folder", "known").__contains__
    assert from_path("known\0", "folder", known, tmp_path) == "known\0"
    assert from_path("word\0", "folder", known, tmp_path) == "word\0"
    assert from_path("~no-such-user/x", "folder", known, tmp_path) == "folder:~no-such-user/x"
    (tmp_path / "known").mkdir()
    assert from_path("known", "folder", known, tmp_path) == "folder:known", "a folder that is there goes first"
    assert from_path("known:x", "folder", known, tmp_path) == "known:x"


def test_the_least_number_is_allowed_and_the_nearest_name_is_said() -> None:
    options = Options("x:y", {"n": "3", "m": "-3", "worker": "1"})
    assert options.integer("n", at_least=3) == 3
    assert options.integer("m", at_least=-3) == -3
    with pytest.raises(UsageError, match="option n='3' should be a whole number from 4 on"):
        options.integer("n", at_least=4)
    options.text("workers"), options.text("works")
    with pytest.raises(UsageError, match=r"no option 'worker'\. Did you mean 'workers'"):
        options.finish()
