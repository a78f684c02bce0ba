"""What is said of a machine, and what a run on it is expected to take: numbers by hand, machines made up."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from unseen.results import environment
from unseen.results.environment import SPEEDS, Speeds, Stage, expect_cells, expect_features


def cpu(monkeypatch: pytest.MonkeyPatch, table: Path, system: str = "linux", answer: str = "") -> str:
    """The model of a made-up machine, whose processor is "plain"."""
    asked: list[list[str]] = []

    def run(command: list[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 0 if answer else 1, answer, "")

    monkeypatch.setattr(environment, "Path", lambda _path: table)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(platform, "processor", lambda: "plain")
    found = environment._cpu_model()
    assert not asked or system == "darwin"
    return found


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("processor : 0\nmodel name\t: Big: 9\nmodel name : Other\n", "Big: 9"),
        ("model\t: 85\nmodel name :\nModel : Board 4\n", "Board 4"),
        ("model\t: 85\nnothing\n", "plain"),
        ("", "plain"),
    ],
)
def test_the_table_of_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, expected: str) -> None:
    table = tmp_path / "cpuinfo"
    table.write_bytes(lines.encode() + b"\xff")
    assert cpu(monkeypatch, table) == expected


def test_a_machine_without_that_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = tmp_path / "none"
    assert cpu(monkeypatch, none) == "plain"
    assert cpu(monkeypatch, none, "darwin", "Fruit 3\n") == "Fruit 3"
    assert cpu(monkeypatch, none, "darwin") == "plain"
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "arm")
    assert environment._cpu_model() == "arm"
    monkeypatch.setattr(platform, "machine", lambda: "")
    assert environment._cpu_model() == "unknown"


def test_cores_are_those_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {1, 5, 6}, raising=False)
    assert environment._usable_cpus() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert environment._usable_cpus() == 64
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert environment._usable_cpus() == 1


def test_a_package_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "PACKAGES", ("no-such-package", "numpy", "unseen"))
    for commit, ending in (("abc-dirty", "+abc-dirty"), ("", "")):
        monkeypatch.setattr(environment, "_commit", lambda _root, commit=commit: commit)
        found = dict(environment._captured.__wrapped__())
        assert list(found) == ["python", "numpy", "unseen", "platform", "cpu", "cpus"]
        assert found["unseen"].endswith(ending)
        assert ("+" in found["unseen"]) == bool(commit)
    monkeypatch.setattr(environment, "PACKAGES", ("numpy",))
    monkeypatch.setattr(environment, "_commit", lambda root: str(root))
    assert "unseen" not in dict(environment._captured.__wrapped__())


def test_the_environment_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = environment.capture_environment()
    monkeypatch.setattr(environment, "_cpu_model", lambda: "another")
    assert environment.capture_environment() == first


def test_a_commit_that_git_does_not_tell_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src" / "unseen").mkdir(parents=True)
    asked: list[dict[str, Any]] = []

    def run(error: Exception | None) -> None:
        def answer(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
            asked.append(options)
            if error:
                raise error
            return subprocess.CompletedProcess(command, 0, " abc \n", "")

        monkeypatch.setattr(subprocess, "run", answer)

    monkeypatch.setenv("GIT_DIR", "elsewhere")
    for error in (FileNotFoundError("git"), subprocess.TimeoutExpired("git", 1)):
        run(error)
        assert environment._commit(tmp_path) == ""
    run(None)
    assert environment._commit(tmp_path) == "abc"
    assert "GIT_DIR" not in asked[-1]["env"], "as a hook sets it, for another repository"
    assert "PATH" in asked[-1]["env"]


def test_a_product_is_counted_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 10.5])
    monkeypatch.setattr(time, "process_time", lambda: next(clock))
    assert environment._multiply(64) == pytest.approx(4 * 2 * 64**3 / 0.5 / 1e9)
    clock = iter([10.0, 10.0])
    assert environment._multiply(64) == pytest.approx(4 * 2 * 64**3 / 1e-3 / 1e9), "no time at all is a millisecond"


def test_a_guess_from_the_machine_is_that_of_a_resnet_50(tmp_path: Path) -> None:
    speeds = Speeds(tmp_path)
    speeds.gflops = 328.0
    assert speeds.extraction("new") == (pytest.approx(10.0), 2048, False), "a quarter of 328, of 8.2 each"
    assert speeds.cell("probe", "a") == (1.0, False)


def test_the_middle_of_other_datasets(tmp_path: Path) -> None:
    speeds = Speeds(tmp_path)
    for name, seconds in (("c", 9.0), ("a", 1.0), ("b", 2.0)):
        speeds.learn_cells("probe", name, [seconds])
    speeds.learn_cells("probes", "z", [100.0])
    assert speeds.cell("probe", "new") == (2.0, False)
    assert speeds.cell("probes", "new") == (100.0, False)
    speeds.learn_cells("probe", "zero", [0.0])
    assert speeds.cell("probe", "zero") == (0.0, True), "no time is known as well as any"


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{}",
        '{"models": {"m": [1.0]}, "cells": {}, "gflops": 1}',
        '{"models": {"m": 3}, "cells": {}, "gflops": 1}',
        '{"models": [], "cells": {}, "gflops": 1}',
        '{"models": {"m": [1, 2]}, "cells": {"a": "x"}, "gflops": 1}',
        '{"models": {"m": [1, 2]}, "cells": {"a": 1}, "gflops": null}',
        '{"models": {"m": [1, 2]}, "cells": {"a": 1}}',
    ],
)
def test_a_file_of_speeds_that_makes_no_sense_counts_for_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / SPEEDS).write_text(content)
    speeds = Speeds(tmp_path)
    assert (speeds.models, speeds.cells, speeds.gflops) == ({}, {}, 0.0)


def test_speeds_of_a_machine_are_kept_and_a_home_that_cannot_be_written_goes_without(tmp_path: Path) -> None:
    speeds = Speeds(tmp_path)
    speeds.gflops = 12.5
    speeds.save()
    assert Speeds(tmp_path).gflops == json.loads((tmp_path / SPEEDS).read_text())["gflops"] == 12.5
    (tmp_path / "file").touch()
    Speeds(tmp_path / "file").save()


def test_images_of_several_models_add_up(tmp_path: Path) -> None:
    speeds = Speeds(tmp_path)
    speeds.learn_model("a", 100, 10.0, 8)
    speeds.learn_model("b", 100, 50.0, 4)
    stage = expect_features(speeds, {"a": 1000, "b": 500}, 2, 4)
    assert stage == Stage(
        "features", "1,500 images", (100.0 + 250.0) / 4, 1000 * (8 * 2 + 16) + 500 * (4 * 2 + 16), 2_400_000_000, True
    )
    assert not expect_features(speeds, {"new": 1, "a": 1}, 2, 1).known
    with pytest.raises(FrozenInstanceError):
        stage.seconds = 0.0  # type: ignore[misc]


def test_cells_take_the_memory_of_the_largest_dataset(tmp_path: Path) -> None:
    speeds = Speeds(tmp_path)
    speeds.learn_cells("probe", "a", [3.0])
    stage = expect_cells(speeds, [("probe", "a")] * 1200, {"a": 7, "elsewhere": 10**12}, 3)
    assert stage == Stage("cells", "1,200 cells", 1200.0, 4_800_000, (600_000_000 + 14) * 3, True)
    none = expect_cells(speeds, [], {"a": 7}, 1)
    assert none == Stage("cells", "0 cells", 0.0, 0, 600_000_000, True)
    assert Stage("a", "b", 1.0) == Stage("a", "b", 1.0, 0, 0, True)
