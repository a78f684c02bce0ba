"""Results to store: made by hand, with the shape that the probe benchmark gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unseen.core.records import Cell, Result
from unseen.core.run_record import Dropped, RunRecord, SplitCounts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


@pytest.fixture
def make_result() -> Callable[..., Result]:
    def make(
        model: str = "packaged:efficientnet-lite0",
        dataset: str = "packaged:grocery",
        seed: int = 22,
        top1: float = 0.7125,
        **changes: Any,
    ) -> Result:
        parameters = {"seed": seed, "shots": "all", **changes.pop("parameters", {})}
        values: dict[str, Any] = {
            "metrics": {"top1": top1, "top5": 0.97, "top1_low": top1 - 0.02, "top1_high": top1 + 0.02},
            "seconds": 1.25,
            "sweep": ({"c": 0.1, "value": 0.69}, {"c": 1.0, "value": 0.72}),
            "details": {"classes": 14, "chance": 1 / 14},
            "record": RunRecord({"test": SplitCounts(9, 8)}, dropped=(Dropped("image", "a.jpg", "truncated", "test"),)),
            "environment": {"python": "3.11.7", "unseen": "0.1.0"},
            **changes,
        }
        cell = Cell(values.pop("benchmark", "probe"), model, dataset, parameters, values.pop("revision", "r1"))
        return Result(cell, **values)

    return make
