"""From results per seed to mean and spread: what tables and charts show.

Results that belong together (`unseen.results.comparable`) and are of one model are one summary. The spread is the
sample standard deviation (n - 1) over seeds; one seed has none, and then the interval that the benchmark itself gave
(`<metric>_low`, `<metric>_high`) is taken where there is one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from unseen.core.identity import canonical_json
from unseen.core.records import Result
from unseen.results.comparability import SEED, Group, comparable
from unseen.results.styles import MetricStyle, metric_style


@dataclass(frozen=True, slots=True)
class Summary:
    """One metric of one model on one dataset, over seeds.

    Attributes:
        parameters: of the cells, without the seed.
        values: the metric per seed, in full precision; `seeds` are theirs, None where a cell has no seed.
        std: sample standard deviation of `values`; NaN for a single one.
        low, high: ends of the bar to draw; equal to the mean where nothing is known.
        spread: what the bar means: "std" over seeds, the benchmark's own "interval", or "" for no bar.
    """

    benchmark: str
    model: str
    dataset: str
    parameters: Mapping[str, Any]
    metric: str
    values: tuple[float, ...]
    seeds: tuple[Any, ...]
    mean: float
    std: float
    low: float
    high: float
    spread: Literal["std", "interval", ""]

    @property
    def style(self) -> MetricStyle:
        return metric_style(self.metric, self.benchmark)

    @property
    def text(self) -> str:
        return self.style.text(self.mean, self.std)


def summarise(results: Iterable[Result], metric: str) -> list[Summary]:
    """One summary per model and setting, settings and models in order of first appearance."""
    return [summary for group in comparable(results, axes=()) for summary in summaries(group, metric)]


def summaries(group: Group, metric: str) -> list[Summary]:
    """One summary per model of a group that has the metric; the group has no axes but the seed."""
    with_metric = {model: [r for r in own if metric in r.metrics] for model, own in group.by_model().items()}
    return [_summary(own, metric) for own in with_metric.values() if own]


def _summary(results: Sequence[Result], metric: str) -> Summary:
    cell = results[0].cell
    ordered = sorted(results, key=lambda result: canonical_json(result.cell.parameters.get(SEED)))
    values = tuple(float(result.metrics[metric]) for result in ordered)
    finite = all(math.isfinite(value) for value in values)
    mean = statistics.fmean(values)
    std = statistics.stdev(values) if len(values) > 1 and finite else math.nan
    low, high, spread = mean, mean, ""
    bounds = results[0].metrics.get(f"{metric}_low"), results[0].metrics.get(f"{metric}_high")
    if not math.isnan(std):
        low, high, spread = mean - std, mean + std, "std"
    elif len(values) == 1 and bounds[0] is not None and bounds[1] is not None:
        low, high, spread = float(bounds[0]), float(bounds[1]), "interval"
    return Summary(
        benchmark=cell.benchmark,
        model=cell.model,
        dataset=cell.dataset,
        parameters={name: value for name, value in cell.parameters.items() if name != SEED},
        metric=metric,
        values=values,
        seeds=tuple(result.cell.parameters.get(SEED) for result in ordered),
        mean=mean,
        std=std,
        low=low,
        high=high,
        spread=spread,  # type: ignore[arg-type]
    )
