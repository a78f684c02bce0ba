"""VTAB results by model: one row per model and adaptation, which rows compare, and how results of two kinds relate.

Paper:      Zhai et al., 2019 [P], sections 3.2 to 3.5, Appendices D, E, F, G, J, K, M and N
Implements: rows of the user's models and of the published methods, both from `Result` objects; the numbers of Figures
            2, 4 to 13, 14 to 16 and 19 to 21. Tables are in `ranking` and `section`, charts in `figures`
Differs:    Figure 21 compares VTAB with the Visual Decathlon, whose scores are not printed; here it is compared with
            the four tasks that the two share
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain, product
from math import lcm
from pathlib import PurePath
from typing import get_args

import numpy as np

from unseen.benchmarks.vtab.info import VtabDetails, VtabParameters
from unseen.benchmarks.vtab.published_tables import (
    GROUPS,
    PUBLISHED_SCHEME,
    Adaptation,
    Size,
    TaskInfo,
    paper_tables,
    published_results,
    score_table,
    task_info,
)
from unseen.benchmarks.vtab.search import OF_SWEEP
from unseen.core.arrays import FloatArray
from unseen.core.errors import DataError
from unseen.core.names import Name
from unseen.core.records import Cell, Result
from unseen.data.sources.vtab import vtab_tasks
from unseen.metrics.sensitivity import Sensitivity, sensitivities
from unseen.metrics.subsets import left_out_taus
from unseen.reports.blocks import Material
from unseen.results import Group, comparable
from unseen.results.grid import Summary, mean_candidate, summary_of
from unseen.stats import Candidate, kendall_tau

METRICS: Mapping[str, str] = {
    "top1": "top-1 accuracy",
    "mean_per_class": "mean per-class accuracy",
    "kappa": "quadratic kappa",
}
#: The pairs of published methods of Figures 4 and 15.
PAIRS = (("Sup-100%", "From-Scratch"), ("Sup-Rot-100%", "Sup-100%"))
#: Tasks of VTAB that the Visual Decathlon has too.
DECATHLON = ("cifar100", "dtd", "flowers102", "svhn")
#: The smallest search whose hyper-parameters are analysed.
_FEWEST_TRIALS = 12
_WAYS: Mapping[str, str] = {"linear": "linear", "finetune": "fine-tuned", "scratch": "from scratch"}
#: Parameters that may differ between results of two ways to adapt a model: the options of the ways themselves.
_OF_WAYS = {"adaptation", "table", "sweep", "micro_batch", *chain(*OF_SWEEP.values())}
#: Parameters that must be equal even if one of two settings does not have them.
_OF_DATA = frozenset({"size", "root", "source", "data", "weights", "reported"})


@dataclass(frozen=True, eq=False)
class ModelScores:
    """One model, adapted in one way, on all its tasks.

    Attributes:
        patches: whether the model received images patch by patch.
        budget: number of training steps, if they are reported one by one; else 0.
        summaries: by task, the metric over seeds with its interval; [P] reports the median.
        source: where published scores come from; "" for a user's model.
        incomplete: by task, what its data lack, such as "test has 40 of 6,084 images".
        examples: by task of VTAB, whose 1,000 examples were used ("authors' subset", "own sample", "unknown").
        trainable: mean number of trained parameters over tasks, which have heads of different sizes; 0 if unknown.
    """

    model: str
    adaptation: str
    sweep: str
    size: Size
    patches: bool
    budget: int
    summaries: Mapping[str, Summary]
    source: str = ""
    incomplete: Mapping[str, str] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    trainable: int = 0

    @property
    def way(self) -> str:
        """Return how the model was adapted, in words."""
        words = [_WAYS.get(self.adaptation, self.adaptation), "" if self.sweep == "lightweight" else self.sweep]
        words += ["by patches" if self.patches else "", "all examples" if self.size == "full" else ""]
        words += [f"{self.budget:,} steps" if self.budget else ""]
        return ", ".join(filter(None, [*words, "published" if self.source else ""]))

    @property
    def method(self) -> str:
        """Return the name of a published method."""
        return self.model.removeprefix(PUBLISHED_SCHEME)

    @property
    def key(self) -> str:
        """Return what identifies the row in decisions and in tables of names."""
        return f"{self.model} ({self.way})"

    @cached_property
    def tasks(self) -> dict[str, TaskInfo]:
        return {task: task_info(summary.dataset) for task, summary in self.summaries.items()}

    def average(self, tasks: Iterable[str]) -> float:
        """Return the mean over tasks, without its interval."""
        return float(np.mean([self.summaries[task].value for task in tasks]))

    def mean(self, tasks: Iterable[str], *, by_group: bool = False) -> Candidate:
        """Return the mean over tasks, or the mean of the means of their groups, for `stats.decide`."""
        infos, parts = zip(*((self.tasks[task], self.summaries[task]) for task in tasks), strict=True)
        counts = Counter(info.group for info in infos)
        weights = [lcm(*counts.values()) // counts[info.group] for info in infos] if by_group else None
        return mean_candidate(parts, [info.data for info in infos], weights)

    def cells(self, tasks: Iterable[str]) -> list[str]:
        """Return the ids of the cells behind the tasks."""
        return [cell for task in tasks for cell in self.summaries[task].cells]


def _place(cell: Cell) -> dict[str, object]:
    name, p = Name.parse(cell.dataset), VtabParameters.read(cell.parameters)
    task = name.without("size", "root") if name.scheme == "vtab" else name
    found: dict[str, object] = {"dataset": str(task), "table": p.table, "size": "1000"}
    found |= {option: value for option, value in name.options.items() if option not in task.options}
    return found | ({"reported": "budget by budget"} if p.budget else {})


@cache
def published_scores(table: Adaptation, size: Size) -> tuple[ModelScores, ...]:
    """Return the published methods of a table, in its order."""
    return tuple(scores_of(published_results(table, size)))


def scores_of(results: Iterable[Result], metric: str = "top1") -> list[ModelScores]:
    """Return one row per model and adaptation."""
    found: dict[tuple[str, str, str, Size, bool, int], dict[str, list[Result]]] = {}
    for result in results:
        cell, p = result.cell, VtabParameters.read(result.cell.parameters)
        if metric in result.metrics:
            key = cell.model, p.adaptation, p.sweep, _size_of(cell), p.patches, p.budget
            found.setdefault(key, {}).setdefault(task_info(cell.dataset).name, []).append(result)
    return [
        ModelScores(
            *key,
            {task: summary_of(runs, metric) for task, runs in tasks.items()},
            source=next(iter(tasks.values()))[0].record.source,
            incomplete={task: text for task, runs in tasks.items() if (text := _lacks(runs))},
            examples={task: whose for task, runs in tasks.items() if (whose := _whose(runs[0]))},
            trainable=round(np.mean([VtabDetails.read(runs[0].details).trainable for runs in tasks.values()])),
        )
        for key, tasks in found.items()
    ]


def _size_of(cell: Cell) -> Size:
    return "full" if Name.parse(cell.dataset).options.get("size") == "full" else "1000"


def _whose(run: Result) -> str:
    """Return whose 1,000 examples of a task of VTAB were used; "" for all examples, other data and published rows."""
    own = run.cell.dataset.startswith("vtab:") and _size_of(run.cell) == "1000" and not run.record.source
    return run.record.provenance or "unknown" if own else ""


def _lacks(runs: Sequence[Result]) -> str:
    """Return which splits do not have the number of images that VTAB prescribes."""
    splits = {name: counts for run in runs for name, counts in run.record.incomplete.items()}
    return ", ".join(f"{name} has {c.found:,} of {c.expected:,} images" for name, c in splits.items())


@dataclass(frozen=True, eq=False)
class Setting:
    """Results that may be ranked together.

    Attributes:
        material: all results that they are a part of, of a user or of [P], and what is known of their models.
    """

    material: Material
    group: Group

    @property
    def size(self) -> Size:
        return _size_of(self.group.results[0].cell)

    @cached_property
    def scores(self) -> list[ModelScores]:
        """Return one row per model and adaptation, or per model, adaptation and fixed budget of steps."""
        return scores_of(self.group.results)

    @cached_property
    def rows(self) -> list[ModelScores]:
        """Return the rows that have all tasks, best mean first; none of fixed budgets."""
        return complete([row for row in self.scores if not row.budget])

    @cached_property
    def names(self) -> dict[str, str]:
        """Return the name of each row by its key."""
        return row_names(self.scores, self.material.names)


def vtab_settings(material: Material) -> list[Setting]:
    """Return the settings of the results of VTAB: all tasks, and fine-tuning with training from scratch."""
    own = [result for result in material.results if result.cell.benchmark == "vtab"]
    groups = comparable(own, axes=("dataset", "adaptation", "budget", "sweep"), place=_place)
    # Of a root folder, its name: a path of this computer is of no use to the readers of a table.
    named = [{k: PurePath(str(v)).name if v and k == "root" else v for k, v in g.differs.items()} for g in groups]
    return [Setting(material, replace(g, differs=differs)) for g, differs in zip(groups, named, strict=True)]


@cache
def published_settings(size: Size) -> list[Setting]:
    """Return the published methods as results, one setting per table."""
    return vtab_settings(Material([r for table in get_args(Adaptation) for r in published_results(table, size)]))


def row_names(rows: Sequence[ModelScores], short: Mapping[str, str]) -> dict[str, str]:
    """Return the name of each row by its key; it states the way if there are several.

    Args:
        short: names of models; their ids by default.
    """
    several = len({row.way for row in rows}) > 1
    names = {row.key: short.get(row.model, row.model).removeprefix(PUBLISHED_SCHEME) for row in rows}
    return {row.key: f"{names[row.key]} ({row.way})" if several else names[row.key] for row in rows}


def reference_tasks(rows: Sequence[ModelScores]) -> dict[str, TaskInfo]:
    """Return the tasks of the row that has most of them, in the order of the paper, other tasks last."""
    infos = max((row.tasks for row in rows), key=len, default={})
    return dict(sorted(infos.items(), key=lambda item: item[1].order))


def complete(rows: Sequence[ModelScores]) -> list[ModelScores]:
    """Return the rows of one setting that have all tasks of `reference_tasks`, best mean first."""
    tasks = reference_tasks(rows)
    return sorted((row for row in rows if row.summaries.keys() >= tasks.keys()), key=lambda row: -row.average(tasks))


def shared_tasks(rows: Sequence[ModelScores]) -> list[str]:
    """Return the tasks that all rows have, in the order of the first: means compare only over these."""
    return [task for task in rows[0].summaries if all(task in row.summaries for row in rows)] if rows else []


def score_matrix(rows: Sequence[ModelScores]) -> tuple[list[TaskInfo], FloatArray]:
    """Return the tasks that all rows have, and the scores in percent, (rows, tasks), as aggregations take them."""
    tasks = shared_tasks(rows)
    scores = np.array([[100 * row.summaries[task].value for task in tasks] for row in rows], np.float64)
    return [rows[0].tasks[task] for task in tasks], scores


# ---- the numbers of figures ------------------------------------------------------------------------------------------


def kind_means(size: Size) -> list[dict[str, str | float]]:
    """Return the mean over published methods per kind and group of tasks, with one deviation (Figure 2)."""
    found: list[dict[str, str | float]] = []
    table = score_table("lightweight", size)
    groups = np.array([task.group for task in vtab_tasks().values()])
    for (kind, methods), group in product(paper_tables().kinds.items(), GROUPS):
        means = table.scores[np.isin(table.methods, methods)][:, groups == group].mean(axis=1) / 100
        mean, spread = float(means.mean()), float(means.std(ddof=1)) if len(means) > 1 else 0.0
        found.append({"kind": kind, "group": group, "value": mean, "low": mean - spread, "high": mean + spread})
    return found


def differences(first: ModelScores, second: ModelScores) -> dict[TaskInfo, float]:
    """Return the difference of two rows by task, in points (Figure 4)."""
    tasks, (one, other) = score_matrix([first, second])
    return dict(zip(tasks, (one - other).tolist(), strict=True))


def pairs(rows: Sequence[ModelScores]) -> list[tuple[ModelScores, ModelScores]]:
    """Return the pairs of Figure 4: of the published methods those of [P]; else the best row and a reference.

    The reference is the last row.
    """
    named = {row.method: row for row in rows if row.source}
    if named:
        return [(named[first], named[second]) for first, second in PAIRS if {first, second} <= named.keys()]
    return [(rows[0], rows[-1])] if len(rows) > 1 else []


def sweep_gains(settings: Sequence[Setting]) -> list[tuple[ModelScores, dict[TaskInfo, float]]]:
    """Return the points that the heavyweight search gains over the lightweight sweep, by row and task (Figure 14)."""
    return [
        (row, points)
        for light, heavy in _related(settings, "lightweight", "heavyweight")
        for row, other in product(heavy.scores, light.scores)
        if (row.model, row.adaptation) == (other.model, other.adaptation) and (points := differences(row, other))
    ]


def linear_taus(settings: Sequence[Setting]) -> list[tuple[int, dict[TaskInfo, float]]]:
    """Return Kendall's tau between linear and fine-tuned scores by task, and the number of models (Figures 5 and 16).

    Settings with fewer than three models are skipped, and so are tasks on which all models are equal.
    """
    found = []
    for linear, tuned in _related(settings, "linear", "lightweight"):
        first = {row.model: row for row in linear.rows}
        rows = [row for row in tuned.rows if row.model in first and row.adaptation == "finetune"]
        if len(rows) >= 3:
            tasks, scores = score_matrix([*rows, *(first[row.model] for row in rows)])
            taus = map(kendall_tau, scores[: len(rows)].T, scores[len(rows) :].T)
            if known := {info: tau for info, tau in zip(tasks, taus, strict=True) if tau == tau}:
                found.append((len(rows), known))
    return found


def _related(settings: Sequence[Setting], first: Adaptation, second: Adaptation) -> Iterator[tuple[Setting, Setting]]:
    """Yield settings of two tables that differ only in the options of the ways to adapt a model."""
    for pair in product(settings, settings):
        one, other = (each.group.setting for each in pair)
        names = (one.keys() & other.keys() | _OF_DATA) - _OF_WAYS
        if (one["table"], other["table"]) == (first, second) and all(one.get(n) == other.get(n) for n in names):
            yield pair


def metric_means(setting: Setting) -> dict[str, dict[str, float]]:
    """Return the mean over tasks by metric and row, of rows that have all tasks (Figure 7)."""
    by_metric = {m: complete(scores_of(setting.group.results, m)) for m in METRICS if setting.rows}
    shared = shared_tasks([row for rows in by_metric.values() for row in rows])
    return {m: {row.key: row.average(shared) for row in rows} for m, rows in by_metric.items() if rows and shared}


def metric_agreement(means: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return Kendall's tau of the ranking by each metric with that by top-1 (Appendix D); none for fewer than three.

    Args:
        means: by metric and row.
    """
    base = means.get("top1", {})
    others = {metric: other for metric, other in means.items() if metric != "top1" and base.keys() == other.keys()}
    values = list(base.values())
    return {m: kendall_tau(values, [each[row] for row in base]) for m, each in others.items() if len(base) >= 3}


def unseen_task_taus(rows: Sequence[ModelScores]) -> dict[TaskInfo, tuple[float, float]]:
    """Return how well all other tasks predict the ranking on a task, and how well the Decathlon's do (Figure 21)."""
    tasks, scores = score_matrix(rows)
    few = [number for number, info in enumerate(tasks) if info.name in DECATHLON]
    taus = zip(left_out_taus(scores).tolist(), left_out_taus(scores, few).tolist(), strict=True)
    return dict(zip(tasks, taus, strict=True))


def searches(setting: Setting) -> dict[str, dict[str, dict[str, Sensitivity]]]:
    """Return hyper-parameters by "model (adaptation)" and title of the task, for searches with enough trials."""
    found: dict[str, dict[str, dict[str, Sensitivity]]] = {}
    for result in setting.group.results:
        cell, task = result.cell, task_info(result.cell.dataset).title
        name = f"{setting.material.names[cell.model]} ({VtabParameters.read(cell.parameters).adaptation})"
        done = [trial for trial in result.sweep if trial.get("state", "complete") == "complete"]
        if len(done) >= _FEWEST_TRIALS and task not in found.get(name, {}):
            with suppress(DataError):  # no trial has an accuracy
                found.setdefault(name, {})[task] = sensitivities(done)
    return {name: tasks for name, tasks in found.items() if tasks}
