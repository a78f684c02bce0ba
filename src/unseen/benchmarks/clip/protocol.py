"""Prompts over all classes of a dataset: accuracy of a model with two towers without any training image.

Paper:      Radford et al., "Learning transferable visual models from natural language supervision", ICML 2021 [P]
Implements: section 3.1 of [P] by `unseen.zeroshot.prompt`; per image and per class, with intervals over test images
Differs:    the leak audit is that of the zero-shot benchmark, against ImageNet-1K: the training data of such
            models are mostly unknown
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar

import numpy as np

from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.clip import CLIP
from unseen.benchmarks.workbench import (
    PROMPT_VERSION,
    Wanted,
    Workbench,
    check_templates,
    text_embeddings,
    text_version,
)
from unseen.core.identity import option
from unseen.core.records import Cell, Result
from unseen.data import Dataset
from unseen.metrics import per_class_accuracy, top_k_correct
from unseen.results.grid import pack_correct
from unseen.results.info import BenchmarkInfo
from unseen.stats import accuracy_interval
from unseen.zeroshot.problem import audit_unseen


@dataclass(frozen=True)
class ClipBenchmark(Benchmark):
    """Options of classification by prompts."""

    name: ClassVar[str] = "clip"
    info: ClassVar[BenchmarkInfo] = CLIP

    templates: str = option("openai", file=True, help="openai (80), simple (7), plain (1), or a file with {} per line.")
    text_model: str = option("", help="Model with the text tower; by default the evaluated model.")
    split: str = option("test", help="Split to classify.")

    def check(self, dataset: Dataset) -> None:
        dataset.split(self.split)
        check_templates(self.templates)

    def components(self, point: Mapping[str, object]) -> Mapping[str, int]:
        return {"prompt": PROMPT_VERSION, **text_version(self.text_model)}

    def idle(self) -> Collection[str]:
        return () if self.text_model else ("text_model",)

    def features(self, cells: Sequence[Cell], bench: Workbench) -> list[Wanted]:
        return bench.wanted(cells[0].dataset, splits=(self.split,))

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        from unseen.zeroshot.prompt import prompt_scores

        cell, began = cells[0], perf_counter()
        dataset = bench.dataset(cell.dataset)
        names = list(dataset.class_names)
        rows = bench.split(cell.model, cell.dataset, self.split)
        S = text_embeddings(bench, self.text_model or cell.model, names, self.templates)
        scores = prompt_scores(np.asarray(rows.features[:], np.float64), S)
        classes = np.arange(len(names))
        predictions = scores.argmax(1)
        correct = predictions == rows.labels
        per_class = per_class_accuracy(rows.labels, predictions, classes)
        bench.recorder.classes(len(names), len(names))
        if untested := [name for name, value in zip(names, per_class, strict=True) if np.isnan(value)]:
            bench.recorder.note(
                f"{len(untested)} classes are candidates without a {self.split} image, so that the mean per-class "
                f"accuracy excludes them: {', '.join(map(repr, untested))}"
            )
        interval = accuracy_interval(correct)
        yield Result(
            cell,
            metrics={
                "top1": interval.value,
                "top1_low": interval.low,
                "top1_high": interval.high,
                "top5": float(top_k_correct(rows.labels, scores, classes, min(5, len(names))).mean()),
                "mean_per_class": float(np.nanmean(per_class)),
            },
            seconds=perf_counter() - began,
            details={
                "classes": len(names),
                "class_names": names,
                "train_images": 0,
                "test_images": len(rows.labels),
                "chance": 1 / len(names),
                "per_class": {str(i): None if np.isnan(v) else float(v) for i, v in enumerate(per_class)},
                "correct": pack_correct(correct),
                "audit": audit_unseen(names, dataset.wnids, classes).summary,
            },
        )
