"""VTAB results by model: one row per model and adaptation, which rows compare, and how results of two kinds relate.

Paper:      Zhai et al., 2019 [P], sections 3.2 to 3.5, Appendices D, E, F, G, J, K, M and N
Implements: rows of the user's models and of the published methods, both from `Result` objects; the numbers of Figures
            2, 4 to 13, 14 to 16 and 19 to 21. Tables are in `ranking` and `section`, charts in `figures`
Differs:    Figure 21 compares VTAB with the Visual Decathlon, whose scores are not printed; here it is compared with
            the four tasks that the two share
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import product
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
    method_kinds,
    published_results,
    task_info,
)
from unseen.core.arrays import FloatArray
from unseen.core.errors import DataError
from unseen.core.names import Name
from unseen.core.records import Cell, Result
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
_OF_WAYS = frozenset(
    {
        "adaptation",
        "table",
        "sweep",
        "trials",
        "longest",
        "learning_rates",
        "steps",
        "batch_size",
        "micro_batch",
        "epochs",
        "adamw_rates",
        "weight_decays",
    }
)
#: Parameters that must be equal even if one of two settings does not have them.
_OF_DATA = frozenset({"size", "root", "source", "data", "weights"})


@dataclass(frozen=True, eq=False)
class ModelScores:
    """One model, adapted in one way, on all its tasks.

    Attributes:
        size: "1000" or "full".
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
    size: str
    patches: bool
    budget: int
    summaries: Mapping[str, Summary]
    source: str = ""
    incomplete: Mapping[str, str] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    trainable: int = 0

    @property
    def table(self) -> Adaptation:
        """Return the published table that it compares with."""
        return published_table(self.adaptation, self.sweep)

    @property
    def way(self) -> str:
        """Return how the model was adapted, in words."""
        words = [_WAYS.get(self.adaptation, self.adaptation), "" if self.sweep == "lightweight" else self.sweep]
        words += ["by patches" if self.patches else "", "all examples" if self.size == "full" else ""]
        return ", ".join(filter(None, [*words, "published" if self.source else ""]))

    @property
    def key(self) -> str:
        """Return what identifies the row in decisions and in tables of names."""
        return f"{self.model} ({self.way})"

    @cached_property
    def tasks(self) -> dict[str, TaskInfo]:
        return {task: task_info(summary.dataset) for task, summary in self.summaries.items()}

    @cached_property
    def medians(self) -> dict[str, float]:
        """Return the median over seeds by task."""
        return {task: summary.value for task, summary in self.summaries.items()}

    def average(self, tasks: Sequence[str]) -> float:
        """Return the mean over tasks, without its interval."""
        return float(np.mean([self.summaries[task].value for task in tasks]))

    def mean(self, tasks: Sequence[str], *, by_group: bool = False) -> Candidate:
        """Return the mean over tasks, or the mean of the means of their groups, for `stats.decide`."""
        infos, parts = [self.tasks[task] for task in tasks], [self.summaries[task] for task in tasks]
        counts = {info.group: sum(other.group == info.group for other in infos) for info in infos}
        weights = [lcm(*counts.values()) // counts[info.group] for info in infos] if by_group else None
        return mean_candidate(parts, [info.data for info in infos], weights)

    def cells(self, tasks: Iterable[str]) -> list[str]:
        """Return the ids of the cells behind the tasks."""
        return [cell for task in tasks for cell in self.summaries[task].cells]


def published_table(adaptation: str, sweep: str) -> Adaptation:
    """Return the published table that an adaptation and sweep compare with."""
    if adaptation == "linear":
        return "linear"
    return "heavyweight" if sweep == "heavyweight" else "lightweight"


def _short_path(path: str, others: Iterable[str]) -> str:
    """Return the last parts of a path, as many as distinguish it from the others."""
    parts, ends = PurePath(path).parts, [PurePath(other).parts for other in {*others} - {path}]
    for count in range(1, len(parts)):
        if not any(other[-count:] == parts[-count:] for other in ends):
            return "/".join(parts[-count:])
    return path


def _place(cell: Cell) -> dict[str, object]:
    name, p = Name.parse(cell.dataset), VtabParameters.read(cell.parameters)
    task = name.without("size", "root") if name.scheme == "vtab" else name
    found: dict[str, object] = {"dataset": str(task), "table": published_table(p.adaptation, p.sweep), "size": "1000"}
    found |= {option: value for option, value in name.options.items() if option not in task.options}
    return found | ({"reported": "budget by budget"} if p.budget else {})


@cache
def published_scores(table: Adaptation, size: Size) -> tuple[ModelScores, ...]:
    """Return the published methods of a table, in its order."""
    return scores_of(published_results(table, size))


def scores_of(results: Iterable[Result]) -> tuple[ModelScores, ...]:
    """Return one row per model and adaptation."""
    return tuple(_rows(results, "top1"))


def _rows(results: Iterable[Result], metric: str) -> list[ModelScores]:
    found: dict[tuple[str, str, str, str, bool, int], dict[str, list[Result]]] = {}
    for result in results:
        cell, p = result.cell, VtabParameters.read(result.cell.parameters)
        if metric in result.metrics:
            size = "full" if Name.parse(cell.dataset).options.get("size") == "full" else "1000"
            tasks = found.setdefault((cell.model, p.adaptation, p.sweep, size, p.patches, p.budget), {})
            tasks.setdefault(task_info(cell.dataset).name, []).append(result)
    return [
        ModelScores(
            *key,
            {task: summary_of(runs, metric) for task, runs in tasks.items()},
            source=next((run.record.source for runs in tasks.values() for run in runs), ""),
            incomplete={task: text for task, runs in tasks.items() if (text := _lacks(runs))},
            examples={task: whose for task, runs in tasks.items() if (whose := _whose(runs[0]))},
            trainable=round(np.mean([VtabDetails.read(runs[0].details).trainable for runs in tasks.values()])),
        )
        for key, tasks in found.items()
    ]


def _whose(run: Result) -> str:
    """Return whose 1,000 examples of a task of VTAB were used; "" for all examples, other data and published rows."""
    name = Name.parse(run.cell.dataset)
    if name.scheme != "vtab" or name.options.get("size") == "full" or run.record.source:
        return ""
    return run.record.provenance or "unknown"


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
        return "full" if self.group.setting["size"] == "full" else "1000"

    def by(self, metric: str) -> list[ModelScores]:
        """Return one row per model and adaptation, without runs of a fixed budget."""
        return [row for row in _rows(self.group.results, metric) if not row.budget]

    @cached_property
    def scores(self) -> list[ModelScores]:
        """Return one row per model and adaptation."""
        return self.by("top1")

    @cached_property
    def rows(self) -> list[ModelScores]:
        """Return the rows that have all tasks, best mean first."""
        return complete(self.scores)

    @cached_property
    def budgets(self) -> list[ModelScores]:
        """Return one row per model, adaptation and fixed budget (Figures 6, 19 and 20)."""
        rows = [row for row in _rows(self.group.results, "top1") if row.budget]
        return sorted(rows, key=lambda row: (row.model, row.adaptation, row.budget))

    @cached_property
    def names(self) -> dict[str, str]:
        """Return the name of each row by its key."""
        return row_names([*self.scores, *self.budgets], self.material.names)


def vtab_settings(material: Material) -> list[Setting]:
    """Return the settings of the results of VTAB: all tasks, and fine-tuning with training from scratch."""
    own = [result for result in material.results if result.cell.benchmark == "vtab"]
    groups = comparable(own, axes=("dataset", "adaptation", "budget", "sweep"), place=_place)
    roots = [str(group.differs.get("root")) for group in groups]
    found = []
    for group in groups:
        differs = {k: _short_path(str(v), roots) if v and k == "root" else v for k, v in group.differs.items()}
        found.append(Setting(material, replace(group, differs=differs)))
    return found


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


def reference_tasks(rows: Sequence[ModelScores]) -> list[str]:
    """Return the tasks of the row that has most of them, in the order of the paper, other tasks last."""
    most = max(rows, key=lambda row: len(row.summaries), default=None)
    infos = most.tasks if most else {}
    return sorted(infos, key=lambda task: infos[task].order)


def complete(rows: Sequence[ModelScores]) -> list[ModelScores]:
    """Return the rows of one setting that have all tasks of `reference_tasks`, best mean first."""
    tasks = reference_tasks(rows)
    whole = [row for row in rows if all(task in row.summaries for task in tasks)]
    return sorted(whole, key=lambda row: -row.average(tasks))


def shared_tasks(rows: Sequence[ModelScores]) -> list[str]:
    """Return the tasks that all rows have, in the order of the first: means compare only over these."""
    return [task for task in rows[0].summaries if all(task in row.summaries for row in rows)] if rows else []


def score_matrix(rows: Sequence[ModelScores]) -> tuple[list[TaskInfo], FloatArray]:
    """Return the tasks that all rows have, and the scores in percent, (rows, tasks), as aggregations take them."""
    tasks = shared_tasks(rows)
    scores = np.array([[100 * row.medians[task] for task in tasks] for row in rows], np.float64)
    return [rows[0].tasks[task] for task in tasks], scores


# ---- the numbers of figures ------------------------------------------------------------------------------------------


def kind_means(rows: Sequence[ModelScores], size: Size) -> list[dict[str, str | float]]:
    """Return the mean over methods per kind of method and group of tasks, with one deviation (Figure 2).

    Args:
        rows: of one setting; a user's rows are kinds of their own, and all kinds are over the tasks that these share.
    """
    published = published_scores("lightweight", size)
    own = [row for row in rows if not row.source]
    kinds = {kind: [row for row in published if _method(row) in methods] for kind, methods in method_kinds().items()}
    for row in own:
        kinds.setdefault(f"yours, {row.way}", []).append(row)
    tasks = shared_tasks([*published, *own])
    found: list[dict[str, str | float]] = []
    for kind, group in product(kinds, GROUPS):
        if some := [task for task in tasks if published[0].tasks[task].group == group]:
            means = [row.average(some) for row in kinds[kind]]
            mean, spread = float(np.mean(means)), float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
            limits = {"low": mean - spread, "high": mean + spread}
            found.append({"kind": kind, "group": group, "value": mean, **limits, "methods": len(means)})
    return found


def _method(row: ModelScores) -> str:
    """Return the name of a published method."""
    return row.model.removeprefix(PUBLISHED_SCHEME)


def differences(first: ModelScores, second: ModelScores) -> dict[TaskInfo, float]:
    """Return the difference of two rows by task, in points, largest first (Figure 4)."""
    other = second.medians
    found = {first.tasks[t]: 100 * (value - other[t]) for t, value in first.medians.items() if t in other}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def pairs(rows: Sequence[ModelScores]) -> list[tuple[ModelScores, ModelScores]]:
    """Return the pairs of Figure 4: of the published methods those of [P]; else the best row and a reference.

    The reference has random weights, or is the last row.
    """
    if rows and rows[0].source:
        named = {_method(row): row for row in rows}
        return [(named[first], named[second]) for first, second in PAIRS if {first, second} <= set(named)]
    random = (row for row in rows if row.model.startswith("random:") or row.adaptation == "scratch")
    second = next(random, rows[-1]) if rows else None
    return [(rows[0], second)] if second and second is not rows[0] else []


def sweep_gains(settings: Sequence[Setting]) -> list[tuple[ModelScores, dict[TaskInfo, float]]]:
    """Return the points that the heavyweight search gains over the lightweight sweep, by row and task (Figure 14)."""
    found = []
    for light, heavy in _related(settings, "lightweight", "heavyweight"):
        first = {(row.model, row.adaptation): row for row in light.scores}
        both = [(row, first.get((row.model, row.adaptation))) for row in heavy.scores]
        found += [(row, points) for row, other in both if other and (points := differences(row, other))]
    return found


def linear_taus(settings: Sequence[Setting]) -> list[tuple[int, dict[TaskInfo, float]]]:
    """Return Kendall's tau between linear and fine-tuned scores by task, and the number of models (Figures 5 and 16).

    Settings with fewer than three models are skipped, and so are tasks on which all models are equal.
    """
    found = []
    for linear, tuned in _related(settings, "linear", "lightweight"):
        first = {row.model: row for row in linear.rows}
        rows = [row for row in tuned.rows if row.model in first and row.adaptation == "finetune"]
        others = [first[row.model] for row in rows]
        taus = {
            rows[0].tasks[task]: kendall_tau([row.medians[task] for row in rows], [row.medians[task] for row in others])
            for task in shared_tasks([*rows, *others])
        }
        known = {info: tau for info, tau in taus.items() if tau == tau}
        found += [(len(rows), known)] if len(rows) >= 3 and known else []
    return found


def _related(settings: Sequence[Setting], first: Adaptation, second: Adaptation) -> Iterator[tuple[Setting, Setting]]:
    """Yield settings of two tables that differ only in the options of the ways to adapt a model."""
    for pair in product(settings, settings):
        one, other = (each.group.setting for each in pair)
        names = (set(one) & set(other) | _OF_DATA) - _OF_WAYS
        if (one["table"], other["table"]) == (first, second) and all(one.get(n) == other.get(n) for n in names):
            yield pair


def metric_means(setting: Setting) -> dict[str, dict[str, float]]:
    """Return the mean over tasks by metric and row, of rows that have all tasks (Figure 7)."""
    by_metric = {metric: complete(setting.by(metric)) for metric in METRICS}
    shared = shared_tasks([row for rows in by_metric.values() for row in rows])
    return {m: {row.key: row.average(shared) for row in rows} for m, rows in by_metric.items() if rows and shared}


def metric_agreement(setting: Setting) -> dict[str, float]:
    """Return Kendall's tau of the ranking by each metric with that by top-1 (Appendix D); none for fewer than three."""
    means = metric_means(setting)
    base = means.pop("top1", {})
    shared = {metric: [row for row in base if row in other] for metric, other in means.items()}
    return {
        metric: kendall_tau([base[row] for row in rows], [means[metric][row] for row in rows])
        for metric, rows in shared.items()
        if len(rows) >= 3
    }


def unseen_task_taus(rows: Sequence[ModelScores]) -> dict[TaskInfo, tuple[float, float]]:
    """Return how well all other tasks predict the ranking on a task, and how well the Decathlon's do (Figure 21)."""
    tasks, scores = score_matrix(rows)
    few = [number for number, info in enumerate(tasks) if info.name in DECATHLON]
    taus = zip(left_out_taus(scores).tolist(), left_out_taus(scores, few).tolist(), strict=True)
    return dict(zip(tasks, taus, strict=True))


def searches(setting: Setting) -> dict[tuple[str, str], dict[str, dict[str, Sensitivity]]]:
    """Return hyper-parameters by (model, adaptation) and title of the task, for searches with enough trials."""
    found: dict[tuple[str, str], dict[str, dict[str, Sensitivity]]] = {}
    for result in setting.group.results:
        cell, title = result.cell, task_info(result.cell.dataset).title
        done = [trial for trial in result.sweep if trial.get("state", "complete") == "complete"]
        tasks = found.setdefault((cell.model, VtabParameters.read(cell.parameters).adaptation), {})
        if len(done) >= _FEWEST_TRIALS and title not in tasks:
            try:
                tasks[title] = sensitivities(done)
            except DataError:  # no trial has an accuracy
                continue
    return {key: tasks for key, tasks in found.items() if any(tasks.values())}
