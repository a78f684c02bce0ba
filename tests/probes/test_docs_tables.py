"""The tables of docs/evidence/probes.md that long benches fill are those that their kept figures give."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEPT = {"probe_cells": ["--cpu", "0"], "probe_coverage": ["--cpu", "0"]}
KEPT |= {bench: ["--kept"] for bench in ("probe", "probe_draws", "memory", "cog_cost")}


@pytest.mark.slow
@pytest.mark.parametrize("bench", KEPT)
def test_the_page_shows_the_kept_figures(bench, tmp_path):
    page = ROOT / "docs" / "evidence" / "probes.md"
    copy = Path(shutil.copy(page, tmp_path))
    command = [sys.executable, str(ROOT / "bench" / f"{bench}.py"), *KEPT[bench], "--docs", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr  # 1: a target is missed, which the table says
    assert "Traceback" not in done.stderr, done.stderr
    assert copy.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
