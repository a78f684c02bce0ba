"""What VTAB results say: per task, per group, among the published methods, and about the benchmark itself.

Paper:      Zhai et al., 2019 [P], sections 3.2 to 3.5, Appendices D, E, F, K, M and N
Implements: Figures 2 to 6 and 16, Tables 4 and 5, from a user's results or from the published tables
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from unseen.benchmarks.vtab.published_tables import Size, score_table
from unseen.benchmarks.vtab.suites import TaskInfo, task_info
from unseen.core.errors import DataError, UsageError
from unseen.core.names import Name
from unseen.core.records import Cell, Result
from unseen.metrics import Interval
from unseen.metrics.kendall import kendall_tau
from unseen.metrics.task_means import group_means
from unseen.results import Group, comparable

#: Stands in the setting of runs whose budgets are reported one by one.
_ONE_BY_ONE = "budgets one by one"

#: The published table that an adaptation and sweep compare with.
PUBLISHED: Mapping[tuple[str, str], Literal["lightweight", "heavyweight", "linear"]] = {
    ("linear", "lightweight"): "linear",
    ("finetune", "lightweight"): "lightweight",
    ("finetune", "heavyweight"): "heavyweight",
    ("scratch", "lightweight"): "lightweight",
    ("scratch", "heavyweight"): "heavyweight",
}


@dataclass(frozen=True)
class ModelScores:
    """One model, adapted in one way, on all its tasks.

    Attributes:
        runs: by task name, the metric of every seed, as a fraction.
        size: "1000" or "full".
        setting: what tells it apart from results that it does not compare with, in words; "" where there are none.
    """

    model: str
    adaptation: str
    sweep: str
    size: str
    runs: Mapping[str, tuple[float, ...]]
    tasks: Mapping[str, TaskInfo]
    setting: str = ""

    @property
    def medians(self) -> dict[str, float]:
        """Task to the median over seeds: what [P] reports."""
        return {task: float(np.median(values)) for task, values in self.runs.items()}

    def groups(self) -> dict[str, Interval]:
        """Group means, and "all", with bootstrap intervals over the seeds."""
        return group_means(self.runs, {name: info.group for name, info in self.tasks.items()})


def settings(results: Sequence[Result]) -> list[Group]:
    """Results that may be ranked together: tasks beside one another, and fine-tuning beside training from scratch."""
    own = [result for result in results if result.cell.benchmark == "vtab"]
    return comparable(own, axes=("dataset", "adaptation", "budget"), place=_place)


def _place(cell: Cell) -> Mapping[str, Any]:
    name, p = Name.parse(cell.dataset), cell.parameters
    task = name.without("size", "root") if name.scheme == "vtab" else name
    found = {"dataset": str(task), "table": PUBLISHED[p["adaptation"], p["sweep"]], "size": "1000"}
    found |= {option: value for option, value in name.options.items() if option not in task.options}
    return found | ({_ONE_BY_ONE: True} if "budget" in p else {})


def model_scores(results: Sequence[Result], metric: str = "top1") -> list[ModelScores]:
    """One per setting, model and adaptation; runs with a fixed budget are for `budget_curves`."""
    return [scores for group in settings(results) for scores in group_scores(group, metric)]


def group_scores(group: Group, metric: str = "top1") -> list[ModelScores]:
    """The scores of one setting."""
    if _ONE_BY_ONE in group.setting:
        return []
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    infos: dict[str, TaskInfo] = {}
    for result in group.results:
        if metric in result.metrics:
            info = infos.setdefault(result.cell.dataset, task_info(result.cell.dataset))
            key = (result.cell.model, str(result.cell.parameters["adaptation"]))
            found.setdefault(key, {}).setdefault(info.name, []).append(float(result.metrics[metric]))
    tasks = {info.name: info for info in infos.values()}
    return [
        ModelScores(
            model,
            adaptation,
            str(group.setting["sweep"]),
            str(group.setting["size"]),
            runs={task: tuple(values) for task, values in runs.items()},
            tasks={task: tasks[task] for task in runs},
            setting=group.words,
        )
        for (model, adaptation), runs in found.items()
    ]


def by_setting(own: Sequence[ModelScores]) -> list[list[ModelScores]]:
    """The models of each setting: only they may be ranked together."""
    found: dict[tuple[str, str, str], list[ModelScores]] = {}
    for scores in own:
        found.setdefault((scores.setting, scores.size, PUBLISHED[scores.adaptation, scores.sweep]), []).append(scores)
    return list(found.values())


def ranked(own: Sequence[ModelScores]) -> list[tuple[ModelScores, int]]:
    """Models with the number of tasks that they lack of those that any in their setting has, setting by setting.

    Whole ones come first, best mean first: a mean over fewer tasks does not compare with one over all of them.
    """
    found = []
    for models in by_setting(own):
        tasks = {task for scores in models for task in scores.runs}
        lacking = [(scores, len(tasks) - len(scores.runs)) for scores in models]
        found += sorted(lacking, key=lambda pair: (pair[1], -pair[0].groups()["all"].value))
    return found


@dataclass(frozen=True)
class Standing:
    """A row of a table of methods, best mean first.

    Attributes:
        scores: by task, in percent.
        mean: over the tasks that all rows have.
        own: whether it is a user's model.
    """

    method: str
    scores: Mapping[str, float]
    mean: float
    own: bool


@dataclass(frozen=True)
class Comparison:
    """The models of one setting among the published methods.

    Attributes:
        setting: what tells it apart from the other comparisons; "" where it is the only one.
        table: which of the published tables, "lightweight", "heavyweight" or "linear", of which `size`.
        rows: empty where none of the tasks is in that table; then `note` says so.
    """

    setting: str
    table: str
    size: Size
    rows: Sequence[Standing]
    note: str = ""


def comparisons(own: Sequence[ModelScores], *, table: str = "", size: Size | None = None) -> list[Comparison]:
    """Every setting apart, each among the published methods that it compares with.

    Args:
        table: the published table for all; by default that of each setting.
        size: only results of this size; by default all.

    Raises:
        DataError: there is nothing to compare.
    """
    if not (chosen := [scores for scores in own if size in (None, scores.size)]):
        raise DataError("there are no VTAB results to compare. Make some with: unseen vtab run")
    found: list[Comparison] = []
    for models in by_setting(chosen):
        kind = table or PUBLISHED[models[0].adaptation, models[0].sweep]
        of_size: Size = "full" if models[0].size == "full" else "1000"
        try:
            found.append(Comparison(models[0].setting, kind, of_size, standings(models, adaptation=kind, size=of_size)))
        except DataError as error:
            found.append(Comparison(models[0].setting, kind, of_size, (), str(error)))
    return found


def standings(own: Sequence[ModelScores], *, adaptation: str = "", size: Size = "1000") -> list[Standing]:
    """User's models among the published methods, on the tasks that all of them have.

    Args:
        own: models of one setting.
        adaptation: the published table: "lightweight", "heavyweight" or "linear"; by default that of the first model.

    Raises:
        DataError: no task of the user's is in the published tables.
        UsageError: models of several settings, which do not compare: see `comparisons`.
    """
    if not own:
        raise DataError("there are no VTAB results to compare. Make some with: unseen vtab run")
    if len(several := list(dict.fromkeys(scores.setting for scores in own))) > 1:
        told = "; ".join(f"({number}) {words}" for number, words in enumerate(several, 1))
        raise UsageError(f"these are results of {len(several)} settings, which do not compare: {told}.")
    kind = adaptation or PUBLISHED[own[0].adaptation, own[0].sweep]
    table = score_table(kind, size)
    shared = [task for task in table.tasks if all(task in scores.runs for scores in own)]
    if not shared:
        have = sorted({task for scores in own for task in scores.runs})
        raise DataError(
            f"none of these tasks is in the paper's tables: {', '.join(have)}. The published methods were never run on "
            "the embedded tasks; run some of VTAB's own (unseen vtab check tells which data you have)."
        )
    rows = []
    for method, values in zip(table.methods, table.among(shared), strict=True):
        rows.append(Standing(method, dict(zip(shared, values.tolist(), strict=True)), float(values.mean()), own=False))
    ways = {scores.adaptation for scores in own}
    for scores in own:
        percent = {task: 100 * scores.medians[task] for task in shared}
        name = f"{scores.model} ({scores.adaptation})" if len(ways) > 1 else scores.model
        rows.append(Standing(name, percent, float(np.mean(list(percent.values()))), own=True))
    return sorted(rows, key=lambda row: -row.mean)


def linear_against_finetuning(size: Size = "1000") -> dict[str, float]:
    """Task to Kendall's tau between the published linear and fine-tuning scores (Figures 5 and 16)."""
    tuned, linear = score_table("lightweight", size), score_table("linear", size)
    shared = [method for method in linear.methods if method in tuned.methods]
    return {
        task: kendall_tau([tuned.row(m)[k] for m in shared], [linear.row(m)[k] for m in shared])
        for k, task in enumerate(tuned.tasks)
    }


def pair_differences(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    """Task to the difference of two methods' scores, largest first (Figure 4)."""
    shared = [task for task in first if task in second]
    return dict(sorted(((task, first[task] - second[task]) for task in shared), key=lambda item: -item[1]))


def budget_curves(results: Sequence[Result]) -> list[dict[str, Any]]:
    """One row per setting, model, adaptation and budget: the mean over tasks of the median top-1 (Figure 6)."""
    found = []
    for group in settings(results):
        runs: dict[tuple[str, str, int], dict[str, list[float]]] = {}
        for result in group.results:
            if budget := result.cell.parameters.get("budget"):
                key = (result.cell.model, str(result.cell.parameters["adaptation"]), int(budget))
                runs.setdefault(key, {}).setdefault(result.cell.dataset, []).append(result.metrics["top1"])
        found += [
            {
                "model": model,
                "adaptation": adaptation,
                "steps": budget,
                "tasks": len(tasks),
                "top1": float(np.mean([np.median(values) for values in tasks.values()])),
                "setting": group.words,
            }
            for (model, adaptation, budget), tasks in sorted(runs.items())
        ]
    return found


def metric_agreement(group: Group) -> dict[str, float]:
    """Metric to Kendall's tau of its ranking of models with that by top-1 (Appendix D); empty for fewer than three."""
    found = {}
    base = {(scores.model, scores.adaptation): scores for scores in group_scores(group, "top1")}
    for metric in ("mean_per_class", "kappa"):
        other = {(scores.model, scores.adaptation): scores for scores in group_scores(group, metric)}
        shared = [model for model in base if model in other]
        if len(shared) >= 3:
            means = [[float(np.mean(list(s[m].medians.values()))) for m in shared] for s in (base, other)]
            found[metric] = kendall_tau(*means)
    return found


def full_table(own: Sequence[ModelScores]) -> tuple[list[str], list[str], np.ndarray[Any, np.dtype[np.float64]]]:
    """Models, tasks that all of them have, and their scores in percent: what aggregations take."""
    shared = [task for task in own[0].runs if all(task in scores.runs for scores in own)] if own else []
    table = np.array([[100 * scores.medians[task] for task in shared] for scores in own], np.float64)
    return [scores.model for scores in own], shared, table
