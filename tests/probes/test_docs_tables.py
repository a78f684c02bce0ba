"""The tables of docs/evidence/probes.md that long benches fill are those that their kept figures give."""

import runpy
import shutil
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
KEPT = {"probe_cells": ["--cpu", "0"], "probe_coverage": ["--cpu", "0"]}
KEPT |= {bench: ["--kept"] for bench in ("probe", "probe_draws", "memory", "cog_cost")}


@pytest.fixture
def bench_modules(monkeypatch):
    """Scripts of bench/ import one another; no other test finds these modules."""
    threads = torch.get_num_threads()
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    yield
    torch.set_num_threads(threads)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(ROOT / "bench")):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.usefixtures("bench_modules")
@pytest.mark.parametrize("bench", KEPT)
def test_the_page_shows_the_kept_figures(bench, tmp_path, monkeypatch):
    page = ROOT / "docs" / "evidence" / "probes.md"
    copy = Path(shutil.copy(page, tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{bench}.py", *KEPT[bench], "--docs", str(copy)])
    try:
        runpy.run_path(str(ROOT / "bench" / f"{bench}.py"), run_name="__main__")
    except SystemExit as end:
        assert end.code in (0, 1, None)  # 1: a target is missed, which the table says
    assert copy.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
