"""Fixtures of the tests of runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unseen.core.records import Cell, Result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


@pytest.fixture
def make_result() -> Callable[..., Result]:
    """Return a function that makes a result of the probe benchmark."""

    def make(
        model: str = "packaged:efficientnet-lite0", dataset: str = "packaged:grocery", seed: int = 22, **changes: Any
    ) -> Result:
        cell = Cell("probe", model, dataset, {"seed": seed, "shots": "all"}, "r1")
        return Result(cell, **{"metrics": {"top1": 0.7125}, "environment": {"python": "3.11.7"}, **changes})

    return make
