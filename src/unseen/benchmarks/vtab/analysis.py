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
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.data.sources.vtab.tasks import vtab_tasks
from unseen.metrics import Interval
from unseen.metrics.kendall import kendall_tau
from unseen.metrics.task_means import group_means

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
    """

    model: str
    adaptation: str
    sweep: str
    size: str
    runs: Mapping[str, tuple[float, ...]]
    tasks: Mapping[str, TaskInfo]

    @property
    def medians(self) -> dict[str, float]:
        """Task to the median over seeds: what [P] reports."""
        return {task: float(np.median(values)) for task, values in self.runs.items()}

    def groups(self) -> dict[str, Interval]:
        """Group means, and "all", with bootstrap intervals over the seeds."""
        return group_means(self.runs, {name: info.group for name, info in self.tasks.items()})


def model_scores(results: Sequence[Result], metric: str = "top1") -> list[ModelScores]:
    """Results, grouped by model, adaptation, sweep and size; runs with a fixed budget are left out."""
    found: dict[tuple[str, str, str, str], dict[str, dict[Any, float]]] = {}
    infos: dict[str, TaskInfo] = {}
    for result in results:
        cell = result.cell
        if cell.benchmark != "vtab" or not result.ok or metric not in result.metrics or "budget" in cell.parameters:
            continue
        info = task_info(cell.dataset)
        infos[info.name] = info
        size = "full" if "size=full" in cell.dataset else "1000"
        key = (cell.model, str(cell.parameters["adaptation"]), str(cell.parameters["sweep"]), size)
        found.setdefault(key, {}).setdefault(info.name, {})[cell.parameters["seed"]] = float(result.metrics[metric])
    return [
        ModelScores(
            *key,
            runs={task: tuple(by_seed.values()) for task, by_seed in runs.items()},
            tasks={task: infos[task] for task in runs},
        )
        for key, runs in found.items()
    ]


def ranked(own: Sequence[ModelScores]) -> list[tuple[ModelScores, int]]:
    """Models with the number of tasks that they lack of those that any of them has; whole ones first, best mean first.

    A mean over fewer tasks does not compare with one over all of them.
    """
    tasks = {task for scores in own for task in scores.runs}
    lacking = [(scores, len(tasks) - len(scores.runs)) for scores in own]
    return sorted(lacking, key=lambda pair: (pair[1], -pair[0].groups()["all"].value))


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


def standings(own: Sequence[ModelScores], *, adaptation: str = "", size: Size = "1000") -> list[Standing]:
    """User's models among the published methods, on the tasks that all of them have.

    Args:
        adaptation: the published table: "lightweight", "heavyweight" or "linear"; by default that of the first model.

    Raises:
        DataError: no task of the user's is in the published tables.
    """
    if not own:
        raise DataError("there are no VTAB results to compare. Make some with: unseen vtab run")
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
    for scores in own:
        percent = {task: 100 * scores.medians[task] for task in shared}
        rows.append(Standing(scores.model, percent, float(np.mean(list(percent.values()))), own=True))
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


def published_scores(method: str, size: Size = "1000", adaptation: str = "lightweight") -> dict[str, float]:
    """Task to the published score of a method, in percent."""
    table = score_table(adaptation, size)
    return dict(zip(table.tasks, table.row(method).tolist(), strict=True))


def kind_means(size: Size = "1000") -> list[dict[str, Any]]:
    """Mean and standard deviation per kind of method and group of tasks (Figure 2), from Table 6."""
    from unseen.benchmarks.vtab.published_tables import KINDS

    table = score_table("lightweight", size)
    groups = np.array([row.group for row in vtab_tasks().values()])
    found = []
    for kind, methods in KINDS.items():
        for group in dict.fromkeys(groups.tolist()):
            means = [float(table.row(m)[groups == group].mean()) for m in methods]
            spread = float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
            found.append({"kind": kind, "group": group, "mean": float(np.mean(means)), "std": spread})
    return found


def budget_curves(results: Sequence[Result]) -> list[dict[str, Any]]:
    """One row per model, adaptation and budget: the mean over tasks of the median top-1 (Figure 6)."""
    runs: dict[tuple[str, str, int], dict[str, list[float]]] = {}
    for result in results:
        budget = result.cell.parameters.get("budget")
        if result.cell.benchmark == "vtab" and result.ok and budget:
            key = (result.cell.model, str(result.cell.parameters["adaptation"]), int(budget))
            runs.setdefault(key, {}).setdefault(result.cell.dataset, []).append(result.metrics["top1"])
    return [
        {
            "model": model,
            "adaptation": adaptation,
            "steps": budget,
            "tasks": len(tasks),
            "top1": float(np.mean([np.median(values) for values in tasks.values()])),
        }
        for (model, adaptation, budget), tasks in sorted(runs.items())
    ]


def metric_agreement(results: Sequence[Result]) -> dict[str, float]:
    """Metric to Kendall's tau of its ranking of models with that by top-1 (Appendix D); empty for fewer than three."""
    found = {}
    base = {scores.model: scores for scores in model_scores(results, "top1")}
    for metric in ("mean_per_class", "kappa"):
        other = {scores.model: scores for scores in model_scores(results, metric)}
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
