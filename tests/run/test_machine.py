"""The recorded environment, of simulated machines."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import pytest

from unseen.core import extras as environment


def cpu(monkeypatch: pytest.MonkeyPatch, table: Path) -> str:
    """The model of a made-up machine, whose processor is "plain"."""
    monkeypatch.setattr(environment, "Path", lambda _path: table)
    monkeypatch.setattr(platform, "processor", lambda: "plain")
    return environment._cpu_model()


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
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "arm")
    assert environment._cpu_model() == "arm"
    monkeypatch.setattr(platform, "machine", lambda: "")
    assert environment._cpu_model() == "unknown"


def test_cores_are_those_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {1, 5, 6}, raising=False)
    assert environment.cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert environment.cores() == 64
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert environment.cores() == 1


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
