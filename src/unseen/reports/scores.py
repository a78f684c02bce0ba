"""Who does how well where: a dot plot per dataset and a table of all models.

This is the section of any benchmark that has none of its own: it asks of the results only that they have metrics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from unseen.core.records import ModelCard
from unseen.reports.blocks import Figure, Headline, Material, Section, Standing, Table, TableCell
from unseen.reports.charts import to_spec
from unseen.reports.dotplot import dot_plot, shown_text, spread_text
from unseen.reports.leads import lead_sentence, mean_interval
from unseen.reports.wording import amount, counted, listed, short_names
from unseen.results.comparability import comparable, older_said, value_text
from unseen.results.grid import Column, Grid, Summary, make_grid, metrics_of
from unseen.results.styles import MetricStyle


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
        figures=[_figure(headline, column, material, names, titles[column]) for column in headline.columns],
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
    several = counts[-1] > 1
    if all(summary.bounds for summary in summaries):
        seeds = f", each averaged over {listed([str(c) for c in counts])} seeds" if several else ""
        spread = f"Bars and brackets are 95 % intervals over test images{seeds}"
        spread += "; ticks are single seeds." if several else "."
    elif several:
        seeds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        spread = f"Dots are means over {seeds} seeds, bars one sample standard deviation each way, ticks single seeds."
    elif any(summary.spread == "interval" for summary in summaries):
        spread = "Dots are single runs, bars the interval that the benchmark gives with each."
    else:
        spread = "Dots are single runs."
    chance = (
        " A dashed line is chance; it is left out where it would squeeze the rest."
        if any(_chance(grid, column) is not None for column in grid.columns)
        else ""
    )
    first = f"{style.spoken.capitalize()}{' in percent' if style.percent else ''}: {better}. {spread}{chance}"
    constant = _constants(grid)
    said = [first, f"In every cell: {constant}."] if constant else [first]
    return [*said, f"{older_said(grid.older).capitalize()}."] if grid.older else said


def _constants(grid: Grid) -> str:
    """What the protocol had in common in all cells."""
    group = grid.groups[0]
    shared = {k: v for k, v in group.setting.items() if k not in group.differs and k not in ("benchmark", "dataset")}
    return ", ".join(f"{name} {value_text(value)}" for name, value in sorted(shared.items()))


def _standings(grid: Grid, benchmark: str) -> list[Standing]:
    """The mean over datasets of every model that has them all, with the interval over their test images."""
    style = grid.columns[0].style
    if not style.percent or not style.higher_is_better:
        return []
    many = len(grid.columns)
    question = f"{benchmark.capitalize()}: {style.spoken}" + (f", mean over {many} datasets" if many > 1 else "")
    found = []
    for model in grid.models:
        value, own = _mean(grid, model), [grid.cells[model, c] for c in grid.columns if (model, c) in grid.cells]
        if value is None:
            continue
        images = [summary.dataset.partition("?")[0] for summary in own]  # other labels of the same images
        low, high = mean_interval(value, [summary.bounds for summary in own], images)
        found.append(Standing(question, model, value, low, high, [cell for s in own for cell in s.cells]))
    return found


def _headline(grid: Grid, names: Mapping[str, str], benchmark: str) -> list[Headline]:
    """Who leads over all datasets, and whether the lead is more than the images could give by chance."""
    standings = _standings(grid, benchmark)
    if not standings:
        return []
    text, sure, clear = lead_sentence(standings, names)
    return [Headline(benchmark.capitalize(), text, sure, clear)]


def _leader(grid: Grid, column: Column, names: Mapping[str, str], title: str) -> tuple[str, str]:
    """Who leads on a dataset, by how much, and whether the lead is more than noise."""
    sign = -1.0 if column.style.higher_is_better else 1.0
    known = [grid.cells[m, column] for m in grid.models if (m, column) in grid.cells]
    ranked = sorted((s for s in known if not math.isnan(s.mean)), key=lambda s: (sign * s.mean, s.model))
    if not ranked:
        return title, "no model has a value that is a number."
    style, best = column.style, ranked[0]
    unit = "\u202f%" if style.percent else ""
    equal = [s for s in ranked if s.mean == best.mean]
    text = f"{names[best.model]} has {shown_text(best)}{unit}"
    if len(equal) > 1:
        text = f"{listed([names[s.model] for s in equal])} have {shown_text(best)}{unit}, a tie"
    elif len(ranked) > 1:
        text += f", {_lead(style, best, ranked[1])} {names[ranked[1].model]}"
    if (chance := _chance(grid, column)) is not None:
        text += f"; chance is {style.text(chance)}{unit}"
    return title, text + "."


def _lead(style: MetricStyle, best: Summary, second: Summary) -> str:
    gap = abs(best.mean - second.mean)
    unit = " points" if style.percent else ""
    noise = max((s.std for s in (best, second) if not math.isnan(s.std)), default=math.nan)
    verdict = " (less than the spread over seeds)" if gap < noise else ""
    shown = "less than 0.1" if style.percent and style.text(gap) == "0.0" else style.text(gap)
    return f"{shown}{unit} ahead{verdict} of"


def _details(grid: Grid, column: Column) -> Mapping[str, Any]:
    """What the benchmark says of the data of a column."""
    return grid.groups[column.group].results[0].details


def _chance(grid: Grid, column: Column) -> float | None:
    """What guessing gives, where the benchmark says so. It says so for its headline metric only."""
    value = _details(grid, column).get("chance")
    return float(value) if isinstance(value, int | float) else None


def _title(column: Column, datasets: Mapping[str, str]) -> str:
    return " · ".join([datasets[column.dataset], *(f"{name} {value_text(value)}" for name, value in column.setting)])


def _figure(grid: Grid, column: Column, material: Material, names: Mapping[str, str], title: str) -> Figure:
    summaries = [grid.cells[model, column] for model in grid.models if (model, column) in grid.cells]
    chart = dot_plot(
        summaries,
        keys=material.keys,
        order=grid.models,
        chance=_chance(grid, column),
    )
    described = "; ".join(f"{names[s.model]} {shown_text(s)}" for s in summaries)
    return Figure(
        title=title,
        spec=to_spec(chart),
        description=f"{column.style.spoken} on {title}: {described}.",
        caption=_sizes(_details(grid, column)),
    )


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
    best = {column: grid.best(column) for column in grid.columns}
    means = {model: _mean(grid, model) for model in grid.models}
    complete = [mean for mean in means.values() if mean is not None]
    top = (max if style.higher_is_better else min)(complete, default=math.nan)
    rows = []
    for model in grid.models:
        row = [
            TableCell(
                names.get(model, model),
                names.get(model, model).lower(),
                note=model if names.get(model) != model else "",
            )
        ]
        row += [_entry(grid.cells.get((model, column)), model in best[column]) for column in grid.columns]
        if with_mean:
            mean = means[model]
            shown = "–" if mean is None else style.text(mean)
            row.append(TableCell(shown, mean, best=mean == top and len(complete) > 1))
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
    )


def _entry(summary: Summary | None, best: bool) -> TableCell:
    if summary is None:
        return TableCell("–", None, hint="no result")
    style = summary.style
    per_seed = listed([style.text(value) for value in summary.values])
    shown, _, bounds = shown_text(summary).partition(" [")
    spread = spread_text(summary)
    return TableCell(
        shown,
        None if math.isnan(summary.mean) else summary.mean,
        best,
        note=f"[{bounds}" if bounds else "",
        hint=f"{summary.mean!r}; {spread + '; ' if spread else ''}seeds: {per_seed}",
        cells=summary.cells,
    )


def _mean(grid: Grid, model: str) -> float | None:
    """Over all columns; a model with a gap has none, since it would not be comparable."""
    found = [grid.cells[model, column].mean for column in grid.columns if (model, column) in grid.cells]
    whole = len(found) == len(grid.columns) and all(math.isfinite(value) for value in found)
    return sum(found) / len(found) if whole else None


def _known(cards: Mapping[str, ModelCard], model: str, attribute: str) -> int | None:
    return getattr(cards.get(model), attribute, None)


def _size(cards: Mapping[str, ModelCard], model: str, attribute: str) -> TableCell:
    count = _known(cards, model, attribute)
    return TableCell(amount(count) or "–", count, hint=f"{count:,}" if count else "")
