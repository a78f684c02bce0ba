"""The charts of single concepts: accuracy against distance, the ranking that levels are cut from, the kin of a concept.

Paper:      Sariyildiz et al., ICCV 2021, Fig. 1a (kin of a concept) and Fig. 2 (the ranking with its levels and gaps)
Beyond:     every concept against its distance, with the line of each model
Pictures are data: addresses inside the chart; where there are none, words stand alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unseen.benchmarks.cog.analysis import ConceptScore
from unseen.benchmarks.cog.charts import Keys
from unseen.metrics.slope import Line
from unseen.reports.charts import CONTAINER, FOCUS, NEUTRAL, PALETTE, percent_axis, series_channels

_HEIGHT = 340
_PICTURE = 52
#: Of similarities that end at 1: pictures stand above.
_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
#: Points of a curve; more are not to be told apart.
_MOST_POINTS = 1_000


@dataclass(frozen=True)
class Placed:
    """A concept at its place in a ranking; `level` is "" for one that fell into a gap."""

    name: str
    similarity: float
    level: str
    nearest: str = ""
    picture: str = ""


def distance_chart(
    scores: Sequence[ConceptScore],
    lines: Mapping[str, Line],
    keys: Keys,
    picture: Callable[[ConceptScore], str] | None = None,
) -> Any:
    """Accuracy per unseen concept over its similarity to the nearest seen one.

    Every model has its line; the points are those of one model, the one under the pointer or else the chosen one.
    """
    import altair as alt

    models = [model for model in keys if model in lines]
    rows = _concepts(scores, models, picture)
    names = [keys[model].label for model in models]
    ends = [
        {"model": m, "group": keys[m].group, "name": keys[m].label, "x": x, "y": line.intercept + line.slope.value * x}
        for m, line in lines.items()
        if m in models
        for x in (min(r["similarity"] for r in rows), max(r["similarity"] for r in rows))
    ]
    color, _ = series_channels([keys[model] for model in models])
    known = [value for row in rows for value in row["a"] if value is not None]
    axis = percent_axis([*known, *(end["y"] for end in ends)])
    x = alt.X(
        "similarity:Q",
        title="similarity to the nearest seen concept",
        scale=alt.Scale(zero=False, nice=True),
        axis=alt.Axis(tickCount=6),
    )
    y_scale = alt.Scale(domain=axis["domain"], nice=False)
    y = alt.Y(
        "accuracy:Q",
        title="accuracy on the concept",
        scale=y_scale,
        axis=alt.Axis(format=axis["format"], values=axis["ticks"]),
    )
    which = f"(indexof({models!r}, focus) < 0 ? indexof({models!r}, pick) : indexof({models!r}, focus))"
    pictures = [alt.Tooltip("picture:N", title="image")] if any("picture" in row for row in rows) else []
    points = (
        alt.Chart(alt.InlineData(values=rows))
        .transform_calculate(accuracy=f"datum.a[{which}]", name=f"({names!r})[{which}]")
        .transform_filter("isValid(datum.accuracy)")
        .mark_point(filled=True, size=42, opacity=0.6)
        .encode(
            x=x,
            y=y,
            color=color,
            tooltip=[
                *pictures,
                alt.Tooltip("concept:N", title="concept"),
                alt.Tooltip("nearest:N", title="nearest seen"),
                alt.Tooltip("similarity:Q", format=".3f"),
                alt.Tooltip("accuracy:Q", format=".1%"),
                alt.Tooltip("name:N", title="model"),
                alt.Tooltip("level:N"),
            ],
        )
    )
    strong = alt.condition(FOCUS, alt.value(1.0), alt.value(0.1))
    width = 3.0 if len(models) <= 6 else 1.6
    drawn = (
        alt.Chart(alt.InlineData(values=ends))
        .mark_line(strokeWidth=width, clip=True)
        .encode(x=alt.X("x:Q"), y=alt.Y("y:Q", scale=y_scale), color=color, opacity=strong, detail="model:N")
    )
    choice = alt.binding_select(options=models, labels=names, name="points of")
    return (
        alt.layer(points, drawn)
        .add_params(alt.param(name="focus", value=""), alt.param(name="pick", value=models[0], bind=choice))
        .properties(width=CONTAINER, height=_HEIGHT)
    )


def _concepts(
    scores: Sequence[ConceptScore], models: Sequence[str], picture: Callable[[ConceptScore], str] | None
) -> list[dict[str, Any]]:
    """One row per unseen concept, with the accuracy of each model: a thousand models would not repeat its words."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for score in scores:
        if not score.level.startswith("L") or score.model not in models:
            continue
        row = found.setdefault((score.level, score.concept), {})
        if not row:
            row |= {
                "concept": score.name,
                "level": score.level,
                "similarity": round(score.similarity, 4),
                "nearest": score.nearest,
                "a": [None] * len(models),
            }
            if picture and (shown := picture(score)):
                row["picture"] = shown
        row["a"][models.index(score.model)] = round(score.accuracy, 4)
    return list(found.values())


def ranking_chart(ranked: Sequence[Placed], measure: str, seen: str) -> Any:
    """All eligible concepts by similarity to the seen ones, the levels in colour, the gaps in grey (Fig. 2).

    Args:
        ranked: from the most to the least similar; those with a picture are shown above the curve.
        measure: what they were ranked by.
        seen: the name of the seen concepts.
    """
    import altair as alt

    levels = list(dict.fromkeys(one.level for one in ranked if one.level))
    step = max(1, len(ranked) // _MOST_POINTS)
    bounds = _runs(ranked)
    rows = [
        {"rank": place + shift, "similarity": one.similarity, "zero": 0.0, "run": run, "level": one.level or "left out"}
        for run, (first, last) in enumerate(bounds)
        for place in sorted({*range(first, last + 1, step), last})
        for one in [ranked[place]]
        # Each run reaches to where the next one begins.
        for shift in ((0, 1) if place == last else (0,))
    ]
    domain = [*levels, "left out"]
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(levels))] + ["#C9CED6"]
    curve = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_area(interpolate="step-after", opacity=0.85)
        .encode(
            x=alt.X(
                "rank:Q",
                title="eligible concepts, the most similar first",
                axis=alt.Axis(grid=False, format=",d"),
                scale=alt.Scale(nice=False, domain=[0, len(ranked)]),
            ),
            y=alt.Y(
                "similarity:Q",
                title=f"{measure} similarity to {seen}",
                axis=alt.Axis(values=_TICKS) if max(one.similarity for one in ranked) <= 1 else alt.Axis(),
            ),
            y2="zero:Q",
            detail="run:N",
            color=alt.Color("level:N", title=None, scale=alt.Scale(domain=domain, range=colours)),
        )
    )
    layers = [curve, *_examples(ranked)]
    return alt.layer(*layers).properties(width=CONTAINER, height=_HEIGHT)


def _runs(ranked: Sequence[Placed]) -> list[tuple[int, int]]:
    """First and last place of each run of one level, or of one gap."""
    found: list[tuple[int, int]] = []
    for place, one in enumerate(ranked):
        if place and ranked[place - 1].level == one.level:
            found[-1] = (found[-1][0], place)
        else:
            found.append((place, place))
    return found


def _examples(ranked: Sequence[Placed]) -> list[Any]:
    """Pictures and names of the concepts that have a picture, over the places where they stand, in two rows."""
    import altair as alt

    shown = [(place, one) for place, one in enumerate(ranked) if one.picture]
    rows = [
        {
            "rank": place,
            "top": 1.14 + 0.34 * (number % 2),
            "word": 1.14 - 0.14 + 0.34 * (number % 2),
            "name": one.name,
            "picture": one.picture,
            "similarity": one.similarity,
            "base": 0.96 + 0.34 * (number % 2),
        }
        for number, (place, one) in enumerate(shown)
    ]
    if not rows:
        return []
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=alt.X("rank:Q"))
    return [
        base.mark_rule(color=NEUTRAL, strokeWidth=0.8).encode(y=alt.Y("similarity:Q"), y2="base:Q"),
        base.mark_image(width=_PICTURE, height=_PICTURE).encode(y=alt.Y("top:Q"), url="picture:N"),
        base.mark_text(fontSize=10, limit=90).encode(y=alt.Y("word:Q"), text="name:N"),
    ]


def kin_chart(concept: str, kin: Sequence[Placed], measure: str) -> Any:
    """Concepts by their similarity to one, the nearest first, with pictures where there are any (Fig. 1a)."""
    import altair as alt

    rows = [
        {
            "place": place,
            "name": one.name,
            "similarity": one.similarity,
            "shown": f"{one.similarity:.2f}",
            "picture": one.picture,
            "level": one.level,
        }
        for place, one in enumerate(kin)
    ]
    pictured = any(row["picture"] for row in rows)
    step = _PICTURE + 12 if pictured else 36
    place = alt.Y("place:O", axis=None, scale=alt.Scale(paddingInner=0.1))
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=place)
    x = alt.X("similarity:Q", title=f"{measure} similarity to {concept}", scale=alt.Scale(domain=[0, 1]))
    layers = [
        base.mark_bar(height=4, color=PALETTE[0], yOffset=12).encode(x=x),
        base.mark_text(align="left", dx=2, dy=-6, fontSize=13).encode(x=alt.value(0), text="name:N"),
        base.mark_text(align="left", dx=6, dy=12).encode(x=x, text="shown:N"),
    ]
    if pictured:
        seen = base.transform_filter("datum.picture != ''")
        layers.append(
            seen.mark_image(width=_PICTURE, height=_PICTURE, align="right").encode(x=alt.value(-10), url="picture:N")
        )
    return alt.layer(*layers).properties(width=CONTAINER, height=step * max(1, len(rows)))
