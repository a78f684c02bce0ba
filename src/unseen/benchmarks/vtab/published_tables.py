"""The tables of the VTAB paper, as data.

Paper:      Zhai et al., "A Large-scale Study of Representation Learning with the Visual Task Adaptation Benchmark",
            2019, arXiv:1910.04867 [P]
Source:     Tables 1 and 3 to 9 of [P], as printed, in `published/`. Percentages stay percentages.
Notes:      Table 1 repeats Table 7. All printed means agree with the mean of their row to 0.06. Appendix F speaks of 20
            tasks and choose(20, 5) subsets; [P] has 19 tasks, so choose(19, 5) = 11,628.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.vtab.details import VtabDetails
from unseen.core.errors import DataError
from unseen.core.records import Cell, Result
from unseen.core.run_record import RunRecord
from unseen.data.sources.vtab.tasks import vtab_tasks
from unseen.metrics.aggregation import READINGS, Aggregation, aggregations, nash_weights, weighted_means
from unseen.stats import accuracy_interval, kendall_tau

FloatArray = npt.NDArray[np.float64]
Size = Literal["1000", "full"]
Adaptation = Literal["lightweight", "heavyweight", "linear"]

GROUPS = ("natural", "specialized", "structured")
#: The kinds of methods in Figure 2 of [P].
KINDS: Mapping[str, tuple[str, ...]] = {
    "generative": ("WAE-UKL", "WAE-GAN", "WAE-MMD", "VAE", "Cond-BigGAN", "Un.CBigGAN", "BigBiGAN"),
    "from scratch": ("From-Scratch",),
    "self-supervised": ("Rel.Pat.Loc.", "Jigsaw", "Exemplar", "Rotation"),
    "semi-supervised": ("Sup-10%", "Semi-Ex-10%", "Semi-Rot-10%"),
    "supervised": ("Sup-100%", "Sup-Ex-100%", "Sup-Rot-100%"),
}
_FILES = {"lightweight": "table6", "heavyweight": "table7", "linear": "table9"}
# How the authors' results file spells what the paper spells otherwise.
_FILE_TITLES = {"dSpr-Orient": "dSpr-Ori"}


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of methods on tasks, in percent.

    Attributes:
        scores: (methods, tasks).
        means: the printed mean per method; NaN where none is printed.
    """

    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    scores: FloatArray
    means: FloatArray

    def row(self, method: str) -> FloatArray:
        try:
            found: FloatArray = self.scores[self.methods.index(method)]
        except ValueError:
            raise DataError(f"no method {method!r} in this table. It has: {', '.join(self.methods)}.") from None
        return found

    def among(self, tasks: Sequence[str]) -> FloatArray:
        """The columns of `tasks`, in that order."""
        found: FloatArray = self.scores[:, [self.tasks.index(task) for task in tasks]]
        return found


@dataclass(frozen=True, slots=True)
class Subset:
    """A row of Table 5."""

    size: str
    tau: float
    std: float
    tasks: tuple[str, ...]


def task_titles() -> dict[str, str]:
    """Task to the heading of its column."""
    return {name: task.title for name, task in vtab_tasks().items()}


@cache
def score_table(adaptation: Adaptation, size: Size) -> ScoreTable:
    """Table 6 (lightweight fine-tuning), 7 (heavyweight) or 9 (linear), for 1,000 examples or all."""
    path = files("unseen.benchmarks.vtab") / "published" / f"{_FILES[adaptation]}.csv"
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    chosen = [row for row in rows if row["size"] == size]
    titles = task_titles()
    return ScoreTable(
        methods=tuple(row["method"] for row in chosen),
        tasks=tuple(titles),
        scores=np.array([[float(row[title]) for title in titles.values()] for row in chosen]),
        means=np.array([float(row["Mean"]) for row in chosen]),
    )


def read_results_file(path: Path, size: Size) -> ScoreTable:
    """The file of results that the authors released: single values in full precision, two header rows.

    Raises:
        DataError: the file has another form.
    """
    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
        sizes, heads, body = rows[0], [_FILE_TITLES.get(h, h) for h in rows[1]], rows[3:]
        columns = {h: i for i, (h, s) in enumerate(zip(heads, sizes, strict=True)) if s == size}
        titles = task_titles()
        scores = np.array([[float(row[columns[title]]) for title in titles.values()] for row in body])
    except (OSError, UnicodeDecodeError, IndexError, KeyError, ValueError) as error:
        raise DataError(f"{path} is not a VTAB results file: {error!r}. Use the one of the authors' page.") from error
    return ScoreTable(tuple(row[0] for row in body), tuple(titles), scores, np.full(len(body), np.nan))


#: The scheme of published methods where models have theirs, such as "timm:".
PUBLISHED_SCHEME = "published:"


@cache
def published_results(adaptation: Adaptation, size: Size) -> tuple[Result, ...]:
    """Return the scores of Table 6, 7 or 9 as results, with the table as their source.

    [P] prints no intervals. They follow from the printed accuracy and the size of the test set.
    """
    table, tasks = score_table(adaptation, size), vtab_tasks()
    record = RunRecord(source=f"Zhai et al., 2019, Table {_FILES[adaptation].removeprefix('table')}")
    found = []
    for (method, task), percent in np.ndenumerate(table.scores):
        info, n = tasks[table.tasks[task]], tasks[table.tasks[task]].sizes[2]
        interval = accuracy_interval(np.arange(n) < round(percent / 100 * n))
        parameters = {
            "adaptation": "linear" if adaptation == "linear" else "finetune",
            "sweep": "heavyweight" if adaptation == "heavyweight" else "lightweight",
        }
        dataset = f"vtab:{info.name}{'?size=full' if size == 'full' else ''}"
        found.append(
            Result(
                Cell("vtab", f"{PUBLISHED_SCHEME}{table.methods[method]}", dataset, parameters),
                {"top1": percent / 100, "top1_low": interval.low, "top1_high": interval.high},
                details=VtabDetails(classes=info.classes, chance=1 / info.classes, test_images=n).to_dict(),
                record=record,
            )
        )
    return tuple(found)


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


def literature() -> tuple[LiteratureRow, ...]:
    """Table 8."""
    return tuple(LiteratureRow(**row) for row in _tables()["table8"])


def human_scores() -> dict[str, dict[str, float]]:
    """Table 3: mean per-class accuracy of raters, and of chance, by task."""
    return {task: dict(row) for task, row in _tables()["table3"].items()}


def aggregation_taus(size: Size) -> dict[str, tuple[float, float]]:
    """Table 4: by aggregation, Kendall's tau with the mean and its standard deviation."""
    return {name: (row[size][0], row[size][1]) for name, row in _tables()["table4"].items()}


def published_aggregations() -> dict[str, Aggregation]:
    """The aggregations as Table 4 takes them: Balduzzi's weights of tasks come from the full datasets, for both sizes.

    [P] does not say so. Of the readings in `unseen.metrics.aggregation` it is the one that agrees with both printed
    values.
    """
    rows = vtab_tasks().values()
    full = score_table("lightweight", "full").scores
    return aggregations([row.data for row in rows], [row.group for row in rows], reference=full)


def balduzzi_readings(scores: npt.ArrayLike) -> dict[str, tuple[float, float]]:
    """Tau with the mean by reading of Balduzzi's weighting: by weights of the table itself, and of the full data."""
    table, full = np.asarray(scores, np.float64), score_table("lightweight", "full").scores
    mean = table.mean(axis=1)
    found = {}
    for name, (scale, one_game) in READINGS.items():
        own, other = (
            kendall_tau(mean, weighted_means(table, nash_weights(each, scale=scale, one_game=one_game)))
            for each in (table, full)
        )
        found[name] = (own, other)
    return found


def best_subsets(size: Size) -> tuple[Subset, ...]:
    """Table 5."""
    found = [row for row in _tables()["table5"] if row["size"] == size]
    return tuple(Subset(row["size"], row["tau"][0], row["tau"][1], tuple(row["tasks"])) for row in found)


def claims() -> Mapping[str, Any]:
    """Single figures of the text."""
    found: Mapping[str, Any] = _tables()["claims"]
    return found


@cache
def _tables() -> dict[str, Any]:
    path = files("unseen.benchmarks.vtab") / "published" / "tables.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))
