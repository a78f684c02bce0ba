"""How a metric is shown: its title, whether it is a percentage, whether more is better.

The database keeps every metric as it was computed, fractions as fractions. Rounding and percent signs happen here,
for terminals and pages only. A metric that is not listed is shown as a plain number, and more is taken for better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measure:
    """What a reader needs to know of a metric.

    Attributes:
        title: for the head of a narrow column.
        percent: whether the value is a fraction that is shown times 100.
        long_title: for prose and axes; the title where there is no longer one.
        higher_is_better: which end of a column is the best.
    """

    name: str
    title: str
    percent: bool = False
    higher_is_better: bool = True
    long_title: str = ""

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
            return f"{100 * value:.1f}"
        # Four significant digits of the value; a spread gets the same decimals as its value.
        size = abs(value if like is None or not math.isfinite(like) else like)
        decimals = 3 if size == 0 else max(0, 3 - math.floor(math.log10(size)))
        return f"{value:.{decimals}f}" if decimals <= 6 else f"{value:.3e}"


_KNOWN = (
    Measure("top1", "top-1", percent=True, long_title="top-1 accuracy"),
    Measure("top5", "top-5", percent=True, long_title="top-5 accuracy"),
    Measure("mean_per_class", "mean per class", percent=True, long_title="mean per-class accuracy"),
    Measure("zsl", "ZSL", percent=True, long_title="per-class top-1 accuracy among unseen classes"),
    Measure("zsl_top5", "ZSL top-5", percent=True, long_title="per-class top-5 accuracy among unseen classes"),
    Measure("zsl_top10", "ZSL top-10", percent=True, long_title="per-class top-10 accuracy among unseen classes"),
    Measure("ts", "ts", percent=True, long_title="accuracy on unseen classes among all classes"),
    Measure("tr", "tr", percent=True, long_title="accuracy on seen classes among all classes"),
    Measure("H", "H", percent=True, long_title="harmonic mean of ts and tr"),
    Measure("zsl_per_image", "ZSL per image", percent=True, long_title="per-image accuracy among unseen classes"),
    Measure("ts_per_image", "ts per image", percent=True),
    Measure("tr_per_image", "tr per image", percent=True),
    Measure("kappa", "kappa", long_title="Cohen's quadratic kappa"),
    Measure("mean_rank", "mean rank", higher_is_better=False),
    Measure("first_share", "first in", percent=True, long_title="share of resamples in which it comes first"),
    Measure("loss", "loss", higher_is_better=False),
)
_BY_NAME = {known.name: known for known in _KNOWN}
_ORDER = {known.name: position for position, known in enumerate(_KNOWN)}
_BOUNDS = ("_low", "_high")


def measure(name: str) -> Measure:
    """How to show the metric called `name`; the bounds of an interval are shown like what they bound."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    for bound in _BOUNDS:
        if is_bound(name) and name.endswith(bound) and name.removesuffix(bound) in _BY_NAME:
            inner = _BY_NAME[name.removesuffix(bound)]
            return Measure(name, f"{inner.title}, {bound[1:]}", inner.percent, inner.higher_is_better)
    return Measure(name, name.replace("_", " "))


def is_bound(name: str) -> bool:
    """Whether the metric is an end of another one's interval (`top1_low`, `top1_high`)."""
    return name.endswith(_BOUNDS)


def headline_first(names: set[str]) -> list[str]:
    """Metric names without interval bounds, the one to judge by first."""
    return sorted((n for n in names if not is_bound(n)), key=lambda n: (_ORDER.get(n, len(_ORDER)), n))
