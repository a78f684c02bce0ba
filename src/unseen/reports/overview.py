"""Models over all questions: one chart, one table, and the order that "the best k" means on the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from unseen.reports.blocks import Figure, Key, Material, Section, Standing, Table, TableCell, decide_standings
from unseen.reports.charts import Axis, Dots, interval_fields
from unseen.reports.wording import PERCENT, is_reference
from unseen.results.table import MARK_NOTE, mark_of
from unseen.stats import Decision


def overview_section(sections: Sequence[Section], material: Material) -> Section | None:
    """The comparison; None where there are fewer than two models or questions: a section says it then."""
    standings = [standing for section in sections for standing in section.standings]
    order = ranking(standings)
    questions = list(dict.fromkeys(s.question for s in standings))
    if len(order) < 2 or len(questions) < 2:
        return None
    keys = {model: material.keys[model] for model in order}
    return Section(
        title="The models over all questions",
        anchor="overview",
        prose=[
            "Bars and brackets are 95 % confidence intervals over test images. Models are ordered by mean rank.",
            "Accuracies of different questions are not comparable.",
        ],
        legend=material.legend(order),
        figures=[
            Figure("Accuracy by question", overview_chart(standings, keys), wide=True),
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


def overview_chart(standings: Sequence[Standing], keys: Mapping[str, Key]) -> Dots:
    """Return a band per question with a dot per model and its interval; models have one order in all bands."""
    rows = [
        {"model": s.model, "name": keys[s.model].label, "group": keys[s.model].group, "question": s.question}
        | {**interval_fields(s.interval), "shown": f"{_text(s)} %", "cells": list(s.cells)}
        for s in standings
        if math.isfinite(s.value)
    ]
    return Dots(rows=rows, keys=list(keys.values()), y="question", above=True, x=Axis("accuracy"))


def _table(standings: Sequence[Standing], questions: Sequence[str], keys: Mapping[str, Key]) -> Table:
    found = {(s.model, s.question): s for s in standings}
    decisions = {q: decide_standings([s for s in standings if s.question == q]) for q in questions}
    rows = []
    for model, key in keys.items():
        row = [TableCell(key.label, key.label.lower(), note=model if key.label != model else "")]
        for question in questions:
            s = found.get((model, question))
            row.append(TableCell("–", None, hint="no result") if s is None else standing_cell(s, decisions[question]))
        rows.append(row)
    return Table(
        "Accuracy (%) and its 95 % confidence interval",
        ["model", *questions],
        rows,
        numeric=range(1, len(questions) + 1),
        row_keys=list(keys),
        notes=[f"{MARK_NOTE}."],
    )


def standing_cell(standing: Standing, decision: Decision | None = None) -> TableCell:
    """Return the cell of a standing: the value with its interval, marked if the decision supports it."""
    return TableCell(
        mark=mark_of(standing.model, decision) if decision is not None else "",
        hint=f"{standing.value!r}",
        cells=standing.cells,
        value=standing.value,
        interval=standing.interval,
        metric=PERCENT,
        n=standing.interval.n or None,
    )


def _text(standing: Standing) -> str:
    return standing_cell(standing).full
