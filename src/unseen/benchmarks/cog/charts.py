"""The charts of a CoG: levels, levels relative to a baseline, few-shot curves, concepts against distance, image counts.

Each takes plain rows and gives an Altair chart; the page and `unseen cog chart` use the same ones. Models have one
colour and one symbol in all of them, and `focus` dims the others when the pointer is over one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unseen.benchmarks.cog.analysis import ALL, ConceptScore, LevelScore, order_levels, relative_to
from unseen.benchmarks.cog.domains import CONTROL
from unseen.metrics.slope import Line
from unseen.reports.blocks import Key
from unseen.reports.charts import CONTAINER, NEUTRAL, PALETTE, SHAPES, SYMBOLS

_FOCUS = "focus == '' || focus == datum.model"
_HEIGHT = 300


def levels_chart(scores: Sequence[LevelScore], names: Mapping[str, str]) -> Any:
    """Top-1 by level with all images (Fig. 3a); controls as a grey band."""
    rows = _rows([s for s in scores if s.shots == ALL and not s.level.startswith(CONTROL)], names)
    return _lines(rows, names, x="level:N", x_order=_order(rows), y="mean", title="top-1 accuracy", percent=True)


def relative_chart(scores: Sequence[LevelScore], names: Mapping[str, str], baseline: str) -> Any:
    """Top-1 by level, less that of the baseline (Fig. 3b to 3e)."""
    pairs = relative_to([s for s in scores if s.shots == ALL and not s.level.startswith(CONTROL)], baseline)
    rows = [{**row, "gap": 100 * gap} for row, (_, gap) in zip(_rows([s for s, _ in pairs], names), pairs, strict=True)]
    title = f"points over {names.get(baseline, baseline)}"
    return _lines(rows, names, x="level:N", x_order=_order(rows), y="gap", title=title, percent=False, errors=False)


def few_shot_chart(
    scores: Sequence[LevelScore], names: Mapping[str, str], level: str, baseline: str | None = None
) -> Any:
    """Top-1 over images per concept on one level (Fig. 4), raw or less that of a baseline."""
    own = [s for s in scores if s.level == level]
    order = [str(s) for s in sorted({s.shots for s in own if s.shots != ALL}, key=int)] + [ALL]
    if baseline is None:
        rows = _rows(own, names)
        return _lines(rows, names, x="shots:N", x_order=order, y="mean", title=f"top-1 on {level}", percent=True)
    pairs = relative_to(own, baseline)
    rows = [{**row, "gap": 100 * gap} for row, (_, gap) in zip(_rows([s for s, _ in pairs], names), pairs, strict=True)]
    title = f"points over {names.get(baseline, baseline)} on {level}"
    return _lines(rows, names, x="shots:N", x_order=order, y="gap", title=title, percent=False, errors=False)


def distance_chart(scores: Sequence[ConceptScore], lines: Mapping[str, Line], names: Mapping[str, str]) -> Any:
    """Accuracy per unseen concept over its similarity to the nearest seen one, with the line of each model."""
    import altair as alt

    rows: list[dict[str, Any]] = [
        {
            "model": s.model,
            "name": names.get(s.model, s.model),
            "concept": s.name,
            "level": s.level,
            "accuracy": s.accuracy,
            "similarity": s.similarity,
            "nearest": s.nearest,
        }
        for s in scores
        if s.level.startswith("L")
    ]
    ends = []
    for model, line in lines.items():
        xs = [row["similarity"] for row in rows if row["model"] == model]
        ends += [
            {"model": model, "name": names.get(model, model), "x": x, "y": line.intercept + line.slope.value * x}
            for x in (min(xs), max(xs))
        ]
    color, shape = _channels(names)
    x = alt.X("similarity:Q", title="similarity to the nearest seen concept", scale=alt.Scale(zero=False, nice=True))
    y = alt.Y("accuracy:Q", title="accuracy on the concept", axis=alt.Axis(format=".0%"))
    dim = alt.condition(_FOCUS, alt.value(0.55), alt.value(0.05))
    points = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_point(filled=True, size=34)
        .encode(
            x=x,
            y=y,
            color=color,
            shape=shape,
            opacity=dim,
            tooltip=[
                alt.Tooltip("concept:N"),
                alt.Tooltip("nearest:N", title="nearest seen"),
                alt.Tooltip("similarity:Q", format=".3f"),
                alt.Tooltip("accuracy:Q", format=".1%"),
                alt.Tooltip("name:N", title="model"),
                alt.Tooltip("level:N"),
            ],
        )
    )
    strong = alt.condition(_FOCUS, alt.value(1.0), alt.value(0.1))
    drawn = (
        alt.Chart(alt.InlineData(values=ends))
        .mark_line(strokeWidth=3)
        .encode(x=alt.X("x:Q"), y=alt.Y("y:Q"), color=color, opacity=strong, detail="model:N")
    )
    return _finished(points + drawn)


def images_chart(scores: Sequence[ConceptScore]) -> Any:
    """Training images per concept, concepts sorted, one line per level (supplement, Fig. E)."""
    import altair as alt

    one = next((s.model for s in scores), "")
    rows: list[dict[str, Any]] = []
    for level in order_levels(s.level for s in scores):
        counts = sorted((s.train_images for s in scores if s.level == level and s.model == one), reverse=True)
        rows += [{"level": level, "rank": i + 1, "images": count} for i, count in enumerate(counts)]
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("rank:Q", title="concepts, from most to fewest images"),
            y=alt.Y("images:Q", title="training images"),
            color=alt.Color("level:N", title=None, sort=order_levels({r["level"] for r in rows})),
            tooltip=["level:N", "rank:Q", "images:Q"],
        )
    )
    return chart.properties(width=CONTAINER, height=_HEIGHT)


def control_chart(scores: Sequence[LevelScore], names: Mapping[str, str], model: str) -> Any:
    """Levels of one model beside random control levels (supplement, Fig. C)."""
    import altair as alt

    own = [s for s in scores if s.model == model and s.shots == ALL]
    controls = [s.mean for s in own if s.level.startswith(CONTROL)]
    rows = _rows([s for s in own if not s.level.startswith(CONTROL)], names)
    order = _order(rows)
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=alt.X("level:N", sort=order, title=None))
    y = alt.Y("mean:Q", title="top-1 accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False))
    line = base.mark_line(point=True, strokeWidth=2.5, color=PALETTE[0]).encode(y=y, tooltip=["level:N", "shown:N"])
    if not controls:
        return line.properties(width=CONTAINER, height=_HEIGHT)
    mean = sum(controls) / len(controls)
    band = [{"low": min(controls), "high": max(controls), "mean": mean, "shown": f"{100 * mean:.1f} %"}]
    area = alt.Chart(alt.InlineData(values=band)).mark_rect(opacity=0.25, color=NEUTRAL).encode(y="low:Q", y2="high:Q")
    rule = alt.Chart(alt.InlineData(values=band)).mark_rule(color=NEUTRAL, strokeDash=[5, 4]).encode(y="mean:Q")
    return (area + rule + line).properties(width=CONTAINER, height=_HEIGHT)


def _rows(scores: Sequence[LevelScore], names: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "model": s.model,
            "name": names.get(s.model, s.model),
            "level": s.level,
            "shots": str(s.shots),
            "mean": s.mean,
            "low": s.mean - s.std,
            "high": s.mean + s.std,
            "shown": f"{100 * s.mean:.1f} ± {100 * s.std:.1f}",
            "similarity": "" if s.similarity is None else f"{s.similarity:.3f}",
        }
        for s in scores
    ]


def _order(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return order_levels(row["level"] for row in rows)


def _lines(
    rows: Sequence[Mapping[str, Any]],
    names: Mapping[str, str],
    *,
    x: str,
    x_order: Sequence[str],
    y: str,
    title: str,
    percent: bool,
    errors: bool = True,
) -> Any:
    """One line per model over an ordered axis, with a point and a bar of one standard deviation at each place."""
    import altair as alt

    color, shape = _channels(names)
    axis = alt.Axis(format=".0%" if percent else "+.1f", tickCount=6)
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X(x, sort=list(x_order), title="images per concept" if x.startswith("shots") else None),
        color=color,
        opacity=alt.condition(_FOCUS, alt.value(1.0), alt.value(0.12)),
        tooltip=[
            alt.Tooltip("name:N", title="model"),
            alt.Tooltip("level:N"),
            alt.Tooltip("shots:N", title="images per concept"),
            alt.Tooltip("shown:N", title="top-1 (%)"),
            *([alt.Tooltip("gap:Q", title="difference (points)", format="+.2f")] if y == "gap" else []),
            alt.Tooltip("similarity:N", title="mean similarity"),
        ],
    )
    value = alt.Y(f"{y}:Q", title=title, axis=axis, scale=alt.Scale(zero=False, nice=True))
    parts = [
        base.mark_line(strokeWidth=2.5).encode(y=value, detail="model:N"),
        base.mark_point(filled=True, size=70).encode(y=value, shape=shape),
    ]
    if errors:
        parts.append(base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2="high:Q"))
    return _finished(alt.layer(*parts))


def _channels(names: Mapping[str, str]) -> tuple[Any, Any]:
    """Colour and shape per model, the same in every chart with the same names."""
    import altair as alt

    labels = list(names.values())
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(labels))]
    shapes = [SHAPES[(i + i // len(PALETTE)) % len(SHAPES)] for i in range(len(labels))]
    return (
        alt.Color("name:N", title=None, scale=alt.Scale(domain=labels, range=colours)),
        alt.Shape("name:N", title=None, scale=alt.Scale(domain=labels, range=shapes)),
    )


def model_keys(names: Mapping[str, str]) -> list[Key]:
    """One legend for all charts of a page, which then need none of their own."""
    return [
        Key(name, PALETTE[i % len(PALETTE)], SYMBOLS[(i + i // len(PALETTE)) % len(SYMBOLS)])
        for i, name in enumerate(names.values())
    ]


def without_legend(chart: Any) -> Any:
    """The chart for a page whose section has a legend."""
    return chart.configure_legend(disable=True)


def _finished(chart: Any) -> Any:
    import altair as alt

    return chart.add_params(alt.param(name="focus", value="")).properties(width=CONTAINER, height=_HEIGHT)
