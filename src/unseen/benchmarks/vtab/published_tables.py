"""The tables of the VTAB paper, as data, and what they know of a task.

Paper:      Zhai et al., "A Large-scale Study of Representation Learning with the Visual Task Adaptation Benchmark",
            2019, arXiv:1910.04867 [P]
Source:     Tables 1 and 3 to 9 of [P], as printed, in `published/`. Percentages stay percentages.
Notes:      Table 1 repeats Table 7. All printed means agree with the mean of their row to 0.06. Appendix F speaks of 20
            tasks and choose(20, 5) subsets; [P] has 19 tasks, so choose(19, 5) = 11,628.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec
import numpy as np

from unseen.benchmarks.vtab.info import VtabDetails
from unseen.core.arrays import FloatArray
from unseen.core.files import read_toml
from unseen.core.names import Name
from unseen.core.records import Cell, Result
from unseen.core.run_record import RunRecord
from unseen.data.sources.vtab import vtab_tasks
from unseen.metrics.aggregation import Aggregation, aggregations
from unseen.stats import accuracy_interval

Size = Literal["1000", "full"]
Adaptation = Literal["lightweight", "heavyweight", "linear"]

GROUPS = ("natural", "specialized", "structured")
_FILES = {"lightweight": "table6", "heavyweight": "table7", "linear": "table9"}


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of methods on tasks, in percent.

    Attributes:
        scores: (methods, tasks).
    """

    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    scores: FloatArray


@dataclass(frozen=True)
class TaskInfo:
    """A task as tables and charts name it.

    Attributes:
        data: which images; equal for tasks that share them.
        published: whether the paper's tables have a column for it.
    """

    name: str
    title: str
    group: str
    data: str
    published: bool = False

    @property
    def order(self) -> tuple[int, int]:
        """Return a sort key: groups and tasks in the order of the paper, other tasks after them."""
        groups, tasks = [*GROUPS, self.group], list(vtab_tasks())
        return groups.index(self.group), tasks.index(self.name) if self.published else len(tasks)


def task_info(dataset: str) -> TaskInfo:
    """Return what is known of the task behind a dataset id; any dataset can be a task, in the group "other"."""
    name = Name.parse(dataset)
    if name.scheme == "vtab" and name.rest in vtab_tasks():
        task = vtab_tasks()[name.rest]
        return TaskInfo(task.name, task.title, task.group, task.data, published=True)
    if name.scheme == "procedural":
        images, _, label = name.rest.partition("-")
        return TaskInfo(name.rest, f"{images.capitalize()}-{label.capitalize()}", "structured", images)
    if (name.scheme, name.rest) == ("packaged", "grocery"):
        kind = name.options.get("labels", "fine")
        return TaskInfo(f"grocery-{kind}", f"Grocery-{kind.capitalize()}", "natural", "grocery")
    return TaskInfo(str(name), str(name), "other", str(name))


def task_titles() -> dict[str, str]:
    """Return the heading of the column of each task."""
    return {name: task.title for name, task in vtab_tasks().items()}


@cache
def score_table(adaptation: Adaptation, size: Size) -> ScoreTable:
    """Return Table 6 (lightweight fine-tuning), 7 (heavyweight) or 9 (linear), for 1,000 examples or all."""
    path = files("unseen.benchmarks.vtab") / "published" / f"{_FILES[adaptation]}.csv"
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    chosen = [row for row in rows if row["size"] == size]
    titles = task_titles()
    return ScoreTable(
        methods=tuple(row["method"] for row in chosen),
        tasks=tuple(titles),
        scores=np.array([[float(row[title]) for title in titles.values()] for row in chosen]),
    )


#: The scheme of published methods where models have theirs, such as "timm:".
PUBLISHED_SCHEME = "published:"


@cache
def published_results(adaptation: Adaptation, size: Size) -> tuple[Result, ...]:
    """Return the scores of Table 6, 7 or 9 as results, with the table as their source.

    [P] prints no intervals. They follow from the printed accuracy and the size of the test set.
    """
    table = score_table(adaptation, size)
    source = f"Zhai et al., 2019, Table {_FILES[adaptation].removeprefix('table')}"
    sweep = "heavyweight" if adaptation == "heavyweight" else "lightweight"
    parameters = {"adaptation": "linear" if adaptation == "linear" else "finetune", "sweep": sweep}
    return tuple(
        published_result(table.methods[method], table.tasks[task], size, percent, parameters, source)
        for (method, task), percent in np.ndenumerate(table.scores)
    )


def published_result(
    method: str, task: str, size: Size, percent: float, parameters: Mapping[str, object], source: str
) -> Result:
    """Return one printed accuracy as a result; its interval follows from it and the size of the test set."""
    info = vtab_tasks()[task]
    n, dataset = info.sizes[2], f"vtab:{info.name}{'?size=full' if size == 'full' else ''}"
    interval = accuracy_interval(np.arange(n) < round(percent / 100 * n))
    return Result(
        Cell("vtab", f"{PUBLISHED_SCHEME}{method}", dataset, parameters),
        {"top1": percent / 100, "top1_low": interval.low, "top1_high": interval.high},
        details=VtabDetails(classes=info.classes, chance=1 / info.classes, test_images=n).to_dict(),
        record=RunRecord(source=source),
    )


@dataclass(frozen=True, slots=True)
class LiteratureRow:
    """A row of Table 8: the best method on all examples beside a result of the literature.

    Attributes:
        metric: "top1", "mean_per_class" or "kappa".
        ours: Sup-Ex-100% in that metric, in percent.
        theirs: the result of the literature, in percent.
    """

    task: str
    metric: str
    ours: float
    theirs: float
    reference: str


@dataclass(frozen=True, slots=True)
class Subset:
    """A row of Table 5: five tasks, and Kendall's tau of a ranking by their mean with its standard deviation."""

    size: Size
    tau: tuple[float, float]
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PaperTables:
    """Tables of [P] that are not scores of methods.

    Attributes:
        table3: mean per-class accuracy of raters ("human") and of chance, by task.
        table4: by aggregation and size, Kendall's tau with the mean and its standard deviation.
        kinds: the methods by kind, as in Figure 2.
    """

    table3: dict[str, dict[str, float]]
    table4: dict[str, dict[Size, tuple[float, float]]]
    table5: list[Subset]
    table8: list[LiteratureRow]
    kinds: dict[str, list[str]]


@cache
def paper_tables() -> PaperTables:
    """Return Tables 3, 4, 5 and 8, and the methods by kind."""
    return msgspec.convert(read_toml("unseen.benchmarks.vtab", "published/tables.toml"), PaperTables)


def published_aggregations() -> dict[str, Aggregation]:
    """Return the aggregations of Table 4: Balduzzi's weights of tasks come from the full datasets, for both sizes.

    [P] does not state it. Of the readings in `tools/balduzzi.py` it is the one that agrees with both printed values.
    """
    rows = vtab_tasks().values()
    full = score_table("lightweight", "full").scores
    return aggregations([row.data for row in rows], [row.group for row in rows], reference=full)
