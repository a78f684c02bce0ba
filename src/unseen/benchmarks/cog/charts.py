"""The charts of the paper, as chart types of the page.

Paper:      Sariyildiz et al., ICCV 2021: Fig. 1a (kin of a concept), 2 (the ranking), 3 (levels), 4 (few-shot);
            supplement: Fig. B (fine-tuning), C (controls and other measures), D to G
Beyond:     every concept against its distance, with a line per model
Bars are 95 % confidence intervals over test images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unseen.benchmarks.cog.analysis import ALL, ConceptScore, LevelScore, Line, order_levels, relative_to
from unseen.benchmarks.cog.tables import Ratio, shots_of
from unseen.reports.charts import Axis, Bars, Lines, Scatter, Strip, interval_fields
from unseen.reports.theme import Key

Keys = Mapping[str, Key]

_HEIGHT = 300
_TOOLTIP = {
    "name": "model",
    "level": "level",
    "shots": "images per concept",
    "shown": "top-1 (%)",
    "images": "test images",
    "difference": "difference (points)",
    "similarity": "mean similarity",
}


def levels_chart(
    scores: Sequence[LevelScore], keys: Keys, baseline: str = "", *, include: Sequence[float] = ()
) -> Lines:
    """Return top-1 by level with all images (Fig. 3a, D), or its difference to a baseline in points (Fig. 3b to 3e).

    Args:
        include: values that the axis contains, so that several charts have one scale.
    """
    own = [s for s in scores if s.shots == ALL and not s.control]
    return _lines(own, keys, "level", "", baseline, include)


def relative_charts(scores: Sequence[LevelScore], keys: Keys, baseline: str) -> dict[str, Lines]:
    """Return a chart of differences to a baseline for each category of models, on one scale (Fig. 3b to 3e)."""
    categories: dict[str, dict[str, Key]] = {}
    for model, key in keys.items():
        if model != baseline:
            categories.setdefault(key.group, {})[model] = key
    span = list(levels_chart(scores, keys, baseline).ends())
    return {
        category: levels_chart(scores, {**own, baseline: keys[baseline]}, baseline, include=span)
        for category, own in categories.items()
    }


def few_shot_charts(
    scores: Sequence[LevelScore], keys: Keys, levels: Sequence[str], baseline: str = ""
) -> dict[str, Lines]:
    """Return top-1 over images per concept by level, on one scale (Fig. 4, F), or relative to a baseline (Fig. G)."""
    own = {level: [s for s in scores if s.level == level] for level in levels}
    span = [end for part in own.values() for end in _lines(part, keys, "shots", "", baseline).ends()]
    return {level: _lines(part, keys, "shots", f" on {level}", baseline, span) for level, part in own.items()}


def _lines(
    scores: Sequence[LevelScore], keys: Keys, x: str, on: str, baseline: str = "", include: Sequence[float] = ()
) -> Lines:
    """Return one line per model over levels or over shots."""
    own = [s for s in scores if s.model in keys]
    if baseline:
        rows = [
            {**_row(s, keys), **interval_fields(gap, 100), "difference": f"{100 * gap.value:+.2f}"}
            for s, gap in relative_to(own, baseline)
        ]
        y = Axis(f"points over {keys[baseline].label}{on}", "points", include)
    else:
        rows = [{**_row(s, keys), **interval_fields(s.interval)} for s in own]
        y = Axis(f"top-1{on}" if on else "top-1 accuracy", include=include)
    if x == "level":
        axis = Axis(kind="names", order=order_levels(s.level for s in own))
    else:
        axis = Axis("images per concept", "names", order=[str(shots) for shots in reversed(shots_of(own))])
    return Lines(rows=rows, keys=list(keys.values()), x=x, x_axis=axis, y=y, tooltip=_TOOLTIP, height=_HEIGHT)


def _row(score: LevelScore, keys: Keys) -> dict[str, Any]:
    return {
        "model": score.model,
        "group": keys[score.model].group,
        "name": keys[score.model].label,
        "level": score.level,
        "shots": str(score.shots),
        "shown": score.text,
        "images": score.images,
        "similarity": "" if score.similarity is None else f"{score.similarity:.3f}",
    }


def control_chart(scores: Sequence[LevelScore], keys: Keys) -> Lines:
    """Return levels against random control levels: points over the mean of a model's controls (supplement, Fig. C).

    The band contains all controls of all models, each minus the mean of its model.
    """
    own = [s for s in scores if s.shots == ALL and s.model in keys]
    controls = {model: [s.mean for s in own if s.control and s.model == model] for model in keys}
    means = {model: sum(values) / len(values) for model, values in controls.items() if values}
    rows = [
        {**_row(s, keys), "value": 100 * (s.mean - means[s.model])} for s in own if not s.control and s.model in means
    ]
    spread = [100 * (value - means[model]) for model, values in controls.items() for value in values]
    return Lines(
        rows=rows,
        keys=list(keys.values()),
        x="level",
        y=Axis("points over the mean of random draws", "points"),
        band=(min(spread), max(spread)),
        tooltip=_TOOLTIP,
        height=_HEIGHT,
    )


def rankings_chart(lines: Mapping[str, Sequence[LevelScore]], controls: Sequence[float], name: str) -> Lines:
    """Return one model on levels cut by different measures, with the mean of random draws (supplement, Fig. C).

    Args:
        lines: the scores of the model, by the measure that ranked the concepts.
        controls: its accuracies on random draws.
        name: the name of the model.
    """
    return Lines(
        rows=[
            {"ranking": ranking, "level": s.level, **interval_fields(s.interval), "shown": s.text}
            for ranking, scores in lines.items()
            for s in scores
        ],
        series="ranking",
        x="level",
        y=Axis(f"top-1 of {name}"),
        rule=sum(controls) / len(controls) if controls else None,
        band=(min(controls), max(controls)) if controls else None,
        band_text=f"{len(controls)} random draws",
        height=_HEIGHT,
    )


def images_chart(scores: Sequence[ConceptScore]) -> Lines:
    """Return training images per concept, concepts sorted, one line per level (supplement, Fig. E)."""
    rows: list[dict[str, Any]] = []
    own = [s for s in scores if s.model == scores[0].model]
    for level in order_levels(s.level for s in own):
        counts = sorted((s.train_images for s in own if s.level == level), reverse=True)
        # Every fifth of a thousand concepts gives the same line.
        places = range(0, len(counts), max(1, len(counts) // 200))
        rows += [{"level": level, "concepts": i + 1, "value": counts[i]} for i in places]
    return Lines(
        rows=rows,
        series="level",
        x="concepts",
        x_axis=Axis("concepts, from most to fewest images", "number"),
        y=Axis("training images", "number"),
        points=False,
        steps=True,
        height=_HEIGHT,
    )


def finetune_chart(found: Sequence[Ratio]) -> Lines:
    """Return frozen accuracy relative to fine-tuned, by level (supplement, Fig. B)."""
    rows = [
        {"model": r.frozen.model, "name": r.name, "level": r.frozen.level, "shown": f"{r.ratio.value:.3f}"}
        | interval_fields(r.ratio)
        for r in found
    ]
    axis = Axis(kind="names", order=order_levels(r.frozen.level for r in found))
    return Lines(rows=rows, x="level", x_axis=axis, y=Axis("frozen / fine-tuned top-1", "number"), rule=1.0)


def distance_chart(
    scores: Sequence[ConceptScore], lines: Mapping[str, Line], keys: Keys, picture: Callable[[ConceptScore], str]
) -> Scatter:
    """Return accuracy per unseen concept over its similarity to the nearest seen one.

    Every model has a line; the points are those of the model under the pointer, or of the one that the reader chooses.
    """
    models = [model for model in keys if model in lines]
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for s in scores:
        if not s.level.startswith("L") or s.model not in models:
            continue
        if (s.level, s.concept) not in rows:
            address = picture(s)
            rows[s.level, s.concept] = {
                "concept": s.name,
                "level": s.level,
                "similarity": round(s.similarity, 4),
                "nearest": s.nearest,
                "value": [None] * len(models),
                **({"picture": address} if address else {}),
            }
        rows[s.level, s.concept]["value"][models.index(s.model)] = round(s.accuracy, 4)
    ends = [min(r["similarity"] for r in rows.values()), max(r["similarity"] for r in rows.values())]
    fits = [
        {"model": m, "group": keys[m].group, "name": keys[m].label, "similarity": x}
        | {"value": lines[m].intercept + lines[m].slope.value * x}
        for m in models
        for x in ends
    ]
    return Scatter(
        rows=list(rows.values()),
        keys=[keys[model] for model in models],
        x="similarity",
        x_axis=Axis("similarity to the nearest seen concept", "number"),
        y=Axis("accuracy on the concept"),
        lines=fits,
        choice=True,
        tooltip={
            "picture": "image",
            "concept": "concept",
            "nearest": "nearest seen",
            "similarity": "similarity",
            "value": "accuracy",
            "name": "model",
            "level": "level",
        },
        height=340,
    )


def ranking_chart(ranked: Sequence[Mapping[str, Any]], measure: str, seen: str) -> Strip:
    """Return all eligible concepts by similarity to the seen ones, levels in colour, gaps in grey (Fig. 2).

    Args:
        ranked: rows with `name`, `value`, `level` ("" in a gap) and `picture`, the most similar first.
        measure: the measure of similarity.
        seen: the name of the seen concepts.
    """
    return Strip(
        rows=ranked,
        section="level",
        between="left out",
        x="eligible concepts, the most similar first",
        y=f"{measure} similarity to {seen}",
    )


def kin_chart(concept: str, kin: Sequence[Mapping[str, Any]], measure: str) -> Bars:
    """Return concepts by their similarity to one, the nearest first (Fig. 1a).

    Args:
        kin: rows with `name`, `value`, `shown` and `picture`.
    """
    axis = Axis(f"{measure} similarity to {concept}", "number", include=(0.0, 1.0), zero=True)
    return Bars(rows=kin, series="", x=axis, pictures="picture" if any(row["picture"] for row in kin) else "")
