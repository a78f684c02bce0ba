"""The tables of docs/evidence/rank.md are those that the rows in the repository give."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]


def test_tables_of_the_page_are_those_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "bench"), *sys.path])
    import rank_truth

    page = (ROOT / "docs" / "evidence" / "rank.md").read_text(encoding="utf-8")
    assert rank_truth.tables() in page, "run: python bench/rank_truth.py --table"
    names, models, found = rank_truth.values()
    assert len(names) >= 3 and len(models) >= 10
    assert np.isfinite(found["converged"]).all()
