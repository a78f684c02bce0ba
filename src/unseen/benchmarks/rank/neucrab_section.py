"""The section of NeuCRaB: how well each score foretold fine-tuning, beside the paper's tables."""

from __future__ import annotations

import math

from unseen.benchmarks.rank.protocol import TRUTH
from unseen.benchmarks.rank.published import GROUPS, ranking_table
from unseen.benchmarks.rank.table import RankingRow, ranking_rows
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.reports.blocks import Entry, Material, Section, Table
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


def neucrab_section(material: Material, benchmark: str) -> Section | None:
    """Scores against ground truth; only the scores where nothing was fine-tuned."""
    own = [result for result in material.results if result.cell.benchmark == benchmark and result.ok]
    if not own:
        return None
    try:
        rows = ranking_rows(own)
    except DataError as error:
        return Section(title="Ranking scores", anchor=benchmark, prose=[str(error)])
    truth = [result for result in own if result.cell.parameters["score"] == TRUTH]
    tasks = {result.cell.dataset for result in truth}
    models = {result.cell.model for result in truth}
    best = max(rows, key=lambda row: -2.0 if math.isnan(row.kendall) else row.kendall)
    what = (
        f"{len(models)} checkpoints on {len(tasks)} tasks. Rows are means over tasks, in percent. Cost leaves out "
        "the forward pass, which all scores share."
    )
    return Section(
        title="Which score foretells what fine-tuning will reach?",
        anchor=benchmark,
        prose=[
            what,
            f"{best.name} agrees best with the fine-tuned order: Kendall's tau {100 * best.kendall:.1f} %.",
        ],
        tables=[_scores_table(rows), _truth_table(truth, material), *(_published(group) for group in GROUPS)],
    )


def _scores_table(rows: list[RankingRow]) -> Table:
    best = {
        field: max((v for r in rows if not math.isnan(v := getattr(r, field))), default=0.0) for _, field in _COLUMNS
    }
    lines = []
    for row in rows:
        line = [Entry(row.name, row.name.lower(), note=f"{row.pairs} pairs")]
        for _, field in _COLUMNS:
            value = getattr(row, field)
            known = not math.isnan(value)
            shown = f"{100 * value:.1f}" if known else "–"
            line.append(Entry(shown, value if known else None, best=known and value == best[field]))
        line += [Entry(f"{row.gflops:.3g}", row.gflops), Entry(f"{row.seconds:.2f}", row.seconds)]
        lines.append(line)
    columns = ["score", *(title for title, _ in _COLUMNS), "GFLOPs", "seconds"]
    return Table("scores against fine-tuned accuracy (%)", columns, lines, numeric=range(1, len(columns)))


def _truth_table(truth: list[Result], material: Material) -> Table:
    tasks = sorted({result.cell.dataset for result in truth})
    models = sorted({result.cell.model for result in truth})
    names, titles = short_names(models, material.cards), short_names(tasks, material.dataset_cards)
    found = {(r.cell.model, r.cell.dataset): r.metrics["top1"] for r in truth}
    best = {task: max((found[m, task] for m in models if (m, task) in found), default=0.0) for task in tasks}
    lines = []
    for model in models:
        line = [Entry(names[model], names[model].lower(), note=model)]
        for task in tasks:
            value = found.get((model, task))
            shown = "–" if value is None else f"{100 * value:.1f}"
            line.append(Entry(shown, value, best=value == best[task]))
        lines.append(line)
    columns = ["checkpoint", *(titles[task] for task in tasks)]
    return Table("fine-tuned top-1 accuracy (%)", columns, lines, numeric=range(1, len(columns)), row_keys=models)


def _published(group: str) -> Table:
    """A table of the paper, to compare with."""
    from unseen.ranking.cards import SCORES

    table = ranking_table(group)
    lines = []
    for score, values in table.rows.items():
        name = SCORES[score].name
        cells = [Entry("–" if v is None else f"{v:.5g}", v) for v in values.values()]
        lines.append([Entry(name, name.lower()), *cells])
    columns = ["score", *table.columns]
    caption = f"published, Table {table.number}: Group {group}, {table.caption}"
    return Table(caption, columns, lines, numeric=range(1, len(columns)), folded=True)
