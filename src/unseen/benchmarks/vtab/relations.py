"""What the figures of VTAB relate: kinds of methods, pairs, sweeps, linear and fine-tuned, budgets, metrics, suites.

Paper:      Zhai et al., 2019 [P], sections 3.2 to 3.5, Appendices D, G, J, K, M and N
Implements: Figures 2, 4 to 7, 14 to 16 and 19 to 21, from a user's results and from the published tables
Differs:    Figure 21 sets VTAB against the Visual Decathlon, whose scores are not printed; here it is set against the
            four tasks that the two share
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from unseen.benchmarks.vtab.analysis import ModelScores, group_scores, settings, shared_tasks
from unseen.benchmarks.vtab.published_tables import GROUPS, KINDS, Adaptation, Size, score_table
from unseen.benchmarks.vtab.suites import TaskInfo, task_info
from unseen.core.records import Result
from unseen.data.sources.vtab.tasks import vtab_tasks
from unseen.metrics.kendall import kendall_tau
from unseen.metrics.subsets import left_out_taus
from unseen.results import Group

#: The pairs of methods of Figures 4 and 15.
PAIRS = (("Sup-100%", "From-Scratch"), ("Sup-Rot-100%", "Sup-100%"))
#: Tasks of VTAB that the Visual Decathlon has too.
DECATHLON = ("cifar100", "dtd", "flowers102", "svhn")
METRICS: Mapping[str, str] = {
    "top1": "top-1 accuracy",
    "mean_per_class": "mean per-class accuracy",
    "kappa": "quadratic kappa",
}
#: What may differ between results of two ways to adapt a model: the options of the ways themselves.
_OF_WAYS = frozenset(
    {"adaptation", "table", "sweep", "trials", "longest", "learning_rates", "steps", "batch_size", "micro_batch"}
)
#: What must be equal even where one of two settings does not name it.
_OF_DATA = frozenset({"size", "root", "source", "data", "weights"})


def kind_rows(size: Size, own: Sequence[ModelScores] = ()) -> list[dict[str, Any]]:
    """Kind of method and group of tasks to the mean over methods and its deviation over them, in percent (Figure 2).

    Args:
        own: models of one setting; they are kinds of their own, and all kinds are over the tasks that these have.
    """
    table = score_table("lightweight", size)
    tasks = [task for task in shared_tasks(own) if task in table.tasks] if own else list(table.tasks)
    if not tasks:
        return []
    scores = {method: dict(zip(table.tasks, row, strict=True)) for method, row in _rows(table.methods, table.scores)}
    kinds = {kind: [scores[method] for method in methods] for kind, methods in KINDS.items()}
    for model in own:
        kinds.setdefault(f"yours, {model.way}", []).append({t: 100 * v for t, v in model.medians.items()})
    rows = []
    for kind, group in product(kinds, GROUPS):
        some = [task for task in tasks if vtab_tasks()[task].group == group]
        if some:
            means = [float(np.mean([method[task] for task in some])) for method in kinds[kind]]
            spread = float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
            middle = float(np.mean(means))
            rows.append(
                {
                    "kind": kind,
                    "group": group,
                    "mean": middle,
                    "low": middle - spread,
                    "high": middle + spread,
                    "methods": len(means),
                }
            )
    return rows


def pair_differences(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    """Task to the difference of two methods' scores, largest first (Figure 4)."""
    shared = [task for task in first if task in second]
    return dict(sorted(((task, first[task] - second[task]) for task in shared), key=lambda item: -item[1]))


def published_pair(first: str, second: str, table: Adaptation, size: Size) -> dict[str, float]:
    """The same for two published methods."""
    found = score_table(table, size)
    rows = [dict(zip(found.tasks, found.row(method).tolist(), strict=True)) for method in (first, second)]
    return pair_differences(*rows)


def published_sweeps(size: Size) -> dict[str, dict[str, float]]:
    """Method to task to the points that the heavyweight search gains over the lightweight sweep (Figure 14)."""
    heavy, light = score_table("heavyweight", size), score_table("lightweight", size)
    return {
        method: dict(zip(heavy.tasks, (heavy.row(method) - light.row(method)).tolist(), strict=True))
        for method in heavy.methods
    }


def own_sweeps(groups: Sequence[Group]) -> list[tuple[ModelScores, dict[str, float]]]:
    """The same for a user's models that were adapted by both, on the tasks of both."""
    found = []
    for light, heavy in _pairs(groups, ("lightweight", "heavyweight")):
        first = {(s.model, s.adaptation): s for s in group_scores(light)}
        for scores in group_scores(heavy):
            if other := first.get((scores.model, scores.adaptation)):
                gained = pair_differences(scores.medians, other.medians)
                found.append((scores, {task: 100 * value for task, value in gained.items()}))
    return found


def linear_against_finetuning(size: Size = "1000") -> dict[str, float]:
    """Task to Kendall's tau between the published linear and fine-tuning scores (Figures 5 and 16)."""
    tuned, linear = score_table("lightweight", size), score_table("linear", size)
    shared = [method for method in linear.methods if method in tuned.methods]
    return {
        task: kendall_tau([tuned.row(m)[k] for m in shared], [linear.row(m)[k] for m in shared])
        for k, task in enumerate(tuned.tasks)
    }


def own_linear_against_finetuning(groups: Sequence[Group]) -> list[tuple[int, dict[TaskInfo, float]]]:
    """The same for a user's models that were adapted in both ways: how many there are, and task to tau.

    There must be three of them on every task that counts.
    """
    found = []
    for one, other in _pairs(groups, ("linear", "lightweight")):
        linear = {scores.model: scores for scores in group_scores(one)}
        tuned = {scores.model: scores for scores in group_scores(other) if scores.adaptation == "finetune"}
        both = [model for model in linear if model in tuned]
        if len(both) >= 3:
            tasks = shared_tasks([*(linear[m] for m in both), *(tuned[m] for m in both)])
            taus = {
                linear[both[0]].tasks[task]: kendall_tau(
                    [tuned[m].medians[task] for m in both], [linear[m].medians[task] for m in both]
                )
                for task in tasks
            }
            found.append((len(both), {info: tau for info, tau in taus.items() if tau == tau}))
    return found


def budget_rows(group: Group) -> list[dict[str, Any]]:
    """One row per model, adaptation, budget and task: the median top-1 (Figures 19 and 20)."""
    runs: dict[tuple[str, str, int, str], list[float]] = {}
    for result in group.results:
        if budget := result.cell.parameters.get("budget"):
            cell = result.cell
            key = (cell.model, str(cell.parameters["adaptation"]), int(budget), cell.dataset)
            runs.setdefault(key, []).append(result.metrics["top1"])
    infos = {dataset: task_info(dataset) for _, _, _, dataset in runs}
    return [
        {
            "model": model,
            "adaptation": adaptation,
            "steps": budget,
            "task": infos[dataset].title,
            "group": infos[dataset].group,
            "top1": float(np.median(values)),
        }
        for (model, adaptation, budget, dataset), values in sorted(runs.items())
    ]


def budget_curves(results: Sequence[Result]) -> list[dict[str, Any]]:
    """One row per setting, model, adaptation and budget: the mean top-1 over the tasks that all of them have."""
    found = []
    for group in settings(results):
        rows = budget_rows(group)
        points: dict[tuple[str, str, int], dict[str, float]] = {}
        for row in rows:
            points.setdefault((row["model"], row["adaptation"], row["steps"]), {})[row["task"]] = row["top1"]
        shared = [task for task in {r["task"]: 0 for r in rows} if all(task in p for p in points.values())]
        found += [
            {
                "model": model,
                "adaptation": adaptation,
                "steps": steps,
                "tasks": len(shared),
                "top1": float(np.mean([tasks[task] for task in shared])),
                "setting": group.words,
            }
            for (model, adaptation, steps), tasks in points.items()
            if shared
        ]
    return found


def metric_means(group: Group) -> dict[str, dict[tuple[str, str], float]]:
    """Metric to (model, way) to the mean over the tasks that all models have (Figure 7)."""
    by_metric = {metric: group_scores(group, metric) for metric in METRICS}
    shared = shared_tasks([scores for own in by_metric.values() for scores in own])
    return {
        metric: {(s.model, s.way): float(np.mean([s.medians[task] for task in shared])) for s in own}
        for metric, own in by_metric.items()
        if own and shared
    }


def metric_agreement(group: Group) -> dict[str, float]:
    """Metric to Kendall's tau of its ranking of models with that by top-1 (Appendix D); empty for fewer than three."""
    means = metric_means(group)
    base = means.get("top1", {})
    found = {}
    for metric, other in means.items():
        shared = [row for row in base if row in other]
        if metric != "top1" and len(shared) >= 3:
            found[metric] = kendall_tau([base[row] for row in shared], [other[row] for row in shared])
    return found


def unseen_task_taus(size: Size) -> dict[str, tuple[float, float]]:
    """Task to how well all others predict the ranking on it, and how well the Decathlon's do (Figure 21)."""
    table = score_table("lightweight", size)
    few = [table.tasks.index(task) for task in DECATHLON]
    pairs = zip(left_out_taus(table.scores).tolist(), left_out_taus(table.scores, few).tolist(), strict=True)
    return dict(zip(table.tasks, pairs, strict=True))


def _rows(methods: Iterable[str], scores: Any) -> list[tuple[str, list[float]]]:
    return [(method, row.tolist()) for method, row in zip(methods, scores, strict=True)]


def _pairs(groups: Sequence[Group], tables: tuple[str, str]) -> list[tuple[Group, Group]]:
    """Settings of two tables that differ in what belongs to the ways of adapting alone."""

    def alike(one: Group, other: Group) -> bool:
        names = (set(one.setting) & set(other.setting) | _OF_DATA) - _OF_WAYS
        return all(one.setting.get(name) == other.setting.get(name) for name in names)

    def of(table: str) -> list[Group]:
        return [group for group in groups if str(group.setting.get("table")) == table and group_scores(group)]

    return [(one, other) for one, other in product(of(tables[0]), of(tables[1])) if alike(one, other)]
