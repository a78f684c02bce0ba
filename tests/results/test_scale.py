"""Reading costs what is read: memory and work by doubling what lies in the database, never by the clock."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from unseen.core.records import Cell, Result
from unseen.results import ResultsDatabase, comparability
from unseen.results.export import csv_lines, json_lines
from unseen.results.grid import grids

CONCEPTS = [{"id": f"n{i:08d}", "name": f"concept {i}", "similarity": i / 7} for i in range(60)]


def one(number: int) -> Result:
    parameters = {"seed": number % 5, "shots": number // 5 % 8, "level": f"L{number // 40 % 5}", "solver": "fast"}
    cell = Cell("cog", f"timm:model-{number // 200}", "imagenet:in1k", parameters, "w+d", "1 fast.1")
    metrics = {"top1": number / 1e5, "top5": 0.9, "top1_low": 0.1, "top1_high": 0.2}
    sweep = tuple({"c": 10.0**power, "value": number / 1e6} for power in range(12))
    details = {"concepts": CONCEPTS, "correct": f"{number}:" + "x" * 2000, "classes": 60}
    return Result(cell, metrics, sweep=sweep, details=details, environment={"python": "3.11", "cpu": "x" * 400})


@pytest.fixture
def fill(tmp_path: Path) -> Iterator[Callable[[int], ResultsDatabase]]:
    """A database with so many results, under the studies "many" and, the first ten, "few"."""
    opened: list[ResultsDatabase] = []

    def make(count: int) -> ResultsDatabase:
        database = ResultsDatabase(tmp_path / f"{count}.sqlite")
        opened.append(database)
        database._connection.execute("PRAGMA synchronous = OFF")
        for number in range(count):
            database.append("few" if number < 10 else "many", one(number))
        return database

    yield make
    for database in opened:
        database.close()


def peak(work: Callable[[], Any]) -> int:
    work()  # what is imported or cached once is not a cost of the second time
    costs = []
    for _ in range(2):  # other threads of the process may allocate, too
        tracemalloc.start()
        try:
            work()
            costs.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(costs)


def exhaust(stream: Any) -> None:
    for _ in stream:
        pass


def test_the_memory_of_a_small_question_does_not_grow_with_the_database(
    fill: Callable[[int], ResultsDatabase],
) -> None:
    small, large = fill(200), fill(1000)
    cells = [one(number).cell for number in range(10)]
    questions: list[Callable[[ResultsDatabase], Any]] = [
        lambda database: database.done(cells),
        lambda database: database.cells(cells),
        lambda database: database.latest(study="few"),
    ]
    for ask in questions:
        costs = [peak(lambda ask=ask, d=database: ask(d)) for database in (small, large)]
        assert costs[1] < 1.1 * costs[0] + 4096, costs
    assert len(large.latest(study="few")) == 10


def test_long_form_is_streamed(fill: Callable[[int], ResultsDatabase]) -> None:
    """Twice the rows are some bytes per id more: no chunk of results is kept beside the next."""
    small, large = fill(1000), fill(2000)
    ways: list[Callable[[ResultsDatabase], Any]] = [
        lambda database: csv_lines(database.rows(brief=True), database.parameter_names()),
        lambda database: json_lines(database.rows(metric="top1")),
    ]
    for way in ways:
        costs = [peak(lambda way=way, d=database: exhaust(way(d))) for database in (small, large)]
        assert costs[1] < costs[0] + 1000 * 200, costs
    lines = list(csv_lines(large.rows(brief=True), large.parameter_names()))
    assert len("".join(lines).splitlines()) == 1 + 4 * 2000


def test_what_is_shared_lies_there_once(fill: Callable[[int], ResultsDatabase]) -> None:
    database = fill(300)
    concepts = sum(len(str(concept)) for concept in CONCEPTS)
    assert database.path.stat().st_size < 300 * 8000 + 2 * concepts
    values = [row["value"] for row in database._connection.execute("SELECT value FROM shared")]
    assert sum("concept 59" in value for value in values) == 1
    assert sum("python" in value for value in values) == 1, "an environment is shared too"


def test_the_table_is_linear_in_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    whole = comparability.canonical_json

    def counted(value: Any) -> str:
        nonlocal calls
        calls += 1
        return whole(value)

    monkeypatch.setattr(comparability, "canonical_json", counted)
    costs = []
    for count in (400, 800, 1600):
        calls = 0
        (grid,) = grids([one(number) for number in range(count)])
        assert sum(len(summary.values) for summary in grid.cells.values()) == count
        costs.append(calls)
    assert costs[1] <= 2.1 * costs[0], costs
    assert costs[2] <= 2.1 * costs[1], costs
