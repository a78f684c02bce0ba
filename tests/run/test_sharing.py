"""Runs that meet trouble or one another: workers that die, two runs on one home, what a dead run has left."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.background import start_script

from unseen.core.records import Cell, Result
from unseen.engines import make_engine
from unseen.features import Extraction
from unseen.results import ResultsDatabase
from unseen.run.record import Inbox
from unseen.study import Study, run_study

SCRIPT = """
import os, sys, time
from pathlib import Path
from slow_benchmark import SlowBenchmark
from unseen import Study, make_engine, run_study

if __name__ == "__main__":
    home, images, marks, model, workers, pause, runs = sys.argv[1:]
    (Path(images).parent / f"ready-{os.getpid()}").touch()
    while len(list(Path(images).parent.glob("ready-*"))) < int(runs):
        time.sleep(0.01)
    seeds = tuple(range(1, 7))
    benchmarks = tuple(SlowBenchmark(marks=marks, pause=float(pause), seeds=(seed,)) for seed in seeds)
    with make_engine("local", workers=int(workers)) as engine:
        outcome = run_study(Study("s", (model,), (images,), benchmarks), Path(home), engine, report=False)
    print(outcome.evaluated, len(outcome.results), len(outcome.failed))
"""


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    (tmp_path / "marks").mkdir()
    return tmp_path / "marks"


def slow(marks: Path, **options: Any) -> Any:
    from slow_benchmark import SlowBenchmark

    return SlowBenchmark(marks=str(marks), **options)


@pytest.mark.slow
def test_a_worker_that_dies_is_the_failure_of_its_cells(
    images: Path, home: Path, small_model: str, marks: Path
) -> None:
    """Those of the group that were done before are kept, other groups go on, the next run does what failed."""
    benchmarks = (slow(marks, seeds=(1, 2, 3), kill_at=2), slow(marks, seeds=(4,)), slow(marks, seeds=(5,)))
    study = Study("s", (small_model,), (str(images),), benchmarks)
    with make_engine("local", workers=2) as engine:
        outcome = run_study(study, home, engine, report=False, on_error="ignore")
        errors = [result.error for result in outcome.results]
        reason = "the worker process was ended by SIGKILL (out of memory?) during its task, 3 times."
        assert errors == ["", reason, reason, "", ""]
        mended = Study("s", (small_model,), (str(images),), (slow(marks, seeds=(1, 2, 3)),))
        again = run_study(mended, home, engine, report=False)
    assert (again.evaluated, again.failed) == (2, [])


def test_workers_extract_part_by_part(
    images: Path, tmp_path: Path, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an engine of several slots, here in one process: the plan of a cluster, told part by part, skips too."""
    (images / "class1" / "bad.png").write_bytes(b"no picture")
    told: list[Any] = []

    class Several:
        slots = 3

        def shares(self, home: Path) -> bool:
            return True

        def map(self, function: Callable[[Any], Any], items: Any, *, lost: Any = None, needs: Any = None) -> Any:
            for item in items:
                told.append((function.__name__, needs, getattr(item, "starts", None)))
                yield function(item)

    class Heard:
        def begin(self, title: str, total: int, done: int) -> None:
            told.append(("begin", total, done))

        def advance(self, images: int, skipped: int) -> None:
            told.append(("advance", images, skipped))

        def waiting(self, title: str) -> None: ...
        def note(self, text: str) -> None: ...
        def end(self) -> None: ...

    study = Study(
        "s",
        (small_model,),
        (f"folder:{images}",),
        {"probe": {"seeds": [1], "solver": "ncm"}},
        extraction=Extraction(part_size=4),
    )
    outcome = run_study(study, tmp_path / "many", Several(), progress=Heard(), report=False)
    alone = run_study(study, tmp_path / "one", report=False)
    assert [dict(r.metrics) for r in outcome.results] == [dict(r.metrics) for r in alone.results]
    names = Counter(each[0] for each in told)
    assert names == {"describe_features": 1, "extract_batch": 7, "begin": 1, "advance": 7, "evaluate_group": 1}
    assert sum(each[1] for each in told if each[0] == "advance") == 25
    assert sum(each[2] for each in told if each[0] == "advance") == 1, "the bad picture is reported"
    assert {str(each[1]) for each in told if each[0] == "extract_batch"} == {"{'GPU': 1.0}"}


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_two_runs_on_one_home_share_the_work(
    workers: str, images: Path, home: Path, small_model: str, marks: Path, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    words = (tmp_path / "script.py", home, images, marks, small_model, workers, 0.8, 2)
    ended = [run.wait(600) for run in [start_script(tmp_path, *words) for _ in "ab"]]
    assert [run.code for run in ended] == [0, 0], ended
    said = [run.output.split() for run in ended]
    done = Counter(path.name.partition("-")[0] for path in marks.iterdir())
    assert done == dict.fromkeys("123456", 1), "each cell once, by one of the two"
    assert sum(int(evaluated) for evaluated, _, _ in said) == 6
    assert [(results, failed) for _, results, failed in said] == [("6", "0")] * 2, "both know all"
    with ResultsDatabase(home / "results.sqlite", read_only=True) as database:
        assert database.count() == 6


@pytest.mark.slow
def test_the_work_of_a_killed_run_is_taken_over_at_once(
    images: Path, home: Path, small_model: str, marks: Path, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    run = start_script(tmp_path, tmp_path / "script.py", home, images, marks, small_model, 1, 600, 1)
    try:
        deadline = time.monotonic() + 300
        while not _leases(home) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert _leases(home) == 1, "it acquires what it is about to do, and no more"
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    benchmarks = tuple(slow(marks, seeds=(seed,)) for seed in range(1, 7))
    began = time.monotonic()
    outcome = run_study(Study("s", (small_model,), (str(images),), benchmarks), home, report=False)
    assert (outcome.evaluated, outcome.failed) == (6, [])
    assert time.monotonic() - began < 50


def _leases(home: Path) -> int:
    folder = home / "leases"
    return sum(path.suffix != ".lock" for path in folder.iterdir()) if folder.is_dir() else 0


def test_what_workers_of_a_living_run_left_is_left_to_it(
    images: Path, home: Path, small_model: str, marks: Path
) -> None:
    """Two runs of one study: each files what its own workers have left, and what those of the dead have."""
    from unseen.run.record import Leases

    with Leases(home) as other:
        inbox = Inbox(home)
        inbox.write(Result(Cell("slow", "m", "d"), {"top1": 1.0}), "s", other.owner)
        inbox.write(Result(Cell("slow", "m", "e"), {"top1": 1.0}), "s", "dead")
        run_study(Study("s", (small_model,), (str(images),), (slow(marks),)), home, report=False)
        with ResultsDatabase(home / "results.sqlite", read_only=True) as database:
            assert {result.cell.dataset for result in database.latest(model="m")} == {"e"}
        assert len(list((home / "inbox").iterdir())) == 1
