"""VTAB on the page: groups of tasks, every task among the published methods, and how far the ranking can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unseen.benchmarks.vtab.analysis import (
    PUBLISHED,
    ModelScores,
    budget_curves,
    full_table,
    group_scores,
    metric_agreement,
    pair_differences,
    ranked,
    settings,
)
from unseen.benchmarks.vtab.charts import (
    budget_chart,
    difference_chart,
    group_chart,
    sensitivity_chart,
    tau_chart,
    violin_chart,
)
from unseen.benchmarks.vtab.published_tables import score_table
from unseen.benchmarks.vtab.tables import aggregation_table, published_tables, subset_table
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.data.sources.vtab.tasks import vtab_tasks
from unseen.metrics.aggregation import aggregations, tau_matrix
from unseen.metrics.sensitivity import sensitivities
from unseen.reports.blocks import Figure, Material, Section, Table, TableCell
from unseen.reports.charts import to_spec
from unseen.reports.wording import listed, short_names
from unseen.results import Group
from unseen.results.comparability import older_said

_FEWEST_TRIALS = 12


def vtab_section(material: Material, benchmark: str) -> Section | None:
    """The section of VTAB, setting by setting, or None where it has no result to show."""
    groups = settings([r for r in material.results if r.cell.benchmark == benchmark])
    if not groups:
        return None
    short = short_names({r.cell.model for group in groups for r in group.results}, material.cards)
    sizes = dict.fromkeys(str(group.setting["size"]) for group in groups)
    return Section.joined(
        [(group.words, _setting_section(group, short)) for group in groups],
        title="vtab: unseen tasks, with few labels",
        anchor=benchmark,
        prose=[
            "Top-1 accuracy in percent, the median over seeds; intervals are 95 % bootstrap intervals over seeds.",
            "Hyper-parameters were chosen on the validation examples; then the model was adapted anew to all of them.",
            "Test labels were under seal until that was done.",
            older_said(sum(group.older for group in groups)),
        ],
        tables=[table for size in sizes for table in (subset_table(size), aggregation_table(size))],
    )


def _setting_section(group: Group, short: Mapping[str, str]) -> Section:
    """The part of one setting."""
    own = [scores for scores, _ in ranked(group_scores(group))]
    names, size = _names(group.results, short), str(group.setting["size"])
    curves = budget_curves(group.results)
    figures = [_groups(own, names), *_difference(own, names), *_agreement(own, size)] if own else []
    figures += [_budgets(curves, names)] if curves else []
    return Section(
        title="",
        anchor="",
        points=_points(own, metric_agreement(group), names),
        figures=[*figures, *_sensitivity(group.results, names)],
        tables=[_scores(own, names, size), *published_tables(own, size)] if own else [],
    )


def _names(results: Sequence[Result], short: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """(model, adaptation) to a label; the adaptation is named where there are several."""
    ways = {(r.cell.model, str(r.cell.parameters["adaptation"])) for r in results}
    several = len({way for _, way in ways}) > 1
    return {(m, way): f"{short[m]} ({way})" if several else short[m] for m, way in sorted(ways)}


def _groups(own: Sequence[ModelScores], names: Mapping[tuple[str, str], str]) -> Figure:
    rows, told, order = [], [], []
    for scores, lacking in ranked(own):
        name = names[scores.model, scores.adaptation]
        name += f" ({len(scores.runs)} of {len(scores.runs) + lacking} tasks)" if lacking else ""
        order.append(name)
        means = scores.groups()
        for group, mean in means.items():
            if group != "all" or len(means) > 2:
                bounds = {"mean": mean.value, "low": mean.low, "high": mean.high}
                rows.append({"model": scores.model, "name": name, "group": group, **bounds})
        told.append(f"{name} {100 * means['all'].value:.1f} %")
    return Figure(
        title="Means by group of tasks",
        spec=to_spec(group_chart(rows, order)),
        description=f"Mean top-1 accuracy over all tasks: {listed(told)}.",
        caption="Bars are means over the tasks of a group; lines are 95 % bootstrap intervals over seeds.",
    )


def _difference(own: Sequence[ModelScores], names: Mapping[tuple[str, str], str]) -> list[Figure]:
    """The best model against a reference with random weights, or against the last of the list (Figure 4)."""
    if len(own) < 2:
        return []
    first = own[0]
    second = next((s for s in own if s.model.startswith("random:") or s.adaptation == "scratch"), own[-1])
    if second is first:
        return []
    titles = {task: info.title for s in own for task, info in s.tasks.items()}
    groups = {info.title: info.group for s in own for info in s.tasks.values()}
    points = pair_differences(*({t: 100 * v for t, v in s.medians.items()} for s in (first, second)))
    shown = {titles[task]: value for task, value in points.items()}
    label = f"{names[first.model, first.adaptation]} less {names[second.model, second.adaptation]}"
    most = next(iter(shown.items()), ("", 0.0))
    return [
        Figure(
            title="Where the best model gains",
            spec=to_spec(difference_chart(shown, groups, "points of top-1 accuracy")),
            description=f"{label}: most on {most[0]} ({most[1]:+.1f} points).",
            caption=f"{label}, per task.",
        )
    ]


def _agreement(own: Sequence[ModelScores], size: str) -> list[Figure]:
    figures = []
    models, tasks, table = full_table(own)
    if len(models) >= 3 and len(tasks) >= 2:
        infos = [own[0].tasks[task] for task in tasks]
        ways = aggregations([i.data for i in infos], [i.group for i in infos])
        matrix, taus = tau_matrix(table, ways)
        figures.append(_tau_figure("Do other aggregations rank these models alike?", matrix, taus, len(models)))
    rows = vtab_tasks().values()
    printed = score_table("lightweight", size)
    matrix, taus = tau_matrix(printed.scores, aggregations([r.data for r in rows], [r.group for r in rows]))
    figures.append(_tau_figure("The same for the published methods", matrix, taus, len(printed.methods)))
    return figures


def _tau_figure(title: str, names: Sequence[str], taus: Any, count: int) -> Figure:
    least = float(np.nanmin(taus[0]))
    return Figure(
        title=title,
        spec=to_spec(tau_chart(names, taus)),
        description=f"Kendall's tau of {len(names)} rankings of {count} models; with the mean at least {least:.2f}.",
        caption=f"Kendall's tau between rankings of {count} models; 1 is the same order.",
    )


def _budgets(curves: Sequence[Mapping[str, Any]], names: Mapping[tuple[str, str], str]) -> Figure:
    rows = [{**row, "name": names[row["model"], row["adaptation"]]} for row in curves]
    return Figure(
        title="Accuracy under a budget of steps",
        spec=to_spec(budget_chart(rows)),
        description=f"Mean top-1 from {rows[0]['steps']} to {rows[-1]['steps']} steps of training.",
    )


def _sensitivity(results: Sequence[Result], names: Mapping[tuple[str, str], str]) -> list[Figure]:
    """One figure per search that has tried enough to tell."""
    figures, seen = [], set()
    for result in results:
        cell = result.cell
        key = (cell.model, cell.dataset, str(cell.parameters["adaptation"]))
        done = [t for t in result.sweep if t.get("state", "complete") == "complete"]
        if key in seen or len(done) < _FEWEST_TRIALS:
            continue
        seen.add(key)
        try:
            found = sensitivities(done)
        except DataError:
            continue
        task = result.details["task"]["title"]
        figures.append(
            Figure(
                title=f"What matters on {task}: {names[cell.model, key[2]]}",
                spec=to_spec(sensitivity_chart(found)),
                description=listed([f"{n}: best {s.best}" for n, s in found.items()]) + ".",
                caption=f"{len(done)} settings; the best value stands beside its bar.",
            )
        )
        tight = [s for s in found.values() if s.scores and all(len(v) > 1 for v in s.scores.values())]
        if tight:
            least = min(tight, key=lambda s: s.freedom)
            figures.append(
                Figure(
                    title=f"{least.name} on {task}: {names[cell.model, key[2]]}",
                    spec=to_spec(violin_chart(least)),
                    description=f"Validation accuracy by {least.name}; best {least.best}.",
                    caption="The hyper-parameter with the fewest good values, and how all settings did by value.",
                )
            )
    return figures


def _scores(own: Sequence[ModelScores], names: Mapping[tuple[str, str], str], size: str) -> Table:
    """Every task: the user's models, and the published methods on tasks that both have."""
    tasks = list(dict.fromkeys(task for s in own for task in s.runs))
    infos = {task: info for s in own for task, info in s.tasks.items()}
    table = score_table(PUBLISHED[own[0].adaptation, own[0].sweep], size)
    shared = [task for task in tasks if task in table.tasks]
    rows: list[tuple[str, str, dict[str, float], float | None]] = []
    for s, lacking in ranked(own):
        medians = {task: 100 * value for task, value in s.medians.items()}
        note = f"{len(medians)} of {len(tasks)} tasks" if lacking else ""
        mean = None if lacking else float(np.mean(list(medians.values())))
        rows.append((names[s.model, s.adaptation], note, medians, mean))
    if shared and len(shared) == len(tasks):
        for method, values in zip(table.methods, table.among(shared).tolist(), strict=True):
            rows.append((method, "published", dict(zip(shared, values, strict=True)), float(np.mean(values))))
    rows.sort(key=lambda row: -np.inf if row[3] is None else row[3], reverse=True)
    best = {task: max(r[2][task] for r in rows if task in r[2]) for task in tasks}
    entries = [
        [
            TableCell(name, name.lower(), note=note),
            *(_entry(scores.get(task), best[task]) for task in tasks),
            TableCell("–", None, hint="not all tasks") if mean is None else TableCell(f"{mean:.1f}", mean),
        ]
        for name, note, scores, mean in rows
    ]
    kind = PUBLISHED[own[0].adaptation, own[0].sweep]
    caption = "Top-1 accuracy (%)" + (f", among the published methods ({kind}, {size} examples)" if shared else "")
    return Table(
        caption=caption,
        columns=["method", *(infos[task].title for task in tasks), "mean"],
        rows=entries,
        numeric=range(1, len(tasks) + 2),
    )


def _entry(value: float | None, best: float) -> TableCell:
    return TableCell("–", None) if value is None else TableCell(f"{value:.1f}", value, best=value == best)


def _points(
    own: Sequence[ModelScores], agreement: Mapping[str, float], names: Mapping[tuple[str, str], str]
) -> list[tuple[str, str]]:
    points = []
    if own:
        best, mean = own[0], own[0].groups()["all"]  # of those that were run on most tasks
        tasks = len(best.runs)
        points.append(
            (
                f"Best: {names[best.model, best.adaptation]}",
                f"{100 * mean.value:.1f} % over {tasks} tasks [{100 * mean.low:.1f}, {100 * mean.high:.1f}].",
            )
        )
    for metric, tau in agreement.items():
        spoken = {"mean_per_class": "mean per-class accuracy", "kappa": "quadratic kappa"}[metric]
        points.append((f"By {spoken}", f"the models rank with Kendall's tau {tau:.2f} to the ranking by top-1."))
    return points
