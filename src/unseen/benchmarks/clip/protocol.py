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
from unseen.benchmarks.prompting import PromptOptions
from unseen.benchmarks.workbench import Wanted, Workbench
from unseen.core.arrays import BoolArray, FloatingArray, IntArray
from unseen.core.identity import option
from unseen.core.records import Cell, Result
from unseen.data import Dataset
from unseen.features import FeatureRows
from unseen.metrics import per_class_accuracy
from unseen.results.grid import pack_correct
from unseen.results.info import BenchmarkInfo, built_in_info
from unseen.stats import accuracy_interval
from unseen.zeroshot.problem import Images, audit_unseen


@dataclass(frozen=True)
class ClipBenchmark(PromptOptions, Benchmark):
    """Options of classification by prompts."""

    name: ClassVar[str] = "clip"
    info: ClassVar[BenchmarkInfo] = built_in_info("clip")

    split: str = option("test", help="Split to classify.")

    def check(self, dataset: Dataset) -> None:
        dataset.split(self.split)
        self.check_prompts(dataset)

    def components(self, point: Mapping[str, object]) -> Mapping[str, int]:
        return self.prompt_versions("prompt")

    def idle(self) -> Collection[str]:
        return self.prompt_idle()

    def features(self, cells: Sequence[Cell], bench: Workbench) -> list[Wanted]:
        return bench.wanted(cells[0].dataset, splits=(self.split,))

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        cell, began = cells[0], perf_counter()
        dataset = bench.dataset(cell.dataset)
        names = list(dataset.class_names)
        rows = bench.split(cell.model, cell.dataset, self.split)
        S = self.text_embeddings(bench, cell.model, dataset)
        classes = np.arange(len(names))
        predictions, in_top5 = classify(rows.features, rows.labels, S)
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
                "top5": float(in_top5.mean()),
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
                "audit": audit_unseen(dataset, classes).summary,
            },
        )


def classify(features: FeatureRows | FloatingArray, labels: IntArray, S: FloatingArray) -> tuple[IntArray, BoolArray]:
    """Return the predicted class of each image, and whether the label is among the five best.

    Args:
        features: (n, d) rows that can be sliced, in memory or on the disk.
        labels: (n,) rows of S.
        S: class embeddings of `prompt_embeddings`.
    """
    from unseen.zeroshot.prompt import prompt_scores  # imports scikit-learn
    from unseen.zeroshot.protocol import score_images

    found = score_images(prompt_scores, Images(FeatureRows.of(features), labels), S, np.arange(len(S)))
    return found.best, found.right.get(5, np.ones(len(labels), np.bool_))
