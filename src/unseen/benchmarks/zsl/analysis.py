"""Methods ranked over datasets, from results and from the paper's own tables; dataset sizes.

Paper:      Xian et al., TPAMI 2018, Table 1, Figs. 2, 3, 4, 7, 8 [P]
Shapes:     values (methods, observations)
Implements: an observation is one dataset and model, with parameters chosen on all validation folds or, as in Fig. 4 of
            [P], on one of them; these two are ranked separately, as are inductive and transductive methods, splits,
            test sets and all other settings. Friedman's test needs independent observations: it is computed only if
            each is of another dataset
Differs:    t-SNE shows images of the test classes alone, sampled by a seed; [P] does not say which it shows
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unseen.benchmarks.zsl.details import BENCHMARK, Look, ZslParameters, parameters_of, plain_name, short_name
from unseen.benchmarks.zsl.published import table
from unseen.core.errors import UsageError
from unseen.core.records import Cell, Result
from unseen.data import Dataset
from unseen.data.sources.features import ZERO_SHOT
from unseen.metrics import Friedman, RankTable, friedman_test, nemenyi_difference, rank_methods
from unseen.results import Group, comparable
from unseen.results.info import metric_style
from unseen.results.table import Table, TableCell
from unseen.zeroshot.catalogue import load_method
from unseen.zeroshot.problem import Images, unit_rows

METRICS = ("zsl", "ts", "tr", "H")
METHOD = "method"
CLASS_SPLIT = "class_split"
#: In a setting: whether parameters were chosen on all validation folds or on one.
CHOSEN = "parameters chosen on"
#: In a setting: whether methods see all test images together.
KIND = "methods"
#: Images that t-SNE needs.
LEAST_IMAGES = 10


@dataclass(frozen=True)
class MethodRanks:
    """Ranks of methods by one metric.

    Attributes:
        observations: the names of the columns of the ranks.
        left_out: methods without a value in every observation, and observations without most methods.
        friedman: None if there are too few methods or observations for a test, or two of one dataset.
        setting: what distinguishes the results from others that they are not ranked with; "" if there are none.
    """

    metric: str
    table: RankTable
    observations: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    friedman: Friedman | None = None
    setting: str = ""

    @property
    def title(self) -> str:
        """Return the metric and the setting."""
        return " · ".join(filter(None, (metric_style(self.metric, BENCHMARK).title, self.setting)))

    @property
    def caption(self) -> str:
        """Return the number of observations, Friedman's test or why there is none, and what is dropped."""
        count, methods, test = len(self.observations), len(self.table.methods), self.friedman
        found = f"Observations: {count}."
        if test is not None:
            found += (
                f" Friedman chi-square {test.statistic:.1f}, p = {test.p_value:.2g} (Iman-Davenport p = "
                f"{test.f_p_value:.2g}); mean ranks {nemenyi_difference(methods, count):.2f} apart differ at 5% "
                "(Nemenyi)."
            )
        elif count > 1 and methods > 2:
            found += " No test: several observations are of one dataset."
        return found + (f" Dropped for missing values: {', '.join(self.left_out)}." if self.left_out else "")

    @property
    def rows(self) -> Iterator[tuple[str, float, list[int]]]:
        """Yield each method with its mean rank, and how often it is at each rank; best mean rank first."""
        counts = self.table.counts.astype(int).tolist()
        return zip(self.table.methods, self.table.mean_ranks.tolist(), counts, strict=True)

    def to_table(self) -> Table:
        """Return mean ranks, and how often each method is at each rank (Figs. 4 and 7 of the paper)."""
        rows = [
            [TableCell(method), TableCell(f"{mean:.2f}", mean), *(TableCell(str(n or "·"), n) for n in counts)]
            for method, mean, counts in self.rows
        ]
        places = map(str, range(1, len(rows) + 1))
        return Table(f"Ranks by {self.title}", ["method", "mean rank", *places], rows, notes=[self.caption])


def settings(
    results: Sequence[Result],
    axes: Sequence[str] = (METHOD, "dataset"),
    *,
    kinds: bool = True,
    sampled: bool = False,
) -> list[Group]:
    """Return groups of results that may be ranked together; the split counts once, not in the dataset's name too.

    Args:
        axes: what may vary in addition to the model.
        kinds: whether inductive and transductive methods are in different groups.
        sampled: return results of random class splits, all splits of a setting in one group, in place of the others.
    """
    own = [r for r in results if r.cell.benchmark == BENCHMARK and bool(parameters_of(r).class_split) == sampled]

    def place(cell: Cell) -> dict[str, str]:
        parameters = ZslParameters.read(cell.parameters)
        chosen = "all folds" if parameters.on_all_folds else "one fold"
        kind = "transductive" if _is_transductive(parameters.method) else "inductive"
        return {"dataset": plain_name(cell.dataset), CHOSEN: chosen} | ({KIND: kind} if kinds else {})

    return comparable(
        own, axes=(*axes, "fold"), over=(CLASS_SPLIT,) if sampled else (), place=place, datasets=("test_on",)
    )


def main_settings(results: Sequence[Result], axis: str) -> list[Group]:
    """Return settings with parameters chosen on all folds; datasets and `axis` may differ within one."""
    groups = settings(results, (METHOD, "dataset", axis), kinds=False)
    return [group for group in groups if parameters_of(group.results[0]).on_all_folds]


def _is_transductive(method: str) -> bool:
    """Return whether a method sees all test images together; False for a plug-in that is not installed."""
    try:
        return load_method(method).transductive
    except UsageError:
        return False


# ---- ranks -----------------------------------------------------------------------------------------------------------


def ranks_by_setting(results: Sequence[Result], metric: str) -> list[MethodRanks]:
    """Return ranks per setting; a setting with fewer than two methods has none.

    An observation without the methods that most observations have is dropped, then a method without all observations.
    """
    found = []
    for group in settings(results):
        values: dict[tuple[str, str], dict[str, float]] = {}
        for result in (each for each in group.results if metric in each.metrics):
            parameters, dataset = parameters_of(result), plain_name(result.cell.dataset)
            fold = "" if parameters.on_all_folds else f" fold {parameters.fold}"
            place = (f"{dataset} {result.cell.model}{fold}", dataset)
            values.setdefault(place, {})[parameters.method] = result.metrics[metric]
        most = max(map(len, values.values()), default=0)
        full = {place: by_method for place, by_method in values.items() if len(by_method) == most}
        methods = dict.fromkeys(method for by_method in values.values() for method in by_method)
        common = [method for method in methods if all(method in by_method for by_method in full.values())]
        if len(common) < 2:
            continue
        table = rank_methods(common, [[by_method[method] for by_method in full.values()] for method in common])
        dropped = (*sorted(set(methods) - set(common)), *(place[0] for place in values if place not in full))
        ranks = MethodRanks(metric, table, tuple(name for name, _ in full), dropped, setting=group.words)
        if len(common) > 2 and 1 < len(full) == len({dataset for _, dataset in full}):
            ranks = replace(ranks, friedman=friedman_test(table))
        found.append(ranks)
    return found


# ---- datasets --------------------------------------------------------------------------------------------------------


def dataset_sizes(datasets: Sequence[Dataset]) -> Table:
    """Return Table 1 for some datasets, the number of the paper in brackets if it differs."""
    rows = []
    for dataset in datasets:
        name, split = short_name(dataset.id), str(getattr(dataset, "protocol", ""))
        attributes = getattr(dataset, "attributes", None)
        sizes = {part: len(images) for part, images in dataset.splits.items()}
        own = {
            "attributes": 0 if attributes is None else attributes.shape[1],
            "classes": len(dataset.class_names),
            "test_classes": len(np.unique(dataset.split("test_unseen").labels)) if "test_unseen" in sizes else 0,
            "images": sum(sizes.values()),
            **{part: sizes.get(part, 0) for part in ZERO_SHOT},
        }
        cells = [TableCell(f"{name} {split}".strip())]
        for column, value in own.items():
            part = f"{split.lower()}_{column.replace('trainval', 'train')}"  # as Table 1 calls the parts of a split
            paper = table(1).value(name, part if column in ZERO_SHOT else column)
            cells.append(TableCell(f"{value:,}" + ("" if paper in (None, value) else f" ({paper:,.0f})"), value))
        rows.append(cells)
    heads = ["dataset", "attributes", "classes", "test classes", "images", "trainval", "test seen", "test unseen"]
    return Table("datasets; the paper's Table 1 in brackets where it differs", heads, rows)


def make_look(classes: Sequence[str], labels: np.ndarray, test: Images, seed: int, images: int = 400) -> Look:
    """Return Fig. 2 of one dataset: images per class, and a t-SNE map of at most `images` test images."""
    look = Look(tuple(classes), tuple(np.bincount(labels, minlength=len(classes)).tolist()))
    if len(test) < LEAST_IMAGES:
        return look
    from sklearn.manifold import TSNE  # slow to import

    chosen = np.sort(np.random.default_rng(seed).permutation(len(test))[:images])
    unit = unit_rows(np.asarray(test.X[chosen], np.float32))
    points = TSNE(perplexity=min(30.0, (len(chosen) - 1) / 3), random_state=seed, init="pca").fit_transform(unit)
    x, y = np.round(points.astype(float), 2).T.tolist()
    return replace(look, x=tuple(x), y=tuple(y), labels=tuple(test.y[chosen].tolist()))
