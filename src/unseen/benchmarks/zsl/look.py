"""A look at zero-shot datasets before anything is run: their sizes, images per class, and a map of their features.

Paper:      Xian et al., TPAMI 2018, Table 1 and Fig. 2 [P]
Differs:    t-SNE shows images of the test classes alone, drawn by a seed; [P] does not say which it shows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.workbench import Workbench
from unseen.benchmarks.zsl.compare import plain_name
from unseen.benchmarks.zsl.published import table
from unseen.benchmarks.zsl.studies import short_name
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.data import Dataset
from unseen.reports.blocks import Figure
from unseen.reports.charts import PALETTE, to_spec
from unseen.zeroshot.problem import Problem

_TEST = "test_unseen"
_LEAST, _ON_PAGE = 10, 400  # images that t-SNE needs, and shows on the page


def statistics(datasets: Sequence[Dataset]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of Table 1 for some datasets; what the paper prints stands in brackets where it differs."""
    columns = ["dataset", "attributes", "classes", "test classes", "images", "trainval", "test seen", "test unseen"]
    rows = []
    for dataset in datasets:
        name = short_name(dataset.id)
        row, ss = "aPY" if name == "APY" else name, _is_standard(dataset)
        sizes = {split: len(part) for split, part in dataset.splits.items()}
        paper = ["attributes", "classes", "test_classes", "images"]
        paper += ["ss_train", "", "ss_test"] if ss else ["ps_train", "ps_test_seen", "ps_test_unseen"]
        own = [
            getattr(dataset, "attributes", np.empty((0, 0))).shape[1],
            len(dataset.class_names),
            len(np.unique(dataset.split(_TEST).labels)) if _TEST in sizes else 0,
            sum(sizes.values()),
            sizes.get("trainval", 0),
            sizes.get("test_seen", 0),
            sizes.get(_TEST, 0),
        ]
        printed = [table(1).value(row, column) for column in paper]
        shown = [f"{o:,}" + ("" if p is None or p == o else f" ({p:,.0f})") for o, p in zip(own, printed, strict=True)]
        rows.append([f"{row} {'SS' if ss else 'PS'}", *shown])
    return columns, rows


def _is_standard(dataset: Dataset) -> bool:
    return getattr(dataset, "protocol", "PS") == "SS"


def _label(dataset: Dataset) -> str:
    return short_name(dataset.id) + (" SS" if _is_standard(dataset) else "")


def class_counts(dataset: Dataset) -> list[dict[str, Any]]:
    """Images of each class over all splits, the most first."""
    labels = np.concatenate([part.labels for part in dataset.splits.values()])
    counts = np.bincount(labels, minlength=len(dataset.class_names))
    order = np.argsort(-counts, kind="stable")
    name = _label(dataset)
    return [{"dataset": name, "class": dataset.class_names[c], "images": int(counts[c])} for c in order]


def tsne_points(bench: Workbench, model: str, name: str, *, images: int, seed: int) -> list[dict[str, Any]]:
    """Images of the test classes in the plane."""
    dataset = bench.dataset(name)
    split = _TEST if _TEST in dataset.splits else "test"
    rows = bench.split(model, name, split)
    if len(rows.labels) < _LEAST:
        raise DataError(f"t-SNE needs ten images at least; {plain_name(name)} has {len(rows.labels)} in {split}.")
    drawn, made = _map(np.asarray(rows.features[:], np.float32), images, seed)
    return [
        {"dataset": _label(dataset), "class": dataset.class_names[c], "x": float(x), "y": float(y)}
        for (x, y), c in zip(made, rows.labels[drawn], strict=True)
    ]


def _map(features: npt.NDArray[np.float32], images: int, seed: int) -> tuple[npt.NDArray[np.int64], Any]:
    """Rows that were drawn, and where t-SNE puts them."""
    from sklearn.manifold import TSNE

    drawn = np.sort(np.random.default_rng(seed).permutation(len(features))[:images])
    unit = features[drawn] / np.maximum(np.linalg.norm(features[drawn], axis=1, keepdims=True), 1e-12)
    return drawn, TSNE(perplexity=min(30.0, (len(drawn) - 1) / 3), random_state=seed, init="pca").fit_transform(unit)


def look_details(problem: Problem, seed: int) -> dict[str, Any]:
    """Fig. 2 of one problem, small enough for a result: images per class, and t-SNE of some of the test classes."""
    labels = np.concatenate([part.y for part in (problem.train, problem.test_seen, problem.test_unseen)])
    found: dict[str, Any] = {
        "classes": list(problem.class_names),
        "counts": np.bincount(labels, minlength=len(problem.class_names)).tolist(),
    }
    if len(problem.test_unseen) >= _LEAST:
        drawn, made = _map(np.asarray(problem.test_unseen.X, np.float32), _ON_PAGE, seed)
        points = {"x": made[:, 0], "y": made[:, 1]}
        found |= {axis: np.round(values.astype(float), 2).tolist() for axis, values in points.items()}
        found["labels"] = problem.test_unseen.y[drawn].tolist()
    return found


def look_figures(results: Sequence[Result]) -> list[Figure]:
    """Fig. 2 on the page: a map per model and dataset, and bars of images per class, datasets of the same classes
    beside one another."""
    maps: dict[tuple[str, str], Figure] = {}
    counted: dict[tuple[str, ...], dict[str, list[dict[str, Any]]]] = {}
    for result in results:
        look: Any = result.details.get("look")
        if not isinstance(look, Mapping):
            continue
        name = short_name(result.cell.dataset) + (" SS" if result.cell.parameters.get("split") == "SS" else "")
        classes = list(look["classes"])
        order = sorted(range(len(classes)), key=lambda c: -look["counts"][c])
        rows = [{"dataset": name, "class": classes[c], "images": look["counts"][c]} for c in order]
        counted.setdefault(tuple(classes), {}).setdefault(name, rows)
        if "x" in look and (name, result.cell.model) not in maps:
            places = zip(look["x"], look["y"], look["labels"], strict=True)
            points = [{"dataset": name, "class": classes[c], "x": x, "y": y} for x, y, c in places]
            maps[name, result.cell.model] = Figure(
                title=f"{name}: t-SNE of {result.cell.model}",
                spec=to_spec(_map_chart(points, name)),
                description=f"{len(points)} images of the test classes of {name} in the plane, coloured by class.",
                caption="Images of the test classes alone, by their features; what is near is alike (Fig. 2).",
            )
    bars = []
    for several in counted.values():
        rows = [row for each in several.values() for row in each]
        told = "; ".join(
            f"{n} {sum(r['images'] for r in each):,} in {len(each)} classes" for n, each in several.items()
        )
        bars.append(
            Figure(
                title=f"Images per class: {', '.join(several)}",
                spec=to_spec(_counts_chart(rows)),
                description=f"Images per class, the most first: {told}.",
                caption="All splits together (Fig. 2).",
                wide=True,
            )
        )
    return [*bars, *maps.values()]


def _counts_chart(counts: Sequence[Mapping[str, Any]]) -> Any:
    """Images per class as bars, datasets side by side."""
    import altair as alt

    datasets = list(dict.fromkeys(str(row["dataset"]) for row in counts))
    order = list(dict.fromkeys(str(row["class"]) for row in counts))
    return (
        alt.Chart(alt.InlineData(values=list(counts)))
        .mark_bar()
        .encode(
            x=alt.X("class:N", sort=order, title=None, axis=alt.Axis(labels=len(order) <= 60, labelAngle=-60)),
            xOffset=alt.XOffset("dataset:N", sort=datasets),
            y=alt.Y("images:Q", title="images"),
            color=alt.Color("dataset:N", scale=alt.Scale(domain=datasets, range=list(PALETTE)), title=None),
        )
        .properties(width=900, height=200)
    )


def _map_chart(points: Sequence[Mapping[str, Any]], name: str) -> Any:
    """Images in the plane, a colour per class."""
    import altair as alt

    few = len({row["class"] for row in points}) <= 20
    legend = alt.Legend(title=None, columns=5) if few else None
    return (
        alt.Chart(alt.InlineData(values=list(points)), title=name)
        .mark_point(filled=True, size=22, opacity=0.7)
        .encode(
            x=alt.X("x:Q", axis=None),
            y=alt.Y("y:Q", axis=None),
            color=alt.Color("class:N", legend=legend, scale=alt.Scale(scheme="tableau20")),
            tooltip=["class:N"],
        )
        .properties(width=420, height=340)
    )


def look_chart(counts: Sequence[Mapping[str, Any]], points: Sequence[Mapping[str, Any]]) -> Any:
    """Fig. 2: images per class as bars, and a map per dataset."""
    import altair as alt

    names = dict.fromkeys(str(row["dataset"]) for row in points)
    shown = [_map_chart([row for row in points if row["dataset"] == name], name) for name in names]
    below = alt.hconcat(*shown).resolve_scale(color="independent")
    return alt.vconcat(_counts_chart(counts), below).resolve_scale(color="independent")
