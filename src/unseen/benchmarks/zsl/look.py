"""Statistics of zero-shot datasets: their sizes, images per class, and a t-SNE map of their features.

Paper:      Xian et al., TPAMI 2018, Table 1 and Fig. 2 [P]
Differs:    t-SNE shows images of the test classes alone, sampled by a seed; [P] does not say which it shows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unseen.benchmarks.workbench import Workbench
from unseen.benchmarks.zsl.analysis import plain_name, short_name
from unseen.benchmarks.zsl.details import details_of, parameters_of
from unseen.benchmarks.zsl.published import table
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.core.typed import Typed
from unseen.data import Dataset
from unseen.reports.blocks import Figure
from unseen.reports.charts import Axis, Bars, Panels, Scatter
from unseen.zeroshot.problem import Images, Problem

_TEST = "test_unseen"
_LEAST, _ON_PAGE = 10, 400  # images that t-SNE needs, and shows on the page


@dataclass(frozen=True)
class Look(Typed):
    """Fig. 2 of one dataset, small enough for a result.

    Attributes:
        counts: images per class.
        x, y, labels: t-SNE coordinates and classes of some images of the test classes; empty for fewer than ten.
    """

    classes: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()
    labels: tuple[int, ...] = ()


def statistics(datasets: Sequence[Dataset]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of Table 1 for some datasets, the number of the paper in brackets if it differs."""
    columns = ["dataset", "attributes", "classes", "test classes", "images", "trainval", "test seen", "test unseen"]
    rows = []
    for dataset in datasets:
        name = short_name(dataset.id)
        row, ss = "aPY" if name == "APY" else name, _split(dataset) == "SS"
        sizes = {split: len(part) for split, part in dataset.splits.items()}
        paper = ["attributes", "classes", "test_classes", "images"]
        paper += ["ss_train", "", "ss_test"] if ss else ["ps_train", "ps_test_seen", "ps_test_unseen"]
        own = [
            getattr(dataset, "attributes", np.empty((0, 0))).shape[1],
            len(dataset.class_names),
            len(np.unique(dataset.split(_TEST).labels)) if _TEST in sizes else 0,
            sum(sizes.values()),
            *(sizes.get(split, 0) for split in ("trainval", "test_seen", _TEST)),
        ]
        printed = [table(1).value(row, column) for column in paper]
        texts = [f"{o:,}" + ("" if p is None or p == o else f" ({p:,.0f})") for o, p in zip(own, printed, strict=True)]
        rows.append([f"{row} {'SS' if ss else 'PS'}", *texts])
    return columns, rows


def _split(dataset: Dataset) -> str:
    return str(getattr(dataset, "protocol", "PS"))


def _label(dataset: str, split: str) -> str:
    return short_name(dataset) + (" SS" if split == "SS" else "")


def problem_look(problem: Problem, seed: int) -> Look:
    """Return Fig. 2 of one problem."""
    labels = np.concatenate([part.y for part in (problem.train, problem.test_seen, problem.test_unseen)])
    return _look(problem.class_names, labels, problem.test_unseen, _ON_PAGE, seed)


def _look(classes: Sequence[str], labels: np.ndarray, test: Images, images: int, seed: int) -> Look:
    look = Look(tuple(classes), tuple(np.bincount(labels, minlength=len(classes)).tolist()))
    if len(test) < _LEAST:
        return look
    from sklearn.manifold import TSNE  # slow to import

    chosen = np.sort(np.random.default_rng(seed).permutation(len(test))[:images])
    features = np.asarray(test.X, np.float32)[chosen]
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    points = TSNE(perplexity=min(30.0, (len(chosen) - 1) / 3), random_state=seed, init="pca").fit_transform(unit)
    x, y = np.round(points.astype(float), 2).T.tolist()
    return Look(look.classes, look.counts, tuple(x), tuple(y), tuple(test.y[chosen].tolist()))


def look_chart(bench: Workbench, names: Sequence[str], models: Sequence[str], *, images: int, seed: int) -> Panels:
    """Draw Fig. 2 of datasets: images per class as bars, and a map of the features of a model per dataset."""
    looks = {}
    for name, model in zip(names, models, strict=True):
        dataset = bench.dataset(name)
        split = _TEST if _TEST in dataset.splits else "test"
        rows = bench.split(model, name, split)
        if len(rows.labels) < _LEAST:
            raise DataError(f"t-SNE needs at least ten images; {plain_name(name)} has {len(rows.labels)} in {split}.")
        labels = np.concatenate([part.labels for part in dataset.splits.values()])
        test = Images(np.asarray(rows.features[:], np.float32), rows.labels)
        looks[_label(dataset.id, _split(dataset))] = _look(dataset.class_names, labels, test, images, seed)
    charts = [_counts_chart(looks), *(_map_chart(look) for look in looks.values())]
    return Panels(charts=charts, titles=["images per class", *looks])


def look_figures(results: Sequence[Result]) -> list[Figure]:
    """Draw Fig. 2: bars of images per class, datasets of the same classes together, and a map per model and dataset."""
    maps: dict[tuple[str, str], Figure] = {}
    counted: dict[tuple[str, ...], dict[str, Look]] = {}
    for result in results:
        look = Look.read(details_of(result).look)
        name, model = _label(result.cell.dataset, parameters_of(result).split), result.cell.model
        if look.classes:
            counted.setdefault(look.classes, {}).setdefault(name, look)
        if look.x and (name, model) not in maps:
            maps[name, model] = Figure(
                f"{name}: t-SNE of {model}",
                _map_chart(look),
                f"{len(look.x)} images of the test classes of {name} in the plane, coloured by class.",
                "Images of the test classes alone, by their features; images that are near are alike (Fig. 2).",
            )
    bars = []
    for looks in counted.values():
        sizes = "; ".join(f"{name} {sum(look.counts):,} in {len(look.counts)} classes" for name, look in looks.items())
        title, alt = f"Images per class: {', '.join(looks)}", f"Images per class, the most first: {sizes}."
        bars.append(Figure(title, _counts_chart(looks), alt, "All splits together (Fig. 2).", wide=True))
    return [*bars, *maps.values()]


def _counts_chart(looks: Mapping[str, Look]) -> Bars:
    """Draw images per class as bars, the most first, datasets side by side."""
    rows = [
        {"dataset": name, "class": look.classes[c], "value": look.counts[c]}
        for name, look in looks.items()
        for c in sorted(range(len(look.classes)), key=lambda c: -look.counts[c])
    ]
    axis = Axis("images", kind="number", zero=True)
    return Bars(rows=rows, y="class", series="dataset", x=axis, vertical=True)


def _map_chart(look: Look) -> Scatter:
    """Draw images in the plane, a colour per class."""
    places = zip(look.x, look.y, look.labels, strict=True)
    rows = [{"class": look.classes[c], "x": x, "value": y} for x, y, c in places]
    hidden = Axis(kind="number", hidden=True)
    return Scatter(rows=rows, series="class", x_axis=hidden, y=hidden, tooltip={"class": "class"})
