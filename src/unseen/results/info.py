"""What readers of results need to know of a benchmark: title, question, metrics, citations, how to describe its method.

Each benchmark declares one `BenchmarkInfo` as data in its own package (`unseen/benchmarks/*/info.toml`), and a plug-in
on its class, as `info`. Tables, reports, commands and citations read it through `info_of`; no code outside of a
benchmark's package depends on its name. A table of stored results does not load the code that computed them.

`MetricStyle` states how a metric is shown. The database keeps every metric as it was computed, fractions as fractions;
rounding and percent signs are for outputs only. Metrics that several benchmarks share are in `metrics.toml`. A metric
without a declared style is shown as a plain number, and more counts as better.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

from unseen.core.errors import UnseenError
from unseen.core.files import read_toml
from unseen.core.identity import Values
from unseen.core.records import Details
from unseen.core.registry import Registry, load_object

if TYPE_CHECKING:
    from unseen.benchmarks.benchmark import Benchmark

#: Parameters of a cell, or details of a result.
Parameters = Mapping[str, Any]
#: The section of a benchmark that has none of its own.
SCORES_SECTION = "unseen.reports.scores:scores_section"


@dataclass(frozen=True)
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
        """The title for prose and axes."""
        return self.long_title or self.title

    @property
    def heading(self) -> str:
        """The title of a column, with its unit."""
        return f"{self.title} (%)" if self.percent else self.title

    def text(self, value: float) -> str:
        """Return the rounded value: the decimals of a percentage, or four significant digits of another number."""
        if not math.isfinite(value):
            return "not a number" if math.isnan(value) else ("∞" if value > 0 else "-∞")
        if self.percent:
            return f"{round(100 * value, self.decimals) + 0.0:.{self.decimals}f}"  # never -0.0
        decimals = 3 if value == 0 else max(0, 3 - math.floor(math.log10(abs(value))))
        return f"{value:.{decimals}f}" if decimals <= 6 else f"{value:.3e}"


#: What several benchmarks measure, the metric to judge by first.
COMMON = {each["name"]: MetricStyle(**each) for each in read_toml("unseen.results", "metrics.toml")["metrics"]}
TOP1 = COMMON["top1"]


def metric_style(name: str, benchmark: str = "") -> MetricStyle:
    """Return how to show a benchmark's metric; the bounds of an interval are shown like what they bound."""
    known, (inner, _, end) = _styles(benchmark), name.rpartition("_")
    if name in known:
        return known[name]
    if is_bound(name) and inner in known:
        return replace(known[inner], name=name, title=f"{known[inner].title}, {end}", long_title="")
    return MetricStyle(name, name.replace("_", " "))


def is_bound(name: str) -> bool:
    """Return whether the metric is an end of another one's interval (`top1_low`, `top1_high`)."""
    return name.endswith(("_low", "_high"))


def headline_first(names: Collection[str], benchmark: str = "") -> list[str]:
    """Return metric names without interval bounds, the one to judge by first."""
    order = list(_styles(benchmark))
    rank = {name: order.index(name) if name in order else len(order) for name in names if not is_bound(name)}
    return sorted(rank, key=lambda name: (rank[name], name))


def _styles(benchmark: str) -> Mapping[str, MetricStyle]:
    """Return how to show the metrics of a benchmark, its own first."""
    own = {style.name: style for style in info_of(benchmark).metrics} if benchmark else {}
    return {**own, **COMMON, **own}


def stored_chance(details: Parameters) -> float | None:
    """Return the chance level that a result states, or one in the number of its classes; None if it has neither."""
    found = Details.read(details)
    return found.chance if found.chance is not None else 1 / found.classes if found.classes else None


@dataclass(frozen=True, kw_only=True, eq=False)
class BenchmarkInfo:
    """The metadata of one benchmark.

    Attributes:
        title: for captions and headings, such as "Linear probe".
        question: what it measures, as a question.
        command: the words after `unseen` on a command line, such as "cog run"; the benchmark's name if empty.
        sentence: describes the method for a paper, without the full stop. Parameters of cells stand in braces.
        citations: what to cite: keys of `benchmarks/references.toml`, or lines such as "Li et al., Title, CVPR 2021".
        metrics: how to show its own metrics, the one to judge by first; `COMMON` has those that several share.
        columns: metrics that a table shows unless the user chooses others; all if empty.
        chance: from the details of a result to the chance level of the first metric, or None.
        targets: kinds of labels that it can learn: "class", "several" or "number".
        task: the Hugging Face task of its numbers, for model cards.
        section: "module:function" that makes its section of the page (`unseen.reports.blocks.SectionBuilder`).
        tables: "module:function" that makes its tables for all outputs, as `unseen.results.table.default_tables`, which
            is the default.
        candidate: "module:function" that makes what `stats.decide` takes, from results that differ in the seed alone
            and the name of a metric, if `MetricStyle.outcomes` cannot state it, such as a mean over classes. It
            returns None if the results do not store the outcomes; without an interval, the stored one is taken.
        cell_options: from the parameters of a cell to the options that plan it, if they differ.
        cell_citations: from the parameters of a cell to what to cite in addition, such as its method.
        required: parameters without which readers of stored results can do nothing with a row.
    """

    title: str = ""
    question: str = ""
    command: str = ""
    sentence: str = ""
    citations: tuple[str, ...] = ()
    metrics: tuple[MetricStyle, ...] = ()
    columns: tuple[str, ...] = ()
    chance: Callable[[Parameters], float | None] = stored_chance
    targets: tuple[str, ...] = ("class",)
    task: str = "image-classification"
    section: str = SCORES_SECTION
    tables: str = ""
    candidate: str = ""
    cell_options: Callable[[Parameters], Parameters] = lambda parameters: parameters
    cell_citations: Callable[[Parameters], Sequence[str]] = lambda parameters: ()
    required: tuple[str, ...] = ()


#: What a benchmark has that declares nothing.
NO_INFO = BenchmarkInfo()


#: By name, the class of a benchmark below `unseen.benchmarks`; its metadata are in `info.toml` next to the module.
_BUILT_IN = {
    "probe": "probe.protocol:ProbeBenchmark",
    "regression": "probe.targets:RegressionBenchmark",
    "multilabel": "probe.targets:MultilabelBenchmark",
    "cog": "cog.protocol:CogBenchmark",
    "cog-finetune": "cog.protocol:CogFinetuneBenchmark",
    "zsl": "zsl.protocol:ZslBenchmark",
    "clip": "clip.protocol:ClipBenchmark",
    "vtab": "vtab.protocol:VtabBenchmark",
    "rank": "rank.protocol:RankBenchmark",
}
BENCHMARKS: Registry[type[Benchmark]] = Registry("benchmark", "unseen.benchmarks")
for _name, _kind in _BUILT_IN.items():
    BENCHMARKS.add(_name, f"unseen.benchmarks.{_kind}")


@cache
def built_in_info(benchmark: str) -> BenchmarkInfo:
    """Return the metadata of a benchmark of this package; `NO_INFO` for another one.

    In `info.toml` a function is written as "module:function" and a metric of `COMMON` as its name; `aggregate` is that
    of all metrics.
    """
    if benchmark not in _BUILT_IN:
        return NO_INFO
    folder = _BUILT_IN[benchmark].partition(".")[0]
    stored = read_toml("unseen.benchmarks", f"{folder}/info.toml")[benchmark]
    values: Values = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
    for name in {"chance", "cell_options", "cell_citations"} & set(values):
        values[name] = partial(_call, values[name])
    aggregate = values.pop("aggregate", "mean")
    found = [COMMON[each] if isinstance(each, str) else MetricStyle(**each) for each in values["metrics"]]
    return BenchmarkInfo(**values | {"metrics": tuple(replace(style, aggregate=aggregate) for style in found)})


def _call(function: str, parameters: Parameters) -> Any:
    return load_object(function)(parameters)


def info_of(benchmark: str) -> BenchmarkInfo:
    """Return the metadata of a benchmark by name.

    A benchmark that declares no title, command or sentence gets its name for them, and so does one that is not
    installed or fails to load: its stored results can still be shown.
    """
    return _info(benchmark, BENCHMARKS.target(benchmark))


@lru_cache(maxsize=256)
def _info(benchmark: str, target: object) -> BenchmarkInfo:
    try:
        own = target == f"unseen.benchmarks.{_BUILT_IN.get(benchmark)}"
        found = built_in_info(benchmark) if own else BENCHMARKS.get(benchmark).info
    except UnseenError:  # results of a plug-in that is missing or broken are still shown
        found = NO_INFO
    return replace(
        found,
        title=found.title or benchmark,
        command=found.command or benchmark,
        sentence=" ".join(found.sentence.split()) or f"The benchmark {benchmark} was run",
    )
