"""The dry check and the cost model of ImageNet-CoG, over small ImageNets and over a store that was really written."""

from __future__ import annotations

import json
import shutil
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
    check_imagenet,
    cost_lines,
    count_concepts,
    hours,
    plan_cost,
    planned_card,
)
from unseen.core.errors import DataError, UnknownNameError
from unseen.core.records import ModelCard
from unseen.data import Dataset, load_dataset
from unseen.data.sources.imagenet.cog import Caps
from unseen.features.part import PartRows

pytestmark = pytest.mark.usefixtures("home")


def image_lists(dataset: Dataset) -> dict[str, dict[str, list[str]]]:
    """Return the images of a loaded level by concept and split; as a JSON file they work as `split=FILE`."""
    lists: dict[str, dict[str, list[str]]] = {}
    for split in ("train", "test"):
        for name in dataset.split(split).names:
            lists.setdefault(name.partition("/")[0], {"train": [], "test": []})[split].append(name)
    return lists


CAPS = Caps(train=8, test=2, least=6)
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


def levels_of(tree: Any, *, whole: bool = True) -> dict[str, list[str]]:
    """Return two levels; the second has the short concepts unless `whole` is set."""
    good = [wnid for wnid in tree.others if wnid not in tree.short]
    return {"l1": good[:50], "l2": good[50:90] + ([] if whole else list(tree.short))}


# The check.


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_complete_imagenet_has_no_problems(trees: Mapping[str, Any], layout: str, tmp_path: Path) -> None:
    tree = trees[layout]
    levels = levels_of(tree)
    check = check_imagenet(tree.in21k, levels, in1k=tree.in1k, caps=CAPS)
    assert check.ok, check.problems
    assert check.layout == layout
    assert check.concepts == 360
    # The counts are those of the loaded datasets.
    (tmp_path / "levels.json").write_text(json.dumps(levels))
    seen, *others = check.sets
    for each in others:
        loaded = load_dataset(
            f"imagenet:cog-{each.name}", root=tree.in21k, levels=tmp_path / "levels.json", train=8, test=2, min=6
        )
        assert (each.train, each.test) == (len(loaded.split("train")), len(loaded.split("test")))
        assert each.counts == {wnid: tree.counts[wnid] for wnid in levels[each.name]}
    loaded = load_dataset("imagenet:in1k", root=tree.in1k)
    assert (seen.name, seen.classes) == ("in1k", 60)
    assert (seen.train, seen.test) == (len(loaded.split("train")), len(loaded.split("test")))
    assert json.loads(json.dumps(check.to_dict()))["ok"] is True
    text = "\n".join(check.lines())
    assert "360 concepts" in text
    assert "note: in1k: 60 of the 1,000 classes" in text
    assert "problem" not in text


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_problems_are_listed(trees: Mapping[str, Any], layout: str) -> None:
    tree = trees[layout]
    levels = levels_of(tree, whole=False)
    levels["l1"] = [*levels["l1"], "n99999998", "n99999999"]
    check = check_imagenet(tree.in21k, levels, caps=CAPS, in1k=Path("nowhere"))
    _, first, second = check.sets
    assert not check.ok
    assert first.missing == ("n99999998", "n99999999")
    assert second.short == tuple(sorted(tree.short))
    assert second.classes == 40  # the others
    assert second.test == 80
    assert [each.partition(":")[0] for each in check.problems] == ["l1", "l2", "in1k"]
    assert "5 concepts have fewer than 8 images: " in check.problems[1]
    assert "(3)" in check.problems[1]
    assert sum("problem: " in line for line in check.lines()) == 3


def test_damaged_tars_are_named(trees: Mapping[str, Any], tmp_path: Path) -> None:
    tree = trees["tars"]
    shutil.copytree(tree.in21k, tmp_path / "tars")
    wnid = levels_of(tree)["l1"][4]
    (tmp_path / "tars" / f"{wnid}.tar").write_bytes(b"\x1f\x8b compressed")
    check = check_imagenet(tmp_path / "tars", levels_of(tree), caps=CAPS)
    assert list(check.sets[0].damaged) == [wnid]
    assert check.sets[0].missing == ()
    assert len(check.problems) == 1
    assert "compressed with gzip" in check.problems[0]
    with pytest.raises(DataError, match="compressed with gzip"):
        count_concepts(tmp_path / "tars")


def test_image_lists_are_checked_against_the_disk(trees: Mapping[str, Any], tmp_path: Path) -> None:
    tree = trees["one tar"]
    levels = levels_of(tree)
    (tmp_path / "levels.json").write_text(json.dumps(levels))
    lists: dict[str, dict[str, list[str]]] = {}
    for name in levels:
        drawn = load_dataset(
            f"imagenet:cog-{name}", root=tree.in21k, levels=tmp_path / "levels.json", train=5, test=3, min=5
        )
        lists |= image_lists(drawn)
    file = tmp_path / "split.json"
    file.write_text(json.dumps(lists))
    check = check_imagenet(tree.in21k, levels, split=file)
    assert check.ok, check.problems
    assert [(each.train, each.test) for each in check.sets] == [(250, 150), (200, 120)]
    lists[levels["l2"][0]]["test"][0] = "n99999999_1.JPEG"
    del lists[levels["l1"][0]]
    file.write_text(json.dumps(lists))
    check = check_imagenet(tree.in21k, levels, split=file)
    assert check.sets[1].absent == 1
    assert "l2: 1 listed images were not found" in check.problems
    assert any(each.startswith("l1: ") and "Was it made for other levels" in each for each in check.problems)


def test_a_missing_root_is_a_problem(tmp_path: Path) -> None:
    check = check_imagenet(tmp_path / "none", {"l1": ["n1"]})
    assert not check.ok
    assert check.sets[0].missing == ("n1",)
    assert "there is no folder" in check.problems[0]
    assert "not readable" in check.lines()[0]


def test_faults_of_imagenet_1k(trees: Mapping[str, Any], tmp_path: Path) -> None:
    tree = trees["folders"]
    root = tmp_path / "in1k"
    shutil.copytree(tree.in1k, root)
    for image in (root / "train" / tree.seen[0]).iterdir():
        image.unlink()
    shutil.rmtree(root / "val" / tree.seen[1])
    check = check_imagenet(tree.in21k, levels_of(tree), in1k=root, caps=CAPS)
    (problem,) = check.problems
    assert problem.startswith("in1k: 1 of 60 classes") and f"no training image, such as {tree.seen[0]}" in problem


@pytest.mark.parametrize("layout", LAYOUTS)
def test_counts_of_all_concepts(trees: Mapping[str, Any], layout: str) -> None:
    assert count_concepts(trees[layout].in21k) == dict(sorted(trees[layout].counts.items()))


# The cost.


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
