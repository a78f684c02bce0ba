"""Results of several homes and databases, together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from unseen.core.records import Result
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.results.export import merge

Make = Callable[..., Result]


def home(folder: Path, *results: Result) -> Path:
    with ResultsDatabase(folder / FILE_NAME) as database:
        for each in results:
            database.append("s", each)
    return folder


def test_the_newest_of_each_cell_counts(tmp_path: Path, make_result: Make) -> None:
    first = home(tmp_path / "a", make_result(top1=0.5), make_result(seed=1), make_result(seed=2, error="no"))
    second = home(tmp_path / "b", make_result(top1=0.6), make_result(seed=3))
    for sources in ([first, second], [second, first], [first / FILE_NAME, second]):
        found = merge(sources)
        assert [(r.cell.parameters["seed"], r.metrics["top1"]) for r in found.results] == [
            (1, 0.7125),
            (22, 0.6),
            (3, 0.7125),
        ]
        assert sorted(found.sources.values()) == [2, 2]
    with pytest.raises(FrozenInstanceError):
        found.sources = {}  # type: ignore[misc]
