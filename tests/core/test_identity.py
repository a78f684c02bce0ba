"""Names that cover all that can change a number."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from unseen.core.errors import DataError
from unseen.core.identity import (
    canonical_json,
    digest,
    file_behind,
    file_digest,
    identify,
    option,
    parameters_of,
    plain,
    with_content,
)


@dataclass(frozen=True)
class Inner:
    depth: int = 3
    folder: str = option("x", neutral="a cache")


@dataclass(frozen=True)
class Options:
    seeds: tuple[int, ...] = option((1, 2), axis="seed")
    rates: tuple[float, ...] = option((0.1, 0.2))
    workers: int = option(1, neutral="they change no number")
    seen: str = option("imagenet-1k", file=True)
    inner: Inner = Inner()


def test_parameters_are_all_options_but_the_neutral_ones_and_axes() -> None:
    assert parameters_of(Options()) == {"rates": [0.1, 0.2], "seen": "imagenet-1k", "inner": {"depth": 3}}
    assert parameters_of(Options(), leave_out=("rates", "inner")) == {"seen": "imagenet-1k"}


def test_a_file_counts_with_its_content(tmp_path: Path) -> None:
    path = tmp_path / "seen.txt"
    path.write_text("a")
    first = with_content(str(path))
    assert first.startswith("seen.txt@")
    assert with_content(f"file:{path}") == first
    path.write_text("b")
    os.utime(path, ns=(1, 1))
    assert with_content(str(path)) != first
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "seen.txt").write_text("b")
    assert with_content(str(tmp_path / "elsewhere" / "seen.txt")) == with_content(str(path)), "content, not place"


def test_words_are_words_and_missing_files_are_named(tmp_path: Path) -> None:
    assert file_behind("imagenet-1k") is None
    for missing in (f"{tmp_path}/no", "file:gone", "gone.csv"):
        with pytest.raises(DataError, match="there is no file"):
            file_behind(missing)
    with pytest.raises(DataError, match="cannot be read"):
        file_digest(tmp_path / "gone")


def test_digests_do_not_depend_on_the_order_of_keys() -> None:
    assert canonical_json({"b": 1, "a": [1.5, None]}) == '{"a":[1.5,null],"b":1}'
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1}) != digest({"a": 2, "b": 2})


def test_names_are_pinned_on_any_machine() -> None:
    """They are kept for years: sixteen hex digits of the sha256 of one text."""
    text = '["probe","1","m",{"a":"\\u00e9","b":[1,2]}]'
    assert canonical_json(["probe", "1", "m", {"b": (1, 2), "a": "é"}]) == text
    assert identify("probe", "1", "m", {"b": [1, 2], "a": "é"}) == hashlib.sha256(text.encode()).hexdigest()[:16]
    assert digest("x", length=5) == digest("x")[:5] and len(digest("x")) == 16
    for odd in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="JSON"):
            canonical_json(odd)


def test_plain_values() -> None:
    value = {1: (Path("/a"), [Inner(4)]), "kind": Inner, "text": "x", "none": None}
    assert plain(value) == {"1": ["/a", [{"depth": 4}]], "kind": Inner, "text": "x", "none": None}


def test_what_an_option_says_of_itself() -> None:
    @dataclass(frozen=True)
    class Said:
        a: int = option(1)
        b: str = option("x", help="h", neutral="n", axis="s", file=True, dataset=True, count=(1, 2), rare=True)

    first, second = fields(Said)
    nothing = {"help": "", "neutral": "", "axis": "", "file": False, "dataset": False, "count": (), "rare": False}
    assert (dict(first.metadata), first.default) == (nothing, 1)
    assert dict(second.metadata) == {
        "help": "h",
        "neutral": "n",
        "axis": "s",
        "file": True,
        "dataset": True,
        "count": (1, 2),
        "rare": True,
    }


def test_every_way_to_write_a_path_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words").write_text("a")
    assert file_behind("words") == Path("words")
    assert file_behind("file:words") == Path("words")
    assert file_behind(tmp_path / "words") == tmp_path / "words"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert file_behind("~/words") == tmp_path / "words"
    for missing in ("file:gone", Path("gone"), "a/gone", "gone.csv", "gone.npz"):
        with pytest.raises(DataError, match=r"^there is no file '(a/)?gone"):
            file_behind(missing)
    assert file_behind("gone.word") is None
    assert with_content("words") == f"words@{hashlib.sha256(b'a').hexdigest()[:12]}"


def test_a_file_is_read_again_where_its_size_or_time_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "big"

    def write(text: str, time: int) -> str:
        path.write_text(text)
        os.utime(path, ns=(time, time))
        return file_digest(path)

    first = write("aa", 1)
    assert first == hashlib.sha256(b"aa").hexdigest()
    assert write("bb", 1) == first, "what looks the same is not read again"
    assert write("bb", 2) == hashlib.sha256(b"bb").hexdigest()
    assert write("bbb", 2) == hashlib.sha256(b"bbb").hexdigest()
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="folder cannot be read: Is a directory"):
        file_digest(tmp_path / "folder")
