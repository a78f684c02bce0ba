"""What probes of numbers and of several labels reached: the answers of `unseen.evaluate` on such data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unseen.api.shown import Answer, percent
from unseen.core.records import Result
from unseen.core.run_record import RunRecord
from unseen.results.grid import summary_of, unpack_values
from unseen.stats import Candidate, Interval


@dataclass(frozen=True, eq=False, repr=False)
class TargetEvaluation(Answer):
    """What both have in common.

    Attributes:
        model, dataset: their names; an object's has the digest of its content.
        results: one per seed, as the database has them.
    """

    model: str
    dataset: str
    results: tuple[Result, ...]

    #: What models are compared by, of which every image has its share.
    compared: ClassVar[str]

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Every metric, the mean over seeds."""
        names = self.results[0].metrics
        return {name: float(np.mean([result.metrics[name] for result in self.results])) for name in names}

    def interval_of(self, metric: str) -> Interval:
        """Return a metric with its confidence interval over test images, over seeds."""
        return summary_of(self.results, metric).interval

    @property
    def score(self) -> Interval:
        """The metric that `unseen.compare` orders models by."""
        return self.interval_of(self.compared)

    @cached_property
    def candidate(self) -> Candidate:
        """Score, confidence interval and outcomes per image: what `unseen.stats.decide` takes."""
        return summary_of(self.results, self.compared).candidate

    @cached_property
    def image_scores(self) -> npt.NDArray[np.float64]:
        """Per test image, its share of `score`, the mean over seeds."""
        return np.asarray(np.mean([unpack_values(str(r.details["image_scores"])) for r in self.results], axis=0))

    @property
    def tuned(self) -> tuple[Mapping[str, Any], ...]:
        """Per seed: the setting that was chosen; `results[i].sweep` has all that were tried."""
        return tuple(dict(result.details["best"]) for result in self.results)

    @property
    def record(self) -> RunRecord:
        """What the evaluations received, used and dropped, merged over seeds."""
        return RunRecord.merged({result.cell.id: result.record for result in self.results})

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "model": self.model,
                "dataset": self.dataset,
                "seed": result.cell.parameters.get("seed"),
                **result.metrics,
                **{f"tuned {key}": value for key, value in result.details["best"].items()},
            }
            for result in self.results
        ]

    def _more(self) -> dict[str, Any]:
        return {"results": [result.to_dict() for result in self.results]}


@dataclass(frozen=True, eq=False, repr=False)
class RegressionEvaluation(TargetEvaluation):
    """How well a ridge regression on features tells a number. `metrics` has r2, mae, rmse, pearson, spearman."""

    compared: ClassVar[str] = "r2"

    @property
    def r2(self) -> float:
        """Share of the variance of the test images' numbers that is explained."""
        return self.metrics["r2"]

    @property
    def interval(self) -> Interval:
        """Confidence interval of `r2` over test images."""
        return self.interval_of("r2")

    def headline(self) -> str:
        found, error = self.interval, self.interval_of("mae")
        return (
            f"R² {found.value:.3f} [{found.low:.3f}, {found.high:.3f}], mean absolute error {error.value:.4g} "
            f"[{error.low:.4g}, {error.high:.4g}] on {self.results[0].details['test_images']} test images, {self.model}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class MultilabelEvaluation(TargetEvaluation):
    """How well logistic regressions tell which labels an image has. `metrics` has map, f1_macro, f1_micro, lrap."""

    compared: ClassVar[str] = "lrap"
    percent: ClassVar[tuple[str, ...]] = tuple(
        f"{name}{end}" for name in ("map", "f1_macro", "f1_micro", "lrap") for end in ("", "_low", "_high")
    )

    @property
    def mean_average_precision(self) -> float:
        """Over the labels that some test image has."""
        return self.metrics["map"]

    @property
    def interval(self) -> Interval:
        """Confidence interval of `mean_average_precision` over test images."""
        return self.interval_of("map")

    @property
    def per_label(self) -> dict[str, float]:
        """Average precision by label, the mean over seeds; NaN for a label that no test image has."""
        tables = [result.details["per_label"] for result in self.results]
        return {
            label: float("nan") if tables[0][label] is None else float(np.mean([t[label] for t in tables]))
            for label in tables[0]
        }

    def headline(self) -> str:
        found, details = self.interval, self.results[0].details
        return (
            f"mean average precision {percent(found.value)} [{percent(found.low)}, {percent(found.high)}] on "
            f"{details['test_images']} test images with {details['labels']} labels (chance "
            f"{percent(details['chance'])}), F1 {percent(self.metrics['f1_macro'])}, {self.model}"
        )

    def _more(self) -> dict[str, Any]:
        return {"per_label": self.per_label, **super()._more()}


#: Answers by the benchmark that their results are of.
ANSWERS: dict[str, type[TargetEvaluation]] = {"regression": RegressionEvaluation, "multilabel": MultilabelEvaluation}
