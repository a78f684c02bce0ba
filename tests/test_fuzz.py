"""A short run of the fuzzer over every reader and every public entry point; `make fuzz` is the long one."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from unseen.core.errors import DataError

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
def test_damaged_files_of_public_entry_points() -> None:
    need_formats()
    assert run("--entries", "--inputs", "10", "--batch", "5").count("\n| ") > 25, "a row for each entry point"


@linux
def test_finished_batches_are_not_run_again(tmp_path: Path) -> None:
    from tools.fuzz.mutations import blind
    from tools.fuzz.runner import BATCH, Reader, fuzz

    def read(folder: Path) -> bytes:
        data = (folder / "x").read_bytes()
        if len(data) != 3:
            raise DataError("another length")
        return data

    reader, state = Reader("three bytes", {"x": b"abc"}, read, blind), tmp_path / "state"
    (first,) = fuzz([reader], BATCH, 0, state)
    assert first.read + first.refused == BATCH
    assert 0 < first.refused < BATCH
    assert first.bad == 0
    batch = state.read_text()
    (longer,) = fuzz([reader], 2 * BATCH, 0, state)
    assert longer.read + longer.refused == 2 * BATCH
    assert state.read_text().startswith(batch)
    assert state.read_text().count("\n") == 2
    (again,) = fuzz([dataclasses.replace(reader, read=lambda _: pytest.fail("run again"))], BATCH, 0, state)
    assert vars(again) == vars(first)


def test_every_registered_entry_point_is_fuzzed_or_exempt() -> None:
    need_formats()
    from tools.fuzz.entries import EXEMPT, covered, registered

    assert covered() | set(EXEMPT) == registered()
    assert not covered() & set(EXEMPT)
