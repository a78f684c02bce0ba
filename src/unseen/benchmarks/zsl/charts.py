"""Charts of zero-shot results, one for each kind of figure of the paper, and the seen-unseen curve.

Paper:      Xian et al., TPAMI 2018: Fig. 3 `folds_chart`, Figs. 4 and 7 `rank_matrix_chart`, Figs. 5 and 6
            `splits_chart`, Fig. 8 `pairs_chart`; Fig. 2 is in `look.py`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unseen.benchmarks.zsl.compare import MethodRanks
from unseen.reports.charts import CONTAINER, FAINT, INK, NEUTRAL, OTHERS, PALETTE, SHAPES

_STEP = 24
_SHOWN = {"zsl": "ZSL", "ts": "ts", "tr": "tr", "H": "H"}


def comparison_chart(rows: Sequence[Mapping[str, Any]], order: Sequence[str], chance: float | None = None) -> Any:
    """Dots per method for zsl, ts, tr and H, with a line between ts and tr.

    Args:
        rows: each with `method`, `metric` and `value`, a fraction, and `low` and `high` where an interval is known.
        order: methods from top to bottom.
        chance: of guessing among unseen classes.
    """
    import altair as alt

    shown = [metric for metric in _SHOWN if any(row["metric"] == metric for row in rows)]
    values = [{**row, "measure": _SHOWN[row["metric"]], "told": f"{100 * row['value']:.1f} %"} for row in rows]
    y = alt.Y("method:N", sort=list(order), title=None)
    x = alt.X("value:Q", title="per-class top-1 accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=True))
    domain = [_SHOWN[metric] for metric in shown]
    colour = alt.Color("measure:N", scale=alt.Scale(domain=domain, range=list(OTHERS[: len(domain)])), title=None)
    shape = alt.Shape("measure:N", scale=alt.Scale(domain=domain, range=list(SHAPES[: len(domain)])), title=None)
    dots = (
        alt.Chart(alt.InlineData(values=values))
        .mark_point(filled=True, size=70, opacity=1)
        .encode(y=y, x=x, color=colour, shape=shape, tooltip=["method:N", "measure:N", "told:N"])
    )
    spans = _spans(rows)
    layers = [dots]
    bounded = [value for value in values if value.get("low") is not None]
    if bounded:
        whiskers = alt.Chart(alt.InlineData(values=bounded)).mark_rule(strokeWidth=1.5)
        layers.insert(0, whiskers.encode(y=y, x=alt.X("low:Q"), x2="high:Q", color=colour))
    if spans:
        line = alt.Chart(alt.InlineData(values=spans)).mark_rule(color=NEUTRAL, opacity=0.3, strokeWidth=3)
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


def folds_chart(rows: Sequence[Mapping[str, Any]], order: Sequence[str]) -> Any:
    """Fig. 3: accuracy with parameters chosen on each validation fold alone, a dot per fold.

    Args:
        rows: each with `method`, `fold` and `value`.
    """
    import altair as alt

    y = alt.Y("method:N", sort=list(order), title=None)
    values = [{**row, "told": f"{100 * row['value']:.1f} %"} for row in rows]
    dots = (
        alt.Chart(alt.InlineData(values=values))
        .mark_point(filled=True, size=60, opacity=0.9)
        .encode(
            y=y,
            x=alt.X(
                "value:Q", title="per-class top-1 accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False)
            ),
            color=alt.Color("fold:N", scale=alt.Scale(range=list(OTHERS[:3])), title=None),
            shape=alt.Shape("fold:N", scale=alt.Scale(range=list(SHAPES[:3])), title=None),
            tooltip=["method:N", "fold:N", "told:N"],
        )
    )
    ends = {m: [row["value"] for row in rows if row["method"] == m] for m in order}
    spans = [{"method": m, "low": min(v), "high": max(v)} for m, v in ends.items() if v]
    line = alt.Chart(alt.InlineData(values=spans)).mark_rule(color=NEUTRAL, opacity=0.3, strokeWidth=3)
    line = line.encode(y=y, x=alt.X("low:Q", scale=alt.Scale(zero=False)), x2="high:Q")
    return alt.layer(line, dots).properties(width=CONTAINER, height=max(1, len(order)) * _STEP)


def curve_chart(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> Any:
    """Seen-unseen curves: tr over ts as seen classes are handicapped; methods beyond six are grey.

    Args:
        curves: by method, the one with the greatest area first, its `ts` and `tr`.
    """
    import altair as alt

    values = [
        {"method": method, "ts": ts, "tr": tr, "step": i}
        for method, curve in curves.items()
        for i, (ts, tr) in enumerate(zip(curve["ts"], curve["tr"], strict=True))
    ]
    colours = [OTHERS[i] if i < len(OTHERS) else FAINT for i in range(len(curves))]
    percent = alt.Axis(format=".0%")
    return (
        alt.Chart(alt.InlineData(values=values))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("ts:Q", title="ts, unseen classes", axis=percent),
            y=alt.Y("tr:Q", title="tr, seen classes", axis=percent),
            order="step:Q",
            color=alt.Color(
                "method:N",
                scale=alt.Scale(domain=list(curves), range=colours),
                legend=alt.Legend(title=None, columns=4),
            ),
            tooltip=["method:N", alt.Tooltip("ts:Q", format=".1%"), alt.Tooltip("tr:Q", format=".1%")],
        )
        .properties(width=CONTAINER, height=320)
    )


def splits_chart(rows: Sequence[Mapping[str, Any]], splits: Sequence[str]) -> Any:
    """Figs. 5 and 6: accuracy of each method over the ImageNet splits.

    Args:
        rows: each with `method`, `split` and `value`.
    """
    import altair as alt

    methods = list(dict.fromkeys(str(row["method"]) for row in rows))
    colours = [OTHERS[i] if i < len(OTHERS) else FAINT for i in range(len(methods))]
    shapes = [SHAPES[i % len(SHAPES)] for i in range(len(methods))]
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X("split:N", sort=list(splits), title=None, axis=alt.Axis(labelAngle=-40)),
        y=alt.Y("value:Q", title="per-class accuracy", axis=alt.Axis(format=".0%")),
        color=alt.Color("method:N", scale=alt.Scale(domain=methods, range=colours), title=None),
        tooltip=["method:N", "split:N", alt.Tooltip("value:Q", format=".1%")],
    )
    dots = base.mark_point(filled=True, size=60).encode(
        shape=alt.Shape("method:N", scale=alt.Scale(domain=methods, range=shapes), title=None)
    )
    return alt.layer(base.mark_line(strokeWidth=1, opacity=0.5), dots).properties(width=CONTAINER, height=240)


def pairs_chart(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Fig. 8: a method beside its transductive form.

    Args:
        rows: each with `place`, `kind` ("inductive" or "transductive") and `value`.
    """
    import altair as alt

    places = list(dict.fromkeys(str(row["place"]) for row in rows))
    kinds = ["inductive", "transductive"]
    y = alt.Y("place:N", sort=places, title=None)
    base = alt.Chart(alt.InlineData(values=list(rows)))
    line = base.mark_line(color=FAINT, strokeWidth=3).encode(y=y, x="value:Q", detail="place:N")
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        y=y,
        x=alt.X("value:Q", title="per-class top-1 accuracy", axis=alt.Axis(format=".0%")),
        color=alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=list(OTHERS[:2])), title=None),
        shape=alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=list(SHAPES[:2])), title=None),
        tooltip=["place:N", "kind:N", alt.Tooltip("value:Q", format=".1%")],
    )
    return alt.layer(line, dots).properties(width=CONTAINER, height=max(1, len(places)) * _STEP)


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
