"""What VTAB results say: per task, per group, among the published methods, and about the benchmark itself.

Paper:      Zhai et al., 2019 [P], sections 3.2 to 3.5, Appendices D, E, F, K, M and N
Implements: one row per model and way of adapting it, what compares with what, and places among the published methods;
            figures and tables are in `relations`, `figures` and `tables`
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
from unseen.metrics.task_means import group_means
from unseen.results import Group, comparable

#: Stands in the setting of runs whose budgets are reported one by one.
_REPORTED = "reported"

_WAYS: Mapping[str, str] = {"linear": "linear", "finetune": "fine-tuned", "scratch": "from scratch"}

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
        patches: whether it looked at images patch by patch.
    """

    model: str
    adaptation: str
    sweep: str
    size: str
    runs: Mapping[str, tuple[float, ...]]
    tasks: Mapping[str, TaskInfo]
    setting: str = ""
    patches: bool = False

    @property
    def way(self) -> str:
        """How the model was adapted, in words: what tells two of its rows apart."""
        words = [_WAYS[self.adaptation], "heavyweight" if self.sweep == "heavyweight" else ""]
        words += ["by patches" if self.patches else "", "all examples" if self.size == "full" else ""]
        return ", ".join(filter(None, words))

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
    return comparable(own, axes=("dataset", "adaptation", "budget", "sweep"), place=_place)


def _place(cell: Cell) -> Mapping[str, Any]:
    name, p = Name.parse(cell.dataset), cell.parameters
    task = name.without("size", "root") if name.scheme == "vtab" else name
    found = {"dataset": str(task), "table": PUBLISHED[p["adaptation"], p["sweep"]], "size": "1000"}
    found |= {option: value for option, value in name.options.items() if option not in task.options}
    return found | ({_REPORTED: "budget by budget"} if "budget" in p else {})


def model_scores(results: Sequence[Result], metric: str = "top1") -> list[ModelScores]:
    """One per setting, model and adaptation; runs with a fixed budget are for `budget_curves`."""
    return [scores for group in settings(results) for scores in group_scores(group, metric)]


def group_scores(group: Group, metric: str = "top1") -> list[ModelScores]:
    """The scores of one setting."""
    if _REPORTED in group.setting:
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
            "heavyweight" if group.setting["table"] == "heavyweight" else "lightweight",
            str(group.setting["size"]),
            runs={task: tuple(values) for task, values in runs.items()},
            tasks={task: tasks[task] for task in runs},
            setting=group.words,
            patches=bool(group.setting.get("patches")),
        )
        for (model, adaptation), runs in found.items()
    ]


def row_names(own: Sequence[ModelScores], short: Mapping[str, str] | None = None) -> dict[tuple[str, str], str]:
    """(model, way) to the name of its row; the way is told where there are several.

    Args:
        short: names of the models; by default their ids.
    """
    several = len({scores.way for scores in own}) > 1
    found = {}
    for scores in own:
        name = short[scores.model] if short else scores.model
        found[scores.model, scores.way] = f"{name} ({scores.way})" if several else name
    return found


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
    names = row_names(chosen)
    for models in by_setting(chosen):
        kind = table or PUBLISHED[models[0].adaptation, models[0].sweep]
        of_size: Size = "full" if models[0].size == "full" else "1000"
        try:
            rows = standings(models, adaptation=kind, size=of_size, names=names)
            found.append(Comparison(models[0].setting, kind, of_size, rows))
        except DataError as error:
            found.append(Comparison(models[0].setting, kind, of_size, (), str(error)))
    return found


def standings(
    own: Sequence[ModelScores],
    *,
    adaptation: str = "",
    size: Size = "1000",
    names: Mapping[tuple[str, str], str] | None = None,
) -> list[Standing]:
    """User's models among the published methods, on the tasks that all of them have.

    Args:
        own: models of one setting.
        adaptation: the published table: "lightweight", "heavyweight" or "linear"; by default that of the first model.
        names: of the rows, as `row_names` gives them.

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
    called = names or row_names(own)
    for scores in own:
        percent = {task: 100 * scores.medians[task] for task in shared}
        name = called[scores.model, scores.way]
        rows.append(Standing(name, percent, float(np.mean(list(percent.values()))), own=True))
    return sorted(rows, key=lambda row: -row.mean)


def shared_tasks(own: Sequence[ModelScores]) -> list[str]:
    """The tasks that all of some models have, in the order of the first: only over these do means compare."""
    return [task for task in own[0].runs if all(task in scores.runs for scores in own)] if own else []


def full_table(own: Sequence[ModelScores]) -> tuple[list[str], list[str], np.ndarray[Any, np.dtype[np.float64]]]:
    """Models, tasks that all of them have, and their scores in percent: what aggregations take."""
    shared = shared_tasks(own)
    table = np.array([[100 * scores.medians[task] for task in shared] for scores in own], np.float64)
    return [scores.model for scores in own], shared, table
