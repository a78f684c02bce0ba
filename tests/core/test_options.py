"""One check of names, types, choices and ranges, for study files, command lines and Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from unseen.core.errors import UsageError
from unseen.core.identity import Natural, Positive, Rate, Share, check_options, first_values, make_options, option


@dataclass(frozen=True)
class Example:
    seeds: tuple[int, ...] = option((5, 6, 7), axis="seed", count=(5, 6, 7))
    shots: tuple[Positive | Literal["all"], ...] = option(("all",), axis="shots")
    solver: Literal["fast", "paper"] = option("fast")
    calibration: float | Literal["auto"] = option(0.0)
    names: tuple[str, ...] = option(())
    rate: Rate = option(0.1)
    share: Share = option(0.5)
    size: Natural = option(0)
    flag: bool = option(False)
    file: str = option("", file=True)
    path: Path | None = option(None)

    def __post_init__(self) -> None:
        check_options(self)


GOOD: list[tuple[dict[str, Any], str, Any]] = [
    ({"seeds": [1, 2]}, "seeds", (1, 2)),
    ({"seeds": 2}, "seeds", (5, 6)),
    ({"seeds": 5}, "seeds", (5, 6, 7, 8, 9)),
    ({"shots": 4}, "shots", (4,)),
    ({"shots": [1, "all"]}, "shots", (1, "all")),
    ({"shots": "all"}, "shots", ("all",)),
    ({"calibration": "auto"}, "calibration", "auto"),
    ({"calibration": 1}, "calibration", 1.0),
    ({"names": "one"}, "names", ("one",)),
    ({"path": "a/b"}, "path", Path("a/b")),
]


@pytest.mark.parametrize(("values", "field", "expected"), GOOD)
def test_what_a_person_means(values: dict[str, Any], field: str, expected: Any) -> None:
    assert getattr(make_options(Example, values, source="here"), field) == expected
    assert getattr(Example(**values), field) == expected, "Python goes through the same check"


BAD: list[tuple[dict[str, Any], str]] = [
    ({"seeds": "22"}, r"seeds: expected list, found '22'"),
    ({"seeds": ["a"]}, r"seeds\[0\]: expected int, found 'a'"),
    ({"seeds": [1.5]}, r"seeds\[0\]: expected int"),
    ({"seeds": [True]}, r"seeds\[0\]: expected int"),
    ({"seeds": True}, r"seeds: expected list"),
    ({"shots": [0]}, r"shots\[0\]: expected int >= 1, found 0"),
    ({"shots": ["many"]}, r"shots\[0\]: 'many' is not a number, and none of all"),
    ({"solver": "fasst"}, r"solver: 'fasst' is none of fast, paper. Did you mean 'fast'"),
    ({"solver": 3}, r"solver: expected str, found 3"),
    ({"calibration": "much"}, r"calibration: 'much' is not a number, and none of auto"),
    ({"names": [1]}, r"names\[0\]: expected str"),
    ({"rate": 0}, r"rate: expected float > 0.0, found 0"),
    ({"share": 1.5}, r"share: expected float < 1.0"),
    ({"size": -1}, r"size: expected int >= 0"),
    ({"flag": "yes"}, r"flag: expected bool"),
    ({"path": 3}, r"path: expected"),
    # Only a command line may write numbers as texts.
    ({"seeds": ["22"]}, r"seeds\[0\]: expected int, found '22'"),
    ({"rate": "0.5"}, r"rate: expected float, found '0.5'"),
    ({"size": "7"}, r"size: expected int, found '7'"),
    ({"flag": "true"}, r"flag: expected bool, found 'true'"),
]


@pytest.mark.parametrize(("values", "words"), BAD)
def test_what_is_not_allowed_is_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=r"^here: " + words) as caught:
        make_options(Example, values, source="here")
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match=r"^Example: " + words):
        Example(**values)


def test_unknown_options_are_named() -> None:
    with pytest.raises(UsageError, match=r"unknown option 'sede'. Did you mean 'seeds'"):
        make_options(Example, {"sede": 1}, source="here")
    with pytest.raises(UsageError, match="a table is expected, not int"):
        make_options(Example, 3, source="here")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("seeds", "2", (5, 6)),
        ("seeds", "22,", (22,)),
        ("seeds", "22,37", (22, 37)),
        ("seeds", ["22", "37"], (22, 37)),
        ("shots", ["1,2", "all"], (1, 2, "all")),
        ("shots", "4", (4,)),
        ("rate", "0.5", 0.5),
        ("size", "7", 7),
        ("flag", "true", True),
        ("calibration", "auto", "auto"),
        ("calibration", "0.25", 0.25),
        ("names", "a,b", ("a", "b")),
        ("names", "", ()),
        ("seeds", ",", ()),
    ],
)
def test_a_command_line_gives_texts(field: str, text: Any, expected: Any) -> None:
    assert getattr(make_options(Example, {field: text}, source="here", texts=True), field) == expected


def test_a_bad_text_is_named() -> None:
    with pytest.raises(UsageError, match="here: size: expected int"):
        make_options(Example, {"size": "many"}, source="here", texts=True)


def test_files_are_relative_to_the_study(tmp_path: Path) -> None:
    (tmp_path / "here.txt").touch()
    made = [make_options(Example, {"file": f}, source="", base=tmp_path).file for f in ("here.txt", "word", "file:x")]
    assert made == [str(tmp_path / "here.txt"), "word", f"file:{tmp_path / 'x'}"]


def test_the_nearest_option_is_said_first() -> None:
    @dataclass(frozen=True)
    class Like:
        worker_count: int = option(0)
        workers: int = option(0)

    with pytest.raises(UsageError, match=r"^x: unknown option 'worker'. Did you mean 'workers'"):
        make_options(Like, {"worker": 1}, source="x")


def test_so_many_of_some_numbers_and_those_that_follow() -> None:
    assert [first_values((5, 9, 7), count) for count in (-1, 0, 2, 3)] == [[], [], [5, 9], [5, 9, 7]]
    assert first_values((5, 9, 7), 5) == [5, 9, 7, 10, 11]
    assert first_values((), 3) == [0, 1, 2]
