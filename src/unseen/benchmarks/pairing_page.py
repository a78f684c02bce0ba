"""The comparison of two models as a page: what it comes to, one chart of all differences, what is known of both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from unseen.benchmarks.pairing import Duel, summary_lines
from unseen.core.records import ModelCard
from unseen.reports.blocks import Figure, Key, Section, Table, TableCell
from unseen.reports.charts import CONTAINER, INK, NEUTRAL, PALETTE, SYMBOLS, series_channels, to_spec
from unseen.reports.page import Page
from unseen.reports.wording import amount, counted

_STEP = 24
_FACTS = ("id", "group", "architecture", "parameters", "flops", "feature_dim", "source", "license", "citation", "notes")
_TITLES = {"flops": "FLOPs per image", "feature_dim": "feature dimensions", "id": "name"}


def comparison_page(
    found: Sequence[Duel], first: str, second: str, *, names: Mapping[str, str], cards: Mapping[str, ModelCard]
) -> Page:
    """The page of a comparison; `names` has models and datasets."""
    lead, *said = summary_lines(found, names, first, second)
    chart = difference_chart(found, first, second, names)
    figures = []
    if chart is not None:
        about = "A dot per question, the difference of the two models in points, and its 95 % interval."
        figures = [Figure(f"{names[first]} minus {names[second]}", to_spec(chart), about, about, wide=True)]
    tables = [_table(found, first, second, names), _facts(first, second, names, cards)]
    title = f"{names[first]} and {names[second]}"
    words = [line.partition(": ") for line in said]
    rows = [[TableCell(where, where.lower()), TableCell(told)] for where, colon, told in words if colon]
    if rows:
        tables.insert(1, Table("In words, by benchmark and dataset", ["where", "what"], rows, folded=True))
    section = Section(
        "Question by question",
        "comparison",
        answer=[("", lead)],
        prose=[where for where, colon, _ in words if not colon],
        figures=figures,
        tables=tables,
    )
    return Page([section], f"{title}, compared", [counted(len(found), "question")])


def difference_chart(found: Sequence[Duel], first: str, second: str, names: Mapping[str, str]) -> Any | None:
    """An Altair chart of all differences that are percentages; None where there are none."""
    import altair as alt

    unclear = "not clear"
    keys = [
        Key(f"{names[first]} is better", PALETTE[0], SYMBOLS[0]),
        Key(f"{names[second]} is better", PALETTE[1], SYMBOLS[1]),
        Key(unclear, NEUTRAL, SYMBOLS[3]),
    ]
    labels = {1: keys[0].label, -1: keys[1].label, 0: unclear}
    rows: list[dict[str, Any]] = [
        {
            "question": _label(duel, found, names),
            "difference": 100 * duel.difference,
            "low": 100 * (duel.low if math.isfinite(duel.low) else duel.difference),
            "high": 100 * (duel.high if math.isfinite(duel.high) else duel.difference),
            "verdict": labels[duel.verdict],
            "told": f"{duel.style.text(duel.first.mean)} and {duel.style.text(duel.second.mean)}",
            "images": f"{duel.images:,}" if duel.images else "not known",
        }
        for duel in found
        if duel.style.percent and math.isfinite(duel.difference)
    ]
    if not rows:
        return None
    colour, shape = series_channels(
        [key for key in keys if any(row["verdict"] == key.label for row in rows)], "verdict"
    )
    tooltip = [
        alt.Tooltip("question:N"),
        alt.Tooltip("told:N", title="in percent"),
        alt.Tooltip("images:N", title="test images"),
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("question:N", sort=[row["question"] for row in rows], title=None, axis=alt.Axis(labelLimit=340)),
        tooltip=tooltip,
    )
    title = f"points: right of zero {names[first]} has more"
    at = alt.Axis(tickCount=7)
    bar = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=title, axis=at), x2="high:Q", color=colour)
    dots = base.mark_point(filled=True, size=70).encode(x="difference:Q", color=colour, shape=shape)
    zero = alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule(color=INK, strokeDash=[3, 3]).encode(x="zero:Q")
    return alt.layer(zero, bar, dots).properties(width=CONTAINER, height=max(2, len(rows)) * _STEP)


def _label(duel: Duel, found: Sequence[Duel], names: Mapping[str, str]) -> str:
    parts = [duel.benchmark] if len({each.benchmark for each in found}) > 1 else []
    data = {each.dataset for each in found if each.benchmark == duel.benchmark}
    parts += [names.get(duel.dataset, duel.dataset)] if len(data) > 1 else []
    parts += [" ".join(value if name in ("level", "method") else f"{name} {value}" for name, value in duel.setting)]
    return " · ".join(part for part in parts if part) or duel.style.spoken


def _table(found: Sequence[Duel], first: str, second: str, names: Mapping[str, str]) -> Table:
    columns = ["question", "metric", names[first], names[second], "difference", "95 % interval", "p", "how", "images"]
    rows = [
        [
            TableCell(_label(duel, found, names), _label(duel, found, names)),
            TableCell(duel.style.heading),
            TableCell(duel.style.text(duel.first.mean), duel.first.mean, best=duel.verdict == 1),
            TableCell(duel.style.text(duel.second.mean), duel.second.mean, best=duel.verdict == -1),
            TableCell(_number(duel, duel.difference), duel.difference),
            TableCell(f"{_number(duel, duel.low)} to {_number(duel, duel.high)}" if duel.how else "–"),
            TableCell(f"{duel.corrected:.2g}" if duel.how else "–", duel.corrected if duel.how else None),
            TableCell({"images": "same images", "intervals": "two intervals", "": "no test"}[duel.how]),
            TableCell(f"{duel.images:,}" if duel.images else "–", duel.images),
        ]
        for duel in found
    ]
    return Table("Every question (p corrected by Holm's method)", columns, rows, numeric=(2, 3, 4, 5, 6, 8))


def _number(duel: Duel, value: float) -> str:
    return f"{100 * value:+.1f}" if duel.style.percent else f"{value:+.4g}"


def _facts(first: str, second: str, names: Mapping[str, str], cards: Mapping[str, ModelCard]) -> Table:
    rows = []
    for fact in _FACTS:
        texts = []
        for model in (first, second):
            value: Any = getattr(cards.get(model), fact, None) if fact != "id" else model
            texts.append(amount(value) if fact in ("parameters", "flops") else str(value) if value else "")
        if any(texts):
            rows.append([TableCell(_TITLES.get(fact, fact)), *(TableCell(text or "–") for text in texts)])
    return Table("What is known of both", ["", names[first], names[second]], rows)
