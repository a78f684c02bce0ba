"""From results to tables: mean and spread over seeds, then one row per model and one column per dataset or setting.

Results that belong together (`unseen.results.comparable`) and are of one model are one summary. The spread is the
sample standard deviation (n - 1) over seeds; one seed has none, and then the interval that the benchmark itself gave
(`<metric>_low`, `<metric>_high`) is taken where there is one. What does not belong together has a column of its own,
named by what differs.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from unseen.core.identity import canonical_json
from unseen.core.records import Result
from unseen.results.comparability import SEED, Group, comparable
from unseen.results.styles import MetricStyle, headline_first, metric_style


@dataclass(frozen=True, slots=True)
class Column:
    """What one column holds.

    Attributes:
        setting: what tells columns apart beside the dataset, such as (("shots", 5),).
        group: which of the grid's groups it shows.
    """

    benchmark: str
    dataset: str
    setting: tuple[tuple[str, Any], ...]
    metric: str
    group: int = 0

    @property
    def style(self) -> MetricStyle:
        return metric_style(self.metric, self.benchmark)


@dataclass(frozen=True, slots=True)
class Grid:
    """The results of one benchmark as a table.

    Attributes:
        models: the rows; those with fewest gaps first, then by the mean of their first metric, best first.
        cells: by (model, column); a missing one is a gap.
        groups: what the columns summarise.
    """

    benchmark: str
    models: tuple[str, ...]
    columns: tuple[Column, ...]
    cells: Mapping[tuple[str, Column], Summary]
    groups: Sequence[Group]

    @property
    def older(self) -> int:
        """How many results are left out because weights or data are newer now."""
        return sum(group.older for group in self.groups)

    def best(self, column: Column) -> set[str]:
        """The models with the best mean of a column; more than one where they are equal in full precision."""
        means = {m: self.cells[m, column].mean for m in self.models if (m, column) in self.cells}
        finite = {model: mean for model, mean in means.items() if not math.isnan(mean)}
        if len(finite) < 2:
            return set()
        top = max(finite.values()) if column.style.higher_is_better else min(finite.values())
        return {model for model, mean in finite.items() if mean == top}

    def titles(self) -> list[str]:
        """Per column, what is not the same in all of them."""
        found = self._titles(without=("version",))  # which methods tell already, where they do
        return found if len(set(found)) == len(self.columns) else self._titles()

    def _titles(self, without: Sequence[str] = ()) -> list[str]:
        datasets, metrics = {c.dataset for c in self.columns}, {c.metric for c in self.columns}
        found = []
        for column in self.columns:
            parts = [column.dataset] if len(datasets) > 1 else []
            parts += [f"{name}={value}" for name, value in column.setting if name not in without]
            parts += [column.style.heading] if len(metrics) > 1 or not parts else []
            found.append(" · ".join(parts))
        return found


def grids(results: Collection[Result], metrics: Sequence[str] = ()) -> list[Grid]:
    """One grid per benchmark.

    Args:
        metrics: the metrics to show. By default all of them where there is one dataset in one setting, otherwise the
            headline metric alone.
    """
    by_benchmark: dict[str, list[Result]] = {}
    for result in results:
        by_benchmark.setdefault(result.cell.benchmark, []).append(result)
    found = []
    for benchmark, own in sorted(by_benchmark.items()):
        groups = comparable(own, axes=())
        known = metrics_of(groups, benchmark)
        wanted = [name for name in metrics if name in known] if metrics else known[: None if len(groups) == 1 else 1]
        if wanted:
            found.append(make_grid(groups, wanted))
    return found


def metrics_of(groups: Sequence[Group], benchmark: str) -> list[str]:
    """The metrics that occur, without interval bounds, the one to judge by first."""
    return headline_first({name for group in groups for r in group.results for name in r.metrics}, benchmark)


def make_grid(groups: Sequence[Group], metrics: Sequence[str]) -> Grid:
    """The grid of some metrics of one benchmark's groups, which have no axes but the seed."""
    cells: dict[tuple[str, Column], Summary] = {}
    benchmark = str(groups[0].setting["benchmark"])
    for number, group in enumerate(groups):
        differs = {k: v for k, v in group.differs.items() if k not in ("benchmark", "dataset")}
        setting = tuple((name, _plain(value)) for name, value in differs.items())
        for metric in metrics:
            column = Column(benchmark, str(group.setting["dataset"]), setting, metric, number)
            cells |= {(summary.model, column): summary for summary in summaries(group, metric)}
    order = {metric: position for position, metric in enumerate(metrics)}
    columns = sorted({column for _, column in cells}, key=lambda c: (c.dataset, _sortable(c.setting), order[c.metric]))
    models = sorted({model for model, _ in cells}, key=lambda model: _merit(model, cells, columns))
    return Grid(benchmark, tuple(models), tuple(columns), cells, groups)


def _plain(value: Any) -> Any:
    """A value that can be a part of a column's identity."""
    return value if isinstance(value, str | int | float | bool | None) else canonical_json(value)


def _sortable(setting: tuple[tuple[str, Any], ...]) -> list[tuple[str, bool, float, list[tuple[str, int]]]]:
    """Numbers by size and before words: shots 1, 2, 16, all; and so within words: R2 before R10."""
    keys = []
    for name, value in setting:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        words = [] if number else re.findall(r"(\D*)(\d{0,15})", str(value))
        keys.append((name, not number, float(value) if number else 0.0, [(text, int(n or 0)) for text, n in words]))
    return keys


def _merit(
    model: str, cells: Mapping[tuple[str, Column], Summary], columns: Sequence[Column]
) -> tuple[int, float, str]:
    first = [column for column in columns if column.metric == columns[0].metric]
    means = [cells[model, column].mean for column in first if (model, column) in cells]
    known = [mean for mean in means if not math.isnan(mean)]
    mean = sum(known) / len(known) if known else -math.inf
    sign = -1.0 if columns[0].style.higher_is_better else 1.0
    return len(first) - len(known), sign * mean, model


@dataclass(frozen=True, slots=True)
class Summary:
    """One metric of one model on one dataset, over seeds.

    Attributes:
        parameters: of the cells, without the seed.
        values: the metric per seed, in full precision; `seeds` are theirs, None where a cell has no seed.
        std: sample standard deviation of `values`; NaN for a single one.
        low, high: ends of the bar to draw; equal to the mean where nothing is known.
        spread: what the bar means: "std" over seeds, the benchmark's own "interval", or "" for no bar.
        bounds: the benchmark's own interval, which is over test images: its ends, each averaged over seeds; None
            where a seed has none.
        cells: ids of the cells, in the order of `values`.
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
    bounds: tuple[float, float] | None = None
    cells: tuple[str, ...] = ()

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


def interval_of(result: Result, metric: str, images: str = "test_images") -> tuple[float, float] | None:
    """The 95 % interval over test images that a result carries; None where it has none.

    Where every draw of the images gave one value, such as that of a model which has all of them right, it is Wilson's
    for as many images: no width is no certainty.

    Args:
        images: what the result calls the number of images that the metric is over.
    """
    ends = [result.metrics.get(f"{metric}_{end}") for end in ("low", "high")]
    if None in ends:
        return None
    low, high = (float(end) for end in ends)  # type: ignore[arg-type]
    value, count = float(result.metrics[metric]), result.details.get(images)
    if low < high or not isinstance(count, int) or count < 1 or not 0 <= value <= 1:
        return low, high
    from unseen.metrics import wilson_interval

    wilson = wilson_interval(value, count)
    return wilson.low, wilson.high


def _summary(results: Sequence[Result], metric: str) -> Summary:
    cell = results[0].cell
    ordered = sorted(results, key=lambda result: canonical_json(result.cell.parameters.get(SEED)))
    values = tuple(float(result.metrics[metric]) for result in ordered)
    finite = all(math.isfinite(value) for value in values)
    mean = statistics.fmean(values)
    std = statistics.stdev(values) if len(values) > 1 and finite else math.nan
    low, high, spread = mean, mean, ""
    known = [ends for result in results if (ends := interval_of(result, metric)) is not None]
    whole = len(known) == len(results)
    bounds = (statistics.fmean(e[0] for e in known), statistics.fmean(e[1] for e in known)) if whole else None
    if not math.isnan(std):
        low, high, spread = mean - std, mean + std, "std"
    elif len(values) == 1 and bounds is not None:
        low, high, spread = *bounds, "interval"
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
        bounds=bounds,
        cells=tuple(result.cell.id for result in ordered),
    )
