"""Charts of what a search tried: which values are good, task by task, and how all settings did by value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from unseen.metrics.sensitivity import Sensitivity
from unseen.reports.charts import PALETTE

_BEST, _GOOD = PALETTE[1], PALETTE[2]


def good_values_chart(name: str, found: Mapping[str, Sensitivity]) -> Any:
    """One hyper-parameter, a row per task: values within two points of the best, and the best (Figures 8 to 11).

    Args:
        found: by title of the task.
    """
    import altair as alt

    continuous = any(s.binned for s in found.values())
    text: Callable[[Any], Any] = (lambda value: value) if continuous else short
    tried: list[Any] = list(dict.fromkeys(text(value) for s in found.values() for value in s.tried))
    rows = [
        {"task": task, "value": text(value), "kind": kind}
        for task, s in found.items()
        for kind, values in (("within 2 points", s.good), ("best", (s.best,)))
        for value in values
    ]
    if continuous:
        scale = alt.Scale(type="log" if min(tried) > 0 else "linear", domain=[min(tried), max(tried)])
        x = alt.X("value:Q", scale=scale, title=name)
    else:
        x = alt.X("value:N", scale=alt.Scale(domain=tried), title=name, axis=alt.Axis(labelAngle=-30))
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, y=alt.Y("task:N", sort=list(found), title=None))
    kinds = alt.Color("kind:N", scale=alt.Scale(domain=["within 2 points", "best"], range=[_GOOD, _BEST]), title=None)
    green = base.transform_filter("datum.kind == 'within 2 points'").mark_square(size=120, opacity=0.45)
    red = base.transform_filter("datum.kind == 'best'").mark_circle(size=70, opacity=1)
    layers = alt.layer(green.encode(color=kinds), red.encode(color=kinds))
    return layers.properties(width=170, height=max(1, len(found)) * 18)


def violin_chart(found: Sensitivity) -> Any:
    """Scores by the value of one hyper-parameter, as mirrored densities (Figures 12 and 13)."""
    import altair as alt

    by_value = {short(value): scores for value, scores in found.scores.items()} or dict(found.binned)
    rows = [{"value": value, "accuracy": score} for value, scores in by_value.items() for score in scores]
    width = max(36, 240 // max(1, len(by_value)))
    slant: dict[str, Any] = {"labelAngle": -25, "labelAlign": "right"} if found.binned else {}
    header = alt.Header(labelOrient="bottom", **slant)
    return (
        alt.Chart(alt.InlineData(values=rows), width=width, height=150)
        .transform_density("accuracy", as_=["accuracy", "density"], groupby=["value"], steps=60)
        .mark_area(orient="horizontal", color=PALETTE[0], opacity=0.7)
        .encode(
            y=alt.Y("accuracy:Q", axis=alt.Axis(format=".0%"), title="validation accuracy"),
            x=alt.X("density:Q", stack="center", axis=None),
            column=alt.Column("value:N", title=found.name, spacing=4, sort=list(by_value), header=header),
        )
    )


def short(value: Any) -> str:
    """A value of a hyper-parameter in a few characters."""
    return f"{value:.2g}" if isinstance(value, float) else str(value)
