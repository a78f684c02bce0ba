"""The heavyweight search over engines: the same trials and choice anywhere, killed or not, with a trial that fails.

As a script, `python test_search.py HOME TRIALS WORKERS`, it is the search that a test kills.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from unseen.benchmarks import Workbench
from unseen.engines import Engine, make_engine
from unseen.features import Extraction
from unseen.study import Study, plan_study, run_study

DATA = "procedural:sprites-location?train=16&val=8&test=8"
MODEL = "random:test_efficientnet?size=16"
FAILING = 7


def search(trials: int, **more: Any) -> Study:
    """A tiny network, tiny images, one step per trial."""
    options = {"adaptation": "finetune", "sweep": "heavyweight", "trials": trials, "longest": 1, "seeds": (0, 1)}
    return Study("search", (MODEL,), (DATA,), {"vtab": {**options, **more}})


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread, as the search in a subprocess does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_one_fail(study: Study, home: Path) -> Path:
    """Put a file that is no checkpoint where one trial keeps its own."""
    bench, cells = Workbench(home), plan_study(study, home).cells
    (benchmark,) = study.protocols
    adapter = benchmark._finetuning(cells[0], bench, 0)  # type: ignore[attr-defined]
    place = adapter._place("trial", adapter.settings[FAILING], 0).with_suffix(".pt")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"no checkpoint")
    return place.parent


def outcome(study: Study, home: Path, engine: Engine) -> list[dict[str, Any]]:
    results = run_study(study, home, engine, report=False).results
    assert all(result.ok for result in results)
    return [
        {
            "metrics": result.metrics,
            "chosen": result.details["chosen"],
            "sweep": [{k: v for k, v in trial.items() if k not in ("seconds", "error")} for trial in result.sweep],
        }
        for result in results
    ]


@pytest.mark.slow
def test_a_hundred_trials_are_the_same_in_one_process_over_workers_killed_and_over_dask(
    tmp_path: Path, shared_engine: Callable[[str, int], Engine]
) -> None:
    study = search(100)
    make_one_fail(study, tmp_path / "alone")
    alone = outcome(study, tmp_path / "alone", shared_engine("local", 1))
    states = [trial["state"] for trial in alone[0]["sweep"]]
    assert len(states) == 100
    assert [k for k, state in enumerate(states) if state != "complete"] == [FAILING]
    assert len({trial["accuracy"] for trial in alone[0]["sweep"] if "accuracy" in trial}) > 1

    folder = make_one_fail(study, tmp_path / "workers")
    process = subprocess.Popen([sys.executable, __file__, tmp_path / "workers", "100", "2"], start_new_session=True)
    while process.poll() is None and len(list(folder.glob("trial-*.json"))) < 20:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    done = {path: path.stat().st_mtime_ns for path in folder.glob("trial-*.json")}
    assert 20 <= len(done) < 100
    assert outcome(study, tmp_path / "workers", shared_engine("local", 2)) == alone
    again = {path: path.stat().st_mtime_ns for path in done if path.exists()}
    assert len(again) >= len(done) - 1, "the failed one is forgotten once all is stored"
    assert all(done[path] == when for path, when in again.items()), "what was done is not done again"

    make_one_fail(study, tmp_path / "dask")
    assert outcome(study, tmp_path / "dask", shared_engine("dask", 2)) == alone


@pytest.mark.slow
def test_a_pruned_search_is_the_same_over_workers(tmp_path: Path, shared_engine: Callable[[str, int], Engine]) -> None:
    study = search(8, prune=True, longest=3, seeds=(0,))
    found = [outcome(study, tmp_path / str(workers), shared_engine("local", workers)) for workers in (1, 2)]
    assert found[0] == found[1]
    states = [trial["state"] for trial in found[0][0]["sweep"]]
    assert (states.count("complete"), states.count("pruned")) == (2, 6)


def test_the_device_of_the_command_is_the_devices_of_the_training(home: Path) -> None:
    study = search(2)
    (benchmark,), cells = study.protocols, plan_study(study, home).cells
    for device in ("cpu", "cuda:1"):
        bench = Workbench(home, how=Extraction(device=device))
        adapter = benchmark._finetuning(cells[0], bench, 0)  # type: ignore[attr-defined]
        assert adapter.options.device == device


if __name__ == "__main__":
    torch.set_num_threads(1)
    with make_engine("local", workers=int(sys.argv[3])) as engine:
        run_study(search(int(sys.argv[2])), Path(sys.argv[1]), engine, report=False)
