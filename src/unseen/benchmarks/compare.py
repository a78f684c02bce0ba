"""Compare models on stored results: two models on every question that both answered, or all models on a leaderboard.

A question is a column of a grid of comparable results (`unseen.results.grid`), with the main metric of its benchmark.
Both views read the decision of the column (`unseen.stats.decide`) over all models with results, so that report,
leaderboard and comparison state the same p-value, adjusted by Holm over the pairs of the column. A difference is paired
on the same test images if the outcomes of both models are stored, and otherwise computed from the two intervals.
Nothing is averaged over benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from unseen.core.identity import Values
from unseen.core.records import Result
from unseen.reports.blocks import Figure, Section
from unseen.reports.charts import Axis, Dots, interval_fields
from unseen.reports.page import Page
from unseen.reports.theme import NEUTRAL, PALETTE, SYMBOLS, Key
from unseen.reports.wording import counted, listed
from unseen.results.comparability import older_note, value_text
from unseen.results.export import Merged
from unseen.results.grid import Column, Grid, Summary, grids
from unseen.results.info import MetricStyle
from unseen.results.table import MARK_NOTE, DisplayNames, Table, TableCell, heading, parted, summary_cell
from unseen.stats import Difference


def _questions(results: Sequence[Result]) -> Iterator[tuple[Grid, list[Column]]]:
    """Yield the grid of each benchmark with the columns of its main metric."""
    for grid in grids(results):
        yield grid, [column for column in grid.columns if column.metric == grid.columns[0].metric]


# ---- two models ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Duel:
    """One question that both models answered.

    Attributes:
        first, second: the value of each model over its seeds.
        found: first minus second, in the direction in which more is better, with its interval and p-values.
    """

    column: Column
    first: Summary
    second: Summary
    found: Difference

    @property
    def how(self) -> str:
        """Return what was tested: "images" (paired), "intervals" (two separate ones), or "" if nothing was."""
        return "" if math.isnan(self.found.p) else "images" if self.found.paired else "intervals"

    @property
    def images(self) -> int:
        """Return the number of test images; 0 if it is unknown."""
        return (self.first.images or 0) if self.first.images == self.second.images else 0

    @property
    def style(self) -> MetricStyle:
        return self.column.style

    @property
    def setting(self) -> dict[str, str]:
        return {name: value_text(value) for name, value in self.column.setting}

    @property
    def verdict(self) -> int:
        """Return 1 if the first is significantly better, -1 if the second is, 0 otherwise."""
        return int(math.copysign(1, self.found.value)) if self.found.significant else 0

    def label(self, names: DisplayNames) -> str:
        """Return the question in words, such as "probe on Grocery, shots 5"."""
        parts = [f"{self.column.benchmark} on {names.get(self.column.dataset, self.column.dataset)}"]
        return ", ".join([*parts, *(f"{name} {value}" for name, value in self.setting.items())])

    def shown(self, value: float) -> str:
        """Return a difference as text; never "-0.0"."""
        return f"{round(100 * value, 1) + 0.0:+.1f}" if self.style.percent else f"{value:+.4g}"


def duels(results: Sequence[Result], first: str, second: str) -> list[Duel]:
    """Return every question that both models answered, by benchmark, dataset and setting.

    Args:
        results: of all models: p-values are adjusted over the pairs of models that answered the question.
    """
    found: list[Duel] = []
    for grid, columns in _questions(results):
        for column in columns:
            pairs = grid.decisions[column].pairs
            if (first, second) in set(pairs):
                pair = pairs[first, second] if column.style.higher_is_better else pairs[second, first]
                found.append(Duel(column, grid.cells[first, column], grid.cells[second, column], pair))
    return found


def summary_lines(found: Sequence[Duel], names: DisplayNames, first: str, second: str) -> list[str]:
    """Return the comparison in words: over all questions, then question by question."""
    lines = [f"{duel.label(names)}: {_difference(duel, names)}." for duel in found]
    if len(found) > 1:
        counts = {sign: sum(duel.verdict == sign for duel in found) for sign in (1, -1, 0)}
        parts = [
            f"{names[model]} is significantly better in {counts[sign]}"
            for model, sign in ((first, 1), (second, -1))
            if counts[sign]
        ]
        parts += [f"{counts[0]} {'is' if counts[0] == 1 else 'are'} statistically tied"] if parts and counts[0] else []
        words = ", ".join(parts) or "no difference is significant"
        lines.insert(0, f"Of {counted(len(found), 'question')} that both answered: {words}.")
    tests = [duel.how for duel in found if duel.how]
    if tests:
        paired = f"{tests.count('images')} of {counted(len(tests), 'test is', 'tests are')}"
        lines.append(
            f"{'The test is' if tests == ['images'] else paired} paired on the same test images; significant means "
            "p < 0.05 after Holm's correction over the pairs of models of a question."
        )
    return lines


def _difference(duel: Duel, names: DisplayNames) -> str:
    value, sides = duel.found, [duel.first, duel.second]
    if value.value < 0:
        value, sides = value.reversed(), sides[::-1]
    better, worse = (names[side.model] for side in sides)
    if value.value == 0:
        return f"{better} and {worse} are equal at {duel.style.text(duel.first.value)}"
    gap, low, high = (duel.shown(each).removeprefix("+") for each in (value.value, value.low, value.high))
    unit = " points" if duel.style.percent else ""
    sure = "significant" if duel.verdict else "not significant" if duel.how else "not tested: no interval is stored"
    return f"{better} leads {worse} by {gap}{unit}{f' [{low}, {high}]' if duel.how else ''}, {sure}"


def comparison_page(found: Sequence[Duel], first: str, second: str, names: DisplayNames) -> Page:
    """Return the page of a comparison; `names` has models and datasets."""
    lines = summary_lines(found, names, first, second)
    chart = difference_chart(found, first, second, names)
    about = "A dot per question, the difference of the two models in points, and its 95 % confidence interval."
    title = f"{names[first]} minus {names[second]}"
    section = Section(
        "Question by question",
        "comparison",
        answer=[("", lines[0])],
        prose=lines[-1:] if len(lines) > 1 else [],
        figures=[Figure(title, chart, caption=about, wide=True)] if chart else [],
        tables=[_table(found, names, [names[first], names[second]])],
    )
    return Page([section], f"{names[first]} and {names[second]}, compared", [counted(len(found), "question")])


def difference_chart(found: Sequence[Duel], first: str, second: str, names: DisplayNames) -> Dots | None:
    """Return a chart of all differences that are percentages; None if there are none."""
    keys = {
        1: Key(f"{names[first]} is better", PALETTE[0], SYMBOLS[0]),
        -1: Key(f"{names[second]} is better", PALETTE[1], SYMBOLS[1]),
        0: Key("not significant", NEUTRAL, SYMBOLS[3]),
    }
    rows = [
        {"question": duel.label(names), **interval_fields(duel.found, 100), "verdict": keys[duel.verdict].label}
        | {"shown": f"{duel.style.text(duel.first.value)} and {duel.style.text(duel.second.value)}"}
        for duel in found
        if duel.style.percent
    ]
    axis = Axis(f"points: right of zero {names[first]} has more", kind="points")
    tooltip = {"question": "question", "shown": "in percent"}
    chart = Dots(rows=rows, y="question", series="verdict", keys=[*keys.values()], rule=0.0, x=axis, tooltip=tooltip)
    return chart if rows else None


def _table(found: Sequence[Duel], names: DisplayNames, sides: Sequence[str]) -> Table:
    rows = []
    for duel in found:
        difference, style = duel.found, duel.style
        values = [
            TableCell(mark="best" if won else "", value=s.value, interval=s.interval, metric=style, cells=s.cells)
            for s, won in ((duel.first, duel.verdict > 0), (duel.second, duel.verdict < 0))
        ]
        limits = f"{duel.shown(difference.low)} to {duel.shown(difference.high)}" if duel.how else ""
        gap = TableCell(duel.shown(difference.value), difference.value, note=limits)
        test = TableCell(f"{difference.adjusted_p:.2g}", difference.adjusted_p) if duel.how else TableCell()
        how = TableCell({"images": "same images", "intervals": "two intervals", "": "no test"}[duel.how])
        images = TableCell(f"{duel.images:,}", duel.images) if duel.images else TableCell()
        rows.append([TableCell(duel.label(names)), TableCell(style.heading), *values, gap, test, how, images])
    caption = "Every question (p adjusted by Holm over the pairs of models of a question)"
    return Table(caption, ["question", "metric", *sides, "difference", "p", "how", "images"], rows)


# ---- leaderboard -----------------------------------------------------------------------------------------------------

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
class Board:
    """Columns that are shown together, with models as rows.

    Attributes:
        models: best first.
        places: by (model, column), the range of ranks; a missing one is a gap.
    """

    grid: Grid
    columns: Sequence[Column]
    models: Sequence[str]
    places: Mapping[tuple[str, Column], tuple[int, int]]

    def mean_place(self, model: str) -> float:
        """Return the mean place over the columns that the model has."""
        own = [sum(self.places[model, column]) / 2 for column in self.columns if (model, column) in self.places]
        return sum(own) / len(own)

    def tested(self, column: Column) -> bool:
        """Return whether all differences of a column were tested; otherwise places are the order of the values."""
        return not self.grid.decisions[column].untested

    def cell(self, model: str, column: Column) -> TableCell:
        """Return the value with its interval and place."""
        if (model, column) not in self.places:
            return TableCell(hint="no result")
        cell = summary_cell(self.grid.cells[model, column], self.grid.decisions[column])
        place = f"place {place_text(self.places[model, column])}{'' if self.tested(column) else ' by value'}"
        return replace(cell, note=", ".join(filter(None, [cell.below, place])))


def place_text(place: tuple[int, int]) -> str:
    """Return a range of ranks, such as "1–3"."""
    return "–".join(dict.fromkeys(map(str, place)))


def boards(results: Sequence[Result]) -> list[Board]:
    """Return every board of some results with two models or more; benchmarks in alphabetical order."""
    found = []
    for grid, first in _questions(results):
        for columns in parted(first):
            places = {(m, column): place for column in columns for m, place in _places(grid, column).items()}
            models = {model for model, _ in places}
            board = Board(grid, columns, (), places)
            gaps = {m: sum((m, c) not in places for c in columns) for m in models}
            order = sorted(models, key=lambda m: (gaps[m], board.mean_place(m), grid.models.index(m)))
            found += [replace(board, models=order)] if len(order) > 1 else []
    return found


def _places(grid: Grid, column: Column) -> Mapping[str, tuple[int, int]]:
    """Return the ranges of ranks that the decision supports; the order of the values if a value has no interval."""
    decision = grid.decisions[column]
    if not decision.untested:
        return decision.places
    values = [grid.cells[model, column].value for model in decision.order]  # best first
    first = [values.index(value) + 1 for value in values]
    return {m: (n, n + values.count(v) - 1) for m, n, v in zip(decision.order, first, values, strict=True)}


def leaderboard_page(merged: Merged, found: Sequence[Board], tables: Sequence[Table]) -> Page:
    """Return the static page: one board after the other, then the rules; `tables` are those of the boards."""
    sections = [Section(t.caption, f"board-{n}", tables=[replace(t, caption="")]) for n, t in enumerate(tables, 1)]
    if not sections:
        sections = [Section("Nothing to rank yet", "empty", prose=["No two models have comparable results."])]
    rules = [" ".join(text.split()).partition(": ") for text in RULES.strip().split("\n\n")]
    points = [(lead, f"{text[0].upper()}{text[1:]}") for lead, _, text in rules]
    older = older_note(sum({id(board.grid): board.grid.older for board in found}.values()))
    prose = [_sources(merged), *([older] if older else [])]
    models = {model for board in found for model in board.models}
    counts = [counted(len(models), "model"), counted(len(found), "board")]
    return Page([*sections, Section("How to read it", "rules", prose=prose, points=points)], "Leaderboard", counts)


def board_table(board: Board, names: DisplayNames) -> Table:
    """Return a board as a table: values with their intervals and places."""
    title, heads = heading(board.grid, board.columns, names)
    rows = [
        [
            TableCell(names.get(model, model), hint=model),
            TableCell(f"{board.mean_place(model):.1f}", board.mean_place(model)),
            *(board.cell(model, column) for column in board.columns),
        ]
        for model in board.models
    ]
    untested = [head for head, column in zip(heads, board.columns, strict=True) if not board.tested(column)]
    where = "" if len(untested) == len(heads) else f" of {listed(untested)}"
    rule = "they are ordered by value, and differences are not tested"
    notes = [f"Values{where} have no confidence interval: {rule}."] if untested else []
    notes += [f"{MARK_NOTE}."] if any(cell.mark for row in rows for cell in row) else []
    return Table(title, ["model", "mean place", *heads], rows, row_keys=board.models, notes=notes)


def board_json(board: Board, names: DisplayNames) -> Values:
    """Return a board as JSON values."""
    title, heads = heading(board.grid, board.columns, names)

    def cell(model: str, column: Column) -> Values:
        place, seeds = board.places[model, column], len(board.grid.cells[model, column].values)
        found = board.cell(model, column).to_dict()
        return {**found, "place": list(place), "tested": board.tested(column), "seeds": seeds}

    rows = [
        {"model": m, "mean_place": board.mean_place(m)}
        | {"columns": {h: cell(m, c) for h, c in zip(heads, board.columns, strict=True) if (m, c) in board.places}}
        for m in board.models
    ]
    return {"benchmark": board.grid.benchmark, "title": title, "rows": rows}


def _sources(merged: Merged) -> str:
    parts = [f"{PurePath(name).name} ({counted(count, 'result')})" for name, count in merged.sources.items()]
    text = f"From {listed(parts)}."
    if merged.repeated:
        differing = f"{len(merged.differing)} with other numbers: the newest counts" if merged.differing else ""
        text += f" {counted(merged.repeated, 'cell')} in several of them, {differing or 'with the same numbers'}."
    return text
