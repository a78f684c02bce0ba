"""Charts of VTAB: bars by group, kind and task, agreement of rankings, budgets, metrics, sizes of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from unseen.reports.charts import CONTAINER, FOCUS, INK, NEUTRAL, OTHERS, PALETTE, SHAPES

#: One colour per group of tasks, in all charts.
GROUP_COLOURS: Mapping[str, str] = {
    "natural": OTHERS[1],
    "specialized": OTHERS[2],
    "structured": OTHERS[0],
    "other": NEUTRAL,
}
_STEP = 26


def group_chart(rows: Sequence[Mapping[str, Any]], order: Sequence[str]) -> Any:
    """Bars per model and group of tasks, with bootstrap intervals (Figures 2 and 3 of the paper).

    Args:
        rows: each with model, name, group, mean, low and high, as fractions.
        order: names of models, best first.
    """
    import altair as alt

    groups = [g for g in (*GROUP_COLOURS, "all") if any(row["group"] == g for row in rows)]
    focus = alt.param(name="focus", value="")
    values = [{**row, "told": f"{100 * row['mean']:.1f} %"} for row in rows]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y("name:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=280)),
        yOffset=alt.YOffset("group:N", sort=groups),
        tooltip=["name:N", "group:N", "told:N"],
    )
    colours = [GROUP_COLOURS.get(group, INK) for group in groups]
    bars = base.mark_bar(height={"band": 0.85}).encode(
        x=alt.X("mean:Q", title="mean top-1 accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=True)),
        color=alt.Color(
            "group:N", scale=alt.Scale(domain=groups, range=colours), title=None, legend=alt.Legend(columns=2)
        ),
        opacity=alt.condition(FOCUS, alt.value(1.0), alt.value(0.25)),
    )
    spans = base.mark_rule(color=INK, strokeWidth=1.5).encode(x=alt.X("low:Q"), x2="high:Q")
    height = max(1, len(order)) * (14 * len(groups) + 10)
    return alt.layer(bars, spans).add_params(focus).properties(width=CONTAINER, height=height)


def kind_chart(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Bars per kind of method and group of tasks, lines of one deviation over methods (Figure 2).

    Args:
        rows: each with kind, group, mean, low, high, in percent, and the number of methods.
    """
    import altair as alt

    kinds, groups = (list(dict.fromkeys(row[key] for row in rows)) for key in ("kind", "group"))
    colours = [PALETTE[k % len(PALETTE)] if k < len(PALETTE) else NEUTRAL for k in range(len(kinds))]
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X("group:N", sort=groups, title=None, axis=alt.Axis(labelAngle=0, grid=False)),
        xOffset=alt.XOffset("kind:N", sort=kinds),
        tooltip=["kind:N", "group:N", alt.Tooltip("mean:Q", format=".1f"), "methods:Q"],
    )
    bars = base.mark_bar(width={"band": 0.9}).encode(
        y=alt.Y("mean:Q", title="mean top-1 accuracy (%)"),
        color=alt.Color(
            "kind:N", scale=alt.Scale(domain=kinds, range=colours), title=None, legend=alt.Legend(columns=2)
        ),
    )
    spans = base.mark_bar(color=INK, width=2).encode(y=alt.Y("low:Q"), y2="high:Q")
    return alt.layer(bars, spans).properties(width=CONTAINER, height=260)


def task_chart(values: Mapping[str, float], groups: Mapping[str, str], title: str, *, spec: str = "+.1f") -> Any:
    """One bar per task, coloured by its group, in the order given (Figures 4, 5, 14, 15, 16 and 21).

    Args:
        title: of the axis.
        spec: how a value is written on hover.
    """
    import altair as alt

    rows = [{"task": task, "value": value, "group": groups.get(task, "other")} for task, value in values.items()]
    domain = [g for g in GROUP_COLOURS if any(row["group"] == g for row in rows)]
    return (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar()
        .encode(
            y=alt.Y("task:N", sort=list(values), title=None),
            x=alt.X("value:Q", title=title),
            color=alt.Color(
                "group:N", scale=alt.Scale(domain=domain, range=[GROUP_COLOURS[g] for g in domain]), title=None
            ),
            tooltip=["task:N", alt.Tooltip("value:Q", format=spec), "group:N"],
        )
        .properties(width=CONTAINER, height=max(1, len(rows)) * 18)
    )


def metric_chart(means: Mapping[str, float], title: str) -> Any:
    """Models in the order of one metric, best first (one panel of Figure 7)."""
    import altair as alt

    order = sorted(means, key=lambda name: -means[name])
    rows = [{"name": name, "mean": means[name]} for name in order]
    return (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(color=PALETTE[0])
        .encode(
            y=alt.Y("name:N", sort=order, title=None),
            x=alt.X("mean:Q", title=title),
            tooltip=["name:N", alt.Tooltip("mean:Q", format=".3f")],
        )
        .properties(width=CONTAINER, height=max(1, len(rows)) * 18)
    )


def scale_chart(rows: Sequence[Mapping[str, Any]], title: str) -> Any:
    """Scores over the number of parameters; colour is the family, size the width of the features (Figures 17, 18).

    Args:
        rows: each with name, family, parameters (millions), width and score.
        title: of the axis of scores.
    """
    import altair as alt

    families = list(dict.fromkeys(row["family"] for row in rows))
    colours = [PALETTE[k % len(PALETTE)] for k in range(len(families))]
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X("parameters:Q", scale=alt.Scale(type="log", nice=False, padding=30), title="parameters (millions)"),
        y=alt.Y("score:Q", axis=alt.Axis(format=".1%"), scale=alt.Scale(zero=False, padding=20), title=title),
    )
    dots = base.mark_circle(opacity=0.85).encode(
        color=alt.Color("family:N", scale=alt.Scale(domain=families, range=colours), title=None),
        size=alt.Size("width:Q", scale=alt.Scale(range=[60, 600]), legend=None),
        tooltip=["name:N", alt.Tooltip("parameters:Q", format=".1f"), "width:Q", alt.Tooltip("score:Q", format=".1%")],
    )
    words = base.mark_text(dy=-18, fontSize=11, stroke=None, strokeWidth=0).encode(text="name:N")
    return alt.layer(dots, words).properties(width=CONTAINER, height=280)


def tau_chart(names: Sequence[str], taus: npt.NDArray[Any]) -> Any:
    """Kendall's tau between every two ways of ranking (Table 4, and the rest of its matrix)."""
    import altair as alt

    values = [
        {"one": a, "other": b, "tau": float(taus[i, j])}
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if taus[i, j] == taus[i, j]
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("other:N", sort=list(names), title=None, axis=alt.Axis(labelAngle=-40, grid=False)),
        y=alt.Y("one:N", sort=list(names), title=None, axis=alt.Axis(grid=False)),
        tooltip=["one:N", "other:N", alt.Tooltip("tau:Q", format=".3f")],
    )
    cells = base.mark_rect().encode(
        color=alt.Color(
            "tau:Q", scale=alt.Scale(domain=[0.4, 1], clamp=True, range=["#F4F6F9", PALETTE[0]]), legend=None
        )
    )
    words = base.mark_text(fontSize=9, stroke=None, strokeWidth=0).encode(
        text=alt.Text("tau:Q", format=".2f"),
        color=alt.condition("datum.tau > 0.75", alt.value("white"), alt.value(INK)),
    )
    return alt.layer(cells, words).properties(width=CONTAINER, height=len(names) * _STEP)


def budget_chart(rows: Sequence[Mapping[str, Any]], *, by_task: bool = False) -> Any:
    """Top-1 over the number of steps, one line per model: the mean (Figure 6), or task by task (Figures 19 and 20)."""
    import altair as alt

    names = list(dict.fromkeys(row["name"] for row in rows))
    colours = [PALETTE[k % len(PALETTE)] for k in range(len(names))]
    shapes = [SHAPES[k % len(SHAPES)] for k in range(len(names))]
    title = "top-1 accuracy" if by_task else "mean top-1 accuracy"
    data, steps = alt.InlineData(values=list(rows)), sorted({row["steps"] for row in rows})
    shown = steps[:: 1 + len(steps) // 5] if by_task else steps
    axis = alt.Axis(values=shown, format="~s", labelOverlap=True)
    # Layers of panels take the data of their panel: with data of their own they would show all of it in each.
    base = (alt.Chart() if by_task else alt.Chart(data)).encode(
        x=alt.X("steps:Q", scale=alt.Scale(type="log"), axis=axis, title="steps of training"),
        y=alt.Y("top1:Q", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False), title=title),
        color=alt.Color("name:N", scale=alt.Scale(domain=names, range=colours), title=None),
        tooltip=["name:N", "steps:Q", alt.Tooltip("top1:Q", format=".1%")],
    )
    points = base.mark_point(filled=True, size=60).encode(
        shape=alt.Shape("name:N", scale=alt.Scale(domain=names, range=shapes))
    )
    lines = alt.layer(base.mark_line(), points)
    if not by_task:
        return lines.properties(width=CONTAINER, height=260)
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    panels = lines.properties(width=150, height=120).facet(
        facet=alt.Facet("task:N", sort=tasks, title=None), columns=4, data=data
    )
    return panels.resolve_scale(y="independent")
