"""A dot plot: one row per model, its mean, its spread, its single seeds, and chance.

Dots need no zero to be read, so that close models can be told apart; rows have the same order in every panel, so that
panels can be compared. `focus` is a parameter of the chart: the page sets it to the model under the pointer, here and
in all other charts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from unseen.core.records import ModelCard
from unseen.reports.blocks import Key
from unseen.reports.charts import CONTAINER, INK, NEUTRAL, PALETTE, SHAPES, SYMBOLS
from unseen.reports.wording import family, is_reference
from unseen.results.grid import Summary
from unseen.results.styles import MetricStyle

_STEP = 46
_LABEL_WIDTH = 210
_FOCUS = "focus == '' || focus == datum.model"


def legend_of(models: Sequence[str], cards: Mapping[str, ModelCard]) -> dict[str, Key]:
    """A colour and a symbol per family, the same in every chart; models with random weights are grey.

    Where families outnumber colours, symbols move on by one: 36 pairs before two families look the same.
    """
    learned = sorted({family(model, cards) for model in models if not is_reference(model)})
    keys = {
        name: Key(name, PALETTE[position % len(PALETTE)], SYMBOLS[(position + position // len(PALETTE)) % len(SYMBOLS)])
        for position, name in enumerate(learned)
    }
    for model in models:
        if is_reference(model):
            keys[family(model, cards)] = Key(family(model, cards), NEUTRAL, "●")
    return keys


def dot_plot(
    summaries: Sequence[Summary],
    *,
    names: Mapping[str, str],
    cards: Mapping[str, ModelCard],
    legend: Mapping[str, Key],
    order: Sequence[str],
    chance: float | None = None,
) -> Any:
    """An Altair chart of one metric on one dataset.

    Args:
        summaries: one per model; those that are not finite are left out.
        names: the label per model.
        order: models from top to bottom.
        chance: the metric of guessing, drawn as a dashed line unless it is so far off that it would squeeze the rest.
    """
    import altair as alt

    style = summaries[0].style
    rows = [_row(s, names, cards) for s in summaries if math.isfinite(s.mean)]
    labels = [names[model] for model in order if any(row["model"] == model for row in rows)]
    tooltip = [alt.Tooltip(f"{field}:N", title=title) for field, title in _tooltip_fields(rows, style.spoken)]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("label:N", sort=labels, title=None, axis=alt.Axis(labels=False, grid=True), scale=alt.Scale(padding=0)),
        color=_scaled(alt.Color, legend, [key.colour for key in legend.values()]),
        opacity=alt.condition(_FOCUS, alt.value(1.0), alt.value(0.18)),
        tooltip=tooltip,
    )
    axis = alt.Axis(format=".0%" if style.percent else "~g", tickCount=5, labelFlush=True, grid=False)
    bar = base.mark_rule(strokeWidth=2.5, strokeCap="round").encode(
        x=alt.X("low:Q", title=style.spoken, axis=axis, scale=alt.Scale(zero=False, nice=True, padding=8)),
        x2="high:Q",
    )
    ticks = base.transform_flatten(["values"]).mark_tick(thickness=1.5, height=13)
    seeds = ticks.encode(x="values:Q", opacity=alt.condition(_FOCUS, alt.value(0.5), alt.value(0.1)))
    shape = _scaled(alt.Shape, legend, [SHAPES[SYMBOLS.index(key.symbol)] for key in legend.values()])
    dots = base.mark_point(filled=True, size=80, strokeWidth=0).encode(x="mean:Q", shape=shape)
    # Names and values stand over the track, so that the track has the whole width, also on a phone.
    words: dict[str, Any] = {"dy": -_STEP * 0.42, "baseline": "middle", "fontSize": 12.5}
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
        .properties(width=CONTAINER, height=max(1, len(rows)) * _STEP)
    )


def _scaled(channel: Any, legend: Mapping[str, Key], values: Sequence[str]) -> Any:
    """A channel that gives each family its own colour or shape, the same in every chart."""
    import altair as alt

    return channel("family:N", scale=alt.Scale(domain=list(legend), range=list(values)), legend=None)


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


def _row(summary: Summary, names: Mapping[str, str], cards: Mapping[str, ModelCard]) -> dict[str, Any]:
    style = summary.style
    row: dict[str, Any] = {
        "model": summary.model,
        "label": names[summary.model],
        "family": family(summary.model, cards),
        "mean": summary.mean,
        "low": summary.low if math.isfinite(summary.low) else summary.mean,
        "high": summary.high if math.isfinite(summary.high) else summary.mean,
        "values": list(summary.values) if len(summary.values) > 1 else [],
        "shown": summary.text,
        "told": style.text(summary.mean, summary.std) + ("\u202f%" if style.percent else ""),
    }
    if summary.spread == "interval":
        row["interval"] = f"{style.text(summary.low)} to {style.text(summary.high)}"
    if len(summary.values) > 1:
        row["per_seed"] = ", ".join(
            f"{style.text(value)} (seed {seed})" for seed, value in zip(summary.seeds, summary.values, strict=True)
        )
    return row


def _tooltip_fields(rows: Sequence[Mapping[str, Any]], metric: str) -> list[tuple[str, str]]:
    fields = [("label", "model"), ("model", "id"), ("told", metric), ("interval", "interval"), ("per_seed", "seeds")]
    return [(field, title) for field, title in fields if any(field in row for row in rows)]
