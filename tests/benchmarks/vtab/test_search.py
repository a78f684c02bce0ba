"""Searches over engines and adaptations: equal trials and choice on all, after kills, and with a failing trial."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.background import start_call, start_main

from unseen.backbones.backbone import state_digest
from unseen.benchmarks import Workbench, make_benchmark
from unseen.benchmarks.vtab import adapters
from unseen.engines import Engine, make_engine
from unseen.features import Extraction
from unseen.finetuning import train as training
from unseen.finetuning.trainer import Trainer
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
    """Put a file that is not a checkpoint where one trial keeps its own."""
    bench, cells = Workbench(home), plan_study(study, home).cells
    (benchmark,) = study.protocols
    adapter = benchmark._finetuning(cells[0], bench, 0)  # type: ignore[attr-defined]
    place = adapter.runs[FAILING].checkpoint
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


def search_alone(words: list[str]) -> None:
    """Run the search that a test kills: in a home, with so many trials and workers."""
    torch.set_num_threads(1)
    with make_engine("local", workers=int(words[2])) as engine:
        run_study(search(int(words[1])), Path(words[0]), engine, report=False)


@pytest.mark.slow
def test_forty_trials_are_the_same_in_one_process_over_workers_killed_and_over_dask(
    tmp_path: Path, shared_engine: Callable[[str, int], Engine]
) -> None:
    study = search(40)
    make_one_fail(study, tmp_path / "alone")
    alone = outcome(study, tmp_path / "alone", shared_engine("local", 1))
    states = [trial["state"] for trial in alone[0]["sweep"]]
    assert len(states) == 40
    assert [k for k, state in enumerate(states) if state != "complete"] == [FAILING]
    assert len({trial["accuracy"] for trial in alone[0]["sweep"] if "accuracy" in trial}) > 1

    folder = make_one_fail(study, tmp_path / "workers")
    running = start_main(tmp_path, search_alone, tmp_path / "workers", 40, 2)
    while running.is_running and len(list(folder.glob("trial-*.json"))) < 10:
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    assert running.wait().code == -signal.SIGKILL
    done = {path: path.stat().st_mtime_ns for path in folder.glob("trial-*.json")}
    assert 10 <= len(done) < 40
    assert outcome(study, tmp_path / "workers", shared_engine("local", 2)) == alone
    again = {path: path.stat().st_mtime_ns for path in done if path.exists()}
    assert len(again) >= len(done) - 1, "the failed one is forgotten once all is stored"
    assert all(done[path] == when for path, when in again.items()), "what was done is not done again"

    make_one_fail(study, tmp_path / "dask")
    assert outcome(study, tmp_path / "dask", shared_engine("dask", 2)) == alone


def test_the_device_of_the_command_is_the_devices_of_the_training(home: Path) -> None:
    study = search(2)
    (benchmark,), cells = study.protocols, plan_study(study, home).cells
    for device in ("cpu", "cuda:1"):
        bench = Workbench(home, how=Extraction(device=device))
        adapter = benchmark._finetuning(cells[0], bench, 0)  # type: ignore[attr-defined]
        assert adapter.options.device == device


# ---- killed in the middle of each adaptation -------------------------------------------------------------------------

VIT = "random:test_vit?size=16"
ADAPTATIONS = ("linear", "finetune", "scratch", "lora", "adapter", "vpt", "bitfit", "partial")


def kill_self(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def adapt(adaptation: str, home: Path, kill_at: int = 0) -> tuple[list[object], int]:
    """Evaluate one adaptation, 4 steps for one candidate and 6 for its final training; all checkpoints are kept.

    Args:
        kill_at: end this process by `kill -9` instead of this update; for linear, before the final fit.

    Returns:
        Metrics, outcomes per image and a digest of the weights of the final training; and the number of updates here.
    """
    updates, weights = 0, ""
    train, update = training.finetune, Trainer.update

    def counted(self: Trainer, *arguments: Any) -> torch.Tensor:
        nonlocal updates
        updates += 1
        if updates == kill_at:
            kill_self()
        return update(self, *arguments)

    def often_saved(*arguments: Any, options: training.FinetuneOptions, **more: Any) -> training.FinetuneResult:
        nonlocal weights
        result = train(*arguments, options=replace(options, checkpoint_seconds=0), **more)
        weights = state_digest(torch.nn.ModuleList([result.module, result.head]))
        return result

    recipe = {"sweep": "peft-1k", "epochs": 16, "adamw_rates": (0.003,), "weight_decays": (0.01,)}
    light = {"learning_rates": (0.1, 0.01), "steps": (5,)}
    options = {"adaptation": adaptation, "seeds": (0,), **(light if adaptation == "linear" else recipe)}
    benchmark = make_benchmark("vtab", options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "finetune", often_saved)
        patch.setattr(Trainer, "update", counted)
        if kill_at:
            patch.setattr(adapters, "fit_linear", kill_self)
        results = list(benchmark.evaluate(benchmark.plan(VIT, DATA), Workbench(home)))
    return [
        weights,
        *((dict(r.metrics), r.details["correct"], r.details["validation_accuracy"]) for r in results),
    ], updates


def adapt_alone(adaptation: str, home: Path, kill_at: int) -> None:
    torch.set_num_threads(1)
    adapt(adaptation, home, kill_at)


def is_killed(adaptation: str, home: Path, kill_at: int) -> bool:
    """Adapt in a process that ends itself by `kill -9`."""
    process = start_call(adapt_alone, adaptation, home, kill_at).process
    process.join(300)
    return process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("name", ADAPTATIONS)
def test_kill_nine_in_the_middle_of_each_adaptation_changes_no_number(name: str, tmp_path: Path) -> None:
    whole, updates = adapt(name, tmp_path / "whole")
    assert updates == (0 if name == "linear" else 10)
    home = tmp_path / "killed"
    assert is_killed(name, home, 3)  # in the training of the candidate, after two of four steps
    assert is_killed(name, home, 5)  # after its other two, and two of the six steps of the final training
    resumed, updates = adapt(name, home)
    assert resumed == whole
    assert updates == (0 if name == "linear" else 4)
