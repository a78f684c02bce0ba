"""Charts of zero-shot results: seen against unseen accuracy per method, and rank matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unseen.benchmarks.zsl.compare import MethodRanks
from unseen.reports.charts import CONTAINER, FAINT, INK, NEUTRAL, PALETTE, SHAPES

_STEP = 24
_SHOWN = {"zsl": "ZSL", "ts": "ts", "tr": "tr", "H": "H"}


def comparison_chart(rows: Sequence[Mapping[str, Any]], order: Sequence[str], chance: float | None = None) -> Any:
    """Dots per method for zsl, ts, tr and H, with a line between ts and tr.

    Args:
        rows: each with `method`, `metric` and `value`, a fraction.
        order: methods from top to bottom.
        chance: of guessing among unseen classes.
    """
    import altair as alt

    shown = [metric for metric in _SHOWN if any(row["metric"] == metric for row in rows)]
    values = [{**row, "measure": _SHOWN[row["metric"]], "told": f"{100 * row['value']:.1f} %"} for row in rows]
    y = alt.Y("method:N", sort=list(order), title=None)
    x = alt.X("value:Q", title="per-class top-1 accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=True))
    domain = [_SHOWN[metric] for metric in shown]
    colour = alt.Color("measure:N", scale=alt.Scale(domain=domain, range=list(PALETTE[: len(domain)])), title=None)
    shape = alt.Shape("measure:N", scale=alt.Scale(domain=domain, range=list(SHAPES[: len(domain)])), title=None)
    dots = (
        alt.Chart(alt.InlineData(values=values))
        .mark_point(filled=True, size=70, opacity=1)
        .encode(y=y, x=x, color=colour, shape=shape, tooltip=["method:N", "measure:N", "told:N"])
    )
    spans = _spans(rows)
    layers = [dots]
    if spans:
        line = alt.Chart(alt.InlineData(values=spans)).mark_rule(color=FAINT, strokeWidth=3)
        layers.insert(0, line.encode(y=y, x="low:Q", x2="high:Q"))
    if chance is not None:
        mark = alt.Chart(alt.InlineData(values=[{"value": chance}])).mark_rule(strokeDash=[3, 4], color=NEUTRAL)
        layers.insert(0, mark.encode(x="value:Q"))
    return alt.layer(*layers).properties(width=CONTAINER, height=max(1, len(order)) * _STEP)


def _spans(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    by_method: dict[str, dict[str, float]] = {}
    for row in rows:
        by_method.setdefault(row["method"], {})[row["metric"]] = row["value"]
    return [
        {"method": method, "low": min(v["ts"], v["tr"]), "high": max(v["ts"], v["tr"])}
        for method, v in by_method.items()
        if "ts" in v and "tr" in v
    ]


def rank_matrix_chart(ranks: MethodRanks) -> Any:
    """How often each method is at each rank, best mean rank first (Figs. 4 and 7 of the paper)."""
    import altair as alt

    table = ranks.table
    labels = [f"{m} [{r:.1f}]" for m, r in zip(table.methods, table.mean_ranks.tolist(), strict=True)]
    values = [
        {"method": label, "rank": j + 1, "times": int(count)}
        for label, row in zip(labels, table.counts.tolist(), strict=True)
        for j, count in enumerate(row)
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("rank:O", title="rank", axis=alt.Axis(labelAngle=0, grid=False)),
        y=alt.Y("method:N", sort=labels, title=None, axis=alt.Axis(grid=False)),
        tooltip=["method:N", "rank:O", "times:Q"],
    )
    cells = base.mark_rect().encode(
        color=alt.Color("times:Q", scale=alt.Scale(range=["#F4F6F9", PALETTE[0]]), legend=None)
    )
    half = max(int(table.counts.max()) / 2, 0.5)
    numbers = (
        base.transform_filter("datum.times > 0")
        .mark_text(fontSize=11)
        .encode(text="times:Q", color=alt.condition(f"datum.times > {half}", alt.value("white"), alt.value(INK)))
    )
    return alt.layer(cells, numbers).properties(width=CONTAINER, height=len(labels) * _STEP)
