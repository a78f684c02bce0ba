"""How a metric is shown: its title, whether it is a percentage, whether more is better, how seeds are aggregated.

The database keeps every metric as it was computed, fractions as fractions. Rounding and percent signs happen here,
for terminals and pages only. A benchmark declares styles for its own metrics (`BenchmarkInfo.metrics`); those that
several share are here. A metric without a declared style is shown as a plain number, and more counts as better.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from unseen.results.info import NO_INFO, BenchmarkInfo, info_of


@dataclass(frozen=True, slots=True)
class MetricStyle:
    """What a reader needs to know of a metric.

    Attributes:
        title: for the head of a narrow column.
        percent: whether the value is a fraction that is shown times 100.
        long_title: for prose and axes; the title where there is no longer one.
        higher_is_better: which end of a column is the best.
        aggregate: the statistic over seeds that stands for all of them.
        decimals: of a percentage.
        outcomes: key of `Result.details` with one outcome per test image whose mean is the metric; "" if there is none.
    """

    name: str
    title: str
    percent: bool = False
    higher_is_better: bool = True
    long_title: str = ""
    aggregate: Literal["mean", "median"] = "mean"
    outcomes: str = ""
    decimals: int = 1

    def over_seeds(self, values: Sequence[float]) -> float:
        """Return the mean or median of the values of several seeds."""
        return statistics.median(values) if self.aggregate == "median" else statistics.fmean(values)

    @property
    def spoken(self) -> str:
        return self.long_title or self.title

    @property
    def heading(self) -> str:
        return f"{self.title} (%)" if self.percent else self.title

    def text(self, value: float, spread: float = math.nan) -> str:
        """The value as a person reads it, with its spread where there is one: "71.3 ± 0.4"."""
        shown = self._number(value)
        return shown if math.isnan(spread) else f"{shown} ± {self._number(spread, like=value)}"

    def _number(self, value: float, like: float | None = None) -> str:
        if not math.isfinite(value):
            return "not a number" if math.isnan(value) else ("∞" if value > 0 else "-∞")
        if self.percent:
            return f"{100 * value:.{self.decimals}f}"
        # Four significant digits of the value; a spread gets the same decimals as its value.
        size = abs(value if like is None or not math.isfinite(like) else like)
        decimals = 3 if size == 0 else max(0, 3 - math.floor(math.log10(size)))
        return f"{value:.{decimals}f}" if decimals <= 6 else f"{value:.3e}"


TOP1 = MetricStyle("top1", "top-1", percent=True, long_title="top-1 accuracy", outcomes="correct")
#: What several benchmarks measure, the metric to judge by first.
COMMON = (
    TOP1,
    MetricStyle("top5", "top-5", percent=True, long_title="top-5 accuracy"),
    MetricStyle("mean_per_class", "mean per class", percent=True, long_title="mean per-class accuracy"),
    MetricStyle("kappa", "kappa", long_title="Cohen's quadratic kappa"),
    MetricStyle("loss", "loss", higher_is_better=False),
    MetricStyle("expected", "expected", percent=True, long_title="accuracy to expect on images like the training ones"),
    MetricStyle("expected_se", "expected, s.e.", percent=True, higher_is_better=False),
    MetricStyle("log_loss", "log loss", higher_is_better=False, long_title="mean negative log-likelihood"),
    MetricStyle("calibration_error", "calibration error", percent=True, higher_is_better=False),
)
_BOUNDS = ("_low", "_high")


def metric_style(name: str, benchmark: str = "") -> MetricStyle:
    """How to show a benchmark's metric; the bounds of an interval are shown like what they bound."""
    found = _known(benchmark).get(name)
    if found is not None:
        return found
    inner = _known(benchmark).get(_without_bound(name)) if is_bound(name) else None
    if inner is not None:
        return replace(inner, name=name, title=f"{inner.title}, {name.rpartition('_')[2]}", long_title="")
    return MetricStyle(name, name.replace("_", " "))


def is_bound(name: str) -> bool:
    """Whether the metric is an end of another one's interval (`top1_low`, `top1_high`)."""
    return name.endswith(_BOUNDS)


def headline_first(names: Collection[str], benchmark: str = "") -> list[str]:
    """Metric names without interval bounds, the one to judge by first."""
    order = {name: position for position, name in enumerate(_known(benchmark))}
    return sorted((n for n in names if not is_bound(n)), key=lambda n: (order.get(n, len(order)), n))


def _known(benchmark: str) -> Mapping[str, MetricStyle]:
    return _styles(info_of(benchmark) if benchmark else NO_INFO)


@lru_cache(maxsize=64)
def _styles(info: BenchmarkInfo) -> Mapping[str, MetricStyle]:
    own = {style.name: style for style in info.metrics}
    return own | {style.name: style for style in COMMON if style.name not in own}


def _without_bound(name: str) -> str:
    return name.rpartition("_")[0]
