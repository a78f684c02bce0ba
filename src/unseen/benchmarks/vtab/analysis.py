"""VTAB results by model: one row per model and adaptation, which rows compare, and which are complete.

Paper:      Zhai et al., 2019 [P], sections 3.2 to 3.5, Appendices D, E, F, K, M and N
Implements: rows of the user's models and of the published methods, both from `Result` objects; tables are in
            `ranking` and `tables`, figures in `relations` and `figures`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import lcm
from pathlib import PurePath
from typing import Any

import numpy as np

from unseen.benchmarks.vtab.details import VtabParameters
from unseen.benchmarks.vtab.published_tables import PUBLISHED_SCHEME, Adaptation, Size, published_results
from unseen.benchmarks.vtab.suites import TaskInfo, task_info
from unseen.core.names import Name
from unseen.core.records import Cell, Result
from unseen.results import Group, comparable
from unseen.results.grid import Summary, mean_candidate, summary_of
from unseen.stats import Candidate

#: Key of the setting of runs whose budgets are reported one by one.
_REPORTED = "reported"

_WAYS: Mapping[str, str] = {"linear": "linear", "finetune": "fine-tuned", "scratch": "from scratch"}

#: The published table that an adaptation and sweep compare with.
PUBLISHED: Mapping[tuple[str, str], Adaptation] = {
    ("linear", "lightweight"): "linear",
    ("finetune", "lightweight"): "lightweight",
    ("finetune", "heavyweight"): "heavyweight",
    ("scratch", "lightweight"): "lightweight",
    ("scratch", "heavyweight"): "heavyweight",
}


@dataclass(frozen=True, eq=False)
class ModelScores:
    """One model, adapted in one way, on all its tasks.

    Attributes:
        size: "1000" or "full".
        summaries: by task, the metric over seeds with its interval; [P] reports the median.
        setting: what distinguishes it from results that it does not compare with, in words; "" if there are none.
        patches: whether the model received images patch by patch.
        source: where published scores come from; "" for a user's model.
        incomplete: by task, what its data lack, such as "test has 40 of 6,084 images".
    """

    model: str
    adaptation: str
    sweep: str
    size: str
    summaries: Mapping[str, Summary]
    setting: str = ""
    patches: bool = False
    source: str = ""
    incomplete: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> Adaptation:
        """The published table that it compares with."""
        return PUBLISHED[self.adaptation, self.sweep]

    @property
    def way(self) -> str:
        """How the model was adapted, in words."""
        words = [_WAYS[self.adaptation], "heavyweight" if self.sweep == "heavyweight" else ""]
        words += ["by patches" if self.patches else "", "all examples" if self.size == "full" else ""]
        return ", ".join(filter(None, [*words, "published" if self.source else ""]))

    @property
    def tasks(self) -> dict[str, TaskInfo]:
        return {task: task_info(summary.dataset) for task, summary in self.summaries.items()}

    @property
    def runs(self) -> dict[str, tuple[float, ...]]:
        """Task to the metric of every seed, as a fraction."""
        return {task: summary.values for task, summary in self.summaries.items()}

    @property
    def medians(self) -> dict[str, float]:
        """Task to the median over seeds."""
        return {task: summary.value for task, summary in self.summaries.items()}

    def mean(self, tasks: Sequence[str], *, by_group: bool = False) -> Candidate:
        """Return the mean over tasks, or the mean of the means of their groups, for `stats.decide`."""
        infos, parts = [self.tasks[task] for task in tasks], [self.summaries[task] for task in tasks]
        counts = {info.group: sum(other.group == info.group for other in infos) for info in infos}
        weights = [lcm(*counts.values()) // counts[info.group] for info in infos] if by_group else None
        return mean_candidate(parts, [info.data for info in infos], weights)

    def cells(self, tasks: Iterable[str]) -> list[str]:
        """Return the ids of the cells behind the tasks."""
        return [cell for task in tasks for cell in self.summaries[task].cells]


def settings(results: Sequence[Result]) -> list[Group]:
    """Return groups of results that may be ranked together: all tasks, and fine-tuning with training from scratch."""
    own = [result for result in results if result.cell.benchmark == "vtab"]
    groups = comparable(own, axes=("dataset", "adaptation", "budget", "sweep"), place=_place)
    roots = dict.fromkeys(str(group.differs.get("root")) for group in groups)
    return [
        replace(group, differs={**group.differs, "root": _short_path(str(root), roots)})
        if (root := group.differs.get("root"))
        else group
        for group in groups
    ]


def _short_path(path: str, others: Iterable[str]) -> str:
    """Return the last parts of a path, as many as distinguish it from the others."""
    parts, ends = PurePath(path).parts, [PurePath(other).parts for other in others]
    for count in range(1, len(parts)):
        if sum(other[-count:] == parts[-count:] for other in ends) == 1:
            return "/".join(parts[-count:])
    return path


def _place(cell: Cell) -> Mapping[str, Any]:
    name, p = Name.parse(cell.dataset), VtabParameters.read(cell.parameters)
    task = name.without("size", "root") if name.scheme == "vtab" else name
    found = {"dataset": str(task), "table": PUBLISHED[p.adaptation, p.sweep], "size": "1000"}
    found |= {option: value for option, value in name.options.items() if option not in task.options}
    return found | ({_REPORTED: "budget by budget"} if p.budget else {})


def model_scores(results: Sequence[Result], metric: str = "top1") -> list[ModelScores]:
    """Return one row per setting, model and adaptation, without runs of a fixed budget (`budget_curves`)."""
    return [scores for group in settings(results) for scores in group_scores(group, metric)]


def group_scores(group: Group, metric: str = "top1") -> list[ModelScores]:
    """Return the rows of one setting."""
    if _REPORTED in group.setting:
        return []
    patches = bool(group.setting.get("patches"))
    return [replace(s, setting=group.words, patches=patches) for s in _rows(group.results, metric)]


@cache
def published_scores(table: Adaptation, size: Size) -> tuple[ModelScores, ...]:
    """Return the published methods of a table, in its order."""
    return tuple(_rows(published_results(table, size), "top1"))


def is_published(model: str) -> bool:
    return model.startswith(PUBLISHED_SCHEME)


def _rows(results: Iterable[Result], metric: str) -> list[ModelScores]:
    found: dict[tuple[str, str, str, str], dict[str, list[Result]]] = {}
    for result in results:
        cell, p = result.cell, VtabParameters.read(result.cell.parameters)
        if metric in result.metrics:
            size = "full" if Name.parse(cell.dataset).options.get("size") == "full" else "1000"
            tasks = found.setdefault((cell.model, p.adaptation, p.sweep, size), {})
            tasks.setdefault(task_info(cell.dataset).name, []).append(result)
    return [
        ModelScores(
            *key,
            {task: summary_of(runs, metric) for task, runs in tasks.items()},
            source=next((run.record.source for runs in tasks.values() for run in runs), ""),
            incomplete={task: text for task, runs in tasks.items() if (text := _lacks(runs))},
        )
        for key, tasks in found.items()
    ]


def _lacks(runs: Sequence[Result]) -> str:
    """Return which splits do not have the number of images that VTAB prescribes."""
    splits = {name: counts for run in runs for name, counts in run.record.incomplete.items()}
    return ", ".join(f"{name} has {c.found:,} of {c.expected:,} images" for name, c in splits.items())


def row_names(own: Sequence[ModelScores], short: Mapping[str, str] | None = None) -> dict[tuple[str, str], str]:
    """Return the name of each row by (model, way); it states the way if there are several.

    Args:
        short: names of the models; by default their ids.
    """
    several = len({scores.way for scores in own}) > 1
    found = {}
    for scores in own:
        name = (short or {}).get(scores.model, scores.model).removeprefix(PUBLISHED_SCHEME)
        found[scores.model, scores.way] = f"{name} ({scores.way})" if several else name
    return found


def by_setting(own: Sequence[ModelScores]) -> list[list[ModelScores]]:
    """Return the rows of each setting: only they may be ranked together."""
    found: dict[tuple[str, str, str], list[ModelScores]] = {}
    for scores in own:
        found.setdefault((scores.setting, scores.size, scores.table), []).append(scores)
    return list(found.values())


def reference_tasks(own: Sequence[ModelScores]) -> list[str]:
    """Return the tasks of the row that has most of them, in the order of the paper, other tasks last."""
    most = max(own, key=lambda scores: len(scores.summaries), default=None)
    infos = most.tasks if most else {}
    return sorted(infos, key=lambda task: infos[task].order)


def complete(own: Sequence[ModelScores]) -> list[ModelScores]:
    """Return the rows that have all tasks of `reference_tasks`, setting by setting, best mean first."""
    found: list[ModelScores] = []
    for rows in by_setting(own):
        tasks = reference_tasks(rows)
        whole = [scores for scores in rows if all(task in scores.summaries for task in tasks)]
        found += sorted(whole, key=lambda scores: -float(np.mean([scores.medians[task] for task in tasks])))
    return found


def shared_tasks(own: Sequence[ModelScores]) -> list[str]:
    """Return the tasks that all rows have, in the order of the first: means compare only over these."""
    return [task for task in own[0].summaries if all(task in s.summaries for s in own)] if own else []


def full_table(own: Sequence[ModelScores]) -> tuple[list[str], list[str], np.ndarray[Any, np.dtype[np.float64]]]:
    """Return models, the tasks that all of them have, and their scores in percent, as aggregations take them."""
    shared = shared_tasks(own)
    table = np.array([[100 * scores.medians[task] for task in shared] for scores in own], np.float64)
    return [scores.model for scores in own], shared, table
