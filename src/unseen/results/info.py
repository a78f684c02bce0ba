"""What readers of results need to know of a benchmark: title, question, metrics, citations, how to describe its method.

Each benchmark declares one `BenchmarkInfo` as data in its own package (`unseen/benchmarks/*/info.py`), and a plug-in on
its class, as `info`. Tables, reports, commands and citations read it through `info_of`; no code outside of a
benchmark's package depends on its name. Modules with metadata import no numeric library, so a table of stored results
does not load the code that computed them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from unseen.core.errors import UnseenError
from unseen.core.registry import Registry, load_object

if TYPE_CHECKING:
    from unseen.benchmarks.benchmark import Benchmark
    from unseen.results.styles import MetricStyle

Parameters = Mapping[str, Any]
#: The section of a benchmark that has none of its own.
SCORES_SECTION = "unseen.reports.scores:scores_section"


def stored_chance(details: Mapping[str, Any]) -> float | None:
    """Return the chance level that a result states, or one in the number of its classes; None if it has neither."""
    value, classes = details.get("chance"), details.get("classes")
    if isinstance(value, int | float):
        return float(value)
    return 1 / classes if isinstance(classes, int) and classes > 0 else None


def no_chance(details: Mapping[str, Any]) -> None:
    """Return None: the metric has no chance level."""


def same_options(parameters: Parameters) -> Parameters:
    """Return the parameters of a cell unchanged: they are the options that plan it."""
    return parameters


def no_citations(parameters: Parameters) -> tuple[str, ...]:
    """Return nothing: the citations of the benchmark are all."""
    return ()


@dataclass(frozen=True, kw_only=True, eq=False)
class BenchmarkInfo:
    """The metadata of one benchmark.

    Attributes:
        title: for captions and headings, such as "Linear probe".
        question: what it measures, as a question.
        command: the words after `unseen` on a command line, such as "cog run"; the benchmark's name if empty.
        sentence: describes the method for a paper, without the full stop. Parameters of cells stand in braces.
        citations: what to cite: keys of `benchmarks/references.toml`, or lines such as "Li et al., Title, CVPR 2021".
        metrics: how to show its own metrics, the one to judge by first; `unseen.results.styles` has the common ones.
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
    """

    title: str
    question: str
    command: str
    sentence: str
    citations: tuple[str, ...]
    metrics: tuple[MetricStyle, ...]
    columns: tuple[str, ...] = ()
    chance: Callable[[Mapping[str, Any]], float | None] = stored_chance
    targets: tuple[str, ...] = ("class",)
    task: str = "image-classification"
    section: str = SCORES_SECTION
    tables: str = ""
    candidate: str = ""
    cell_options: Callable[[Parameters], Parameters] = same_options
    cell_citations: Callable[[Parameters], Sequence[str]] = no_citations


#: What a benchmark has that declares nothing.
NO_INFO = BenchmarkInfo(title="", question="", command="", sentence="", citations=(), metrics=())

#: Class attributes of 0.1, which plug-ins may still declare instead of `info`.
_ATTRIBUTES = ("question", "command", "section", "metrics", "targets")


def info_from_attributes(kind: type, base: BenchmarkInfo) -> BenchmarkInfo:
    """Return the metadata of a class that declares the class attributes of 0.1; `base` has what it inherits."""
    own: dict[str, Any] = {name: vars(kind)[name] for name in _ATTRIBUTES if name in vars(kind)}
    if "paper" in vars(kind):
        own["citations"] = (vars(kind)["paper"],) if vars(kind)["paper"] else ()
    return replace(base, **own)


BENCHMARKS: Registry[type[Benchmark]] = Registry("benchmark", "unseen.benchmarks")
_BUILT_IN: dict[str, str] = {}


def _add(name: str, kind: str, info: str) -> None:
    BENCHMARKS.add(name, f"unseen.benchmarks.{kind}")
    _BUILT_IN[f"unseen.benchmarks.{kind}"] = f"unseen.benchmarks.{info}"


_add("probe", "probe.protocol:ProbeBenchmark", "probe.info:PROBE")
_add("regression", "probe.targets:RegressionBenchmark", "probe.info:REGRESSION")
_add("multilabel", "probe.targets:MultilabelBenchmark", "probe.info:MULTILABEL")
_add("cog", "cog.protocol:CogBenchmark", "cog.details:COG")
_add("cog-finetune", "cog.finetune:CogFinetuneBenchmark", "cog.details:COG_FINETUNE")
_add("zsl", "zsl.protocol:ZslBenchmark", "zsl:ZSL")
_add("clip", "clip.protocol:ClipBenchmark", "clip:CLIP")
_add("vtab", "vtab.protocol:VtabBenchmark", "vtab.info:VTAB")
_add("rank", "rank.protocol:RankBenchmark", "rank.info:RANK")


def info_of(benchmark: str) -> BenchmarkInfo:
    """Return the metadata of a benchmark by name.

    A benchmark that declares no title, command or sentence gets its name for them, and so does one that is not
    installed or fails to load: its stored results can still be shown.
    """
    return _info(benchmark, BENCHMARKS.target(benchmark))


@lru_cache(maxsize=256)
def _info(benchmark: str, target: Any) -> BenchmarkInfo:
    try:
        found = load_object(_BUILT_IN[target]) if target in _BUILT_IN else BENCHMARKS.get(benchmark).info
    except UnseenError:  # results of a plug-in that is missing or broken are still shown
        found = NO_INFO
    return replace(
        found,
        title=found.title or benchmark,
        command=found.command or benchmark,
        sentence=" ".join(found.sentence.split()) or f"The benchmark {benchmark} was run",
    )
