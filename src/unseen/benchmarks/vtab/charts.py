"""Charts of VTAB: group bars, differences of two methods, agreement of rankings, budgets, and what a search tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from unseen.metrics.sensitivity import Sensitivity
from unseen.reports.charts import CONTAINER, FAINT, INK, NEUTRAL, PALETTE, SHAPES

#: One colour per group of tasks, in all charts.
GROUP_COLOURS: Mapping[str, str] = {
    "natural": PALETTE[4],
    "specialized": PALETTE[2],
    "structured": PALETTE[0],
    "other": NEUTRAL,
}
_FOCUS = "focus == '' || focus == datum.model"
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
        y=alt.Y("name:N", sort=list(order), title=None),
        yOffset=alt.YOffset("group:N", sort=groups),
        tooltip=["name:N", "group:N", "told:N"],
    )
    colours = [GROUP_COLOURS.get(group, INK) for group in groups]
    bars = base.mark_bar(height={"band": 0.85}).encode(
        x=alt.X("mean:Q", title="mean top-1 accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=True)),
        color=alt.Color("group:N", scale=alt.Scale(domain=groups, range=colours), title=None),
        opacity=alt.condition(_FOCUS, alt.value(1.0), alt.value(0.25)),
    )
    spans = base.mark_rule(color=INK, strokeWidth=1.5).encode(x=alt.X("low:Q"), x2="high:Q")
    height = max(1, len(order)) * (14 * len(groups) + 10)
    return alt.layer(bars, spans).add_params(focus).properties(width=CONTAINER, height=height)


def difference_chart(differences: Mapping[str, float], groups: Mapping[str, str], title: str) -> Any:
    """One bar per task for the difference of two methods in points (Figure 4)."""
    import altair as alt

    values = [{"task": t, "points": d, "group": groups.get(t, "other")} for t, d in differences.items()]
    domain = [g for g in GROUP_COLOURS if any(v["group"] == g for v in values)]
    return (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar()
        .encode(
            y=alt.Y("task:N", sort=list(differences), title=None),
            x=alt.X("points:Q", title=title),
            color=alt.Color(
                "group:N", scale=alt.Scale(domain=domain, range=[GROUP_COLOURS[g] for g in domain]), title=None
            ),
            tooltip=["task:N", alt.Tooltip("points:Q", format="+.1f"), "group:N"],
        )
        .properties(width=CONTAINER, height=max(1, len(values)) * 18)
    )


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


def budget_chart(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Mean top-1 over the number of steps, one line per model (Figure 6)."""
    import altair as alt

    names = list(dict.fromkeys(row["name"] for row in rows))
    colours = [PALETTE[k % len(PALETTE)] for k in range(len(names))]
    shapes = [SHAPES[k % len(SHAPES)] for k in range(len(names))]
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X("steps:Q", scale=alt.Scale(type="log"), title="steps of training"),
        y=alt.Y("top1:Q", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False), title="mean top-1 accuracy"),
        color=alt.Color("name:N", scale=alt.Scale(domain=names, range=colours), title=None),
        tooltip=["name:N", "steps:Q", alt.Tooltip("top1:Q", format=".1%")],
    )
    points = base.mark_point(filled=True, size=60).encode(
        shape=alt.Shape("name:N", scale=alt.Scale(domain=names, range=shapes))
    )
    return alt.layer(base.mark_line(), points).properties(width=CONTAINER, height=260)


def sensitivity_chart(found: Mapping[str, Sensitivity]) -> Any:
    """Per hyper-parameter how much of what was tried is within two points of the best (Figures 8 to 11)."""
    import altair as alt

    values = [
        {"parameter": name, "freedom": s.freedom, "best": str(s.best), "good": ", ".join(map(_short, s.good))}
        for name, s in found.items()
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y("parameter:N", sort="x", title=None),
        x=alt.X("freedom:Q", title="share of the range that is good", axis=alt.Axis(format=".0%")),
        tooltip=["parameter:N", "best:N", "good:N"],
    )
    bars = base.mark_bar(color=PALETTE[2])
    words = base.mark_text(align="left", dx=6, color=INK).encode(text=alt.Text("best:N"))
    rule = alt.Chart(alt.InlineData(values=[{"whole": 1}])).mark_rule(color=FAINT).encode(x="whole:Q")
    return alt.layer(rule, bars, words).properties(width=CONTAINER, height=max(1, len(values)) * _STEP)


def violin_chart(found: Sensitivity) -> Any:
    """Scores by the value of one discrete hyper-parameter, as mirrored densities (Figures 12 and 13)."""
    import altair as alt

    rows = [{"value": _short(value), "accuracy": score} for value, scores in found.scores.items() for score in scores]
    return (
        alt.Chart(alt.InlineData(values=rows), width=110, height=180)
        .transform_density("accuracy", as_=["accuracy", "density"], groupby=["value"], steps=60)
        .mark_area(orient="horizontal", color=PALETTE[0], opacity=0.7)
        .encode(
            y=alt.Y("accuracy:Q", axis=alt.Axis(format=".0%"), title="validation accuracy"),
            x=alt.X("density:Q", stack="center", axis=None),
            column=alt.Column("value:N", title=found.name, spacing=4),
        )
    )


def _short(value: Any) -> str:
    return f"{value:.2g}" if isinstance(value, float) else str(value)
