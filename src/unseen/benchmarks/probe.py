"""Linear probes on frozen features: how well do the features separate the classes of a dataset?

Paper:      the protocol of ImageNet-CoG, section 3.4 [cog], on any dataset
Implements: features l2-normalised; regularisation chosen on validation images only; refit; top-1 on the test images
Differs:    a dataset that brings its own validation split selects on that instead of 20 % of train
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from unseen.benchmarks.probe_results import probe_result
from unseen.benchmarks.workbench import Workbench
from unseen.errors import UnknownNameError, UsageError
from unseen.records import Cell, Result

SolverName = Literal["fast", "paper", "ridge", "knn", "ncm"]
Shots = int | Literal["all"]
SOLVERS: tuple[str, ...] = get_args(SolverName)
SEEDS = (22, 37, 45, 77, 93)


@dataclass(frozen=True)
class ProbeBenchmark:
    """Options of the probe benchmark, as a study's `[benchmarks.probe]` gives them.

    Attributes:
        solver: "fast", "paper", "ridge", "knn" or "ncm".
        shots: training images per class: numbers, or "all".
        seeds: one run each.
        layer: which features.
    """

    name: ClassVar[str] = "probe"
    question: ClassVar[str] = "How well do frozen features separate the classes?"
    paper: ClassVar[str] = "cog"

    solver: SolverName = "fast"
    shots: tuple[Shots, ...] = ("all",)
    seeds: tuple[int, ...] = SEEDS
    layer: str = "pooled"

    def __post_init__(self) -> None:
        check_settings(self.name, self.solver, self.shots, self.seeds)

    def plan(self, model: str, dataset: str) -> list[Cell]:
        return [
            Cell(
                self.name,
                model,
                dataset,
                {"solver": self.solver, "layer": self.layer, "shots": shots, "seed": seed},
            )
            for shots in self.shots
            for seed in self.seeds
        ]

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> list[Result]:
        from unseen.probes import evaluate_probe

        model, dataset = cells[0].model, bench.dataset(cells[0].dataset)
        layer = cells[0].parameters["layer"]
        arrays: dict[str, Any] = {}
        skipped: dict[str, int] = {}
        for split in ("train", "val", "test"):
            if split not in dataset.splits:
                continue
            stored = bench.features(model, dataset.id, split, (layer,))[layer]
            skipped |= {split: len(stored.skipped)} if stored.skipped else {}
            # Labels come from the dataset: two labellings of the same images share their features.
            arrays[split] = stored.features, dataset.split(split).labels[stored.index]
        records = evaluate_probe(
            *arrays["train"],
            *arrays["test"],
            solver=self.solver,
            shots=tuple(dict.fromkeys(cell.parameters["shots"] for cell in cells)),
            seeds=tuple(dict.fromkeys(cell.parameters["seed"] for cell in cells)),
            validation_features=arrays["val"][0] if "val" in arrays else None,
            validation_labels=arrays["val"][1] if "val" in arrays else None,
        )
        details = {
            "classes": len(dataset.class_names),
            "train_images": len(arrays["train"][1]),
            "test_images": len(arrays["test"][1]),
            "chance": 1 / len(dataset.class_names),
            **({"skipped": skipped} if skipped else {}),
        }
        by_setting = {(record.shots, record.seed): record for record in records}
        wanted = [by_setting[cell.parameters["shots"], cell.parameters["seed"]] for cell in cells]
        return [probe_result(cell, record, details) for cell, record in zip(cells, wanted, strict=True)]


def check_settings(benchmark: str, solver: str, shots: Sequence[Shots], seeds: Sequence[int]) -> None:
    """Refuse an unknown solver, shots that are no number of images, and a benchmark with nothing to do."""
    if solver not in SOLVERS:
        raise UnknownNameError(f"solver of benchmark {benchmark!r}", solver, SOLVERS)
    for count in shots:
        if count != "all" and (not isinstance(count, int) or count < 1):
            raise UsageError(f"benchmark {benchmark!r}: shots {count!r} is neither a number of images nor 'all'")
    if not seeds or not shots:
        raise UsageError(f"benchmark {benchmark!r} needs at least one seed and one number of shots")
