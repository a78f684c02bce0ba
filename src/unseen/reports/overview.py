"""Models over all questions: one chart, one table, and the order that "the best k" means on the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from unseen.reports.blocks import Figure, Key, Material, Section, Standing, Table, TableCell
from unseen.reports.charts import CONTAINER, FOCUS, percent_axis, series_channels, to_spec, without_legends
from unseen.reports.wording import bracketed, is_reference

_ROW = 15
#: Height of a question whose models are too many for a row each.
_MOST = 110


def overview_section(sections: Sequence[Section], material: Material) -> Section | None:
    """The comparison; None where there are fewer than two models or questions: a section says it then."""
    standings = [standing for section in sections for standing in section.standings]
    order = ranking(standings)
    questions = list(dict.fromkeys(s.question for s in standings))
    if len(order) < 2 or len(questions) < 2:
        return None
    keys = {model: material.keys[model] for model in order}
    told = "; ".join(f"{keys[s.model].label} {_text(s)} in {s.question}" for s in standings)
    return Section(
        title="The models over all questions",
        anchor="overview",
        prose=[
            "Bars and brackets are 95 % intervals over test images. Models stand in the order of their mean rank.",
            "Accuracies of different questions do not compare.",
        ],
        legend=material.legend(order),
        figures=[
            Figure(
                "Accuracy by question",
                without_legends(to_spec(overview_chart(standings, keys))),
                f"Accuracy by question and model: {told}.",
                wide=True,
            )
        ],
        tables=[_table(standings, questions, keys)],
    )


def ranking(standings: Sequence[Standing]) -> list[str]:
    """Models by their mean rank over questions (equal values share one), those with gaps after those without."""
    ranks: dict[str, list[float]] = {}
    questions = dict.fromkeys(s.question for s in standings)
    for question in questions:
        own = [s for s in standings if s.question == question]
        for s in own:
            above = sum(other.value > s.value for other in own)
            equal = sum(other.value == s.value for other in own)
            ranks.setdefault(s.model, []).append(above + (equal + 1) / 2)

    def key(model: str) -> tuple[bool, int, float, str]:
        found = ranks[model]
        return is_reference(model), len(questions) - len(found), sum(found) / len(found), model

    return sorted(ranks, key=key)


def overview_chart(standings: Sequence[Standing], keys: Mapping[str, Key]) -> Any:
    """A band per question, in it a dot per model with its interval; models in one order in all bands."""
    import altair as alt

    rows: list[dict[str, Any]] = [
        {
            "model": s.model,
            "name": keys[s.model].label,
            "group": keys[s.model].group,
            "question": s.question,
            "value": s.value,
            "low": s.low if math.isfinite(s.low) else s.value,
            "high": s.high if math.isfinite(s.high) else s.value,
            "told": f"{_text(s)} %",
            "cells": list(s.cells),
        }
        for s in standings
        if math.isfinite(s.value)
    ]
    questions = list(dict.fromkeys(row["question"] for row in rows))
    names = [key.label for key in keys.values()]
    axis = percent_axis([row[end] for row in rows for end in ("low", "high")])
    color, shape = series_channels(list(keys.values()))
    wide = max(map(len, questions)) * 6.2 > 210
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y(
            "question:N",
            sort=questions,
            title=None,
            # Words stand over their band: the band has the whole width, also on a phone.
            axis=alt.Axis(orient="left", labels=False, domain=False, grid=False),
            scale=alt.Scale(paddingInner=0.34, paddingOuter=0.3),
        ),
        yOffset=alt.YOffset("name:N", sort=names, scale=alt.Scale(domain=names)),
        color=color,
        opacity=alt.condition(FOCUS, alt.value(1.0), alt.value(0.12)),
        tooltip=[
            alt.Tooltip("name:N", title="model"),
            alt.Tooltip("question:N"),
            alt.Tooltip("told:N", title="accuracy"),
        ],
    )
    x = alt.X(
        "low:Q",
        title="accuracy",
        scale=alt.Scale(domain=axis["domain"], nice=False),
        axis=alt.Axis(format=axis["format"], values=axis["ticks"], labelFlush=True),
    )
    band = max(46, min(_MOST, _ROW * len(keys)))
    bars = base.mark_rule(strokeWidth=2 if len(keys) <= 8 else 1.2).encode(x=x, x2="high:Q")
    dots = base.mark_point(filled=True, size=70 if len(keys) <= 8 else 34, strokeWidth=0).encode(
        x="value:Q", shape=shape
    )
    step = band / (1 - 0.34)
    words = (
        alt.Chart(alt.InlineData(values=[{"question": q} for q in questions]))
        .mark_text(align="left", baseline="bottom", dy=-band / 2 - 5, fontWeight=600, limit=600 if wide else 0)
        .encode(y=alt.Y("question:N", sort=questions), x=alt.value(0), text="question:N")
    )
    height = step * (len(questions) - 0.34 + 0.6)
    return alt.layer(bars, dots, words).properties(width=CONTAINER, height=round(height))


def _table(standings: Sequence[Standing], questions: Sequence[str], keys: Mapping[str, Key]) -> Table:
    found = {(s.model, s.question): s for s in standings}
    best = {q: max(s.value for s in standings if s.question == q) for q in questions}
    rows = []
    for model, key in keys.items():
        row = [TableCell(key.label, key.label.lower(), note=model if key.label != model else "")]
        for question in questions:
            s = found.get((model, question))
            row.append(TableCell("–", None, hint="no result") if s is None else standing_cell(s, best[question]))
        rows.append(row)
    return Table(
        "Accuracy (%) and its 95 % interval",
        ["model", *questions],
        rows,
        numeric=range(1, len(questions) + 1),
        row_keys=list(keys),
    )


def standing_cell(standing: Standing, best: float) -> TableCell:
    """A standing in a table: the value, its interval below, its cells behind."""
    return TableCell(
        f"{100 * standing.value:.1f}",
        standing.value,
        best=standing.value == best,
        note=bracketed(standing.low, standing.high),
        hint=f"{standing.value!r}",
        cells=standing.cells,
    )


def _text(standing: Standing) -> str:
    return f"{100 * standing.value:.1f} {bracketed(standing.low, standing.high)}".rstrip()
