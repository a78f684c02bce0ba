"""The authors' files, in every layout they may have."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.data.sources.imagenet.cog import read_image_lists, read_levels

ROWS = [["n02123045", "n02123159"], ["n02084071"], ["n04379243"]]


def dump(path: Path, value: Any, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(value, protocol))
    return path


@pytest.mark.parametrize(
    "value",
    [
        ROWS,
        tuple(map(tuple, ROWS)),
        dict(enumerate(ROWS)),
        {i + 1: row for i, row in enumerate(ROWS)},
        {f"L{i}": np.array(row) for i, row in enumerate(ROWS)},
        [np.array(row, dtype=object) for row in ROWS],
    ],
    ids=["lists", "tuples", "from-0", "from-1", "named", "objects"],
)
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_levels(tmp_path: Path, value: Any, protocol: int) -> None:
    levels = read_levels(dump(tmp_path / "levels.pkl", value, protocol))
    assert list(levels) == ["l1", "l2", "l3"] or list(levels) == ["l0", "l1", "l2"]
    assert [*levels.values()] == [sorted(row) for row in ROWS]


def test_levels_as_sets_come_sorted(tmp_path: Path) -> None:
    levels = read_levels(dump(tmp_path / "levels.pkl", [set(row) for row in ROWS]))
    assert [*levels.values()] == [sorted(row) for row in ROWS]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x", "no levels"),
        ([], "no levels"),
        ([3], "not a list of concepts"),
        ([["n02123045"], ["../x"]], "cannot be the name of a folder"),
        ({1: [], "a": []}, "not a list of concepts"),
    ],
)
def test_bad_levels(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_levels(dump(tmp_path / "levels.pkl", value))


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_split(tmp_path: Path, protocol: int) -> None:
    value = {
        "n02123045": {
            "train": np.array(["/n02123045/b.JPEG", "n02123045/a.JPEG"]),
            "test": np.array(["n02123045/c.JPEG"]),
        },
        "n02084071": {"train": ["n02084071/x.JPEG"], "test": np.array(["n02084071/y.JPEG"], dtype=object)},
    }
    split = read_image_lists(dump(tmp_path / "split.pkl", value, protocol), value)
    assert split["n02123045"][0] == ("n02123045/a.JPEG", "n02123045/b.JPEG")
    assert split["n02084071"][1] == ("n02084071/y.JPEG",)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "expected image lists"),
        ({"n02123045": ["a"]}, "no 'train' and 'test' list"),
        ({"n02123045": {"train": ["a"]}}, "no 'train' and 'test' list"),
        ({"n02123045": {"train": [1], "test": []}}, "not a list of file names"),
        ({"n02123045": {"train": ["../../etc/passwd"], "test": ["a"]}}, "outside the folder"),
    ],
)
def test_bad_split(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_image_lists(dump(tmp_path / "split.pkl", value), ["n02123045"])
