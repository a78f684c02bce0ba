"""Sections from metrics alone: the scores of a benchmark without a section, and the comparison over all questions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from unseen.core.identity import Values
from unseen.core.records import Details
from unseen.reports.blocks import Figure, Headline, Material, Section, Standing, Table, TableCell
from unseen.reports.charts import Axis, Dots, interval_fields
from unseen.reports.theme import Key
from unseen.reports.wording import (
    PERCENT,
    TIED,
    amount,
    counted,
    interval_text,
    is_reference,
    lead_sentence,
    leader,
)
from unseen.results.comparability import comparable, older_note, value_text
from unseen.results.grid import Column, Grid, Summary, make_grid, mean_candidate, metrics_of
from unseen.results.info import MetricStyle
from unseen.results.table import MARK_NOTE, DisplayNames, grid_table, mark_of
from unseen.stats import Decision, Interval, decide

_INTERVALS = "bars and brackets are 95 % confidence intervals over test images"

_GAP = TableCell(hint="no result, or not on all datasets")

# ---- the section of a benchmark --------------------------------------------------------------------------------------


def scores_section(material: Material, benchmark: str) -> Section | None:
    """Return a dot plot per dataset and tables of all models, or None if there is no result to show."""
    groups = comparable([r for r in material.results if r.cell.benchmark == benchmark], axes=())
    metrics = metrics_of(groups, benchmark)
    if not metrics:
        return None
    headline, *others = (make_grid(groups, [metric]) for metric in metrics)
    titles = {column: _title(column, material) for column in headline.columns}
    standings, over = _standings(headline), _over(headline)
    text, sure, clear = lead_sentence(standings, material.names)
    text += f" Values are the {over}." if over else ""
    return Section(
        title=f"{benchmark.capitalize()}: {headline.columns[0].style.spoken} by model and dataset",
        anchor=benchmark,
        prose=_prose(headline),
        points=[(title, _leader(headline, column, material.names)) for column, title in titles.items()],
        headlines=[Headline(benchmark.capitalize(), text, sure, clear)] if standings else [],
        standings=standings,
        legend=material.legend(headline.models),
        figures=[_figure(headline, column, material.keys, title) for column, title in titles.items()],
        tables=[_grid_table(grid, material, folded=grid is not headline) for grid in (headline, *others)],
    )


def _title(column: Column, material: Material) -> str:
    return " · ".join([material.dataset_names[column.dataset], *column.words])


def _prose(grid: Grid) -> list[str]:
    style, group = grid.columns[0].style, grid.groups[0]
    better = "more is better" if style.higher_is_better else "less is better"
    marks = f"{style.aggregate.capitalize()} over seeds, single seeds as ticks; {_INTERVALS}; chance as a dashed line."
    found = [f"{style.spoken.capitalize()}{' in percent' if style.percent else ''}: {better}. {marks}"]
    differing = {*group.differs, "benchmark", "dataset"}
    same = [f"{name} {value_text(value)}" for name, value in sorted(group.setting.items()) if name not in differing]
    found += [f"In every cell: {', '.join(same)}."] if same else []
    return [*found, f"{older_note(grid.older).capitalize()}."] if grid.older else found


def _means(grid: Grid) -> dict[str, list[Summary]]:
    """Return the summaries of the models with a value in every column: means of others are not comparable."""
    known = {place: summary for place, summary in grid.cells.items() if math.isfinite(summary.value)}
    found = {m: [known[m, c] for c in grid.columns if (m, c) in known] for m in grid.models}
    return {m: own for m, own in found.items() if len(own) == len(grid.columns)}


def _over(grid: Grid) -> str:
    """State what the mean of several columns is over; "" for one column."""
    columns, datasets = len(grid.columns), len({column.dataset for column in grid.columns})
    settings = "" if columns == datasets else f"{columns} settings on "
    return f"mean over {settings}{counted(datasets, 'dataset')}" if columns > 1 else ""


def _standings(grid: Grid) -> list[Standing]:
    """Return the mean over datasets of every model that has them all, with its confidence interval."""
    style, over = grid.columns[0].style, _over(grid)
    if not style.percent or not style.higher_is_better:
        return []
    question = f"{grid.benchmark.capitalize()}: {style.spoken}" + (f", {over}" if over else "")
    return [
        Standing(question, model, mean_candidate(own), [cell for summary in own for cell in summary.cells])
        for model, own in _means(grid).items()
    ]


def _leader(grid: Grid, column: Column, names: DisplayNames) -> str:
    """State which model leads on a dataset, whether the difference is significant, and chance."""
    decision, style = grid.decisions[column], column.style
    text, evidence = leader(decision, names, style)
    found = text.removesuffix(".") + (f" ({evidence})" if evidence not in ("", TIED) else "")
    chance = grid.cells[decision.order[0], column].chance if decision.order else None
    return f"{found}." if chance is None else f"{found}; chance is {style.text(chance)}{' %' if style.percent else ''}."


def _figure(grid: Grid, column: Column, keys: Mapping[str, Key], title: str) -> Figure:
    summaries = [grid.cells[model, column] for model in grid.models if (model, column) in grid.cells]
    chart = summary_dots(summaries, keys, chance=summaries[0].chance)
    details = Details.read(grid.groups[column.group].results[0].details)
    sizes = [counted(details.classes, "class", "classes")] if details.classes is not None else []
    if details.train_images is not None and details.test_images is not None:
        sizes.append(f"{details.train_images:,} training, {details.test_images:,} test images")
    return Figure(title, chart, f"{column.style.spoken} on {title}: {chart.words()}.", caption=" · ".join(sizes))


def summary_dots(summaries: Sequence[Summary], keys: Mapping[str, Key], chance: float | None = None) -> Dots:
    """Return a row per model: the value with its interval, the values of single seeds, and chance."""
    style = summaries[0].style
    return Dots(
        rows=[_row(summary, keys[summary.model]) for summary in summaries if math.isfinite(summary.value)],
        keys=list(keys.values()),
        above=True,
        seeds="seeds",
        chance=chance,
        x=Axis(style.spoken, kind="percent" if style.percent else "number"),
        tooltip={"name": "model", "model": "id", "shown": style.heading, "per_seed": "seeds"},
    )


def _row(summary: Summary, key: Key) -> Values:
    row: Values = {"model": summary.model, "name": key.label, "group": key.group}
    row |= {"shown": interval_text(summary.interval, summary.style), "cells": list(summary.cells)}
    row |= {"per_seed": summary.per_seed} if summary.per_seed else {}
    return row | interval_fields(summary.interval) | {"seeds": list(summary.values) if summary.per_seed else []}


def _grid_table(grid: Grid, material: Material, *, folded: bool) -> Table:
    """Return the table of a grid with the mean over datasets and the costs of the models."""
    table = grid_table(grid, grid.columns, {**material.names, **material.dataset_names})
    style, more = grid.columns[0].style, {}
    if len(grid.columns) > 1:
        means = {model: mean_candidate(own) for model, own in _means(grid).items()}
        decision = decide(means, higher_is_better=style.higher_is_better)
        more["mean"] = {model: _cell(model, decision, style) for model in means}
    # Costs stand last: a narrow screen shows the first columns.
    for name, title in (("parameters", "parameters"), ("flops", "FLOPs")):
        counts = {model: getattr(material.cards.get(model), name, None) for model in grid.models}
        if any(counts.values()):
            more[title] = {model: TableCell(amount(count) or "–", count) for model, count in counts.items()}
    rows = [
        [
            replace(name, note=model if name.text != model else ""),
            *cells,
            *(own.get(model, _GAP) for own in more.values()),
        ]
        for model, (name, *cells) in zip(table.row_keys, table.rows, strict=True)
    ]
    return replace(table, columns=[*table.columns, *more], rows=rows, folded=folded)


# ---- the comparison over all questions -------------------------------------------------------------------------------


def overview_section(sections: Sequence[Section], material: Material) -> Section | None:
    """Return the comparison; None if there are fewer than two models or questions."""
    standings = [standing for section in sections for standing in section.standings]
    order = ranking(standings)
    questions: dict[str, list[Standing]] = {}
    for standing in standings:
        questions.setdefault(standing.question, []).append(standing)
    if len(order) < 2 or len(questions) < 2:
        return None
    keys = {model: material.keys[model] for model in order}
    columns = []
    for own in questions.values():
        decision = decide({each.model: each.candidate for each in own})
        columns.append({each.model: _cell(each.model, decision, PERCENT, each.cells) for each in own})
    rows = [[TableCell(keys[m].label, hint=m), *(cells.get(m, _GAP) for cells in columns)] for m in order]
    caption = "Accuracy (%) and its 95 % confidence interval"
    return Section(
        title="The models over all questions",
        anchor="overview",
        prose=[
            f"{_INTERVALS.capitalize()}. Models are ordered by mean rank.",
            "Accuracies of different questions are not comparable.",
        ],
        legend=material.legend(order),
        figures=[Figure("Accuracy by question", overview_chart(standings, keys), wide=True)],
        tables=[Table(caption, ["model", *questions], rows, order, notes=[f"{MARK_NOTE}."])],
    )


def ranking(standings: Sequence[Standing]) -> list[str]:
    """Return models by their mean rank over questions (equal values share one), those with gaps after the others."""
    ranks: dict[str, list[float]] = {}
    for standing in standings:
        others = [other.value for other in standings if other.question == standing.question]
        above, equal = sum(v > standing.value for v in others), others.count(standing.value)
        ranks.setdefault(standing.model, []).append(above + (equal + 1) / 2)
    return sorted(ranks, key=lambda m: (is_reference(m), -len(ranks[m]), sum(ranks[m]) / len(ranks[m]), m))


def overview_chart(standings: Sequence[Standing], keys: Mapping[str, Key]) -> Dots:
    """Return a band per question with a dot per model and its interval; models have one order in all bands."""
    rows = [
        {"model": s.model, "name": keys[s.model].label, "group": keys[s.model].group, "question": s.question}
        | {**interval_fields(s.interval), "shown": f"{interval_text(s.interval, PERCENT)} %", "cells": list(s.cells)}
        for s in standings
        if math.isfinite(s.value)
    ]
    return Dots(rows=rows, keys=list(keys.values()), y="question", above=True, x=Axis("accuracy"))


def _cell(model: str, decision: Decision, style: MetricStyle, cells: Sequence[str] = ()) -> TableCell:
    """Return the value of a candidate with its interval, marked if the decision supports it."""
    own = decision.intervals.get(model, Interval(math.nan, math.nan, math.nan))
    mark, hint, n = mark_of(model, decision), f"{own.value!r}", own.n or None
    return TableCell(mark=mark, hint=hint, cells=cells, value=own.value, interval=own, metric=style, n=n)
