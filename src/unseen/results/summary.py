"""From results per seed to mean and spread: what tables and charts show.

Results that differ in their seed alone are one summary. Of results that differ in their revision alone (the weights or
images behind a name have changed) the last counts. The spread is the sample standard deviation (n - 1) over
seeds; one seed has none, and then the interval that the benchmark itself gave (`<metric>_low`, `<metric>_high`) is
taken where there is one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from unseen.core.identity import canonical_json
from unseen.core.records import Cell, Result
from unseen.results.measures import Measure, headline_first, measure

SEED = "seed"


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
    def measure(self) -> Measure:
        return measure(self.metric)

    @property
    def text(self) -> str:
        return self.measure.text(self.mean, self.std)


def summarise(results: Iterable[Result], metric: str) -> list[Summary]:
    """One summary per (benchmark, model, dataset, parameters but the seed), in order of first appearance."""
    groups: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in newest_revisions(results):
        if result.ok and metric in result.metrics:
            cell = result.cell
            key = (cell.benchmark, cell.model, cell.dataset, canonical_json(without_seed(cell)))
            groups.setdefault(key, []).append(result)
    return [_summary(group, metric) for group in groups.values()]


def newest_revisions(results: Iterable[Result]) -> list[Result]:
    """Without what later weights or images have overtaken: of cells that differ in their revision alone, the last."""
    kept: dict[tuple[str, str, str, str], Result] = {}
    for result in results:
        cell = result.cell
        key = (cell.benchmark, cell.model, cell.dataset, canonical_json(dict(cell.parameters)))
        kept.pop(key, None)  # so that the order is that of the results that are kept
        kept[key] = result
    return list(kept.values())


def metrics_of(results: Iterable[Result]) -> list[str]:
    """The metrics that occur, without interval bounds, the one to judge by first."""
    return headline_first({name for result in results for name in result.metrics})


def without_seed(cell: Cell) -> dict[str, Any]:
    """The parameters of a cell that are not its seed."""
    return {name: value for name, value in cell.parameters.items() if name != SEED}


def varying_parameters(results: Collection[Result]) -> tuple[str, ...]:
    """Names of parameters, seed aside, that are not the same in all cells: what a column title must tell apart."""
    seen: dict[str, set[str]] = {}
    cells = [without_seed(result.cell) for result in results]
    for name in sorted({name for cell in cells for name in cell}):
        seen[name] = {canonical_json(cell[name]) if name in cell else "" for cell in cells}
    return tuple(name for name, values in seen.items() if len(values) > 1)


def _summary(group: Sequence[Result], metric: str) -> Summary:
    cell = group[0].cell
    ordered = sorted(group, key=lambda result: canonical_json(result.cell.parameters.get(SEED)))
    values = tuple(float(result.metrics[metric]) for result in ordered)
    finite = all(math.isfinite(value) for value in values)
    mean = statistics.fmean(values)
    std = statistics.stdev(values) if len(values) > 1 and finite else math.nan
    low, high, spread = mean, mean, ""
    bounds = group[0].metrics.get(f"{metric}_low"), group[0].metrics.get(f"{metric}_high")
    if not math.isnan(std):
        low, high, spread = mean - std, mean + std, "std"
    elif len(values) == 1 and bounds[0] is not None and bounds[1] is not None:
        low, high, spread = float(bounds[0]), float(bounds[1]), "interval"
    return Summary(
        benchmark=cell.benchmark,
        model=cell.model,
        dataset=cell.dataset,
        parameters=without_seed(cell),
        metric=metric,
        values=values,
        seeds=tuple(result.cell.parameters.get(SEED) for result in ordered),
        mean=mean,
        std=std,
        low=low,
        high=high,
        spread=spread,  # type: ignore[arg-type]
    )
