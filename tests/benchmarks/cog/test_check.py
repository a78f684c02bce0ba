"""The cost model of ImageNet-CoG, over small ImageNets and over a store that was really written."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from unseen.benchmarks import Workbench
from unseen.benchmarks.cog.check import (
    FULL_COG,
    ImageSet,
    cost_lines,
    count_concepts,
    hours,
    plan_cost,
    planned_card,
)
from unseen.core.errors import UnknownNameError
from unseen.core.records import ModelCard
from unseen.data.sources.imagenet.cog import Caps
from unseen.features.part import PartRows

pytestmark = pytest.mark.usefixtures("home")


LAYOUTS = ("folders", "tars", "one tar")


@pytest.fixture(scope="module")
def imagenet_tree() -> ModuleType:
    spec = spec_from_file_location("imagenet_tree", Path(__file__).parents[2] / "imagenet_tree.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault("imagenet_tree", module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def trees(imagenet_tree: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    base = tmp_path_factory.mktemp("imagenet")
    return {each: imagenet_tree.make_imagenet(base / each.replace(" ", "-"), each) for each in LAYOUTS}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_counts_of_all_concepts(trees: Mapping[str, Any], layout: str) -> None:
    assert count_concepts(trees[layout].in21k) == dict(sorted(trees[layout].counts.items()))


def test_the_whole_of_imagenet_cog() -> None:
    """The paper: 1.10 million training images per level and 1.28 million seen; 50 test images per concept."""
    assert sum(each.train for each in FULL_COG[1:]) == 5_529_488
    assert sum(each.train for each in FULL_COG[1:]) / 5 == pytest.approx(1.10e6, rel=0.01)
    assert FULL_COG[0].train == 1_281_167
    assert all(each.test == 50 * each.classes for each in FULL_COG)


def test_levels_of_the_real_counts(golden_data: Path) -> None:
    from unseen.concepts import (
        build_levels,
        filters_for,
        imagenet_1k,
        imagenet_21k,
        load_wordnet,
        read_counts,
        run_funnel,
    )

    counts = read_counts(golden_data / "imagenet21k" / "counts.csv")
    seen, every = imagenet_1k(), imagenet_21k()
    taxonomy = load_wordnet()
    eligible = run_funnel(taxonomy, every, filters_for(taxonomy, every, seen, counts=counts)).concepts
    levels = build_levels(taxonomy, eligible, seen)
    caps = Caps()
    used = [tuple(map(sum, zip(*(caps.used(counts[c]) for c in level.ids), strict=True))) for level in levels.levels]
    assert used == [(each.train, each.test) for each in FULL_COG[1:]]


def card(model: str, dim: int, flops: int = 0) -> ModelCard:
    return ModelCard(model, feature_dim=dim, flops=flops)


def test_a_plan_by_hand() -> None:
    sets = (ImageSet("in1k", 10, 1000, 100), ImageSet("l1", 10, 100, 100))
    models = [card("a", 100, 3_000), card("b", 200, 5_000)]
    a, b = plan_cost(sets, models)
    assert a.extraction_tflop == pytest.approx(1300 * 3_000 / 1e12)
    # 1, 2, 4 ... 128 images of ten classes, at most all of them
    rows = 1000 + sum(min(10 * 2**k, 1000) for k in range(8)) + 100 + sum(min(10 * 2**k, 100) for k in range(8))
    assert b.probe_tflop == pytest.approx(5 * 45 * 4 * rows * 200 * 10 / 1e12)
    assert a.memory_gb == pytest.approx(4 * 4 * 100 * 1000 / 1e9)
    assert b.disk_gb == pytest.approx(1300 * (200 * 4 + 16) / 1e9, rel=0.01)
    # 30 trials on 80 % of the rows and the final fit, a hundred epochs each
    paper = plan_cost(sets, models, solver="paper")[1]
    assert paper.probe_tflop / b.probe_tflop == pytest.approx(100 * (30 * 0.8 + 1) / 45)


def test_the_cost_of_imagenet_cog() -> None:
    (cost,) = plan_cost(FULL_COG, [card("resnet50", 2048, 8_200_000_000)])
    assert cost.disk_gb == pytest.approx(58.4, abs=0.1)
    assert cost.memory_gb == pytest.approx(42.0, abs=0.1)
    # docs/evidence/probes.md has the operations of 31 models: 1,807,529 and 494,586.
    assert cost.extraction_tflop == pytest.approx(1_807_529 / 31, rel=1e-3)
    assert cost.probe_tflop == pytest.approx(494_586 / 31, rel=0.05)
    text = "\n".join(cost_lines(FULL_COG, [cost]))
    assert "7,110,655 per model (6,810,655 train, 300,000 test, 6 sets)" in text
    assert "58.4 GB of features for 1 model" in text
    assert "58,307 TFLOP; about 6.0 h on one GPU, 0.8 h on eight" in text
    assert "270 probes (5 seeds x 9 shots)" in text


def test_the_hours_are_those_of_the_authors(tmp_path: Path) -> None:
    """60 minutes per extraction of a set and 75 per classifier on a V100, within a factor of 1.5; without weights."""
    model = planned_card(Workbench(tmp_path), "cog:resnet50")
    for each in FULL_COG:
        (cost,) = plan_cost([each], [model], solver="paper")
        assert 60 / 1.5 < 60 * hours(cost.extraction_tflop, "extraction") < 60 * 1.5
        # The published hours are those of a fit with all images; the others are few-shot.
        rows = each.train + sum(min(2**k * each.classes, each.train) for k in range(8))
        fit = cost.probe_tflop / 5 * each.train / rows
        assert 75 / 1.5 < 60 * hours(fit, "probes") < 75 * 1.5


def test_the_disk_is_what_a_store_takes(tmp_path: Path) -> None:
    from unseen.core.records import FeatureKey, Preprocessing
    from unseen.features import FeatureStore

    rows, dim, part = 6000, 96, 1024
    key = FeatureKey("m", "w", "pooled", Preprocessing(), "fp32", "onnx", "d", "train", "f")
    store = FeatureStore(tmp_path)
    with store.writer(key, total=rows, part_size=part) as writer:
        for start in range(0, rows, part):
            index = np.arange(start, min(start + part, rows))
            writer.write(PartRows(writer.next_index, np.ones((len(index), dim), np.float32), index, index, []))
        writer.finish({})
    taken = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    (cost,) = plan_cost([ImageSet("x", 10, rows, 0)], [card("m", dim)])
    assert cost.disk_gb * 1e9 == pytest.approx(taken, rel=0.005)


def test_what_cannot_be_planned() -> None:
    with pytest.raises(UnknownNameError, match="logistic"):
        plan_cost(FULL_COG, [card("m", 10)], solver="knn")
