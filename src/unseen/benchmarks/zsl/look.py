"""A look at zero-shot datasets before anything is run: their sizes, images per class, and a map of their features.

Paper:      Xian et al., TPAMI 2018, Table 1 and Fig. 2 [P]
Differs:    t-SNE shows images of the test classes alone, drawn by a seed; [P] does not say which it shows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unseen.benchmarks.workbench import Workbench
from unseen.benchmarks.zsl.compare import plain_name
from unseen.benchmarks.zsl.published import table
from unseen.benchmarks.zsl.studies import short_name
from unseen.core.errors import DataError
from unseen.data import Dataset
from unseen.reports.charts import PALETTE

_TEST = "test_unseen"


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
    from sklearn.manifold import TSNE

    dataset = bench.dataset(name)
    split = _TEST if _TEST in dataset.splits else "test"
    rows = bench.split(model, name, split)
    if len(rows.labels) < 10:
        raise DataError(f"t-SNE needs ten images at least; {plain_name(name)} has {len(rows.labels)} in {split}.")
    drawn = np.sort(np.random.default_rng(seed).permutation(len(rows.labels))[:images])
    features = np.asarray(rows.features[:], np.float32)[drawn]
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    made = TSNE(perplexity=min(30.0, (len(drawn) - 1) / 3), random_state=seed, init="pca").fit_transform(features)
    return [
        {"dataset": _label(dataset), "class": dataset.class_names[c], "x": float(x), "y": float(y)}
        for (x, y), c in zip(made, rows.labels[drawn], strict=True)
    ]


def look_chart(counts: Sequence[Mapping[str, Any]], points: Sequence[Mapping[str, Any]]) -> Any:
    """Fig. 2: images per class as bars, and a map per dataset."""
    import altair as alt

    datasets = list(dict.fromkeys(str(row["dataset"]) for row in counts))
    order = list(dict.fromkeys(str(row["class"]) for row in counts))
    colour = alt.Color("dataset:N", scale=alt.Scale(domain=datasets, range=list(PALETTE)), title=None)
    bars = (
        alt.Chart(alt.InlineData(values=list(counts)))
        .mark_bar()
        .encode(
            x=alt.X("class:N", sort=order, title=None, axis=alt.Axis(labels=len(order) <= 60, labelAngle=-60)),
            xOffset=alt.XOffset("dataset:N", sort=datasets),
            y=alt.Y("images:Q", title="images"),
            color=colour,
        )
        .properties(width=900, height=200)
    )
    shown = [
        alt.Chart(alt.InlineData(values=[row for row in points if row["dataset"] == name]), title=name)
        .mark_point(filled=True, size=22, opacity=0.7)
        .encode(
            x=alt.X("x:Q", axis=None),
            y=alt.Y("y:Q", axis=None),
            color=alt.Color("class:N", legend=alt.Legend(title=None, columns=5), scale=alt.Scale(scheme="tableau20")),
            tooltip=["class:N"],
        )
        .properties(width=420, height=340)
        for name in dict.fromkeys(str(row["dataset"]) for row in points)
    ]
    return alt.vconcat(bars, alt.hconcat(*shown).resolve_scale(color="independent")).resolve_scale(color="independent")
