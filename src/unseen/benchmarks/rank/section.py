"""The section of the ranking: what to fine-tune and how sure that is; with the truth, how well scores foretold it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from unseen.benchmarks.rank.answer import answer, grouped
from unseen.benchmarks.rank.candidates import CheckpointRanking
from unseen.benchmarks.rank.protocol import TRUTH
from unseen.benchmarks.rank.published import GROUPS, ranking_table
from unseen.benchmarks.rank.table import RankingRow, ranking_rows
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.ranking.cards import find_score
from unseen.reports.blocks import Material, Section, Table, TableCell
from unseen.reports.scores import scores_section
from unseen.reports.wording import short_names

_COLUMNS = (
    ("Recall@1", "recall_at_1"),
    ("Rel@1", "relative_at_1"),
    ("Recall@3", "recall_at_3"),
    ("Rel@3", "relative_at_3"),
    ("Pearson", "pearson"),
    ("Kendall", "kendall"),
    ("weighted tau", "weighted"),
)


def rank_section(material: Material, benchmark: str) -> Section | None:
    """The recommendation, mean ranks with their intervals and every score; scores against truth where it is known."""
    own = [result for result in material.results if result.cell.benchmark == benchmark]
    rankings = [answer(group) for group in grouped(own)]
    ordered = [result for ranking in rankings for result in ranking.results() if result.ok]
    truth = [result for result in own if result.ok and result.cell.parameters["score"] == TRUTH]
    empty = Section(title="", anchor=benchmark)
    section = scores_section(replace(material, results=ordered), benchmark) or empty
    prose = [sentence for ranking in rankings for sentence in _prose(ranking, named=len(rankings) > 1)]
    said, tables = _judged(own, truth, material) if truth else ([], [])
    if not prose and not said:
        return None
    return replace(
        section,
        title="Which checkpoint to fine-tune" if rankings else "Which score foretells what fine-tuning will reach?",
        prose=[*prose, *said],
        points=[],
        tables=[*section.tables, *tables],
    )


def _prose(ranking: CheckpointRanking, *, named: bool) -> list[str]:
    lead = f"{ranking.dataset}: " if named else ""
    bars = f"Bars are 95 % intervals over {ranking.resamples} half-samples of" if ranking.resamples else "From"
    explained = (
        f"Ranks by {', '.join(ranking.counted)}, averaged: 1 is the best. {bars} {ranking.images:,} images of "
        f"{ranking.classes} classes."
    )
    notes = dict.fromkeys([*ranking.notes, *(note for c in ranking.candidates for note in c.notes)])
    return [lead + ranking.recommendation, *([explained] if ranking.counted else []), *(f"Note: {n}." for n in notes)]


def _judged(own: Sequence[Result], truth: Sequence[Result], material: Material) -> tuple[list[str], list[Table]]:
    """NeuCRaB: each score against what fine-tuning reached, beside the paper's tables."""
    tables = [_truth_table(truth, material), *(_published(group) for group in GROUPS)]
    try:
        rows = ranking_rows(own)
    except DataError as error:
        return [str(error)], tables
    if not rows:
        return ["Fine-tuned accuracy is there, but no score of two checkpoints to compare with it."], tables
    best = max(rows, key=lambda row: -2.0 if math.isnan(row.kendall) else row.kendall)
    models, tasks = ({getattr(r.cell, name) for r in truth} for name in ("model", "dataset"))
    what = (
        f"Which score foretells what fine-tuning will reach? {len(models)} checkpoints on {len(tasks)} tasks. Rows are "
        "means over tasks, in percent. Cost leaves out the forward pass, which all scores share."
    )
    said = [
        what,
        f"{best.name} agrees best with the fine-tuned order: Kendall's tau {100 * best.kendall:.1f} %.",
    ]
    return said, [_scores_table(rows), *tables]


def _scores_table(rows: list[RankingRow]) -> Table:
    best = {
        field: max((v for r in rows if not math.isnan(v := getattr(r, field))), default=0.0) for _, field in _COLUMNS
    }
    layered = len({row.layer for row in rows if row.layer}) > 1
    lines = []
    for row in rows:
        name = f"{row.name} at {row.layer}" if layered and row.layer else row.name
        line = [TableCell(name, name.lower(), note=f"{row.pairs} pairs")]
        for _, field in _COLUMNS:
            value = getattr(row, field)
            known = not math.isnan(value)
            shown = f"{100 * value:.1f}" if known else "–"
            line.append(TableCell(shown, value if known else None, best=known and value == best[field]))
        line += [TableCell(f"{row.gflops:.3g}", row.gflops), TableCell(f"{row.seconds:.2f}", row.seconds)]
        lines.append(line)
    columns = ["score", *(title for title, _ in _COLUMNS), "GFLOPs", "seconds"]
    return Table("scores against fine-tuned accuracy (%)", columns, lines, numeric=range(1, len(columns)))


def _truth_table(truth: Sequence[Result], material: Material) -> Table:
    tasks = sorted({result.cell.dataset for result in truth})
    models = sorted({result.cell.model for result in truth})
    names, titles = short_names(models, material.cards), short_names(tasks, material.dataset_cards)
    found = {(r.cell.model, r.cell.dataset): r.metrics["top1"] for r in truth}
    best = {task: max((found[m, task] for m in models if (m, task) in found), default=0.0) for task in tasks}
    lines = []
    for model in models:
        line = [TableCell(names[model], names[model].lower(), note=model)]
        for task in tasks:
            value = found.get((model, task))
            shown = "–" if value is None else f"{100 * value:.1f}"
            line.append(TableCell(shown, value, best=value == best[task]))
        lines.append(line)
    columns = ["checkpoint", *(titles[task] for task in tasks)]
    return Table("fine-tuned top-1 accuracy (%)", columns, lines, numeric=range(1, len(columns)), row_keys=models)


def _published(group: str) -> Table:
    """A table of the paper, to compare with."""
    table = ranking_table(group)
    lines = []
    for score, values in table.rows.items():
        name = find_score(score).name
        cells = [TableCell("–" if v is None else f"{v:.5g}", v) for v in values.values()]
        lines.append([TableCell(name, name.lower()), *cells])
    columns = ["score", *table.columns]
    caption = f"published, Table {table.number}: Group {group}, {table.caption}"
    return Table(caption, columns, lines, numeric=range(1, len(columns)), folded=True)
