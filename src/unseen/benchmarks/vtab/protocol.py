"""The Visual Task Adaptation Benchmark: how well does a model adapt to unseen tasks with few labels?

Paper:      Zhai et al., "A Large-scale Study of Representation Learning with the Visual Task Adaptation Benchmark",
            2019 [P], sections 2 and 3.1, Appendices C, D, I and K
Implements: hyper-parameters chosen on the 200 validation examples, retraining on all 1,000, top-1 on the test set for
            each of three seeds (their median is reported); plain resize, no augmentation in the lightweight sweep
Differs:    images are resized to the model's own input instead of 224 for all
Expected:   Table 6 (fine-tuning, lightweight): Sup-100% 65.6, From-Scratch 42.1; Table 9 (linear): Sup-100% 57.1
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from unseen.benchmarks.vtab.adapters import SCRATCH_DECAY, Adapter, FinetuneAdapter, LinearAdapter
from unseen.benchmarks.vtab.heavy import TRIALS, heavy_search
from unseen.benchmarks.vtab.sealed import SealedTest, Selection
from unseen.benchmarks.vtab.suites import task_info
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import DataError, UsageError
from unseen.core.records import Cell, Result, digest
from unseen.data import Dataset
from unseen.data.dataset import IntArray
from unseen.metrics import accuracy, bootstrap_interval, mean_per_class_accuracy
from unseen.metrics.kappa import quadratic_kappa

if TYPE_CHECKING:
    from unseen.backbones import Backbone

Adaptation = Literal["linear", "finetune", "scratch"]
Sweep = Literal["lightweight", "heavyweight"]


@dataclass(frozen=True)
class VtabBenchmark:
    """Options of the benchmark, as a study's `[benchmarks.vtab]` gives them.

    Attributes:
        adaptation: "linear" (a layer on stored features), "finetune", or "scratch" (the same architecture, random).
        sweep: "lightweight", or "heavyweight" for the random search.
        learning_rates, steps, batch_size: of the lightweight sweep.
        budgets: numbers of steps to report one by one instead of choosing among `steps` (Figure 6 of [P]).
        trials: of the heavyweight search; `longest` caps the steps of its schedules, 0 for no cap.
        seeds: of the final runs.
        preprocessing: "plain" resizes both sides; "own" is what the model was published with.
        patches: look at images patch by patch (Appendix C); linear only.
        micro_batch: images per forward pass when fine-tuning, where memory is short.
    """

    name: ClassVar[str] = "vtab"
    question: ClassVar[str] = "How well does the model adapt to unseen tasks with few labels?"
    paper: ClassVar[str] = "vtab"

    adaptation: Adaptation = "linear"
    sweep: Sweep = "lightweight"
    learning_rates: tuple[float, ...] = (0.1, 0.01)
    steps: tuple[int, ...] = (2500, 10_000)
    batch_size: int = 512
    budgets: tuple[int, ...] = ()
    trials: int = TRIALS
    longest: int = 0
    seeds: tuple[int, ...] = (0, 1, 2)
    preprocessing: Literal["plain", "own"] = "plain"
    patches: bool = False
    micro_batch: int = 0

    def __post_init__(self) -> None:
        for option, allowed in (("adaptation", get_args(Adaptation)), ("sweep", get_args(Sweep))):
            if getattr(self, option) not in allowed:
                raise UsageError(
                    f"benchmark 'vtab': {option} {getattr(self, option)!r} is none of {', '.join(allowed)}."
                )
        if self.sweep == "heavyweight" and self.adaptation == "linear":
            raise UsageError("benchmark 'vtab': the heavyweight search is for fine-tuning; linear has the lightweight.")
        if self.patches and self.adaptation != "linear":
            raise UsageError("benchmark 'vtab': patches go with the linear adaptation.")
        if not self.seeds or not self.steps or not self.learning_rates:
            raise UsageError("benchmark 'vtab' needs at least one seed, one learning rate and one number of steps.")

    def plan(self, model: str, dataset: str) -> list[Cell]:
        shared: dict[str, Any] = {"adaptation": self.adaptation, "sweep": self.sweep}
        if self.sweep == "lightweight":
            shared |= {"rates": list(self.learning_rates), "steps": list(self.steps), "batch_size": self.batch_size}
        else:
            shared |= {"trials": self.trials, "longest": self.longest}
        shared |= {"preprocessing": self.preprocessing} | ({"patches": True} if self.patches else {})
        return [
            Cell(self.name, model, dataset, {**shared, **({"budget": budget} if budget else {}), "seed": seed})
            for budget in (self.budgets or (0,))
            for seed in self.seeds
        ]

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> list[Result]:
        dataset = bench.dataset(cells[0].dataset)
        if missing := [split for split in ("train", "val", "test") if split not in dataset.splits]:
            raise DataError(
                f"{dataset.id!r} has no {missing[0]!r} split, which VTAB needs; it has {tuple(dataset.splits)}."
            )
        sealed = SealedTest(dataset.split("test"))
        found: list[Result] = []
        for budget in dict.fromkeys(cell.parameters.get("budget", 0) for cell in cells):
            chosen = [cell for cell in cells if cell.parameters.get("budget", 0) == budget]
            found += self._evaluate(chosen, bench, dataset, sealed, int(budget))
        by_cell = {result.cell.id: result for result in found}
        return [by_cell[cell.id] for cell in cells]

    def _evaluate(
        self, cells: Sequence[Cell], bench: Workbench, dataset: Dataset, sealed: SealedTest, budget: int
    ) -> list[Result]:
        began = time.perf_counter()
        adapter = self._adapter(cells[0].model, bench, dataset, sealed, budget)
        if self.sweep == "heavyweight":
            assert isinstance(adapter, FinetuneAdapter)
            storage = bench.home / "vtab" / "searches.sqlite"
            selection = heavy_search(adapter, storage, trials=self.trials, longest=self.longest)
        else:
            selection = adapter.tune()
        predictions = adapter.predict(selection, [cell.parameters["seed"] for cell in cells])
        seconds = (time.perf_counter() - began) / len(cells)
        # Only here, with everything chosen and predicted, is the seal broken.
        labels = sealed.open(selection)
        details = _details(dataset, selection) | ({"skipped": dict(adapter.skipped)} if adapter.skipped else {})
        return [
            Result(cell, _metrics(labels, found), seconds=seconds, sweep=_json_safe(selection), details=details)
            for cell, found in zip(cells, predictions, strict=True)
        ]

    def _adapter(self, model: str, bench: Workbench, dataset: Dataset, sealed: SealedTest, budget: int) -> Adapter:
        settings = [(rate, steps) for steps in ((budget,) if budget else self.steps) for rate in self.learning_rates]
        if self.adaptation == "linear":
            return self._linear(self._backbone(model, bench), bench, dataset, settings)
        return FinetuneAdapter(
            backbone=self._backbone(model, bench),
            train=dataset.split("train"),
            val=dataset.split("val"),
            test=sealed.images,
            classes=len(dataset.class_names),
            settings=settings,
            batch_size=self.batch_size,
            folder=bench.home / "vtab" / "runs",
            micro_batch=self.micro_batch,
            weight_decay=SCRATCH_DECAY if self.adaptation == "scratch" else 0.0,
            own_preprocessing=self.preprocessing == "own",
        )

    def _linear(
        self, backbone: Backbone, bench: Workbench, dataset: Dataset, settings: list[tuple[float, int]]
    ) -> LinearAdapter:
        from unseen.features import extract

        rows: dict[str, Any] = {}
        for split in ("train", "val", "test"):
            rows[split] = extract(backbone, dataset, split, bench.store, how=bench.how, progress=bench.progress)[
                "pooled"
            ]
        labels = {split: dataset.split(split).labels[rows[split].index] for split in ("train", "val")}
        return LinearAdapter(
            train=(rows["train"].features, labels["train"]),
            val=(rows["val"].features, labels["val"]),
            test=rows["test"].features,
            rows=np.asarray(rows["test"].index, np.int64),
            count=len(dataset.split("test")),
            classes=len(dataset.class_names),
            settings=settings,
            batch_size=self.batch_size,
            skipped={f"{split}:{s.index}": s.reason for split, stored in rows.items() for s in stored.skipped},
        )

    def _backbone(self, model: str, bench: Workbench) -> Backbone:
        """The model as this adaptation looks through it."""
        backbone = bench.backbone(scratch_model(model, bench) if self.adaptation == "scratch" else model)
        if self.patches:
            from unseen.backbones.patchwise import patchwise

            return patchwise(backbone)
        if self.preprocessing == "plain":
            own = backbone.preprocessing
            return replace(
                backbone, preprocessing=replace(own, resize=own.size, mode="squash", interpolation="bilinear")
            )
        return backbone


def scratch_model(model: str, bench: Workbench) -> str:
    """The name of the same architecture with random weights."""
    if model.startswith("random:"):
        return model
    architecture = bench.backbone(model).card.architecture
    if not architecture:
        raise UsageError(f"the architecture of {model!r} is not known by name: train random:ARCHITECTURE from scratch.")
    return f"random:{architecture}"


def _metrics(labels: IntArray, predictions: IntArray) -> dict[str, float]:
    readable = predictions >= 0
    wanted, found = labels[readable], predictions[readable]
    interval = bootstrap_interval(found == wanted)
    return {
        "top1": accuracy(wanted, found),
        "mean_per_class": mean_per_class_accuracy(wanted, found),
        "kappa": quadratic_kappa(wanted, found),
        "top1_low": interval.low,
        "top1_high": interval.high,
    }


def _details(dataset: Dataset, selection: Selection) -> dict[str, Any]:
    info = task_info(dataset.id)
    return {
        "classes": len(dataset.class_names),
        "chance": 1 / len(dataset.class_names),
        "train_images": len(dataset.split("train")) + len(dataset.split("val")),
        "test_images": len(dataset.split("test")),
        "chosen": {k: v for k, v in selection.setting.items() if k not in ("accuracy", "seconds", "state", "index")},
        "validation_accuracy": selection.accuracy,
        "task": {"name": info.name, "title": info.title, "group": info.group, "data": info.data},
        # The examples that were learned from: equal words, equal VTAB-1k.
        "examples": digest([dataset.split(s).fingerprint for s in ("train", "val")]),
    }


def _json_safe(selection: Selection) -> tuple[dict[str, Any], ...]:
    """Trials without NaN, which a pruned one has for its accuracy."""
    return tuple({k: v for k, v in trial.items() if v == v} for trial in selection.trials)
