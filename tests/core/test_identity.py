"""Names that cover all that can change a number."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from unseen.core.errors import DataError
from unseen.core.identity import canonical_json, digest, file_behind, file_digest, option, parameters_of, with_content


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
