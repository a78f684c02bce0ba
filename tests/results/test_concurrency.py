"""Several processes on one database: no acknowledged result is lost, whatever starts, exits or is killed.

`python -m tools.stress_results` is the full test (20 rounds of 8 x 200 appends).
"""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tools.stress_results import run_round

from unseen.core.records import Cell, Result
from unseen.results import ResultsDatabase

ROOT = Path(__file__).parents[2]


def test_no_acknowledged_result_is_lost(tmp_path: Path) -> None:
    acknowledged = killed = 0
    for seed in range(2):
        problems, count, ended = run_round(tmp_path / str(seed), slots=6, appends=50, seed=seed)
        assert problems == []
        acknowledged, killed = acknowledged + count, killed + ended
    assert acknowledged == 2 * 6 * 50
    assert killed > 0, "some processes are killed"


@pytest.mark.slow
def test_no_acknowledged_result_is_lost_in_many_rounds(tmp_path: Path) -> None:
    """A quarter of the kills of the full test; a small process forks them cheaply."""
    command = [sys.executable, "-m", "tools.stress_results", "--rounds", "4", "--appends", "40", "--burst", "8"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    rounds = re.findall(r"320 acknowledged, (\d+) killed, .*: ok", done.stdout)
    assert len(rounds) == 4
    assert sum(map(int, rounds)) > 60


def test_a_run_opens_its_results_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: Path) -> None:
    """One object of a process owns the connection."""
    from unseen.study import Study, run_study

    opened: list[str] = []
    plainly = sqlite3.connect

    def noting(path: Any, *arguments: Any, **more: Any) -> sqlite3.Connection:
        opened.append(Path(str(path)).name)
        return plainly(path, *arguments, **more)

    monkeypatch.setattr(sqlite3, "connect", noting)
    study = Study(
        "s", ("random:test_efficientnet?size=32",), (str(images),), {"probe": {"solver": "ncm", "seeds": [1]}}
    )
    assert not run_study(study, tmp_path / "home", report=False).failed
    assert sorted(opened) == ["results.sqlite"]


def test_results_of_a_home_with_claims_of_an_earlier_version(tmp_path: Path) -> None:
    import shutil

    path = tmp_path / "results.sqlite"
    shutil.copy(Path(__file__).parents[1] / "fixtures" / "results-v3.sqlite", path)
    with ResultsDatabase(path) as database:
        database.append("s", Result(Cell("probe", "m", "d"), {"top1": 1.0}))
        tables = {row["name"] for row in database._connection.execute("SELECT name FROM sqlite_master")}
        assert "claim" not in tables
        found = database.verify()
    assert (found.checked, found.unsealed, found.invalid, found.structure) == (10, 9, {}, [])
