"""A leaderboard of everything that compares: boards, places with their doubt, and the rules that made them.

A board is one benchmark on one dataset (or several of its settings) with models as rows. What belongs together is for
`unseen.results.comparable` to say; nothing is averaged over benchmarks. A place is a range: from one more than the
models that are clearly better to the number that are not clearly worse. Clear is a 95 % statement over all pairs of a
column (Bonferroni), on the same test images where those are stored, else by the models' own intervals over test images.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.probing import unpack_correct
from unseen.core.records import DatasetCard, ModelCard, Result
from unseen.reports.blocks import Section, Table, TableCell
from unseen.reports.page import Page
from unseen.reports.wording import counted, listed
from unseen.results.comparability import SEED, older_said, value_text
from unseen.results.grid import Column, Grid, Summary, grids
from unseen.results.merge import Merged
from unseen.results.typeset import Typeset, heading, parted

RULES = """
Together: results stand in one column only where benchmark, its version and that of its methods, the digest of the data,
and every parameter are the same, those of the extraction among them; seeds are averaged.

Newest: of results that differ in the revision of weights or data alone the newest counts.

Places: a place is a range, such as 1–3: models that cannot be told apart at 95 %, corrected for the number of pairs in
the column, share it. Where the answers per test image are stored, models are compared on the same images.

Order: rows are ordered by the mean of their places; a model that lacks a column stands below those that have all.

Averages: nothing is averaged over benchmarks or datasets.
"""


@dataclass(frozen=True)
class Place:
    """Where a model stands in a column, and its number."""

    summary: Summary
    best: int
    worst: int

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

    benchmark: str
    grid: Grid
    columns: tuple[Column, ...]
    models: tuple[str, ...]
    places: Mapping[tuple[str, Column], Place]

    def mean_place(self, model: str) -> float:
        """Over the columns that the model has."""
        own = [self.places[model, column].middle for column in self.columns if (model, column) in self.places]
        return sum(own) / len(own)


def boards(results: Sequence[Result]) -> list[Board]:
    """Every board of some results, those with two models or more; benchmarks in alphabetical order."""
    found = []
    for grid in grids(results, ()):
        first = [c for c in grid.columns if c.metric == grid.columns[0].metric]
        for columns in parted(first):
            places: dict[tuple[str, Column], Place] = {}
            for column in columns:
                places |= {(model, column): place for model, place in _places(grid, column).items()}
            models = {model for model, _ in places}
            if len(models) > 1:
                board = Board(grid.benchmark, grid, tuple(columns), (), places)
                gaps = {m: sum((m, c) not in places for c in columns) for m in models}
                order = sorted(models, key=lambda m: (gaps[m], board.mean_place(m), m))
                found.append(Board(grid.benchmark, grid, tuple(columns), tuple(order), places))
    return found


def _places(grid: Grid, column: Column) -> dict[str, Place]:
    known = {m: grid.cells[m, column] for m in grid.models if (m, column) in grid.cells}
    finite = {model: summary for model, summary in known.items() if math.isfinite(summary.mean)}
    pairs = len(finite) * (len(finite) - 1) / 2
    limit = NormalDist().inv_cdf(1 - 0.025 / max(pairs, 1))
    answers = _answers(grid.groups[column.group].results) if column.metric == "top1" else {}
    sign = 1.0 if column.style.higher_is_better else -1.0
    better: dict[str, int] = dict.fromkeys(finite, 0)
    worse: dict[str, int] = dict.fromkeys(finite, 0)
    names = list(finite)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            gap = sign * (finite[one].mean - finite[other].mean)
            if abs(gap) > limit * _error(finite[one], finite[other], answers):
                ahead, behind = (one, other) if gap > 0 else (other, one)
                better[behind] += 1
                worse[ahead] += 1
    return {m: Place(finite[m], 1 + better[m], len(finite) - worse[m]) for m in finite}


def _error(one: Summary, other: Summary, answers: Mapping[str, Mapping[str, npt.NDArray[Any]]]) -> float:
    """The standard error of the difference of two models: paired where it can be, infinite where nothing is known."""
    left, right = answers.get(one.model, {}), answers.get(other.model, {})
    seeds = [seed for seed in left if seed in right and len(left[seed]) == len(right[seed])]
    if seeds:
        difference = np.mean([left[seed] - right[seed] for seed in seeds], axis=0)
        return float(difference.std(ddof=1) / math.sqrt(len(difference))) if len(difference) > 1 else math.inf
    if one.bounds and other.bounds:
        return math.hypot(*((high - low) / (2 * 1.96) for low, high in (one.bounds, other.bounds)))
    return 0.0 if one.mean == other.mean else math.inf


def _answers(results: Sequence[Result]) -> dict[str, dict[str, npt.NDArray[Any]]]:
    """By model and seed, which test images were right."""
    found: dict[str, dict[str, npt.NDArray[Any]]] = {}
    for result in results:
        packed = result.details.get("correct")
        if isinstance(packed, str):
            seed = value_text(result.cell.parameters.get(SEED))
            found.setdefault(result.cell.model, {})[seed] = unpack_correct(packed).astype(np.int8)
    return found


def leaderboard_page(
    merged: Merged,
    *,
    names: Mapping[str, str],
    cards: Mapping[str, ModelCard] | None = None,
    dataset_cards: Mapping[str, DatasetCard] | None = None,
) -> Page:
    """The static page: a board after the other, then the rules."""
    found = boards(merged.results)
    told = [_sources(merged), older_said(sum({id(b.grid): b.grid.older for b in found}.values()))]
    rules = Section(
        "How to read it",
        "rules",
        prose=[text for text in told if text],
        points=[_rule(text) for text in RULES.strip().split("\n\n")],
    )
    sections = []
    for number, board in enumerate(found, 1):
        title, heads = heading(board.grid, board.columns, names)
        sections.append(Section(title, f"board-{number}", tables=[_table(board, heads, names)]))
    if not sections:
        sections = [Section("Nothing to rank yet", "empty", prose=["No two models have comparable results."])]
    models = {model for board in found for model in board.models}
    return Page([*sections, rules], "Leaderboard", [counted(len(models), "model"), counted(len(found), "board")])


def _rule(text: str) -> tuple[str, str]:
    lead, _, rest = " ".join(text.split()).partition(": ")
    return lead, f"{rest[0].upper()}{rest[1:]}"


def board_table(board: Board, names: Mapping[str, str]) -> Typeset:
    """A board as a table of texts, for Markdown."""
    from unseen.results.typeset import Entry

    title, heads = heading(board.grid, board.columns, names)
    rows = []
    for model in board.models:
        cells = [board.places.get((model, column)) for column in board.columns]
        texts = [f"{cell.summary.style.text(cell.summary.mean)} ({cell.text})" if cell else "–" for cell in cells]
        bold = [0 if cell and cell.best == 1 else None for cell in cells]
        rows.append((names.get(model, model), tuple(map(Entry, texts, bold))))
    return Typeset(f"{title}: value (place).", tuple(heads), tuple(rows))


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


def _table(board: Board, heads: Sequence[str], names: Mapping[str, str]) -> Table:
    rows = []
    for model in board.models:
        mean = board.mean_place(model)
        row = [TableCell(names.get(model, model), names.get(model, model), hint=model), TableCell(f"{mean:.1f}", mean)]
        for column in board.columns:
            place = board.places.get((model, column))
            if place is None:
                row.append(TableCell("–"))
                continue
            summary = place.summary
            runs = f"{len(summary.values)} {'run' if len(summary.values) == 1 else 'runs'}"
            row.append(
                TableCell(
                    summary.style.text(summary.mean),
                    summary.mean,
                    best=place.best == 1,
                    note=f"place {place.text}",
                    hint=runs,
                )
            )
        rows.append(row)
    return Table("", ["model", "mean place", *heads], rows, numeric=range(1, 2 + len(heads)), row_keys=board.models)
