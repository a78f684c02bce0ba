"""A short run of the fuzzer over every reader; `make fuzz` is the long one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the fuzzer forks and reads /proc")
def test_damaged_files_give_errors_of_ours_only() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", "--inputs", "50"],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count("\n| ") > 40, "a row for each reader"
