"""The table of real AWA1 on the page: made from its file, and the file from the data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from unseen.data import load_dataset
from unseen.metrics import harmonic_mean, mean_per_class
from unseen.zeroshot.catalogue import load_method

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("zsl_table")


def test_the_page_shows_the_file(tool: ModuleType) -> None:
    page, numbers = tool.PAGE.read_text(), json.loads(tool.NUMBERS.read_text())
    assert tool.replaced(page, tool.render(numbers)) == page, "run: python tools/zsl_table.py"
    for row in numbers["PS"].values():
        # In full precision H follows from ts and tr; they are stored to 0.001.
        assert row["H"] == pytest.approx(harmonic_mean(row["ts"], row["tr"]), abs=0.01)


@pytest.mark.parametrize("split", ["PS", "SS"])
@pytest.mark.parametrize("method", ["ESZSL", "SAE", "SAE-reverse", "GFZSL"])
def test_the_file_is_what_the_data_give(tool: ModuleType, golden_data: Path, split: str, method: str) -> None:
    """Methods of a second or two, fitted anew with the parameters that were chosen."""
    if not (golden_data / "gbu" / "AWA1" / "lampert2009_256d.npz").is_file():
        pytest.skip("the features of AWA1 are not there")
    row = json.loads(tool.NUMBERS.read_text())[split][method]
    name = f"xlsa17:AWA1?features=lampert2009_256d.npz&root={golden_data / 'gbu'}&split={split}"
    data = load_dataset(name)
    unit = {}
    for part in data.splits:
        X = data.given_features["lampert2009_256d"]()[data.split(part).feature_rows]  # type: ignore[attr-defined]
        unit[part] = X / np.linalg.norm(X, axis=1, keepdims=True)
    S = data.attributes  # type: ignore[attr-defined]
    fitted = load_method(method)(**row["best"]).fit(unit["trainval"], data.split("trainval").labels, S)
    y = data.split("test_unseen").labels
    unseen = np.unique(y)
    right = unseen[fitted.predict(unit["test_unseen"], S[unseen])] == y
    assert 100 * mean_per_class(y, right) == pytest.approx(row["zsl"], abs=0.1)
