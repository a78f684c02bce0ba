"""The tables of docs/evidence/cog.md: made by `tools/photographs.py`, and still what the photographs give."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from unseen.benchmarks import Workbench
from unseen.benchmarks.cog.domains import DomainRecipe, make_domains
from unseen.benchmarks.probing import probe_splits

ROOT = Path(__file__).parents[3]
if not (ROOT / "tools" / "photographs.py").is_file():
    pytest.skip("not a source checkout: there is no page to check", allow_module_level=True)
MODEL = "packaged:efficientnet-lite0"


@pytest.fixture(scope="module")
def tool(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("photographs")


@pytest.fixture(scope="module")
def made(tool: ModuleType) -> str:
    page = tool.PAGE.read_text(encoding="utf-8")
    return page[page.index(tool.BEGIN) : page.index(tool.END)]


def test_the_page_has_every_table(tool: ModuleType, made: str) -> None:
    for options in tool.OPTIONS:
        assert f"**{options['levels']} levels.**" in made
    rows = re.findall(r"^\| (?!model|---)(.+?) \|", made, flags=re.M)
    assert rows == list(tool.MODELS.values()) * len(tool.SHOTS) * len(tool.OPTIONS)


@pytest.mark.slow
def test_two_cells_computed_anew(tool: ModuleType, made: str, golden_data: Path, tmp_path: Path) -> None:
    """One photograph per class of the seen concepts and of L5 with EfficientNet-Lite0: the page is not far from it."""
    (name,) = tool.study(golden_data).datasets
    bench = Workbench(tmp_path)
    dataset = bench.dataset(name)
    domains = make_domains(dataset, DomainRecipe(levels=5)).domains
    row = next(line for line in made.splitlines() if line.startswith(f"| {tool.MODELS[MODEL]} |"))
    stated = dict(zip(("seen", "L1", "L2", "L3", "L4", "L5"), re.findall(r"(\d+\.\d) (?:±|\[)", row), strict=True))
    for level in ("seen", "L5"):
        labels = domains[level].labels
        splits = {}
        for split in ("train", "test"):
            images = dataset.split(split)
            rows = np.flatnonzero(np.isin(images.labels, labels))
            taken = images.take(rows, np.searchsorted(labels, images.labels[rows]))
            part = replace(dataset, splits={split: taken}, features_id=f"{dataset.features_id}-{level}")
            found = bench.layers(MODEL, part, split, ("pooled",))["pooled"]
            splits[split] = found.features, found.labels
        seeds = (22, 37, 45, 77, 93)
        records = probe_splits(splits, solver="logistic", shots=(1,), seeds=seeds, validation="drawn")
        top1 = 100 * float(np.mean([record.top1 for record in records.values()]))
        assert abs(top1 - float(stated[level])) <= 2.0, f"{level}: {top1:.1f}, the page says {stated[level]}"
