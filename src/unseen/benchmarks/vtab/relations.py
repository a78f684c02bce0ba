"""What the figures of VTAB relate: kinds of methods, pairs, sweeps, linear and fine-tuned, budgets, metrics, suites.

Paper:      Zhai et al., 2019 [P], sections 3.2 to 3.5, Appendices D, G, J, K, M and N
Implements: Figures 2, 4 to 7, 14 to 16 and 19 to 21, from a user's results and from the published tables
Differs:    Figure 21 sets VTAB against the Visual Decathlon, whose scores are not printed; here it is set against the
            four tasks that the two share
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from unseen.benchmarks.vtab.analysis import (
    ModelScores,
    complete,
    group_scores,
    published_scores,
    settings,
    shared_tasks,
)
from unseen.benchmarks.vtab.details import VtabParameters
from unseen.benchmarks.vtab.published_tables import GROUPS, KINDS, PUBLISHED_SCHEME, Adaptation, Size, score_table
from unseen.benchmarks.vtab.suites import TaskInfo, task_info
from unseen.core.records import Result
from unseen.data.sources.vtab.tasks import vtab_tasks
from unseen.metrics.subsets import left_out_taus
from unseen.results import Group
from unseen.stats import kendall_tau

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
    """Return the mean over methods per kind of method and group of tasks, and its deviation, in percent (Figure 2).

    Args:
        own: rows of one setting; they are kinds of their own, and all kinds are over the tasks that these share.
    """
    published = {row_name(row): row for row in published_scores("lightweight", size)}
    tasks = [task for task in shared_tasks(own or list(published.values())) if task in vtab_tasks()]
    kinds = {kind: [published[method] for method in methods] for kind, methods in KINDS.items()}
    for model in own:
        kinds.setdefault(f"yours, {model.way}", []).append(model)
    rows = []
    for kind, group in product(kinds, GROUPS):
        some = [task for task in tasks if vtab_tasks()[task].group == group]
        if some:
            means = [100 * float(np.mean([model.medians[task] for task in some])) for model in kinds[kind]]
            spread = float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
            middle = float(np.mean(means))
            ends = {"low": middle - spread, "high": middle + spread}
            rows.append({"kind": kind, "group": group, "mean": middle, **ends, "methods": len(means)})
    return rows


def row_name(row: ModelScores) -> str:
    """Return the name of a published method."""
    return row.model.removeprefix(PUBLISHED_SCHEME)


def pair_differences(first: ModelScores, second: ModelScores) -> dict[str, float]:
    """Return the difference of two rows by task, in points, largest first (Figure 4)."""
    found = {t: 100 * (v - second.medians[t]) for t, v in first.medians.items() if t in second.medians}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def published_pair(first: str, second: str, table: Adaptation, size: Size) -> dict[str, float]:
    """Return the same for two published methods."""
    rows = {row_name(row): row for row in published_scores(table, size)}
    return pair_differences(rows[first], rows[second])


def sweep_gains(
    light: Sequence[ModelScores], heavy: Sequence[ModelScores]
) -> list[tuple[ModelScores, dict[str, float]]]:
    """Return the points that the heavyweight search gains over the lightweight sweep, by row and task (Figure 14)."""
    first = {(s.model, s.adaptation): s for s in light}
    return [(s, pair_differences(s, other)) for s in heavy if (other := first.get((s.model, s.adaptation)))]


def published_sweeps(size: Size) -> dict[str, dict[str, float]]:
    """Return the same by published method."""
    light, heavy = published_scores("lightweight", size), published_scores("heavyweight", size)
    return {row_name(row): points for row, points in sweep_gains(light, heavy)}


def own_sweeps(groups: Sequence[Group]) -> list[tuple[ModelScores, dict[str, float]]]:
    """Return the same for a user's models that were adapted by both, on the tasks of both."""
    pairs = _pairs(groups, ("lightweight", "heavyweight"))
    return [found for light, heavy in pairs for found in sweep_gains(group_scores(light), group_scores(heavy))]


def linear_taus(linear: Sequence[ModelScores], tuned: Sequence[ModelScores]) -> tuple[int, dict[TaskInfo, float]]:
    """Return the number of models in both, and Kendall's tau between their scores by task (Figures 5 and 16)."""
    first = {s.model: s for s in linear}
    both = [(first[s.model], s) for s in tuned if s.model in first and s.adaptation == "finetune"]
    infos = {task: info for one, _ in both for task, info in one.tasks.items()}
    return len(both), {
        infos[task]: kendall_tau([other.medians[task] for _, other in both], [one.medians[task] for one, _ in both])
        for task in shared_tasks([row for pair in both for row in pair])
    }


def linear_against_finetuning(size: Size = "1000") -> dict[str, float]:
    """Return the same for the published methods, by name of the task."""
    _, taus = linear_taus(published_scores("linear", size), published_scores("lightweight", size))
    return {info.name: tau for info, tau in taus.items()}


def own_linear_against_finetuning(groups: Sequence[Group]) -> list[tuple[int, dict[TaskInfo, float]]]:
    """Return the same for a user's models, if there are three or more; without tasks where all models are equal."""
    pairs = _pairs(groups, ("linear", "lightweight"))
    found = [linear_taus(complete(group_scores(one)), complete(group_scores(other))) for one, other in pairs]
    return [(count, {info: tau for info, tau in taus.items() if tau == tau}) for count, taus in found if count >= 3]


def budget_rows(group: Group) -> list[dict[str, Any]]:
    """One row per model, adaptation, budget and task: the median top-1 (Figures 19 and 20)."""
    runs: dict[tuple[str, str, int, str], list[float]] = {}
    for result in group.results:
        cell, p = result.cell, VtabParameters.read(result.cell.parameters)
        if p.budget:
            key = (cell.model, p.adaptation, p.budget, cell.dataset)
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
    """Return the mean over tasks by metric and (model, way), of models that have all tasks (Figure 7)."""
    by_metric = {metric: complete(group_scores(group, metric)) for metric in METRICS}
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


def _pairs(groups: Sequence[Group], tables: tuple[str, str]) -> list[tuple[Group, Group]]:
    """Settings of two tables that differ in what belongs to the ways of adapting alone."""

    def alike(one: Group, other: Group) -> bool:
        names = (set(one.setting) & set(other.setting) | _OF_DATA) - _OF_WAYS
        return all(one.setting.get(name) == other.setting.get(name) for name in names)

    def of(table: str) -> list[Group]:
        return [group for group in groups if str(group.setting.get("table")) == table and group_scores(group)]

    return [(one, other) for one, other in product(of(tables[0]), of(tables[1])) if alike(one, other)]
