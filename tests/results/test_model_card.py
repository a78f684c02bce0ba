"""Model cards: huggingface_hub reads the block, and its numbers are those of the tables."""

from __future__ import annotations

import numpy as np
import yaml
from huggingface_hub.repocard_data import model_index_to_eval_results

from unseen.core.records import Cell, Result
from unseen.results.grid import grids, pack_correct
from unseen.results.render import model_card


def _result(model: str, dataset: str, hits: int, n: int = 200) -> Result:
    correct = np.arange(n) < hits
    details = {"correct": pack_correct(correct), "chance": 0.1, "classes": 10, "test_images": n}
    return Result(Cell("probe", model, dataset, {"seed": 1, "shots": "all"}), {"top1": hits / n}, details=details)


def test_block_is_read_by_the_hub_library() -> None:
    results = [_result("timm:a", "folder:/x/photos", 150), _result("timm:a", "d2", 20), _result("timm:b", "d2", 40)]
    text = model_card(results, {"timm:a": "A", "folder:/x/photos": "photos"}, "0.2.0")
    assert text.startswith("---\nmodel-index:\n") and text.endswith("---\n")
    index = yaml.safe_load(text.strip("-\n"))["model-index"]
    assert [model["name"] for model in index] == ["A", "timm:b"]
    name, found = model_index_to_eval_results(index[:1])
    assert name == "A"
    assert {(each.dataset_name, each.metric_type, each.metric_value) for each in found} == {
        ("photos", "accuracy", 75.0),
        ("d2", "accuracy", 10.0),
    }
    assert {each.task_type for each in found} == {"image-classification"}
    assert {each.source_name for each in found} == {"unseen 0.2.0"}


def test_interval_is_that_of_the_table() -> None:
    results = [_result("timm:a", "d", 150)]
    (summary,) = grids(results)[0].cells.values()
    low, high = (f"{100 * value:.1f}" for value in (summary.interval.low, summary.interval.high))
    assert f"95 % CI {low} to {high}, 200 test images" in model_card(results, {})


def test_zero_shot_has_its_own_task() -> None:
    result = _result("m", "d", 150)
    other = Result(Cell("clip", "m", "d", {"seed": 1}), dict(result.metrics), details=dict(result.details))
    assert "type: zero-shot-image-classification" in model_card([other], {})
