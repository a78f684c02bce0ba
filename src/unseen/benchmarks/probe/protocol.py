"""Linear probes on frozen features: how well do the features separate the classes of a dataset?

Paper:      the protocol of ImageNet-CoG, section 3.4 [cog], on any dataset
Implements: features l2-normalised; regularisation chosen on validation images only; refit; top-1 on the test images
Differs:    a dataset that brings its own validation split selects on that instead of 20 % of train
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from unseen.benchmarks.probe_results import probe_result
from unseen.benchmarks.probing import SEEDS, Shots, SolverName, Validation, check_settings, probe_splits, split_arrays
from unseen.benchmarks.workbench import Workbench
from unseen.core.records import Cell, Result


@dataclass(frozen=True)
class ProbeBenchmark:
    """Options of the probe benchmark, as a study's `[benchmarks.probe]` gives them.

    Attributes:
        solver: "fast", "paper", "ridge", "knn" or "ncm".
        shots: training images per class: numbers, or "all".
        seeds: one run each.
        layer: which features.
        validation: "own" selects on the dataset's validation split where it has one; "drawn" holds out a fifth of the
            training images of each class, by seed.
    """

    name: ClassVar[str] = "probe"
    question: ClassVar[str] = "How well do frozen features separate the classes?"
    paper: ClassVar[str] = "cog"

    solver: SolverName = "fast"
    shots: tuple[Shots, ...] = ("all",)
    seeds: tuple[int, ...] = SEEDS
    layer: str = "pooled"
    validation: Validation = "own"

    def __post_init__(self) -> None:
        check_settings(self.name, self.solver, self.shots, self.seeds, self.validation)

    def plan(self, model: str, dataset: str) -> list[Cell]:
        shared = {"solver": self.solver, "layer": self.layer, "validation": self.validation}
        return [
            Cell(self.name, model, dataset, {**shared, "shots": shots, "seed": seed})
            for shots in self.shots
            for seed in self.seeds
        ]

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> list[Result]:
        dataset = bench.dataset(cells[0].dataset)
        splits, skipped = split_arrays(cells[0].model, dataset, bench, self.layer)
        records = probe_splits(
            splits,
            solver=self.solver,
            shots=tuple(dict.fromkeys(cell.parameters["shots"] for cell in cells)),
            seeds=tuple(dict.fromkeys(cell.parameters["seed"] for cell in cells)),
            validation=self.validation,
        )
        details = {
            "classes": len(dataset.class_names),
            "train_images": len(splits["train"][1]),
            "test_images": len(splits["test"][1]),
            "chance": 1 / len(dataset.class_names),
            **({"skipped": skipped} if skipped else {}),
        }
        wanted = [records[cell.parameters["shots"], cell.parameters["seed"]] for cell in cells]
        return [probe_result(cell, record, details) for cell, record in zip(cells, wanted, strict=True)]
