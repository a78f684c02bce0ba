"""Results of a small study, as the probe benchmark gives them."""

from __future__ import annotations

import pytest

from unseen.core.records import Cell, DatasetCard, ModelCard, Result
from unseen.core.run_record import Dropped, RunRecord, SplitCounts

SEEDS = (22, 37, 45)
MODELS = {"packaged:efficientnet-lite0": 0.70, "packaged:efficientnet-lite2": 0.74, "random:resnet18": 0.20}
DATASETS = {"packaged:grocery": 0.0, "packaged:emoji": -0.1}


@pytest.fixture
def results() -> list[Result]:
    """Three models, two datasets, three seeds; one cell failed, one dataset has an unreadable image."""
    found = []
    for model, base in MODELS.items():
        for dataset, bonus in DATASETS.items():
            for step, seed in enumerate(SEEDS):
                cell = Cell("probe", model, dataset, {"seed": seed, "shots": "all", "solver": "fast"})
                if (model, dataset, seed) == ("random:resnet18", "packaged:emoji", 45):
                    found.append(Result(cell, error="out of memory <at> cell 45", seconds=0.5))
                    continue
                top1 = base + bonus + step / 100 + 1 / 3000
                found.append(
                    Result(
                        cell,
                        {"top1": top1, "top5": top1 + 0.1, "top1_low": top1 - 0.02, "top1_high": top1 + 0.02},
                        seconds=2.0,
                        sweep=({"c": 0.01, "value": 0.6}, {"c": 100.0, "value": 0.7}),
                        details={
                            "classes": 14,
                            "train_images": 1460,
                            "test_images": 594,
                            "chance": 1 / 14,
                        },
                        record=RunRecord(
                            {"train": SplitCounts(1461, 1460)},
                            dropped=(Dropped("image", "train/apple/7.jpg", "truncated", "train"),),
                        )
                        if dataset.endswith("grocery")
                        else RunRecord({"train": SplitCounts(1460, 1460)}),
                        environment={"python": "3.11.7", "unseen": "0.1.0", "cpu": "Some CPU"},
                    )
                )
    return found


@pytest.fixture
def cards() -> dict[str, ModelCard]:
    return {
        "packaged:efficientnet-lite0": ModelCard(
            "packaged:efficientnet-lite0", "EfficientNet-Lite0", parameters=4_652_008, flops=788_000_000
        ),
        "packaged:efficientnet-lite2": ModelCard(
            "packaged:efficientnet-lite2", "EfficientNet-Lite2", citation="Tan & Le, ICML 2019"
        ),
    }


@pytest.fixture
def dataset_cards() -> dict[str, DatasetCard]:
    return {"packaged:grocery": DatasetCard("packaged:grocery", "Groceries")}
