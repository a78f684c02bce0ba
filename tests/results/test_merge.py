"""Results of several homes and exports, together."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from unseen.core.errors import StoreError, StoreWarning
from unseen.core.records import Result
from unseen.core.run_record import Dropped
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.results.export import json_lines, merge
from unseen.results.rows import long_rows

Make = Callable[..., Result]


def home(folder: Path, *results: Result) -> Path:
    with ResultsDatabase(folder / FILE_NAME) as database:
        for each in results:
            database.append("s", each)
    return folder


def exported(folder: Path) -> Path:
    path = folder.with_suffix(".json")
    with ResultsDatabase(folder / FILE_NAME, read_only=True) as database:
        path.write_text("".join(json_lines(database.rows())))
    return path


def test_the_newest_of_each_cell_counts(tmp_path: Path, make_result: Make) -> None:
    first = home(tmp_path / "a", make_result(top1=0.5), make_result(seed=1), make_result(seed=2, error="no"))
    second = home(tmp_path / "b", make_result(top1=0.6), make_result(seed=3))
    for sources in ([first, second], [second, first], [exported(first), second / FILE_NAME]):
        found = merge(sources)
        assert [(r.cell.parameters["seed"], r.metrics["top1"]) for r in found.results] == [
            (1, 0.7125),
            (22, 0.6),
            (3, 0.7125),
        ]
        assert sorted(found.sources.values()) == [2, 2]
        assert (found.repeated, found.differing) == (1, (make_result().cell.id,))
    with pytest.raises(FrozenInstanceError):
        found.repeated = 2  # type: ignore[misc]


def test_an_export_has_the_run_record_and_one_invalid_result_is_left_out(tmp_path: Path, make_result: Make) -> None:
    wrong = make_result(benchmark="rank")
    path = exported(home(tmp_path / "a", make_result()))
    rows = [*json.loads(path.read_text()), *({"recorded": "", **row} for row in long_rows(wrong))]
    path.write_text(json.dumps(rows))
    with pytest.warns(StoreWarning, match=f"cell {wrong.cell.id} in .* left out: it has no parameter 'score'"):
        (found,) = merge([path]).results
    assert found.record == make_result().record
    assert found == replace(make_result(), sweep=())
    old = [{**row, "record": {}, "details": {"skipped": {"test": {"b.jpg": "gone"}}}} for row in rows[:4]]
    path.write_text(json.dumps(old))
    (found,) = merge([path]).results
    assert (found.record.dropped, found.details) == ((Dropped("image", "b.jpg", "gone", "test"),), {})


@pytest.mark.parametrize(("change", "differs"), [(0.0, False), (0.9e-4, False), (-0.9e-4, False), (2e-4, True)])
def test_small_differences_are_none(tmp_path: Path, make_result: Make, change: float, differs: bool) -> None:
    sources = [home(tmp_path / name, make_result(metrics={"top1": 0.5 + d})) for name, d in (("a", 0.0), ("b", change))]
    found = merge(sources)
    assert (found.repeated, bool(found.differing)) == (1, differs)
    third = home(tmp_path / "c", make_result(metrics={"top1": 0.5, "top5": 1.0}))
    assert len(merge([sources[0], third]).differing) == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": "another"}, "is not what its id"),
        ({"parameters": 3}, "is not a list of results"),
        ({"details": 3}, "must be mappings"),
    ],
)
def test_a_row_that_was_changed_is_refused(
    tmp_path: Path, make_result: Make, change: dict[str, Any], told: str
) -> None:
    path = exported(home(tmp_path / "a", make_result()))
    rows = json.loads(path.read_text())
    path.write_text(json.dumps([{**row, **change} for row in rows]))
    with pytest.raises(StoreError, match=told):
        merge([path])
    path.write_text("3")
    with pytest.raises(StoreError, match="is not a list of results"):
        merge([path])
