"""Schema versions: frozen databases load for ever, old ones are brought up to date, newer ones are refused."""

from __future__ import annotations

import math
import re
import shutil
import sqlite3
import struct
from pathlib import Path

import pytest

from unseen.core.errors import StoreError
from unseen.core.records import Cell, Result
from unseen.core.run_record import Dropped
from unseen.results import ResultsDatabase, connection

FIXTURES = Path(__file__).parents[1] / "fixtures"
FROZEN = sorted(FIXTURES.glob("results-v*.sqlite"))


def test_every_version_is_frozen() -> None:
    assert [path.name for path in FROZEN] == [f"results-v{v}.sqlite" for v in range(1, len(connection.MIGRATIONS) + 1)]


@pytest.mark.parametrize("frozen", FROZEN, ids=lambda path: path.stem)
def test_a_frozen_database_loads(frozen: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(frozen, tmp_path))
    with ResultsDatabase(path) as database:
        newest = {(r.cell.model, r.cell.parameters["seed"]): r for r in database.latest(study="frozen")}
        first = newest["packaged:efficientnet-lite0", 22]
        assert dict(first.metrics) == {"top1": 0.75}, "the newest of two"
        # Ids are made anew from what is stored; a row keeps the one that it was filed under.
        filed = database._connection.execute("SELECT cell FROM result WHERE model = ? LIMIT 1", [first.cell.model])
        old, new = database.history(filed.fetchone()["cell"])
        assert new == first
        assert dict(old.metrics) == {
            "top1": 0.7 + 22 / 3000,
            "top5": 0.7 + 0.1,
            "top1_low": 0.7 - 0.05,
            "top1_high": 0.7 + 0.05,
        }
        assert old.seconds == 1 / 3
        assert old.cell.revision == "a1b2c3d4"
        assert old.sweep == ({"c": 0.1, "value": 0.5}, {"c": 1.0, "value": 0.7})
        skipped = {"skipped": {"train/bad.jpg": "truncated"}}  # until version 0.1; the run record lists it since
        recorded = old.record.dropped == (Dropped("image", "train/bad.jpg", "truncated"),)
        assert old.details == {"classes": 14, "chance": 1 / 14, **({} if recorded else skipped)}
        assert recorded == (path.stem == "results-v4")
        assert old.environment == {"python": "3.11.7", "unseen": "0.1.0"}
        odd = newest["odd", 22].metrics
        assert math.isnan(odd["nan"])
        assert (odd["infinity"], odd["minus_infinity"], odd["tiny"]) == (math.inf, -math.inf, 5e-324)
        assert struct.pack("<d", odd["minus_zero"]) == struct.pack("<d", -0.0)
        assert newest["broken", 22].error == "no images: 'a' is empty"
        before = len(database.latest())
        database.append("more", Result(Cell("probe", "m", "d"), {"top1": 1.0}))
        assert len(database.latest()) == before + 1


def test_shared_values_of_version_2_are_whole(tmp_path: Path) -> None:
    with ResultsDatabase(Path(shutil.copy(FIXTURES / "results-v2.sqlite", tmp_path)), read_only=True) as database:
        first, second = database.latest(model="long")
    assert (first.cell.version, first.cell.data) == ("1 fast.1", "data")
    assert first.details["concepts"][39] == {"id": "n00000039", "name": "concept 39"}
    assert second.details == first.details
    assert len(first.sweep) == 18


@pytest.mark.parametrize("frozen", FROZEN, ids=lambda path: path.stem)
def test_a_frozen_database_is_read_without_being_touched(frozen: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(frozen, tmp_path))
    before = path.read_bytes()
    with ResultsDatabase(path, read_only=True) as database:
        assert len(database.latest(benchmark="probe")) == 6
        assert len(database.latest(model="packaged:efficientnet-lite0")) == 2
        assert database.names("study") == ["frozen"]
        assert len(list(database.rows(metric="top1", benchmark="probe"))) == 5
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_newer_schema_is_refused_with_advice(tmp_path: Path) -> None:
    path = Path(shutil.copy(FROZEN[-1], tmp_path))
    other = sqlite3.connect(path)
    other.execute(f"PRAGMA user_version = {len(connection.MIGRATIONS) + 1}")
    other.close()
    before = path.read_bytes()
    newest = len(connection.MIGRATIONS)
    expected = f"has schema version {newest + 1}, .* reads up to {newest}. Upgrade unseen"
    for read_only in (False, True):
        with pytest.raises(StoreError, match=expected):
            ResultsDatabase(path, read_only=read_only)
    assert path.read_bytes()[100:] == before[100:], "the content beyond the file header is as it was"


def test_an_old_schema_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(shutil.copy(FIXTURES / "results-v1.sqlite", tmp_path))
    addition = "CREATE TABLE note (id INTEGER PRIMARY KEY, words TEXT);\nINSERT INTO note (words) VALUES ('a;b');\n"
    monkeypatch.setattr(connection, "MIGRATIONS", (*connection.MIGRATIONS, addition))
    for _ in range(2):  # the second time there is nothing to do
        with ResultsDatabase(path) as database:
            assert len(database.latest()) == 6
            assert [tuple(row) for row in database._connection.execute("SELECT words FROM note")] == [("a;b",)]
            assert database._connection.execute("PRAGMA user_version").fetchone()[0] == len(connection.MIGRATIONS)


def test_an_empty_file_has_no_tables_to_read(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    path.touch()
    with pytest.raises(StoreError, match="no tables yet"):
        ResultsDatabase(path, read_only=True)


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(shutil.copy(FIXTURES / "results-v1.sqlite", tmp_path))
    wrong = "CREATE TABLE note (id INTEGER PRIMARY KEY);\nINSERT INTO nowhere VALUES (1);\n"
    with monkeypatch.context() as patch:
        patch.setattr(connection, "MIGRATIONS", (*connection.MIGRATIONS[:1], wrong))
        with pytest.raises(StoreError, match="nowhere"):
            ResultsDatabase(path)
    with ResultsDatabase(path, read_only=True) as database:
        assert database._connection.execute("PRAGMA user_version").fetchone()[0] == 1
        tables = {row["name"] for row in database._connection.execute("SELECT name FROM sqlite_master")}
        assert "note" not in tables


def test_released_scripts_are_the_ones_that_made_the_frozen_databases() -> None:
    """A released migration never changes: running them all gives the tables of the newest frozen file."""

    def tables(opened: sqlite3.Connection) -> set[str]:
        rows = opened.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {re.sub(r"\s+", " ", row[0]) for row in rows}

    fresh, frozen = sqlite3.connect(":memory:"), sqlite3.connect(f"{FROZEN[-1].as_uri()}?mode=ro", uri=True)
    for script in connection.MIGRATIONS:
        fresh.executescript(script)
    try:
        assert tables(fresh) == tables(frozen)
    finally:
        fresh.close()
        frozen.close()
