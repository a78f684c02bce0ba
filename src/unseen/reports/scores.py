"""Who does how well where: a dot plot per dataset and a table of all models.

This is the section of any benchmark that has none of its own: it asks of the results only that they have metrics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from unseen.core.records import ModelCard
from unseen.reports.blocks import Figure, Headline, Material, Section, Standing, Table, TableCell
from unseen.reports.charts import Axis, Dots, interval_fields
from unseen.reports.theme import Key
from unseen.reports.wording import amount, counted, lead_sentence, listed, short_names
from unseen.results.comparability import comparable, older_note, value_text
from unseen.results.grid import Column, Grid, Summary, make_grid, mean_candidate, metrics_of
from unseen.results.info import MetricStyle, info_of
from unseen.results.table import format_interval, grid_notes, mark_of, summary_cell
from unseen.stats import Difference, decide


def scores_section(material: Material, benchmark: str) -> Section | None:
    """The section of `benchmark`, or None where it has no result to show."""
    groups = comparable([r for r in material.results if r.cell.benchmark == benchmark], axes=())
    metrics = metrics_of(groups, benchmark)
    if not metrics:
        return None
    headline, *others = (make_grid(groups, [metric]) for metric in metrics)
    names = material.names
    datasets = short_names({column.dataset for column in headline.columns}, material.dataset_cards)
    titles = {column: _title(column, datasets) for column in headline.columns}
    return Section(
        title=f"{benchmark.capitalize()}: {headline.columns[0].style.spoken} by model and dataset",
        anchor=benchmark,
        prose=_prose(headline),
        points=[_leader(headline, column, names, titles[column]) for column in headline.columns],
        headlines=_headline(headline, names, benchmark),
        standings=_standings(headline, benchmark),
        legend=material.legend(headline.models),
        figures=[_figure(headline, column, material, titles[column]) for column in headline.columns],
        tables=[
            _table(headline, material, names, datasets),
            *(_table(grid, material, names, datasets, folded=True) for grid in others),
        ],
    )


def _prose(grid: Grid) -> list[str]:
    style = grid.columns[0].style
    summaries = list(grid.cells.values())
    counts = sorted({len(summary.values) for summary in summaries})
    better = "more is better" if style.higher_is_better else "less is better"
    dots = f"Dots are {style.aggregate}s over {listed([str(c) for c in counts])} seeds, ticks single seeds"
    bars = "bars and brackets are 95 % confidence intervals over test images"
    parts = [dots if counts[-1] > 1 else "Dots are single runs"]
    parts += [bars] if any(summary.interval.known for summary in summaries) else []
    parts += ["a dashed line is chance"] if any(_chance(grid, column) is not None for column in grid.columns) else []
    first = f"{style.spoken.capitalize()}{' in percent' if style.percent else ''}: {better}. {'; '.join(parts)}."
    constant = _constants(grid)
    found = [first, f"In every cell: {constant}."] if constant else [first]
    return [*found, f"{older_note(grid.older).capitalize()}."] if grid.older else found


def _constants(grid: Grid) -> str:
    """What the protocol had in common in all cells."""
    group = grid.groups[0]
    shared = {k: v for k, v in group.setting.items() if k not in group.differs and k not in ("benchmark", "dataset")}
    return ", ".join(f"{name} {value_text(value)}" for name, value in sorted(shared.items()))


def _standings(grid: Grid, benchmark: str) -> list[Standing]:
    """Return the mean over datasets of every model that has them all, with its confidence interval."""
    style = grid.columns[0].style
    if not style.percent or not style.higher_is_better:
        return []
    many = len(grid.columns)
    question = f"{benchmark.capitalize()}: {style.spoken}" + (f", mean over {many} datasets" if many > 1 else "")
    found = []
    for model in _complete(grid):
        own = [grid.cells[model, column] for column in grid.columns]
        found.append(Standing(question, model, mean_candidate(own), [cell for s in own for cell in s.cells]))
    return found


def _complete(grid: Grid) -> list[str]:
    """Return the models with a value in every column: means of others are not comparable."""
    return [
        model
        for model in grid.models
        if all((model, c) in grid.cells and math.isfinite(grid.cells[model, c].value) for c in grid.columns)
    ]


def _headline(grid: Grid, names: Mapping[str, str], benchmark: str) -> list[Headline]:
    """Who leads over all datasets, and whether the lead is more than the images could give by chance."""
    standings = _standings(grid, benchmark)
    if not standings:
        return []
    text, sure, clear = lead_sentence(standings, names)
    return [Headline(benchmark.capitalize(), text, sure, clear)]


def _leader(grid: Grid, column: Column, names: Mapping[str, str], title: str) -> tuple[str, str]:
    """State which model leads on a dataset, by how much, and whether the difference is significant."""
    decision, style = grid.decisions[column], column.style
    if not decision.order:
        return title, "no model has a finite value."
    best, *others = decision.order
    unit = "\u202f%" if style.percent else ""
    text = f"{names[best]} has {shown_text(grid.cells[best, column])}{unit}"
    if others:
        text += f", {_lead(decision.pairs[best, others[0]], style)} {names[others[0]]}"
    if (chance := _chance(grid, column)) is not None:
        text += f"; chance is {style.text(chance)}{unit}"
    return title, text + "."


def _lead(difference: Difference, style: MetricStyle) -> str:
    if difference.value == 0:
        return "equal to"
    unit = " points" if style.percent else ""
    gap = style.text(abs(difference.value))
    shown = "less than 0.1" if style.percent and gap == "0.0" else gap
    tested = "" if math.isnan(difference.p) else ", significant" if difference.significant else ", not significant"
    return f"{shown}{unit} ahead ({f'p = {difference.adjusted_p:.2g}' if tested else 'not tested'}{tested}) of"


def _details(grid: Grid, column: Column) -> Mapping[str, Any]:
    """What the benchmark says of the data of a column."""
    return grid.groups[column.group].results[0].details


def _chance(grid: Grid, column: Column) -> float | None:
    """Return the chance level of the headline metric, or None if it has none."""
    return info_of(grid.benchmark).chance(_details(grid, column))


def _title(column: Column, datasets: Mapping[str, str]) -> str:
    return " · ".join([datasets[column.dataset], *(f"{name} {value_text(value)}" for name, value in column.setting)])


def _figure(grid: Grid, column: Column, material: Material, title: str) -> Figure:
    summaries = [grid.cells[model, column] for model in grid.models if (model, column) in grid.cells]
    chart = summary_dots(summaries, material.keys, chance=_chance(grid, column))
    alt = f"{column.style.spoken} on {title}: {chart.words()}."
    return Figure(title, chart, alt, caption=_sizes(_details(grid, column)))


def summary_dots(summaries: Sequence[Summary], keys: Mapping[str, Key], chance: float | None = None) -> Dots:
    """Return a row per model: the value with its interval, the values of single seeds, and chance."""
    style = summaries[0].style
    return Dots(
        rows=[_row(s, keys[s.model]) for s in summaries if math.isfinite(s.value)],
        keys=list(keys.values()),
        above=True,
        seeds="seeds",
        chance=chance,
        x=Axis(style.spoken, kind="percent" if style.percent else "number"),
        tooltip={"name": "model", "model": "id", "shown": style.heading, "spread": "over seeds", "per_seed": "seeds"},
    )


def _row(summary: Summary, key: Key) -> dict[str, Any]:
    style, several = summary.style, len(summary.values) > 1
    row: dict[str, Any] = {"model": summary.model, "name": key.label, "group": key.group, "shown": shown_text(summary)}
    row |= {**interval_fields(summary.interval), "seeds": list(summary.values) if several else []}
    if several:
        seeds = zip(summary.seeds, summary.values, strict=True)
        row["per_seed"] = ", ".join(f"{style.text(value)} (seed {seed})" for seed, value in seeds)
    if not math.isnan(summary.std):
        row["spread"] = f"standard deviation {style.text(summary.std)} ({len(summary.values)} seeds)"
    return row | {"cells": list(summary.cells)}


def shown_text(summary: Summary) -> str:
    """Return the value with its confidence interval over test images, if it is known."""
    return f"{summary.style.text(summary.value)} {format_interval(summary.interval, summary.style)}".rstrip()


def _sizes(details: Mapping[str, Any]) -> str:
    """How large the dataset is, as the benchmark counted it."""
    classes, train, test = (details.get(key) for key in ("classes", "train_images", "test_images"))
    parts = [counted(classes, "class", "classes")] if isinstance(classes, int) else []
    if isinstance(train, int) and isinstance(test, int):
        parts.append(f"{train:,} training, {test:,} test images")
    return " · ".join(parts)


def _table(
    grid: Grid, material: Material, names: Mapping[str, str], datasets: Mapping[str, str], *, folded: bool = False
) -> Table:
    cards, style = material.cards, grid.columns[0].style
    with_size = any(_known(cards, model, "parameters") for model in grid.models)
    with_flops = any(_known(cards, model, "flops") for model in grid.models)
    with_mean = len(grid.columns) > 1
    means = {m: mean_candidate([grid.cells[m, c] for c in grid.columns]) for m in _complete(grid)} if with_mean else {}
    decision = decide(means, higher_is_better=style.higher_is_better)
    rows = []
    for model in grid.models:
        row = [
            TableCell(
                names.get(model, model),
                names.get(model, model).lower(),
                note=model if names.get(model) != model else "",
            )
        ]
        row += [summary_cell(grid.cells.get((model, column)), grid.decisions[column]) for column in grid.columns]
        if with_mean:
            own = decision.intervals.get(model)
            missing = TableCell(hint="not all datasets")
            row.append(
                missing
                if own is None
                else TableCell(mark=mark_of(model, decision), value=own.value, interval=own, metric=style)
            )
        # What it costs stands last: on a narrow screen, accuracy is what is seen.
        row += [_size(cards, model, "parameters")] if with_size else []
        row += [_size(cards, model, "flops")] if with_flops else []
        rows.append(row)
    columns = ["model", *(_title(column, datasets) for column in grid.columns), *["mean"] * with_mean]
    columns += ["parameters"] * with_size + ["FLOPs"] * with_flops
    return Table(
        caption=f"{style.spoken} (%)" if style.percent else style.spoken,
        columns=columns,
        rows=rows,
        numeric=range(1, len(columns)),
        row_keys=grid.models,
        folded=folded,
        notes=grid_notes(grid, grid.columns),
    )


def _known(cards: Mapping[str, ModelCard], model: str, attribute: str) -> int | None:
    return getattr(cards.get(model), attribute, None)


def _size(cards: Mapping[str, ModelCard], model: str, attribute: str) -> TableCell:
    count = _known(cards, model, attribute)
    return TableCell(amount(count) or "–", count, hint=f"{count:,}" if count else "")
