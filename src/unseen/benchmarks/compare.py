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

from unseen.core.records import Result
from unseen.reports.blocks import Section
from unseen.reports.page import Page
from unseen.reports.wording import counted, listed
from unseen.results.export import Merged
from unseen.results.grid import Column, Grid, Summary, grids
from unseen.results.table import DisplayNames, Table, TableCell, format_interval, grid_table, parted
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
        """Return what was tested: "same images" (paired), "two intervals", or "" if nothing was."""
        return "" if math.isnan(self.found.p) else "same images" if self.found.paired else "two intervals"

    @property
    def verdict(self) -> int:
        """Return 1 if the first is significantly better, -1 if the second is, 0 otherwise."""
        return int(math.copysign(1, self.found.value)) if self.found.significant else 0

    def label(self, names: DisplayNames) -> str:
        """Return the question in words, such as "probe on Grocery, shots 5"."""
        column = self.column
        return ", ".join([f"{column.benchmark} on {names.get(column.dataset, column.dataset)}", *column.words])


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
        paired = f"{tests.count('same images')} of {counted(len(tests), 'test is', 'tests are')}"
        lines.append(
            f"{'The test is' if tests == ['same images'] else paired} paired on the same test images; "
            "significant means p < 0.05 after Holm's correction over the pairs of models of a question."
        )
    return lines


def _difference(duel: Duel, names: DisplayNames) -> str:
    value, sides = duel.found, [duel.first, duel.second]
    if value.value < 0:
        value, sides = value.reversed(), sides[::-1]
    better, worse = (names[side.model] for side in sides)
    if value.value == 0:
        return f"{better} and {worse} are equal at {duel.first.style.text(duel.first.value)}"
    style = duel.first.style
    gap = f"{style.text(value.value)}{' points' if style.percent else ''} {format_interval(value, style)}".rstrip()
    sure = "significant" if duel.verdict else "not significant" if duel.how else "not tested: no interval is stored"
    return f"{better} leads {worse} by {gap}, {sure}"


def comparison_table(found: Sequence[Duel], names: DisplayNames) -> Table:
    """Return a row per question: the values of both models, their difference and its p-value."""
    rows = []
    for duel in found:
        difference, style = duel.found, duel.first.style
        values = [
            TableCell(
                mark="best" if won else "", value=s.value, interval=s.interval, metric=style, cells=s.cells, n=s.images
            )
            for s, won in ((duel.first, duel.verdict > 0), (duel.second, duel.verdict < 0))
        ]
        gap = TableCell(value=difference.value, interval=difference, metric=style)
        test = TableCell(f"{difference.adjusted_p:.2g}", value=difference.adjusted_p) if duel.how else TableCell()
        texts = [TableCell(duel.label(names)), TableCell(style.heading)]
        rows.append([*texts, *values, gap, test, TableCell(duel.how or "no test")])
    sides = [names.get(side.model, side.model) for side in (found[0].first, found[0].second)]
    caption = "Every question (p adjusted by Holm over the pairs of models of a question)"
    columns = ["question", "metric", *sides, "difference", "p", "test"]
    return Table(caption, columns, rows, row_keys=[duel.label({}) for duel in found])


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


def boards(results: Sequence[Result], names: DisplayNames) -> list[Table]:
    """Return a table per board of two models or more: values, intervals and places; benchmarks by name."""
    return [
        board
        for grid, columns in _questions(results)
        for some in parted(columns)
        if len((board := _board(grid, some, names)).rows) > 1
    ]


def _board(grid: Grid, columns: Sequence[Column], names: DisplayNames) -> Table:
    """Return the table of some columns with places: models without gaps first, then by the mean of their places."""
    places = [_places(grid, column) for column in columns]
    own = {model: [place[model] for place in places if model in place] for model in grid.models}
    mean = {model: sum(map(sum, known)) / 2 / len(known) for model, known in own.items() if known}
    order = sorted(mean, key=lambda model: (-len(own[model]), mean[model]))
    table = grid_table(grid, columns, names)
    tested = [not grid.decisions[column].untested for column in columns]
    rows = {
        model: [
            name,
            TableCell(f"{mean[model]:.1f}", mean[model]),
            *(_placed(cell, place.get(model), known) for cell, place, known in zip(row, places, tested, strict=True)),
        ]
        for model, (name, *row) in zip(table.row_keys, table.rows, strict=True)
        if model in mean
    }
    heads = table.columns[1:]
    untested = [head for head, known in zip(heads, tested, strict=True) if not known]
    where = "" if len(untested) == len(heads) else f" of {listed(untested)}"
    rule = "they are ordered by value, and differences are not tested"
    notes = [f"Values{where} have no confidence interval: {rule}."] if untested else []
    columns_shown = ["model", "mean place", *heads]
    return replace(
        table, columns=columns_shown, rows=[rows[m] for m in order], row_keys=order, notes=[*notes, *table.notes]
    )


def _placed(cell: TableCell, place: tuple[int, int] | None, tested: bool) -> TableCell:
    """Return a cell with its place; places of columns whose differences are not tested are the order of the values."""
    if place is None:
        return TableCell(hint="no result")
    words = f"place {'–'.join(dict.fromkeys(map(str, place)))}{'' if tested else ' by value'}"
    return replace(cell, note=", ".join(filter(None, [cell.below, words])), place=place if tested else None)


def _places(grid: Grid, column: Column) -> Mapping[str, tuple[int, int]]:
    """Return the ranges of ranks that the decision supports; the order of the values if a value has no interval."""
    decision = grid.decisions[column]
    if not decision.untested:
        return decision.places
    values = [grid.cells[model, column].value for model in decision.order]  # best first
    first = [values.index(value) + 1 for value in values]
    return {m: (n, n + values.count(v) - 1) for m, n, v in zip(decision.order, first, values, strict=True)}


def leaderboard_page(merged: Merged, tables: Sequence[Table]) -> Page:
    """Return the static page: one board after the other, then the rules."""
    sections = [Section(t.caption, f"board-{n}", tables=[replace(t, caption="")]) for n, t in enumerate(tables, 1)]
    if not sections:
        sections = [Section("Nothing to rank yet", "empty", prose=["No two models have comparable results."])]
    rules = [" ".join(text.split()).partition(": ") for text in RULES.strip().split("\n\n")]
    points = [(lead, f"{text[0].upper()}{text[1:]}") for lead, _, text in rules]
    models = {model for table in tables for model in table.row_keys}
    counts = [counted(len(models), "model"), counted(len(tables), "board")]
    rules_section = Section("How to read it", "rules", prose=[_sources(merged)], points=points)
    return Page([*sections, rules_section], "Leaderboard", counts)


def _sources(merged: Merged) -> str:
    parts = [f"{PurePath(name).name} ({counted(count, 'result')})" for name, count in merged.sources.items()]
    return f"From {listed(parts)}; of a cell in several of them, the newest result counts."
