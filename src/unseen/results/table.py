"""The table model: every output renders the same `Table`.

A cell holds its number in full precision, with its confidence interval, the number of test images, chance and a mark
from `stats.decide`. Renderers round: the terminal, HTML, LaTeX, Markdown, CSV and JSON show the same numbers because
they read the same object.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from unseen.core.records import Result
from unseen.core.registry import load_object
from unseen.core.run_record import RunRecord, findings
from unseen.results.comparability import older_note, value_text
from unseen.results.grid import Column, Grid, Summary, by_benchmark, grids
from unseen.results.info import MetricStyle, info_of
from unseen.stats import Decision, Interval

#: "best": the only candidate that can be the best of its column; "tied": one of several, others being ruled out.
Mark = Literal["", "best", "tied"]

#: Names to show, by the ids of models, datasets and benchmarks.
DisplayNames = Mapping[str, str]

#: Shown where a table has no value.
MISSING = "–"
#: Columns of numbers that fit a page.
MOST_COLUMNS = 8
#: Models that become columns if there are more settings than `MOST_COLUMNS`.
FEW_MODELS = 2

_DATASET, _METRIC = "dataset", "metric"
_PLAIN = MetricStyle("", "")


@dataclass(frozen=True, slots=True)
class TableCell:
    """One cell of a table: words, or a number with what is known about it.

    Attributes:
        text: words; "" if the cell shows its value.
        sort: what the column is sorted by; the value or the words if None. Cells without either are sorted last.
        mark: whether the value can be the best of its column, according to `stats.decide`.
        note: a second, smaller line; the interval if "".
        hint: shown on hover.
        picture: a data: address of a small picture to show before the text.
        cells: ids of the cells that the number comes from.
        value: the number, in full precision.
        interval: its confidence interval; None if it has none.
        metric: how to format the value.
        n: number of test images behind the value.
        chance: value of guessing.
        place: range of ranks on a leaderboard.
    """

    text: str = ""
    sort: float | str | None = None
    mark: Mark = ""
    note: str = ""
    hint: str = ""
    picture: str = ""
    cells: Sequence[str] = ()
    value: float | None = None
    interval: Interval | None = None
    metric: MetricStyle | None = None
    n: int | None = None
    chance: float | None = None
    place: tuple[int, int] | None = None

    @property
    def shown(self) -> str:
        """The words, or the value, rounded."""
        if self.text or self.value is None:
            return self.text or MISSING
        return (self.metric or _PLAIN).text(self.value)

    @property
    def below(self) -> str:
        """The note, or the confidence interval, rounded."""
        return self.note or format_interval(self.interval, self.metric)

    @property
    def order(self) -> float | str | None:
        """What the column is sorted by: a number, or words in lower case; None for a gap."""
        words = "" if self.text == MISSING else self.text.lower()
        return next((each for each in (self.sort, self.value) if each is not None), words or None)

    @property
    def full(self) -> str:
        """Value and interval, or note, on one line, such as "71.3 [69.9, 72.6]"; words alone."""
        return f"{self.shown} {self.below}" if self.value is not None and self.below else self.shown

    def to_dict(self) -> dict[str, object]:
        """Return the cell as JSON values, numbers in full precision."""
        if self.value is None:
            return {"text": self.text} if self.text else {}
        found: dict[str, object] = {"value": self.value, "mark": self.mark}
        if self.interval is not None and math.isfinite(self.interval.low):
            found |= {"low": self.interval.low, "high": self.interval.high, "level": self.interval.level}
        known = {"n": self.n, "chance": self.chance, "place": self.place}
        return found | {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: what it shows.
        columns: one heading per column; the first column names the rows.
        groups: one heading per column over `columns`, such as a group of tasks; empty if there are none.
        row_keys: one per row, or none: charts highlight the marks whose `model` is the key under the pointer.
        notes: sentences below the table: what an interval is, what a mark means.
        footnote: findings of the run records; LaTeX, Markdown and JSON state them, a terminal prints them once per run.
        folded: whether a page shows it only on request.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[TableCell]]
    row_keys: Sequence[str] = ()
    folded: bool = False
    groups: Sequence[str] = ()
    notes: Sequence[str] = ()
    footnote: str = ""

    @property
    def numeric(self) -> set[int]:
        """Positions of the columns that are sorted by numbers."""
        return {place for row in self.rows for place, cell in enumerate(row) if isinstance(cell.order, int | float)}

    @property
    def heads(self) -> list[str]:
        """The headings, with the group before each if the table has groups."""
        groups = self.groups or [""] * len(self.columns)
        return [f"{group} {head}".strip() for group, head in zip(groups, self.columns, strict=True)]

    def transposed(self, corner: str = "setting") -> Table:
        """Return the table with columns as rows, models as columns."""
        models, *columns_of = zip(*self.rows, strict=True)
        rows = [[TableCell(head), *cells] for head, cells in zip(self.heads[1:], columns_of, strict=True)]
        columns = [corner, *(cell.shown for cell in models)]
        return replace(self, columns=columns, rows=rows, row_keys=(), groups=())

    def to_dict(self) -> dict[str, object]:
        """Return the table as JSON values, numbers in full precision."""
        rows = [
            {"name": row[0].shown, "id": key, "cells": [cell.to_dict() for cell in row[1:]]}
            for row, key in zip(self.rows, self.row_keys or [""] * len(self.rows), strict=True)
        ]
        texts = {"caption": self.caption, "columns": list(self.columns), "notes": list(self.notes)}
        return {**texts, "rows": rows, "footnote": self.footnote}


def format_interval(interval: Interval | None, metric: MetricStyle | None = None) -> str:
    """Return the rounded limits of an interval, such as "[69.9, 72.6]"; "" if they are unknown."""
    if interval is None or not interval.known:
        return ""
    low, high = map((metric or _PLAIN).text, (interval.low, interval.high))
    return f"[{low}, {high}]"


# ---- tables of results -----------------------------------------------------------------------------------------------


def result_tables(
    results: Collection[Result], names: DisplayNames | None = None, metrics: Sequence[str] = ()
) -> list[Table]:
    """Return the tables of results, benchmark by benchmark: what every output shows.

    Args:
        names: how to call models, datasets and benchmarks; ids by default.
        metrics: the metrics to show; by default those that each benchmark declares.
    """
    found: list[Table] = []
    for benchmark, own in by_benchmark(results).items():
        builder = info_of(benchmark).tables
        make = load_object(builder) if builder and not metrics else default_tables
        found += make(own, names or {}, metrics)
    return found


def default_tables(results: Collection[Result], names: DisplayNames, metrics: Sequence[str] = ()) -> list[Table]:
    """Return the tables of a benchmark that declares no builder of its own: models by datasets and settings."""
    return [table for grid in grids(results, metrics) for table in grid_tables(grid, names)]


def grid_tables(grid: Grid, names: DisplayNames) -> list[Table]:
    """Return the tables of a grid: one, or several if it has more columns than fit a page."""
    if len(grid.columns) > MOST_COLUMNS and len(grid.models) <= FEW_MODELS:
        return [grid_table(grid, grid.columns, names).transposed()]
    return [grid_table(grid, columns, names) for columns in parted(grid.columns)]


def grid_table(grid: Grid, columns: Sequence[Column], names: DisplayNames) -> Table:
    """Return the table of some columns of a grid."""
    models = [model for model in grid.models if any((model, column) in grid.cells for column in columns)]
    title, heads = heading(grid, columns, names)
    rows = [
        [
            TableCell(names.get(model, model), hint=model),
            *(summary_cell(grid.cells.get((model, column)), grid.decisions[column]) for column in columns),
        ]
        for model in models
    ]
    groups = [grid.groups[number] for number in sorted({column.group for column in columns})]
    marked = any(cell.mark for row in rows for cell in row)
    tied = any(
        len(decision.possibly_best) == len(decision.order) > 1
        for decision in (grid.decisions[column] for column in columns)
    )
    cells = [grid.cells[m, c] for m in models for c in columns if (m, c) in grid.cells]
    notes = summary_notes(cells, marked=marked, older=sum(group.older for group in groups))
    return Table(
        caption=title,
        columns=["model", *heads],
        rows=rows,
        row_keys=models,
        notes=[*notes, TIED_NOTE] if tied and not marked else notes,
        footnote=findings_footnote(result for group in groups for result in group.results),
    )


def summary_cell(summary: Summary | None, decision: Decision) -> TableCell:
    """Return the cell of a summary, marked if the decision supports it."""
    if summary is None:
        return TableCell(hint="no result")
    return TableCell(
        mark=mark_of(summary.model, decision),
        hint="; ".join(filter(None, [repr(summary.value), summary.per_seed])),
        cells=summary.cells,
        value=summary.value,
        interval=summary.interval,
        metric=summary.style,
        n=summary.images,
        chance=summary.chance,
    )


def mark_of(name: str, decision: Decision) -> Mark:
    """Return the mark of a candidate; none if all candidates are statistically tied, because nothing is ruled out."""
    return "" if len(decision.possibly_best) == len(decision.order) else decision.mark(name)


def summary_notes(cells: Sequence[Summary], *, marked: bool, older: int = 0) -> list[str]:
    """Return the sentences below a table of summaries.

    Args:
        marked: whether a value is marked.
        older: how many results of older weights or data were dropped.
    """
    style, unit = cells[0].style, " %" if cells[0].style.percent else ""
    seeds = _range([len(cell.values) for cell in cells], str)
    images = _range([cell.images for cell in cells], lambda value: f"{value:,}")
    chance = _range([cell.chance for cell in cells], style.text)
    interval = any(cell.interval.known for cell in cells)
    value = [
        f"{style.aggregate} over {seeds} seeds" if seeds != "1" else "",
        "95 % confidence interval over test images in brackets" if interval else "",
    ]
    size = [f"{images} test images" if images else "", f"chance {chance}{unit}" if chance else ""]
    found = [", ".join(filter(None, value)), "; ".join(filter(None, size)), MARK_NOTE if marked else ""]
    return [f"{text[0].upper()}{text[1:].rstrip('.')}." for text in (*found, older_note(older)) if text]


def _range(values: Sequence[float | None], text: Callable[[Any], str]) -> str:
    """Return the value, or the smallest and the largest of several; "" if none is known."""
    known = [value for value in values if value is not None]
    return " to ".join(dict.fromkeys(map(text, (min(known), max(known))))) if known else ""


#: Why no number is bold.
TIED_NOTE = "No value is bold: all models are statistically tied."
#: What bold numbers mean, in every output.
MARK_NOTE = "Bold: the best, or statistically tied with it (95 %, multiple comparisons with the best)"


def records_by_dataset(results: Iterable[Result]) -> dict[str, RunRecord]:
    """Return one run record per dataset, merged over models, and over the cells of each model."""
    cells: dict[str, dict[str, dict[str, RunRecord]]] = {}
    for result in results:
        cell = result.cell
        cells.setdefault(cell.dataset, {}).setdefault(cell.model, {})[cell.id] = result.record
    return {
        dataset: RunRecord.merged({model: RunRecord.merged(own) for model, own in models.items()})
        for dataset, models in cells.items()
    }


def merged_record(results: Iterable[Result]) -> RunRecord:
    """Return one record for all results; if they are about several datasets, splits have the dataset's name."""
    found = records_by_dataset(results)
    return RunRecord.merged(found if len(found) < 2 else {name: each.named(name) for name, each in found.items()})


def run_findings(results: Iterable[Result]) -> list[str]:
    """Return one phrase per notable fact of all results, such as "2 unreadable images", the losses first."""
    return findings(records_by_dataset(results))


def findings_footnote(results: Iterable[Result]) -> str:
    """Return the findings of the run records of some results, and the sources of published numbers, as sentences."""
    own = list(results)
    found = run_findings(own)
    sources = dict.fromkeys(result.record.source for result in own if result.record.source)
    texts = [f"Run record: {'; '.join(found)}."] if found else []
    return " ".join([*texts, *([f"Published numbers: {'; '.join(sources)}."] if sources else [])])


def parted(columns: Sequence[Column]) -> Iterator[list[Column]]:
    """Yield columns in lots of at most eight: by what has the fewest values, until they fit; else one after another."""
    if len(columns) <= MOST_COLUMNS:
        yield list(columns)
        return
    parts = {column: _parts(column) for column in columns}
    varying = _varying(list(parts.values()))
    many = {name: list(dict.fromkeys(each.get(name) for each in parts.values())) for name in varying}
    if len(many) < 2:
        for start in range(0, len(columns), MOST_COLUMNS):
            yield list(columns[start : start + MOST_COLUMNS])
        return
    by = min(many, key=lambda name: (len(many[name]), name))
    for value in many[by]:
        yield from parted([column for column in columns if parts[column].get(by) == value])


def heading(grid: Grid, columns: Sequence[Column], names: DisplayNames) -> tuple[str, list[str]]:
    """Return what some columns share, as a title, and per column what distinguishes it."""
    parts = [_parts(column) for column in columns]
    vary, first = _varying(parts), parts[0]
    shared = [name for name, value in first.items() if all(each.get(name) == value for each in parts)]
    # The version of a method that is named anyway is not repeated.
    if any(f" {value}." in first.get("version", "") for name, value in first.items() if name != "version"):
        shared = [name for name in shared if name != "version"]
    title = _words(columns[0], shared, names)
    heads = [_words(column, vary, names) or column.style.heading for column in columns]
    return ", ".join(filter(None, [names.get(grid.benchmark, grid.benchmark), title])), heads


def _parts(column: Column) -> dict[str, str]:
    own = {name: value_text(value) for name, value in column.setting}
    return {_DATASET: column.dataset, **own, _METRIC: column.metric}


def _varying(parts: Sequence[Mapping[str, str]]) -> list[str]:
    """Return what distinguishes columns; not the version, if methods do that already."""
    names = dict.fromkeys(name for each in parts for name in each)
    found = [name for name in names if len({each.get(name) for each in parts}) > 1]
    without = [name for name in found if name != "version"]
    alike = {tuple(each.get(name) for name in without) for each in parts}
    return without if len(alike) == len(parts) else found


def _words(column: Column, parts: Iterable[str], names: DisplayNames) -> str:
    """Return some parts of a column in words."""
    shown = {_DATASET: names.get(column.dataset, column.dataset), _METRIC: column.style.heading}
    for name, value in column.setting:
        shown[name] = (
            value_text(value) if name in ("level", "method", "task", "score") else f"{name} {value_text(value)}"
        )
    return ", ".join(filter(None, (shown.get(name) for name in parts)))
