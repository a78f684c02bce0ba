"""Faults of the machine during a run: one line, and the repeated command gives the results of an undisturbed run."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from unseen.benchmarks.probe.protocol import ProbeBenchmark
from unseen.cli import main
from unseen.core.records import Result
from unseen.run.record import Leases

ROOT = Path(__file__).parents[2]
DAY = 86_400


@pytest.fixture
def study(tmp_path: Path, images: Path, small_model: str) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(
        f'name = "s"\nmodels = ["{small_model}"]\ndatasets = ["folder:{images}"]\n[benchmarks.probe]\n'
        'seeds = [1, 2]\nsolver = "logistic"\n[extraction]\npart_size = 5\n'
    )
    return path


def contents(home: Path) -> tuple[list[tuple[object, ...]], dict[str, bytes]]:
    """Metrics of all cells, and every file of the store but locks and how features were made."""
    with sqlite3.connect(home / "results.sqlite") as database:
        query = "SELECT cell, error, name, hex(value) FROM result JOIN metric ON result.id = metric.result"
        rows = sorted(database.execute(query).fetchall())
    files = {str(path.relative_to(home)): path for path in (home / "features").rglob("*") if path.is_file()}
    kept = {name: path for name, path in files.items() if ".locks" not in name and path.name != "provenance.json"}
    return rows, {name: path.read_bytes() for name, path in kept.items()}


def run(study: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["run", str(study), "--home", str(home)])
    return code, capsys.readouterr().err.splitlines()[-1]


def test_a_clock_that_jumps_by_a_day(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(study, tmp_path / "whole", capsys)[0] == 0
    now, now_ns, jumps = time.time, time.time_ns, count()
    monkeypatch.setattr(time, "time", lambda: now() + (-1) ** next(jumps) * DAY)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + (-1) ** next(jumps) * DAY * 10**9)
    assert run(study, tmp_path / "home", capsys) == (0, "2 cells evaluated.")
    assert next(jumps) > 0, "the clock was read"
    assert run(study, tmp_path / "home", capsys) == (0, "0 cells evaluated, 2 cached.")
    assert contents(tmp_path / "home") == contents(tmp_path / "whole")


def test_a_home_that_is_deleted_during_a_run(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate, home = ProbeBenchmark.evaluate, tmp_path / "home"

    def deleting(self: ProbeBenchmark, cells: Any, bench: Any) -> Iterator[Result]:
        results = evaluate(self, cells, bench)
        yield next(results)
        shutil.rmtree(home)
        yield from results

    with monkeypatch.context() as patch:
        patch.setattr(ProbeBenchmark, "evaluate", deleting)
        code, line = run(study, home, capsys)
    reason = "it was moved, replaced or removed. Run the same command again."
    assert (code, line) == (2, f"unseen: error: cannot append to {home}/results.sqlite: {reason}")
    assert run(study, home, capsys) == (0, "2 cells evaluated.")
    assert run(study, tmp_path / "whole", capsys)[0] == 0
    assert contents(home) == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EIO, "Input/output error", "x.lock"), "[Errno 5] Input/output error: 'x.lock'"),
        (MemoryError("malloc of size 9 failed"), "out of memory (malloc of size 9 failed)"),
    ],
)
def test_a_failing_disk_and_missing_memory_are_one_line(
    error: Exception,
    words: str,
    study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_self: Leases) -> Leases:
        raise error

    monkeypatch.setattr(Leases, "__enter__", fail)
    hint = "finished work is stored, run the same command to resume"
    assert run(study, tmp_path / "home", capsys) == (2, f"unseen: error: {words}; {hint}")


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "tools").is_dir(), reason="not a source checkout")
def test_dask_over_tls() -> None:
    pytest.importorskip("distributed")
    if not sys.platform.startswith("linux") or not shutil.which("cc") or not shutil.which("openssl"):
        pytest.skip("a C compiler and openssl on Linux are needed")
    command = [sys.executable, "-m", "tools.run_faults", "tls"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=1000)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines()[2:]]
    assert [row[2][:1] for row in rows] == ["0", "0", "2", "2"]
    assert all(row[-1] == "same |" for row in rows)
