"""Wide form: one row per model, one column per dataset, setting or metric, the best of each column known."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unseen.core.identity import canonical_json
from unseen.core.records import Result
from unseen.results.measures import Measure, measure
from unseen.results.summary import Summary, metrics_of, summarise, varying_parameters


@dataclass(frozen=True, slots=True)
class Column:
    """What one column holds.

    Attributes:
        setting: those parameters that tell columns apart, such as (("shots", 5),).
    """

    dataset: str
    setting: tuple[tuple[str, Any], ...]
    metric: str

    @property
    def measure(self) -> Measure:
        return measure(self.metric)


@dataclass(frozen=True, slots=True)
class Grid:
    """The results of one benchmark as a table.

    Attributes:
        models: the rows; those with fewest gaps first, then by the mean of their first metric, best first.
        cells: by (model, column); a missing one is a gap.
    """

    benchmark: str
    models: tuple[str, ...]
    columns: tuple[Column, ...]
    cells: Mapping[tuple[str, Column], Summary]

    def best(self, column: Column) -> set[str]:
        """The models with the best mean of a column; more than one where they are equal in full precision."""
        means = {m: self.cells[m, column].mean for m in self.models if (m, column) in self.cells}
        finite = {model: mean for model, mean in means.items() if not math.isnan(mean)}
        if len(finite) < 2:
            return set()
        top = max(finite.values()) if column.measure.higher_is_better else min(finite.values())
        return {model for model, mean in finite.items() if mean == top}

    def title(self, column: Column) -> str:
        """The parts of a column that are not the same in all of them."""
        parts = []
        if len({c.dataset for c in self.columns}) > 1:
            parts.append(column.dataset)
        parts.extend(f"{name}={value}" for name, value in column.setting)
        if len({c.metric for c in self.columns}) > 1 or not parts:
            parts.append(column.measure.heading)
        return " · ".join(parts)


def grids(results: Collection[Result], metrics: Sequence[str] = ()) -> list[Grid]:
    """One grid per benchmark.

    Args:
        metrics: the metrics to show. By default all of them where there is one dataset in one setting, otherwise the
            headline metric alone.
    """
    found = []
    for benchmark in sorted({result.cell.benchmark for result in results}):
        own = [result for result in results if result.cell.benchmark == benchmark and result.ok]
        names = list(metrics) or _default_metrics(own)
        if own and names:
            found.append(_grid(benchmark, own, names))
    return found


def _default_metrics(results: Collection[Result]) -> list[str]:
    places = {(r.cell.dataset, *(str(r.cell.parameters.get(n)) for n in varying_parameters(results))) for r in results}
    names = metrics_of(results)
    return names if len(places) == 1 else names[:1]


def _grid(benchmark: str, results: Collection[Result], metrics: Sequence[str]) -> Grid:
    varying = varying_parameters(results)
    cells: dict[tuple[str, Column], Summary] = {}
    for metric in metrics:
        for summary in summarise(results, metric):
            setting = tuple((name, _plain(summary.parameters.get(name))) for name in varying)
            cells[summary.model, Column(summary.dataset, setting, metric)] = summary
    order = {metric: position for position, metric in enumerate(metrics)}
    columns = sorted({column for _, column in cells}, key=lambda c: (c.dataset, _sortable(c.setting), order[c.metric]))
    models = sorted({model for model, _ in cells}, key=lambda model: _merit(model, cells, columns))
    return Grid(benchmark, tuple(models), tuple(columns), cells)


def _plain(value: Any) -> Any:
    """A value that can be a part of a column's identity."""
    return value if isinstance(value, str | int | float | bool | None) else canonical_json(value)


def _sortable(setting: tuple[tuple[str, Any], ...]) -> list[tuple[str, bool, float, str]]:
    """Numbers by size and before words: shots 1, 2, 16, all."""
    keys = []
    for name, value in setting:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        keys.append((name, not number, float(value) if number else 0.0, "" if number else str(value)))
    return keys


def _merit(
    model: str, cells: Mapping[tuple[str, Column], Summary], columns: Sequence[Column]
) -> tuple[int, float, str]:
    first = [column for column in columns if column.metric == columns[0].metric]
    means = [cells[model, column].mean for column in first if (model, column) in cells]
    known = [mean for mean in means if not math.isnan(mean)]
    mean = sum(known) / len(known) if known else -math.inf
    sign = -1.0 if columns[0].measure.higher_is_better else 1.0
    return len(first) - len(known), sign * mean, model
