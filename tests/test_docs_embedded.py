"""The tables of embedded data in the docs: made from their file, and the file from the data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from unseen.cli import main

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tool(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("embedded_tables")


def test_the_pages_show_the_file(tool: ModuleType) -> None:
    numbers = json.loads(tool.NUMBERS.read_text(encoding="utf-8"))
    for path, page in tool.pages(numbers).items():
        assert tool.MARK in page
        assert page == path.read_text(encoding="utf-8"), "run: python tools/embedded_tables.py"
    assert len(numbers["zsl"]) == 18 and all(len(row["by_fold"]) == 3 for row in numbers["zsl"].values())
    assert {len(row) for row in numbers["vtab"].values()} == {6}


@pytest.mark.slow
def test_the_file_is_what_the_data_give(tool: ModuleType, tmp_path: Path) -> None:
    """Fit methods of a second or two; one of 214 images is half a point, and other processors round differently."""
    data = ["--data", "packaged:emoji?classes=150", "--methods", "ESZSL", "SAE", "--grid", "quick"]
    assert main(["zsl", "run", *data, "--home", str(tmp_path)]) == 0
    kept = json.loads(tool.NUMBERS.read_text(encoding="utf-8"))["zsl"]
    for method, row in tool.collect(tmp_path)["zsl"].items():
        for metric in ("zsl", "ts", "tr"):
            assert row[metric] == pytest.approx(kept[method][metric], abs=0.9), (method, metric)
