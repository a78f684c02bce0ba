"""Repair: all rows of the pages that can be read survive, no row that was changed does."""

from __future__ import annotations

import math
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from unseen.core.errors import StoreError
from unseen.core.records import Result
from unseen.results import ResultsDatabase
from unseen.results.repair import recover, repair

Maker = Callable[..., Result]
FIXTURES = Path(__file__).parents[1] / "fixtures"


def fill(path: Path, make_result: Maker, count: int = 120) -> list[Result]:
    """Append results with short and long values: records on one page and on chains of overflow pages."""
    results = [
        make_result(
            seed=number,
            top1=number / 7,
            details={"own": f"{number}" + "x" * (number % 9) * 1500, "all": ["y" * 9000]},
            sweep=[{"c": 10.0**power, "value": number / 3} for power in range(number % 20)],
            error="é" * 5000 if number % 13 == 5 else "",
        )
        for number in range(count)
    ]
    results[3] = make_result(seed=3, metrics={"nan": math.inf, "minus": -0.0, "big": 2.0**70}, details={})
    with ResultsDatabase(path) as database:
        for result in results:
            database.append("s", result)
    return [Result.from_dict(result.to_dict()) for result in results]


def stored(path: Path) -> list[Result]:
    with ResultsDatabase(path, read_only=True) as database:
        assert database.verify().structure == []
        return database.latest()


def spoil(path: Path, start: int, content: bytes) -> None:
    with path.open("r+b") as stream:
        stream.seek(start)
        stream.write(content)


@pytest.mark.parametrize(
    ("start", "content"),
    [
        (0, b"\xff" * 100),  # the header
        (0, bytes(100)),
        (60, bytes(4)),  # user_version
        (68, bytes(4)),  # application_id
        (0, b"\xaa" * 4096),  # header and schema
    ],
)
def test_a_spoilt_first_page_costs_no_result(path: Path, make_result: Maker, start: int, content: bytes) -> None:
    results = fill(path, make_result)
    spoil(path, start, content)
    damaged = path.read_bytes()
    with pytest.raises(StoreError, match="unseen results repair"):
        ResultsDatabase(path, read_only=True)
    with pytest.raises(StoreError, match="unseen results repair"):
        ResultsDatabase(path)
    done = repair(path)
    assert (done.kept, done.lost) == (len(results), {})
    assert stored(path) == results
    assert done.backup.read_bytes() == damaged
    assert sorted(each.name for each in path.parent.iterdir()) == sorted([path.name, done.backup.name])
    with ResultsDatabase(path) as database:  # a repaired database is one like any other
        database.append("s", make_result(seed=1000))
        assert database.last() == len(results) + 1


def test_a_truncated_file_keeps_what_is_left(path: Path, make_result: Maker) -> None:
    results = fill(path, make_result)
    size = path.stat().st_size
    with path.open("r+b") as stream:
        stream.truncate(size // 2 + 1234)
    done = repair(path)
    found = stored(path)
    assert len(results) // 5 < done.kept < len(results)
    assert {r.cell.id for r in found} < {r.cell.id for r in results}
    assert all(result in results for result in found)


@pytest.mark.parametrize("seed", range(6))
def test_no_spoilt_row_is_copied_and_all_others_are(path: Path, make_result: Maker, seed: int) -> None:
    """Flip bytes at random; each result that is copied is one that was appended, bit by bit."""
    results = fill(path, make_result)
    rng = random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(10):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    page = rng.randrange(2, len(content) // 4096) * 4096
    content[page : page + 4096] = rng.randbytes(4096)
    path.write_bytes(content)
    done = repair(path)
    found = stored(path)
    assert done.kept == len(found)
    assert all(result in results for result in found)
    # A shared value on the spoilt page may be in use by all rows; otherwise a page holds few.
    assert done.kept > len(results) // 2 or "refers to" in str(done.lost)


def test_what_was_removed_does_not_come_back(path: Path, make_result: Maker) -> None:
    fill(path, make_result)
    with ResultsDatabase(path) as database:
        database.append("kept", make_result(seed=5000))
        database.forget(study="s")
    assert len(recover(path).results) == 1
    spoil(path, 0, bytes(100))
    assert repair(path).kept == 1


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_results_of_every_version(tmp_path: Path, version: int) -> None:
    path = Path(shutil.copy(FIXTURES / f"results-v{version}.sqlite", tmp_path))
    with ResultsDatabase(path, read_only=True) as database:
        before, count = database.latest(), database.count()
    spoil(path, 0, bytes(100))
    assert repair(path).kept == count
    assert repr(stored(path)) == repr(before), "NaN is not equal to itself"


def test_what_an_earlier_version_left_in_a_write_ahead_log_is_read(path: Path, make_result: Maker) -> None:
    ResultsDatabase(path).close()
    other = sqlite3.connect(path)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("SELECT * FROM result").fetchall()  # while it is open the log stays
    results = fill(path, make_result, 20)
    assert path.with_name("results.sqlite-wal").stat().st_size > 0
    copy = path.parent / "copy" / "results.sqlite"
    copy.parent.mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{copy}{end}")
    other.close()
    assert repair(copy).kept == len(results)
    assert stored(copy) == results


def test_a_file_without_results_is_not_touched(path: Path) -> None:
    with pytest.raises(StoreError, match="there is no results database"):
        repair(path)
    path.write_bytes(b"model,top1\n" * 5000)
    with pytest.raises(StoreError, match=r"no result can be read .* It was not changed"):
        repair(path)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_run_that_has_the_damaged_file_open_does_not_write_to_it(path: Path, make_result: Maker) -> None:
    fill(path, make_result, 5)
    with ResultsDatabase(path) as database:
        repair(path)
        with pytest.raises(StoreError, match="moved, replaced or removed"):
            database.append("s", make_result(seed=100))
