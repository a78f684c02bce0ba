"""A leaderboard of comparable results: boards, the range of places of each model, and the rules behind them.

A board is one benchmark on one dataset (or several of its settings) with models as rows. `unseen.results.comparable`
decides which results belong together; nothing is averaged over benchmarks. Places come from the decision of a column
(`unseen.stats.decide`), which is the same in every output. A column with a value that has no confidence interval cannot
be tested: it is ordered by value, without ranges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from unseen.core.records import DatasetCard, ModelCard, Result
from unseen.reports.blocks import Section
from unseen.reports.page import Page
from unseen.reports.wording import counted, listed
from unseen.results.comparability import older_note
from unseen.results.export import Merged
from unseen.results.grid import Column, Grid, grids
from unseen.results.table import MARK_NOTE, Table, TableCell, heading, parted, summary_cell

RULES = """
Columns: results are in one column only if benchmark, its version and that of its methods, the digest of the data, and
every parameter are the same, including those of the extraction; seeds are averaged.

Newest: of results that differ only in the revision of weights or data, the newest counts.

Places: a place is a range, such as 1–3. It counts the models that are significantly better or worse at 95 %, after
Holm's correction over all pairs of the column. If the outcomes per test image are stored, models are compared on the
same images.

Columns without confidence intervals: such columns, for example transferability scores, are ordered by value. Their
differences are not tested, and no value is marked as best.

Order: rows are ordered by the mean of their places; a model that lacks a column is below those that have all.

Averages: nothing is averaged over benchmarks or datasets.
"""


@dataclass(frozen=True)
class Place:
    """The range of ranks of a model in a column.

    Attributes:
        tested: whether the model's differences were tested; otherwise the place is the order of the values.
    """

    best: int
    worst: int
    tested: bool = True

    @property
    def text(self) -> str:
        return str(self.best) if self.best == self.worst else f"{self.best}–{self.worst}"

    @property
    def middle(self) -> float:
        return (self.best + self.worst) / 2


@dataclass(frozen=True)
class Board:
    """Columns that are shown together.

    Attributes:
        models: best first.
        places: by (model, column); a missing one is a gap.
    """

    grid: Grid
    columns: tuple[Column, ...]
    models: tuple[str, ...]
    places: Mapping[tuple[str, Column], Place]

    @property
    def benchmark(self) -> str:
        return self.grid.benchmark

    def mean_place(self, model: str) -> float:
        """Return the mean place over the columns that the model has."""
        own = [self.places[model, column].middle for column in self.columns if (model, column) in self.places]
        return sum(own) / len(own)

    def by_value(self) -> list[Column]:
        """Return the columns whose differences were not tested."""
        return [c for c in self.columns if any(not p.tested for (_, other), p in self.places.items() if other == c)]


def boards(results: Sequence[Result]) -> list[Board]:
    """Return every board of some results with two models or more; benchmarks in alphabetical order."""
    found = []
    for grid in grids(results, ()):
        first = [c for c in grid.columns if c.metric == grid.columns[0].metric]
        for columns in parted(first):
            places = {(m, column): place for column in columns for m, place in _places(grid, column).items()}
            models = {model for model, _ in places}
            if len(models) > 1:
                board = Board(grid, tuple(columns), (), places)
                gaps = {m: sum((m, c) not in places for c in columns) for m in models}
                order = sorted(models, key=lambda m: (gaps[m], board.mean_place(m), grid.models.index(m)))
                found.append(replace(board, models=tuple(order)))
    return found


def _places(grid: Grid, column: Column) -> dict[str, Place]:
    decision = grid.decisions[column]
    if not decision.untested:
        return {model: Place(*decision.places[model]) for model in decision.order}
    sign = 1.0 if column.style.higher_is_better else -1.0
    values = {model: sign * grid.cells[model, column].value for model in decision.order}
    return {
        model: Place(
            1 + sum(other > value for other in values.values()),
            sum(other >= value for other in values.values()),
            tested=False,
        )
        for model, value in values.items()
    }


def leaderboard_page(
    merged: Merged,
    *,
    names: Mapping[str, str],
    cards: Mapping[str, ModelCard] | None = None,
    dataset_cards: Mapping[str, DatasetCard] | None = None,
) -> Page:
    """The static page: a board after the other, then the rules."""
    found = boards(merged.results)
    told = [_sources(merged), older_note(sum({id(b.grid): b.grid.older for b in found}.values()))]
    rules = Section(
        "How to read it",
        "rules",
        prose=[text for text in told if text],
        points=[_rule(text) for text in RULES.strip().split("\n\n")],
    )
    sections = []
    for number, board in enumerate(found, 1):
        table = board_table(board, names)
        sections.append(Section(table.caption, f"board-{number}", tables=[replace(table, caption="")]))
    if not sections:
        sections = [Section("Nothing to rank yet", "empty", prose=["No two models have comparable results."])]
    models = {model for board in found for model in board.models}
    return Page([*sections, rules], "Leaderboard", [counted(len(models), "model"), counted(len(found), "board")])


def _rule(text: str) -> tuple[str, str]:
    lead, _, rest = " ".join(text.split()).partition(": ")
    return lead, f"{rest[0].upper()}{rest[1:]}"


def board_table(board: Board, names: Mapping[str, str]) -> Table:
    """Return a board as a table: values with their intervals and places."""
    title, heads = heading(board.grid, board.columns, names)
    rows = []
    for model in board.models:
        mean, name = board.mean_place(model), names.get(model, model)
        cells = [_cell(board, model, column) for column in board.columns]
        rows.append([TableCell(name, name.lower(), hint=model), TableCell(f"{mean:.1f}", mean), *cells])
    notes = [by_value_text(board, heads), f"{MARK_NOTE}." if any(c.mark for row in rows for c in row) else ""]
    return Table(
        title,
        ["model", "mean place", *heads],
        rows,
        numeric=range(1, 2 + len(heads)),
        row_keys=board.models,
        notes=[note for note in notes if note],
    )


def _cell(board: Board, model: str, column: Column) -> TableCell:
    place = board.places.get((model, column))
    if place is None:
        return TableCell(hint="no result")
    cell = summary_cell(board.grid.cells[model, column], board.grid.decisions[column])
    where = f"place {place.text}" if place.tested else f"place {place.text} by value"
    return replace(cell, note=", ".join(filter(None, [cell.below, where])))


def board_json(board: Board, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a board as JSON values."""
    title, heads = heading(board.grid, board.columns, names)
    return {
        "benchmark": board.benchmark,
        "title": title,
        "rows": [
            {
                "model": model,
                "mean_place": board.mean_place(model),
                "columns": {
                    head: {
                        **_cell(board, model, column).to_dict(),
                        "place": [place.best, place.worst],
                        "tested": place.tested,
                        "seeds": len(board.grid.cells[model, column].values),
                    }
                    for head, column in zip(heads, board.columns, strict=True)
                    if (place := board.places.get((model, column))) is not None
                },
            }
            for model in board.models
        ],
    }


def by_value_text(board: Board, heads: Sequence[str]) -> str:
    """Return the sentence that states which columns are ordered by value; "" if none is."""
    found = board.by_value()
    if not found:
        return ""
    named = [head for head, column in zip(heads, board.columns, strict=True) if column in found]
    where = "" if len(found) == len(board.columns) else f" of {listed(named, 12)}"
    return f"Values{where} have no confidence interval: they are ordered by value, and differences are not tested."


def _sources(merged: Merged) -> str:
    parts = [f"{PurePath(name).name} ({counted(count, 'result')})" for name, count in merged.sources.items()]
    text = f"From {listed(parts, 12)}."
    if merged.repeated:
        text += f" {counted(merged.repeated, 'cell')} in several of them, "
        text += (
            f"{len(merged.differing)} with other numbers: the newest counts."
            if merged.differing
            else "with the same numbers."
        )
    return text
