"""A dot plot: one row per model, its mean, its spread, its single seeds, and chance.

Dots need no zero to be read, so that close models can be told apart; rows have the same order in every panel, so that
panels can be compared. `focus` is a parameter of the chart: the page sets it to the model under the pointer, here and
in all other charts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from unseen.reports.blocks import Key
from unseen.reports.charts import CONTAINER, FOCUS, INK, NEUTRAL, series_channels
from unseen.results.grid import Summary
from unseen.results.styles import MetricStyle

_STEP, _TIGHT = 46, 28
#: Beyond so many models rows are tight.
_MANY = 12
_LABEL_WIDTH = 210


def dot_plot(
    summaries: Sequence[Summary],
    *,
    keys: Mapping[str, Key],
    order: Sequence[str],
    chance: float | None = None,
) -> Any:
    """An Altair chart of one metric on one dataset.

    Args:
        summaries: one per model; those that are not finite are left out.
        keys: name, colour and symbol per model.
        order: models from top to bottom.
        chance: the metric of guessing, drawn as a dashed line unless it is so far off that it would squeeze the rest.
    """
    import altair as alt

    style = summaries[0].style
    rows = [_row(s, keys) for s in summaries if math.isfinite(s.mean)]
    known = {row["model"] for row in rows}
    labels = [keys[model].label for model in order if model in known]
    color, shape = (channel.legend(None) for channel in series_channels([keys[m] for m in order], "label"))
    tight = len(rows) > _MANY
    step = _TIGHT if tight else _STEP
    tooltip = [alt.Tooltip(f"{field}:N", title=title) for field, title in _tooltip_fields(rows, style.spoken)]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("label:N", sort=labels, title=None, axis=alt.Axis(labels=False, grid=True), scale=alt.Scale(padding=0)),
        color=color,
        opacity=alt.condition(FOCUS, alt.value(1.0), alt.value(0.18)),
        tooltip=tooltip,
    )
    axis = alt.Axis(format=".0%" if style.percent else "~g", tickCount=5, labelFlush=True, grid=False)
    bar = base.mark_rule(strokeWidth=2.5, strokeCap="round").encode(
        x=alt.X("low:Q", title=style.spoken, axis=axis, scale=alt.Scale(zero=False, nice=True, padding=8)),
        x2="high:Q",
    )
    ticks = base.transform_flatten(["values"]).mark_tick(thickness=1.5, height=13)
    seeds = ticks.encode(x="values:Q", opacity=alt.condition(FOCUS, alt.value(0.5), alt.value(0.1)))
    dots = base.mark_point(filled=True, size=40 if tight else 80, strokeWidth=0).encode(x="mean:Q", shape=shape)
    # Names and values stand over the track, so that the track has the whole width, also on a phone.
    words: dict[str, Any] = {"dy": -step * 0.42, "baseline": "middle", "fontSize": 10 if tight else 12.5}
    name = base.mark_text(align="left", limit=_LABEL_WIDTH, **words).encode(
        x=alt.value(0), text="label:N", color=alt.value(INK)
    )
    value = base.mark_text(align="right", fontWeight=600, **words).encode(
        x=alt.value("width"), text="shown:N", color=alt.value(INK)
    )
    layers = [*_chance_line(chance, rows, style), bar, seeds, dots, name, value]
    return (
        alt.layer(*layers)
        .add_params(alt.param(name="focus", value=""))
        .properties(width=CONTAINER, height=max(1, len(rows)) * step)
    )


def _chance_line(chance: float | None, rows: Sequence[Mapping[str, Any]], style: MetricStyle) -> list[Any]:
    import altair as alt

    if chance is None or not math.isfinite(chance) or not rows:
        return []
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    if max(low - chance, chance - high) > high - low > 0:
        return []  # models would share less than half of the axis
    line = alt.Chart(alt.InlineData(values=[{"chance": chance, "told": f"chance: {style.text(chance)}"}]))
    encoded = line.encode(x="chance:Q", tooltip=alt.Tooltip("told:N", title=" "))
    return [encoded.mark_rule(strokeDash=[3, 4], color=NEUTRAL, strokeWidth=1.5)]


def _row(summary: Summary, keys: Mapping[str, Key]) -> dict[str, Any]:
    style = summary.style
    low, high = summary.bounds or (summary.low, summary.high)
    row: dict[str, Any] = {
        "model": summary.model,
        "label": keys[summary.model].label,
        "group": keys[summary.model].group,
        "mean": summary.mean,
        "low": low if math.isfinite(low) else summary.mean,
        "high": high if math.isfinite(high) else summary.mean,
        "values": list(summary.values) if len(summary.values) > 1 else [],
        "shown": shown_text(summary),
        "told": style.text(summary.mean) + ("\u202f%" if style.percent else ""),
        "cells": list(summary.cells),
    }
    if summary.bounds:
        row["interval"] = f"{style.text(low)} to {style.text(high)}"
    if spread_text(summary):
        row["spread"] = spread_text(summary)
    if len(summary.values) > 1:
        row["per_seed"] = ", ".join(
            f"{style.text(value)} (seed {seed})" for seed, value in zip(summary.seeds, summary.values, strict=True)
        )
    return row


def _tooltip_fields(rows: Sequence[Mapping[str, Any]], metric: str) -> list[tuple[str, str]]:
    fields = [("label", "model"), ("model", "id"), ("told", metric), ("interval", "95 % interval, test images")]
    fields += [("spread", "over seeds"), ("per_seed", "seeds")]
    return [(field, title) for field, title in fields if any(field in row for row in rows)]


def shown_text(summary: Summary) -> str:
    """The value with the interval over test images where it is known, else with the spread over seeds, if any."""
    style = summary.style
    if summary.bounds:
        return f"{style.text(summary.mean)} [{style.text(summary.bounds[0])}, {style.text(summary.bounds[1])}]"
    return summary.text if spread_text(summary) else style.text(summary.mean)


def spread_text(summary: Summary) -> str:
    """The spread over seeds; nothing of one seed, and words where all seeds agree: no spread is no certainty."""
    if math.isnan(summary.std):
        return ""
    count = len(summary.values)
    if summary.std == 0:
        return f"the same with all {count} seeds" if summary.bounds else ""
    return f"± {summary.style.text(summary.std)} ({count} seeds)"
