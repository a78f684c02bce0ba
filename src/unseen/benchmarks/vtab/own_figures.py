"""Figures of a user's results on VTAB's tasks, and of how results of one kind relate to those of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from unseen.benchmarks.vtab import charts, relations
from unseen.benchmarks.vtab.analysis import (
    ModelScores,
    complete,
    full_table,
    group_scores,
    reference_tasks,
    row_names,
    settings,
    shared_tasks,
)
from unseen.benchmarks.vtab.details import VtabParameters
from unseen.benchmarks.vtab.info import IMAGENET_BENCHMARK
from unseen.benchmarks.vtab.search_charts import good_values_chart, short, violin_chart
from unseen.benchmarks.vtab.suites import task_info
from unseen.core.errors import DataError
from unseen.core.records import ModelCard, Result
from unseen.metrics.aggregation import aggregations, tau_matrix
from unseen.metrics.sensitivity import Sensitivity, sensitivities
from unseen.reports.blocks import Figure
from unseen.reports.charts import beside, to_spec
from unseen.reports.wording import family, listed, short_names
from unseen.results import Group

_FEWEST_TRIALS = 12
#: The tasks of Figures 12 and 13.
_VIOLINS = ("CIFAR-100", "DMLab")


@dataclass(frozen=True)
class Own:
    """A user's results, as figures take them.

    Attributes:
        results: of all benchmarks; those of VTAB are grouped into settings.
        cards: what is known of the models.
    """

    results: Sequence[Result]
    cards: Mapping[str, ModelCard] = field(default_factory=dict)

    @cached_property
    def groups(self) -> list[Group]:
        return settings(self.results)

    @cached_property
    def scores(self) -> list[ModelScores]:
        return [scores for group in self.groups for scores in group_scores(group)]

    @cached_property
    def short(self) -> dict[str, str]:
        return short_names({result.cell.model for result in self.results}, self.cards)

    @cached_property
    def names(self) -> dict[tuple[str, str], str]:
        """(model, way) to the name of its row."""
        return row_names(self.scores, self.short)

    def of_group(self, group: Group) -> list[ModelScores]:
        """Return the models of a setting that have all tasks, best first."""
        return complete(group_scores(group))

    def name_of(self, model: str, adaptation: str, group: Group) -> str:
        """Return the name of a row of `budget_rows` or of a search, as in `names`."""
        ways = {VtabParameters.read(result.cell.parameters).adaptation for result in group.results}
        return f"{self.short[model]} ({adaptation})" if len(ways) > 1 else self.short[model]


def group_figures(own: Own, group: Group) -> list[Figure]:
    """Means by group of tasks (Figure 3), of models that have the same tasks."""
    if not (scores := own.of_group(group)):
        return []
    left = len(group_scores(group)) - len(scores)
    caption = "Bars are means over the tasks of a group; lines are 95 % confidence intervals over test images."
    caption += f" Not shown: {left} without all of these tasks." if left else ""
    return [group_figure("Means by group of tasks", scores, own.names, caption)]


def group_figure(
    title: str, scores: Sequence[ModelScores], names: Mapping[tuple[str, str], str], caption: str
) -> Figure:
    """Return the means by group of tasks of rows with the same tasks, best first."""
    tasks, infos = reference_tasks(scores), scores[0].tasks
    groups = {infos[task].group: [t for t in tasks if infos[t].group == infos[task].group] for task in tasks}
    parts = {**groups, "all": tasks} if len(groups) > 1 else groups
    rows, told = [], []
    for model in scores:
        name = names[model.model, model.way]
        for part, some in parts.items():
            mean = model.mean(some).interval
            assert mean is not None
            bounds = {"mean": mean.value, "low": mean.low, "high": mean.high}
            rows.append({"model": model.model, "name": name, "group": part, **bounds})
        told.append(f"{name} {100 * rows[-1]['mean']:.1f} %")  # type: ignore[operator]
    order = list(dict.fromkeys(str(row["name"]) for row in rows))
    described = f"Mean top-1 accuracy over all tasks: {listed(told)}."
    return Figure(title, to_spec(charts.group_chart(rows, order)), described, caption, wide=True)


def kind_figures(own: Own, group: Group) -> list[Figure]:
    """A setting's models as kinds of their own among the kinds of published methods (Figure 2)."""
    scores = own.of_group(group)
    rows = relations.kind_rows("full" if group.setting["size"] == "full" else "1000", scores)
    if not rows or not scores:
        return []
    tasks = [task for task in shared_tasks(scores) if scores[0].tasks[task].published]
    return [
        Figure(
            title="Your models among the kinds of published methods",
            spec=to_spec(charts.kind_chart(rows)),
            description=f"Means over {len(tasks)} tasks by kind of method and group of tasks.",
            caption=f"Published methods were fine-tuned, lightweight. Means over the {len(tasks)} tasks that all have; "
            "lines are one standard deviation over the methods of a kind.",
        )
    ]


def pair_figures(own: Own, group: Group) -> list[Figure]:
    """The best model less a reference with random weights, or less the last of the list (Figure 4)."""
    scores = own.of_group(group)
    if len(scores) < 2:
        return []
    first = scores[0]
    second = next((s for s in scores if s.model.startswith("random:") or s.adaptation == "scratch"), scores[-1])
    if second is first:
        return []
    points = relations.pair_differences(first, second)
    label = f"{own.names[first.model, first.way]} less {own.names[second.model, second.way]}"
    return [_task_figure("Where the best model gains", label, points, scores, "points of top-1 accuracy")]


def agreement_figures(own: Own, group: Group) -> list[Figure]:
    """Kendall's tau between ways to aggregate (Table 4, and the rest of its matrix)."""
    scores = own.of_group(group)
    models, tasks, table = full_table(scores)
    if len(models) < 3 or len(tasks) < 2:
        return []
    infos = [scores[0].tasks[task] for task in tasks]
    names, taus = tau_matrix(table, aggregations([i.data for i in infos], [i.group for i in infos]))
    if np.isnan(taus[0, 1:]).all():  # all models are equal
        return []
    return [
        Figure(
            title="Do other aggregations rank these models alike?",
            spec=to_spec(charts.tau_chart(names, taus)),
            description=f"Kendall's tau of {len(names)} rankings of {len(models)} models; with the mean at least "
            f"{float(np.nanmin(taus[0])):.2f}.",
            caption=f"Kendall's tau between rankings of {len(models)} models; 1 is the same order.",
        )
    ]


def metric_figures(own: Own, group: Group) -> list[Figure]:
    """Models in the order of each metric (Figure 7)."""
    means = relations.metric_means(group)
    if len(means) < 2 or len(next(iter(means.values()))) < 2:
        return []
    panels = [
        charts.metric_chart({own.names[row]: value for row, value in rows.items()}, relations.METRICS[metric])
        for metric, rows in means.items()
    ]
    taus = relations.metric_agreement(group)
    told = [f"{relations.METRICS[metric]} {tau:.2f}" for metric, tau in taus.items()]
    return [
        Figure(
            title="Models in the order of each metric",
            spec=beside([to_spec(panel) for panel in panels], columns=3),
            description="Means over the tasks that all models have, sorted by each metric.",
            caption=f"Kendall's tau with the ranking by top-1: {listed(told)}." if told else "",
            wide=True,
        )
    ]


def budget_figures(own: Own, group: Group, *, by_task: bool = False) -> list[Figure]:
    """Accuracy under a budget of steps: the mean over tasks (Figure 6), or task by task (Figures 19 and 20)."""
    rows = relations.budget_rows(group) if by_task else relations.budget_curves(group.results)
    if not rows:
        return []
    named = [{**row, "name": own.name_of(row["model"], row["adaptation"], group)} for row in rows]
    steps = [row["steps"] for row in rows]
    tasks = len({row["task"] for row in rows}) if by_task else rows[0]["tasks"]
    return [
        Figure(
            title="Accuracy under a budget of steps" + (", task by task" if by_task else ""),
            spec=to_spec(charts.budget_chart(named, by_task=by_task)),
            description=f"Top-1 from {min(steps)} to {max(steps)} steps of training, {tasks} tasks.",
            caption="" if by_task else f"Means over the {tasks} tasks that all of them have.",
            wide=by_task,
        )
    ]


def good_value_figures(own: Own, group: Group) -> list[Figure]:
    """Which values of the hyper-parameters are good, task by task (Figures 8 to 11), one figure per model."""
    figures = []
    for (model, adaptation), by_task in _searches(group).items():
        names = dict.fromkeys(name for found in by_task.values() for name in found)
        panels = [
            good_values_chart(name, {task: found[name] for task, found in by_task.items() if name in found})
            for name in names
        ]
        freedom = {
            name: float(np.mean([found[name].freedom for found in by_task.values() if name in found])) for name in names
        }
        tightest = min(freedom, key=lambda name: freedom[name])
        figures.append(
            Figure(
                title=f"Good values: {own.name_of(model, adaptation, group)}",
                spec=beside([to_spec(panel) for panel in panels], columns=4),
                description=f"Values within two points of the best for {len(names)} hyper-parameters, "
                f"{len(by_task)} tasks; fewest are good for {tightest}.",
                caption="Green: values of settings within two points of the best of the task; red: the best.",
                wide=True,
            )
        )
    return figures


def violin_figures(own: Own, group: Group) -> list[Figure]:
    """How all settings of a search did, by value of each hyper-parameter (Figures 12 and 13), per model.

    Of more than two tasks, those of the paper are shown, or the first two.
    """
    figures = []
    for (model, adaptation), by_task in _searches(group).items():
        usual = [task for task in _VIOLINS if task in by_task]
        for task in list(by_task) if len(by_task) <= 2 else usual or list(by_task)[:2]:
            found = by_task[task]
            panels = [violin_chart(s) for s in found.values() if len(s.scores or s.binned) > 1]
            if panels:
                figures.append(
                    Figure(
                        title=f"All settings on {task}: {own.name_of(model, adaptation, group)}",
                        spec=beside([to_spec(panel) for panel in panels], columns=3),
                        description=f"Validation accuracy of all settings by value of {len(panels)} hyper-parameters. "
                        f"Best: {listed([f'{name} {short(s.best)}' for name, s in found.items()])}.",
                        caption="Mirrored densities of validation accuracy, by value or by range of values.",
                        wide=True,
                    )
                )
    return figures


def linear_figures(own: Own) -> list[Figure]:
    """Kendall's tau between own linear and own fine-tuning scores, per task (Figure 5)."""
    figures = []
    for count, taus in relations.own_linear_against_finetuning(own.groups):
        if taus:
            ordered = dict(sorted(((i.title, tau) for i, tau in taus.items()), key=lambda item: -item[1]))
            chart = charts.task_chart(ordered, {i.title: i.group for i in taus}, "Kendall's tau", spec=".2f")
            figures.append(
                Figure(
                    title="Does linear evaluation rank your models as fine-tuning does?",
                    spec=to_spec(chart),
                    description=f"Kendall's tau of {count} models per task, {len(taus)} tasks.",
                    caption=f"Kendall's tau between the rankings of the same {count} models; tasks where one of the "
                    "two gives all models the same score are not shown.",
                )
            )
    return figures


def sweep_figures(own: Own) -> list[Figure]:
    """What the heavyweight search gained over the lightweight sweep, per task (Figure 14)."""
    return [
        _task_figure(
            "What the heavyweight search gains",
            f"{own.short[scores.model]}, heavyweight less lightweight ({scores.adaptation})",
            points,
            [scores],
            "points of top-1 accuracy",
        )
        for scores, points in relations.own_sweeps(own.groups)
        if points
    ]


def scale_figures(own: Own) -> list[Figure]:
    """Scores over the number of parameters: means over VTAB's tasks (Figure 17), and ImageNet (Figure 18)."""
    figures = []
    for group in own.groups:
        whole, said = own.of_group(group), f" · {group.words}" if group.words else ""
        tasks = reference_tasks(whole)
        trained = [scores for scores in whole if scores.adaptation != "scratch"]
        means = {s.model: float(np.mean([s.medians[task] for task in tasks])) for s in trained}
        figures += _scaled(own, means, f"Larger models{said}", f"mean top-1 over {len(tasks)} tasks")
    found: dict[str, list[float]] = {}
    for result in own.results:
        if result.ok and result.cell.benchmark == IMAGENET_BENCHMARK and result.cell.dataset.startswith("imagenet:"):
            found.setdefault(result.cell.model, []).append(float(result.metrics["top1"]))
    tops = {model: float(np.median(values)) for model, values in found.items()}
    return figures + _scaled(own, tops, "Larger models on ImageNet", "top-1 on ImageNet")


def _scaled(own: Own, scores: Mapping[str, float], title: str, axis: str) -> list[Figure]:
    rows: list[dict[str, Any]] = [
        {
            "name": own.short[model],
            "family": family(model, own.cards),
            "parameters": card.parameters / 1e6,
            "width": card.feature_dim or 1,
            "score": score,
        }
        for model, score in scores.items()
        if (card := own.cards.get(model)) and card.parameters
    ]
    if len(rows) < 2:
        return []
    best = max(rows, key=lambda row: float(row["score"]))
    return [
        Figure(
            title=title,
            spec=to_spec(charts.scale_chart(rows, axis)),
            description=f"{len(rows)} models by number of parameters; best {best['name']}.",
            caption="Colour is the family, size the width of the features.",
        )
    ]


def _task_figure(
    title: str, label: str, points: Mapping[str, float], scores: Sequence[ModelScores], axis: str
) -> Figure:
    infos = {task: info for each in scores for task, info in each.tasks.items()}
    ordered = dict(sorted(points.items(), key=lambda item: -item[1]))
    shown = {infos[task].title: value for task, value in ordered.items()}
    most = next(iter(shown.items()), ("", 0.0))
    return Figure(
        title=title,
        spec=to_spec(charts.task_chart(shown, {info.title: info.group for info in infos.values()}, axis)),
        description=f"{label}: most on {most[0]} ({most[1]:+.1f} points).",
        caption=f"{label}, per task.",
    )


def _searches(group: Group) -> dict[tuple[str, str], dict[str, dict[str, Sensitivity]]]:
    """(model, adaptation) to task to what its search tells, for searches that have tried enough to tell."""
    found: dict[tuple[str, str], dict[str, dict[str, Sensitivity]]] = {}
    for result in group.results:
        cell = result.cell
        done = [t for t in result.sweep if t.get("state", "complete") == "complete"]
        tasks = found.setdefault((cell.model, VtabParameters.read(cell.parameters).adaptation), {})
        title = task_info(cell.dataset).title if len(done) >= _FEWEST_TRIALS else ""
        if title and title not in tasks:
            try:
                tasks[title] = sensitivities(done)
            except DataError:
                continue
    return {key: tasks for key, tasks in found.items() if any(tasks.values())}
