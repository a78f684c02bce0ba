"""Where models stand on VTAB, with intervals over test images: per task, by group of tasks, over all of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from unseen.benchmarks.vtab.analysis import ModelScores, ranked
from unseen.benchmarks.vtab.suites import task_info
from unseen.reports.blocks import Figure, Material, Standing
from unseen.reports.charts import to_spec, without_legends
from unseen.reports.overview import overview_chart
from unseen.reports.wording import counted, listed, mean_interval
from unseen.results import Group
from unseen.results.grid import interval_of


@dataclass
class Behind:
    """What a task's number comes from: its cells, and its interval over test images, averaged over seeds."""

    cells: list[str] = field(default_factory=list)
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)

    @property
    def bounds(self) -> tuple[float, float] | None:
        if len(self.lows) < len(self.cells) or not self.cells:
            return None
        return statistics.fmean(self.lows), statistics.fmean(self.highs)


def task_cells(group: Group) -> dict[tuple[str, str, str], Behind]:
    """By model, adaptation and task."""
    found: dict[tuple[str, str, str], Behind] = {}
    for result in group.results:
        cell = result.cell
        key = cell.model, str(cell.parameters["adaptation"]), task_info(cell.dataset).name
        own = found.setdefault(key, Behind())
        own.cells.append(cell.id)
        if (ends := interval_of(result, "top1")) is not None:
            own.lows.append(ends[0])
            own.highs.append(ends[1])
    return found


def mean_standings(scores: Sequence[ModelScores], group: Group) -> list[Standing]:
    """Means over all tasks, of the models that have them all; of one way of adapting, where there are several."""
    return _standings(scores, group, lambda tasks: f"Unseen tasks: top-1, mean over {counted(tasks, 'task')}")


def standing_figures(scores: Sequence[ModelScores], group: Group, material: Material) -> list[Figure]:
    """Means by group of tasks as dots with their intervals (Figure 3)."""
    kinds = dict.fromkeys(info.group for s in scores for info in s.tasks.values())
    found = []
    for kind in kinds:
        found += _standings(scores, group, lambda tasks, kind=kind: f"{kind}, {counted(tasks, 'task')}", kind)  # type: ignore[misc]
    found += mean_standings(scores, group) if len(kinds) > 1 else []
    if not found:
        return []
    keys = {model: key for model, key in material.keys.items() if any(s.model == model for s in found)}
    told = listed([f"{keys[s.model].label} {100 * s.value:.1f} % in {s.question}" for s in found], 40)
    return [
        Figure(
            "Means by group of tasks",
            without_legends(to_spec(overview_chart(found, keys))),
            f"Mean top-1 accuracy: {told}.",
            caption="Bars are 95 % intervals over test images.",
            wide=True,
        )
    ]


def _standings(
    scores: Sequence[ModelScores], group: Group, question: Callable[[int], str], kind: str = ""
) -> list[Standing]:
    behind, found = task_cells(group), {}
    for s, lacking in ranked(scores):
        tasks = [task for task, info in s.tasks.items() if not kind or info.group == kind]
        if lacking or not tasks or s.model in found:
            continue
        own = [behind[s.model, s.adaptation, task] for task in tasks]
        value = statistics.fmean(s.medians[task] for task in tasks)
        low, high = mean_interval(value, [each.bounds for each in own], [s.tasks[task].data for task in tasks])
        cells = [cell for each in own for cell in each.cells]
        found[s.model] = Standing(question(len(tasks)), s.model, value, low, high, cells)
    return list(found.values())
