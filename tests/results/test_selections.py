"""Small questions to the database, asked in lots of two, so that every answer is put together from several."""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from unseen.core.errors import StoreError
from unseen.core.records import Result
from unseen.results import ResultsDatabase, connection, database, rows

Make = Callable[..., Result]


@pytest.fixture
def store(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResultsDatabase]:
    monkeypatch.setattr(database, "_CHUNK", 2)
    with ResultsDatabase(path) as found:
        yield found


def seeds(results: list[Result]) -> list[int]:
    return [result.cell.parameters["seed"] for result in results]


def test_answers_of_several_lots(store: ResultsDatabase, make_result: Make) -> None:
    results = [make_result(seed=seed, top1=seed / 10) for seed in range(7)]
    cells = [result.cell for result in results]
    assert store.last() == 0
    for result in results[:5]:
        store.append("s", result)
    assert store.last() == 5
    store.append("t", Result(cells[1], error="no"))
    store.append("t", results[2])
    assert store.last() == 7
    assert store.done(cells) == {cells[n].id for n in (0, 2, 3, 4)}
    assert store.arrived(cells, 5) == {cells[1].id, cells[2].id}
    assert store.arrived(cells, 4) == {cells[n].id for n in (4, 1, 2)}
    assert store.arrived(cells, 7) == store.arrived([], 0) == set()
    assert seeds(store.cells(reversed(cells))) == [0, 3, 4, 1, 2], "in order of arrival"
    assert [r.metrics.get("top1") for r in store.latest()] == [0.0, 0.3, 0.4, None, 0.2]
    assert seeds(store.latest(include_failed=False)) == [0, 3, 4, 2]
    assert [r.ok for r in store.history(cells[1].id)] == [True, False]
    assert store.history("none") == []
    assert [r.details["classes"] for r in store.latest(include_failed=False)] == [14] * 4
    assert all(not (r.sweep or r.details or r.environment) for r in store.latest(brief=True))


def test_the_folders_of_a_new_database_are_made(tmp_path: Path) -> None:
    for _ in range(2):
        ResultsDatabase(tmp_path / "a" / "b" / "c.sqlite").close()
    with ResultsDatabase(str(tmp_path / "a" / "b" / "c.sqlite"), read_only=True) as found:
        assert found.count() == 0
    with pytest.raises(StoreError, match="there is no results database"):
        ResultsDatabase(tmp_path / "d" / "c.sqlite", read_only=True)
    assert not (tmp_path / "d").exists()


def test_names_and_counts(store: ResultsDatabase, make_result: Make) -> None:
    for study, model, dataset in (("s", "b", "x"), ("s", "a", "y"), ("t", "a", "x")):
        store.append(study, make_result(model=model, dataset=dataset))
    store.append("t", Result(make_result(model="c", dataset="x").cell, error="no"))
    assert [store.names(each) for each in ("study", "model", "dataset", "benchmark")] == [
        ["s", "t"],
        ["a", "b", "c"],
        ["x", "y"],
        ["probe"],
    ]
    assert store.names("metric") == ["top1", "top1_high", "top1_low", "top5"]
    with pytest.raises(ValueError, match="no list of 'cell'"):
        store.names("cell")
    assert store.count() == 4
    assert (store.count(failed=True), store.count(study="s", failed=True)) == (1, 0)
    assert store.count(study="s", model=["a", "c"]) == store.count(benchmark="probe", dataset="y") == 1
    assert store.count(model=[]) == 0
    assert [len(list(store.rows(study="t", metric=m))) for m in (None, "top1", ["top1", "top5"])] == [5, 2, 3]
    assert [row["error"] for row in store.rows(only_failed=True)] == ["no"]
    assert len(list(store.rows(include_failed=False, dataset="x", metric="top1"))) == 2
    assert store.parameter_names(model="none") == set()
    assert store.forget(model=("a", "b"), study="s") == 2
    assert store.forget(failed=True) == 1
    assert store.count() == 1


def test_a_result_is_dated_in_universal_time(store: ResultsDatabase, make_result: Make) -> None:
    store.append("s", make_result())
    (found,) = store.latest()
    assert abs(datetime.fromisoformat(found.recorded) - datetime.now(UTC)) < timedelta(minutes=5)
    assert found.recorded.endswith("+00:00")
    assert len(found.recorded.partition(".")[2]) == len("123456+00:00"), "to the microsecond"
    assert next(store.rows())["recorded"] == found.recorded


def test_an_error_within_a_transaction_undoes_all(store: ResultsDatabase, make_result: Make) -> None:
    store.append("s", make_result())
    with pytest.raises(KeyboardInterrupt), store._writing("append to") as connection:
        connection.execute("INSERT INTO metric (result, name, value) VALUES (1, 'x', 1.0)")
        raise KeyboardInterrupt
    assert not store._connection.in_transaction
    assert "x" not in store.latest()[0].metrics
    with pytest.raises(StoreError, match="FOREIGN KEY"), store._writing("append to") as connection:
        connection.execute("INSERT INTO metric (result, name, value) VALUES (99, 'x', 1.0)")
    store.append("s", make_result(seed=2))
    assert store.count() == 2


def test_an_open_database_may_be_used_and_closed_by_another_thread(path: Path, make_result: Make) -> None:
    found: list[Any] = []
    ResultsDatabase(path).close()
    for read_only in (False, True):
        store = ResultsDatabase(path, read_only=read_only)
        if not read_only:
            store.append("s", make_result())

        def use(store: ResultsDatabase = store) -> None:
            found.append(store.count())
            store.close()
            store.close()

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    assert found == [1, 1]


# ---- values stored once ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "apart"), [(253, False), (254, True), (255, True)])
def test_long_values_stand_apart(length: int, apart: bool) -> None:
    aside: dict[str, str] = {}
    text = rows._pack("details", "x" * length, aside)  # two quotes more
    assert (len(aside), '"$shared"' in text) == (apart, apart)
    assert rows.references([["", text], [text]]) == set(aside)
    assert all(len(digest) == 32 and json.loads(value) == "x" * length for digest, value in aside.items())


def test_shared_values_are_loaded_once_and_released(make_result: Make) -> None:
    values = {"a": "x" * 300, "b": {"$shared": 1, "more": 2}, "c": 5}
    long, _, shared = rows.to_row("s", make_result(details=values, environment={}))
    plain, _, more = rows.to_row("s", make_result(details={}, environment={"e": "y" * 300}))
    shared |= more
    loaded: list[list[str]] = []

    def load(digests: list[str]) -> list[tuple[str, str]]:
        loaded.append(digests)
        return [(digest, shared[digest]) for digest in digests]

    found = rows.RowReader(load)
    metrics = [("top1", 0.5)]
    for row in (long, plain):
        row["digest"] = ""  # so that only shared values are checked
    found.fetch([long])
    assert found.read(long, metrics).details == values
    with pytest.raises(ValueError, match="refers to is missing"):
        found.read(plain, metrics)
    found.fetch([long, plain])
    assert found.read(plain, metrics).environment == {"e": "y" * 300}
    found.fetch([plain])
    found.fetch([long])
    assert [len(digests) for digests in loaded] == [1, 1, 0, 1], "what the last rows did not need is released"
    shared[next(iter(shared))] = "damaged"
    found.fetch([plain])
    found.fetch([long])
    with pytest.raises(ValueError, match="refers to is missing"):
        found.read(long, metrics)


def test_a_value_that_is_no_json_is_named() -> None:
    with pytest.raises(StoreError, match=r"the sweep of a result must be .* but hold a set\."):
        rows.to_json("sweep", {"a": {1}})
    assert rows.to_json("x", {"a": [1, None], "b": math.inf}) == '{"a":[1,null],"b":Infinity}'


@pytest.mark.parametrize("statement", ["PRAGMA user_version = 1", "PRAGMA application_id = 7", "CREATE TABLE a (b)"])
@pytest.mark.parametrize("read_only", [False, True])
def test_whatever_another_program_has_written_is_left_alone(path: Path, statement: str, read_only: bool) -> None:
    other = sqlite3.connect(path)
    other.execute(statement)
    other.commit()
    other.close()
    with pytest.raises(StoreError, match="another program"):
        ResultsDatabase(path, read_only=read_only)


def test_a_new_database_says_whose_it_is(store: ResultsDatabase) -> None:
    asked = ("application_id", "user_version")
    found = [store._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in asked]
    assert found == [int.from_bytes(b"unse"), len(connection.MIGRATIONS)]
