"""Compare the simulated cluster of docs/evidence/scale.md with bench/simulation.py."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_table_of_the_page_is_simulated_with_the_costs_that_it_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "bench"), *sys.path])
    import simulation

    page = (ROOT / "docs" / "evidence" / "scale.md").read_text(encoding="utf-8")
    stated = re.search(r"--costs ([\d.]+) ([\d.]+) ([\d.]+)", page)
    assert stated is not None
    decode, write, locked = (float(cost) / 1e3 for cost in stated.groups())
    per_gpu = simulation.MODELS * simulation.IMAGES / (simulation.EXTRACTION_HOURS * 3600)
    found = [
        row
        for gpus in (8, 64)
        for row in simulation.rows(simulation.Cluster(gpus, 8, per_gpu, decode, 2e9, write, locked, 0.004))
    ]
    printed = re.findall(r"^\| (?:8|64) \| .*\|$", page, re.MULTILINE)
    assert len(printed) == 7
    assert set(printed) <= set(found), "run: python bench/simulation.py --costs ..."
