"""A short run of the fuzzer over every reader and every public entry point; `make fuzz` is the long one."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the fuzzer forks and reads /proc")
FORMATS = ("pyarrow", "datasets", "onnx", "transformers", "open_clip", "h5py")


def need_formats() -> None:
    if missing := [module for module in FORMATS if find_spec(module) is None]:
        pytest.skip(f"{missing[0]} is not installed")


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", *arguments],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@linux
def test_damaged_files_give_errors_of_ours_only() -> None:
    assert run("--inputs", "20").count("\n| ") > 40, "a row for each reader"


@pytest.mark.slow
@linux
def test_damaged_files_of_public_entry_points(tmp_path: Path) -> None:
    need_formats()
    arguments = ("--entries", "--inputs", "10", "--batch", "5", "--state", str(tmp_path / "state"))
    first = run(*arguments)
    assert first.count("\n| ") > 25, "a row for each entry point"
    batches = (tmp_path / "state").read_text()
    again = run(*arguments, "--reader", "dataset zip", "--reader", "dataset wds").splitlines()
    assert again[2:4] == [line for line in first.splitlines() if line.startswith(("| dataset zip", "| dataset wds"))]
    assert (tmp_path / "state").read_text() == batches, "no batch is run twice"


def test_every_registered_entry_point_is_fuzzed_or_exempt() -> None:
    need_formats()
    from tools.fuzz.entries import EXEMPT, covered, registered

    assert covered() | set(EXEMPT) == registered()
    assert not covered() & set(EXEMPT)
