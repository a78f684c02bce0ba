"""From results to a grid: one summary per model and column, and one decision per column.

Results that belong together (`unseen.results.comparable`) and are of one model become one `Summary`: the value over
seeds (the mean, or the median if the metric says so), its confidence interval over test images, and the outcomes per
image, if they are stored. Results that do not belong together get a column each, named by what differs.

Results store outcomes per test image as texts: one bit, or one number in half precision, per image.
"""

from __future__ import annotations

import base64
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import AnyArray, BoolArray, FloatArray, IntArray
from unseen.core.errors import DataError
from unseen.core.guard import guarded
from unseen.core.identity import canonical_json
from unseen.core.records import Details, Result
from unseen.core.registry import load_object
from unseen.results.comparability import SEED, Group, comparable, sort_key, value_text
from unseen.results.info import MetricStyle, headline_first, info_of, metric_style
from unseen.stats import Candidate, Decision, Interval, accuracy_interval, combine_intervals, decide, median_outcomes
from unseen.stats.interval import no_interval, per_image

#: Key of `Result.details` for whether each image was classified correctly.
CORRECT = "correct"
#: Largest difference between a metric and the mean of its outcomes, which are stored in half precision.
_ROUNDING = 2e-3


@dataclass(frozen=True)
class Column:
    """One column of a grid.

    Attributes:
        setting: what distinguishes columns beside the dataset, such as (("shots", 5),).
        group: number of the grid's group that it shows.
    """

    benchmark: str
    dataset: str
    setting: tuple[tuple[str, Any], ...]
    metric: str
    group: int = 0

    @property
    def style(self) -> MetricStyle:
        return metric_style(self.metric, self.benchmark)

    @property
    def words(self) -> list[str]:
        """The setting in words, such as "shots 5"."""
        return [f"{name} {value_text(value)}" for name, value in self.setting]


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """One metric of one model on one dataset, over seeds.

    Attributes:
        values: the metric per seed, in full precision; `seeds` are theirs, None where a cell has no seed.
        value: the mean of `values`, or their median if the metric is aggregated by it.
        candidate: the value with its interval, and with its outcomes per image if they are stored: what `decide` takes.
        images: number of test images; None if unknown.
        chance: value of guessing; None if unknown.
        cells: ids of the cells, in the order of `values`.
    """

    benchmark: str
    model: str
    dataset: str
    style: MetricStyle
    values: tuple[float, ...]
    seeds: tuple[object, ...]
    value: float
    candidate: Candidate
    images: int | None
    chance: float | None
    cells: tuple[str, ...]

    @property
    def std(self) -> float:
        """The sample standard deviation of `values`; NaN for a single one."""
        finite = len(self.values) > 1 and all(map(math.isfinite, self.values))
        return statistics.stdev(self.values) if finite else math.nan

    @property
    def per_seed(self) -> str:
        """The values of several seeds and their standard deviation as words; "" for a single one."""
        if len(self.values) < 2:
            return ""
        values = [f"{self.style.text(v)} (seed {seed})" for seed, v in zip(self.seeds, self.values, strict=True)]
        return ", ".join([*values, f"standard deviation {self.style.text(self.std)}"])

    @property
    def interval(self) -> Interval:
        """The value with its confidence interval over test images; its limits are NaN if they are unknown."""
        assert self.candidate.interval is not None
        return self.candidate.interval


@dataclass(frozen=True, eq=False)
class Grid:
    """The results of one benchmark: models by columns.

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
        """How many results are dropped because weights or data are newer now."""
        return sum(group.older for group in self.groups)

    @cached_property
    def decisions(self) -> Mapping[Column, Decision]:
        """By column, which models differ significantly and which may be the best."""
        return {
            column: decide_summaries([self.cells[m, column] for m in self.models if (m, column) in self.cells])
            for column in self.columns
        }


def decide_summaries(summaries: Sequence[Summary]) -> Decision:
    """Decide which models of one column differ, image by image if their outcomes are stored."""
    higher = summaries[0].style.higher_is_better if summaries else True
    return decide({each.model: each.candidate for each in summaries}, higher_is_better=higher)


def grids(results: Collection[Result], metrics: Sequence[str] = ()) -> list[Grid]:
    """Return one grid per benchmark.

    Args:
        metrics: the metrics to show; by default those of `BenchmarkInfo.columns`, or the headline metric.
    """
    found = []
    for benchmark, own in by_benchmark(results).items():
        groups = comparable(own, axes=())
        known = metrics_of(groups, benchmark)
        default = [name for name in info_of(benchmark).columns if name in known] or known[:1]
        wanted = [name for name in metrics if name in known] if metrics else default
        if wanted:
            found.append(make_grid(groups, wanted))
    return found


def by_benchmark(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Return the results of each benchmark, in alphabetical order."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.cell.benchmark, []).append(result)
    return dict(sorted(found.items()))


def metrics_of(groups: Sequence[Group], benchmark: str) -> list[str]:
    """Return the metrics that occur, without interval bounds, the headline metric first."""
    return headline_first({name for group in groups for r in group.results for name in r.metrics}, benchmark)


def make_grid(groups: Sequence[Group], metrics: Sequence[str]) -> Grid:
    """Return the grid of some metrics of one benchmark's groups, which have no axes but the seed."""
    cells: dict[tuple[str, Column], Summary] = {}
    benchmark = str(groups[0].setting["benchmark"])
    for number, group in enumerate(groups):
        setting = tuple(
            (name, value if isinstance(value, str | int | float | None) else canonical_json(value))
            for name, value in group.differs.items()
            if name not in ("benchmark", "dataset")
        )
        for metric in metrics:
            column = Column(benchmark, str(group.setting["dataset"]), setting, metric, number)
            cells |= {(summary.model, column): summary for summary in summaries(group, metric)}
    columns = sorted(
        {column for _, column in cells},
        key=lambda c: (c.dataset, [(name, sort_key(v)) for name, v in c.setting], metrics.index(c.metric)),
    )
    return Grid(benchmark, order_models(cells, columns), tuple(columns), cells, groups)


def order_models(cells: Mapping[tuple[str, Column], Summary], columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the rows of a table in order: those with fewest gaps first, then by the mean of their first metric."""
    first = [column for column in columns if column.metric == columns[0].metric]
    sign = -1.0 if columns[0].style.higher_is_better else 1.0

    def key(model: str) -> tuple[int, float, str]:
        values = [cells[model, column].value for column in first if (model, column) in cells]
        known = [value for value in values if not math.isnan(value)]
        return -len(known), sign * statistics.fmean(known or [0.0]), model

    return tuple(sorted({model for model, _ in cells}, key=key))


def summarise(results: Iterable[Result], metric: str) -> list[Summary]:
    """Return one summary per model and setting, settings and models in order of first appearance."""
    return [summary for group in comparable(results, axes=()) for summary in summaries(group, metric)]


def summaries(group: Group, metric: str) -> list[Summary]:
    """Return one summary per model of a group that has the metric; the group has no axes but the seed."""
    with_metric = {model: [r for r in own if metric in r.metrics] for model, own in group.by_model().items()}
    return [summary_of(own, metric) for own in with_metric.values() if own]


def summary_of(results: Sequence[Result], metric: str) -> Summary:
    """Return the summary of the results of one model that differ in the seed alone."""
    ordered = sorted(results, key=lambda result: canonical_json(result.cell.parameters.get(SEED)))
    cell = ordered[0].cell
    values = tuple(float(result.metrics[metric]) for result in ordered)
    style, info = metric_style(metric, cell.benchmark), info_of(cell.benchmark)
    counts = {Details.read(result.details).test_images for result in ordered}
    first = info.metrics[0].name if info.metrics else "top1"  # the metric that the chance level belongs to
    return Summary(
        benchmark=cell.benchmark,
        model=cell.model,
        dataset=cell.dataset,
        style=style,
        values=values,
        seeds=tuple(result.cell.parameters.get(SEED) for result in ordered),
        value=style.over_seeds(values),
        candidate=candidate_of(ordered, style),
        images=counts.pop() if len(counts) == 1 else None,
        chance=info.chance(ordered[0].details) if metric == first else None,
        cells=tuple(result.cell.id for result in ordered),
    )


def candidate_of(results: Sequence[Result], style: MetricStyle) -> Candidate:
    """Return what `decide` takes: the value over seeds with its confidence interval over test images.

    The interval of an accuracy comes from the outcomes per image, if they are stored and their mean is the metric.
    Other metrics have the one that was stored with each result, averaged over seeds.
    """
    value = style.over_seeds([float(result.metrics[style.name]) for result in results])
    stored = Candidate(interval=_stored_interval(results, style, value))
    if not math.isfinite(value):
        return stored
    builder = info_of(results[0].cell.benchmark).candidate
    own: Candidate | None = load_object(builder)(results, style.name) if builder else None
    if own is not None:
        interval = own.interval or stored.interval
        return replace(own, interval=interval and replace(interval, value=value))
    outcomes = stored_outcomes(results, style.outcomes)
    if outcomes is None:
        return stored
    outcomes = median_outcomes(outcomes) if style.aggregate == "median" else outcomes.mean(axis=0)
    shift = value - float(outcomes.mean())
    if abs(shift) > _ROUNDING:
        return stored
    units = results[0].cell.data
    if style.outcomes == CORRECT:
        return Candidate(outcomes, replace(accuracy_interval(outcomes), value=value), units=units)
    return replace(stored, outcomes=outcomes + shift, units=units)


def mean_candidate(
    parts: Sequence[Summary], images: Sequence[str] | None = None, weights: Sequence[int] | None = None
) -> Candidate:
    """Return the mean over datasets or tasks, with its confidence interval over their test images.

    Models are compared image by image if all outcomes are stored.

    Args:
        images: per part, a name of its test images: equal for tasks that label the same images; the dataset's name
            without options by default.
        weights: per part, its weight as a whole number of 1 or more; all equal by default.
    """
    images = images or [part.dataset.partition("?")[0] for part in parts]  # other labels of the same images
    weights = weights or [1] * len(parts)
    if len(parts) == 1:
        return parts[0].candidate
    total = sum(weights)
    interval = combine_intervals(
        lambda values: sum(w * v for w, v in zip(weights, values, strict=True)) / total,
        [part.interval for part in parts],
        shared=images,
    )
    if any(part.candidate.labels is not None for part in parts):  # means over classes have weights of their own
        return Candidate(interval=interval)
    shares: list[FloatArray] = []
    labels: list[IntArray] = []
    for name in dict.fromkeys(images):
        own = [k for k, other in enumerate(images) if other == name]
        outcomes = [per_image(o) for k in own if (o := parts[k].candidate.outcomes) is not None]
        # A mean over labels weighs them equally: images with the weight w are dealt to w labels of about equal size.
        weight = sum(weights[k] for k in own)
        if len(outcomes) < len(own) or len({len(o) for o in outcomes}) > 1 or len(outcomes[0]) < 2 * weight:
            return Candidate(interval=interval)
        dealt = np.arange(len(outcomes[0])) % weight
        size = np.bincount(dealt)[dealt] * weight / len(dealt)  # 1 if all labels have as many images
        shares.append(size * np.average(outcomes, axis=0, weights=[weights[k] for k in own]))
        labels.append(dealt + (labels[-1].max() + 1 if labels else 0))
    units = " ".join(part.candidate.units for part in parts)
    return Candidate(outcomes=np.concatenate(shares), interval=interval, labels=np.concatenate(labels), units=units)


def _stored_interval(results: Sequence[Result], style: MetricStyle, value: float) -> Interval:
    """Return the interval that results state as `<metric>_low` and `<metric>_high`, averaged over seeds.

    An interval of width 0 is not a confidence interval: bootstraps of 0.1 stored one if every resample had the same
    value. It is replaced by that of a share of as many images, or dropped.
    """
    n = max(Details.read(results[0].details).test_images or 0, 0)
    names = f"{style.name}_low", f"{style.name}_high"
    if any(name not in result.metrics for result in results for name in names):
        return no_interval(value, "no interval is stored", level=0.95, n=n)
    low, high = (statistics.fmean(result.metrics[name] for result in results) for name in names)
    if low < high:
        return Interval(value, min(low, value), max(high, value), 0.95, n, "stored with the result")
    if n and style.percent and 0 <= value <= 1:
        return replace(accuracy_interval(np.arange(n) < round(value * n)), value=value)
    return no_interval(value, "the stored interval has no width", level=0.95, n=n)


# ---- outcomes per test image -----------------------------------------------------------------------------------------


def pack_correct(correct: BoolArray) -> str:
    """Return one bit per test image as text: 50,000 images take 8 kB."""
    return _pack(len(correct), np.packbits(correct).tobytes())


def unpack_correct(text: str) -> BoolArray:
    """Return what `pack_correct` packed.

    Raises:
        DataError: the text was not written by `pack_correct`.
    """
    return _unpack(text, np.uint8)


def pack_values(values: FloatArray) -> str:
    """Return one number per test image, in half precision, as text."""
    return _pack(len(values), values.astype("<f2").tobytes())


def unpack_values(text: str) -> FloatArray:
    """Return what `pack_values` packed.

    Raises:
        DataError: the text was not written by `pack_values`.
    """
    return _unpack(text, np.dtype("<f2"))


def _pack(count: int, data: bytes) -> str:
    return f"{count}:{base64.b64encode(data).decode('ascii')}"


def _unpack(text: str, kind: npt.DTypeLike) -> AnyArray:
    with guarded("the outcomes per image of a result", "a number of images and their outcomes in base64"):
        count, _, encoded = text.partition(":")
        data = np.frombuffer(base64.b64decode(encoded), kind)
        values = np.unpackbits(data).astype(bool) if data.dtype == np.uint8 else data.astype(np.float64)
        if not 0 <= int(count) <= len(values) or (len(data) == len(values) != int(count)):
            raise DataError(f"a result has {len(values)} outcomes per image, not {count[:20]}.")
        return values[: int(count)]


_READERS: Mapping[str, Callable[[str], AnyArray]] = {CORRECT: unpack_correct, "image_scores": unpack_values}


def stored_outcomes(results: Sequence[Result], name: str) -> FloatArray | None:
    """Return outcomes of shape (seeds, images) of results on the same images; None if one of them has none.

    Args:
        name: key of `Result.details` with the outcomes: "correct" or "image_scores".
    """
    texts = [result.details.get(name) for result in results]
    if name not in _READERS or not all(isinstance(text, str) for text in texts):
        return None
    found = [np.asarray(_READERS[name](str(text)), np.float64) for text in texts]
    if len({len(each) for each in found}) != 1 or not len(found[0]) or len({r.cell.data for r in results}) != 1:
        return None
    stacked = np.stack(found)
    return stacked if np.isfinite(stacked).all() else None
