"""Linear probes for images that have a number, or several labels, instead of one class.

Implements: the protocol of `probe`: the penalty chosen on validation images only, then refit; ridge regression on
            numbers, one logistic regression per label on several labels
Differs:    no shots: there are no classes to sample from. Without a validation split, or with `validation="drawn"`,
            penalties are chosen by cross-validation or on a fifth. Intervals are those of `unseen.stats`
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.probing import Arrays, FeatureOptions, bounded, pool_validation
from unseen.benchmarks.workbench import SplitRows, Workbench
from unseen.core.arrays import AnyArray
from unseen.core.identity import Values, option
from unseen.core.records import Cell, Result
from unseen.data import Dataset
from unseen.data.dataset import NUMBER, SEVERAL
from unseen.probes.solvers import SEEDS
from unseen.results.grid import pack_values
from unseen.results.info import BenchmarkInfo, built_in_info
from unseen.stats import (
    accuracy_interval,
    correlation_interval,
    mean_average_precision_interval,
    mean_interval,
    r_squared_interval,
)
from unseen.stats.areas import average_precisions


@dataclass(frozen=True)
class TargetBenchmark(FeatureOptions, Benchmark):
    """Options and evaluation that both probes share."""

    def check(self, dataset: Dataset) -> None:
        for split in ("train", "test"):
            dataset.split(split)

    @abstractmethod
    def judge(
        self, train: Arrays, held: Arrays | None, test: Arrays, seed: int, names: Sequence[str], **how: object
    ) -> tuple[dict[str, float], Values, Any]:
        """Return metrics, details and the fit of one seed."""

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        dataset = bench.dataset(cells[0].dataset)
        parts = bench.splits(cells[0].model, cells[0].dataset, self.layer)
        own = {name: (part.features, _targets(dataset, name, part)) for name, part in parts.items()}
        rows = pool_validation(own) if self.validation == "drawn" else own
        how: Values = {"square_root": self.square_root} | ({"memory_limit": self.memory} if self.memory else {})
        about = {
            "train_images": len(rows["train"][1]),
            "test_images": len(rows["test"][1]),
        }
        for cell in cells:
            seed = int(cell.parameters.get("seed", 0))
            metrics, details, fit = self.judge(
                rows["train"], rows.get("val"), rows["test"], seed, dataset.class_names, **how
            )
            yield Result(
                cell=cell,
                metrics=metrics,
                seconds=fit.seconds,
                sweep=tuple(trial.to_dict() for trial in fit.trials),
                details={**about, **details, "best": dict(fit.best), "train_size": fit.train_size},
            )


@dataclass(frozen=True)
class RegressionBenchmark(TargetBenchmark):
    """Options of the probe of numbers. It has no random part and no seeds."""

    name: ClassVar[str] = "regression"
    info: ClassVar[BenchmarkInfo] = built_in_info("regression")

    def components(self, point: Mapping[str, object]) -> Mapping[str, int]:
        from unseen.probes.regression import VERSION

        return {"ridge-regression": VERSION}

    def judge(
        self, train: Arrays, held: Arrays | None, test: Arrays, seed: int, names: Sequence[str], **how: Any
    ) -> tuple[dict[str, float], Values, Any]:
        from unseen.probes.regression import evaluate_regression, explained

        fit = evaluate_regression(train, test[0], validation=held, **how)
        y, p = test[1], fit.predictions
        metrics = {
            **bounded("r2", r_squared_interval(y, p)),
            **bounded("mae", mean_interval(np.abs(y - p))),
            "rmse": float(np.sqrt(((y - p) ** 2).mean())),
            **bounded("pearson", correlation_interval(y, p)),
            **bounded("spearman", correlation_interval(y, p, kind="spearman")),
        }
        return metrics, {"target": NUMBER, "image_scores": pack_values(explained(y, p))}, fit


@dataclass(frozen=True)
class MultilabelBenchmark(TargetBenchmark):
    """Options of the probe of several labels per image."""

    name: ClassVar[str] = "multilabel"
    info: ClassVar[BenchmarkInfo] = built_in_info("multilabel")

    seeds: tuple[int, ...] = option(SEEDS, axis="seed", count=SEEDS, help="One run each: a count, or the seeds.")

    def components(self, point: Mapping[str, object]) -> Mapping[str, int]:
        from unseen.probes.one_vs_rest import VERSION

        return {"one-vs-rest": VERSION}

    def judge(
        self, train: Arrays, held: Arrays | None, test: Arrays, seed: int, names: Sequence[str], **how: Any
    ) -> tuple[dict[str, float], Values, Any]:
        from unseen.metrics.accuracy import label_ranking_precision
        from unseen.probes.one_vs_rest import evaluate_one_vs_rest

        fit = evaluate_one_vs_rest(train, test[0], seed=seed, validation=held, **how)
        truth, scores = test[1], fit.probabilities
        each = average_precisions(truth, scores, np.ones((1, len(truth))))[0]
        per_image = label_ranking_precision(truth, scores)
        known = np.isfinite(each)

        metrics = {
            **bounded("map", mean_average_precision_interval(truth, scores)),
            **bounded("lrap", accuracy_interval(per_image)),
        }
        details = {
            "target": SEVERAL,
            "labels": truth.shape[1],
            "chance": float(truth.mean(0)[known].mean()) if known.any() else 0.0,
            "per_label": {
                str(name): float(value) if ok else None
                for name, value, ok in zip(names[: truth.shape[1]], each, known, strict=True)
            },
            "image_scores": pack_values(per_image),
        }
        return metrics, details, fit


def _targets(dataset: Dataset, split: str, part: SplitRows) -> AnyArray:
    """Return the targets of the readable images of a split."""
    found = dataset.split(split).targets
    assert found is not None
    return np.asarray(found[part.index])
