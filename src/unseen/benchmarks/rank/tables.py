"""The tables of a ranking, for the page, the terminal, LaTeX and Markdown."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from unseen.benchmarks.rank.answer import answer, grouped, with_truth
from unseen.benchmarks.rank.candidates import Candidate, CheckpointRanking
from unseen.benchmarks.rank.details import RankDetails, RankParameters
from unseen.benchmarks.rank.info import TRUTH
from unseen.benchmarks.rank.published import GROUPS, published_results, published_table
from unseen.benchmarks.rank.table import RankingRow, ranking_rows
from unseen.benchmarks.rank.wording import guessing_text, targets_text
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.ranking.cards import find_score
from unseen.reports.wording import amount
from unseen.results.info import MetricStyle
from unseen.results.table import MARK_NOTE, Table, TableCell, default_tables, mark_of
from unseen.stats import Interval

#: The columns that decide on the recommendation.
DECIDING = ("#", "expected", "expected (%)", "behind", "FLOPs", "parameters")

_PERCENT = MetricStyle("share", "share", percent=True)
_SCORE_COLUMNS = (
    ("Recall@1", "recall_at_1"),
    ("Rel@1", "relative_at_1"),
    ("Recall@3", "recall_at_3"),
    ("Rel@3", "relative_at_3"),
    ("Pearson", "pearson"),
    ("Kendall", "kendall"),
    ("weighted tau", "weighted"),
    ("GFLOPs on stored features", "gflops"),
    ("GFLOPs as the paper counts", "paper_gflops"),
    ("seconds", "seconds"),
)
_PERCENT_COLUMNS = 7


def rank_tables(results: Collection[Result], names: Mapping[str, str], metrics: Sequence[str] = ()) -> list[Table]:
    """Return the tables of stored results: one per ranking, and scores against fine-tuned accuracy if it is known."""
    truth = truth_results(results)
    found = [candidates_table(ranking, names) for ranking in rankings(results)]
    found += default_tables(bare_results(results), names)
    if truth:
        found.append(truth_table(truth, names))
        try:
            found.append(scores_table(ranking_rows(results)))
        except DataError as error:  # results of several settings
            found[-1] = truth_table(truth, names, notes=(str(error),))
    return found


def truth_results(results: Iterable[Result]) -> list[Result]:
    """Return the results that hold fine-tuned accuracy."""
    return [r for r in results if r.ok and RankParameters.read(r.cell.parameters).score == TRUTH]


def bare_results(results: Iterable[Result]) -> list[Result]:
    """Return results of other programs, or of versions that stored no terms: they are shown, but cannot be ranked."""
    scores = [r for r in results if r.ok and RankParameters.read(r.cell.parameters).score != TRUTH]
    return [r for r in scores if not RankDetails.read(r.details).terms]


def rankings(results: Collection[Result]) -> list[CheckpointRanking]:
    """Return one ranking per dataset and setting, with the accuracy of candidates that were fine-tuned."""
    truth, bare = truth_results(results), bare_results(results)
    return [
        with_truth(answer(group), [r for r in truth if r.cell.dataset == group[0].cell.dataset])
        for group in grouped([r for r in results if r not in bare])
    ]


def candidates_table(
    ranking: CheckpointRanking, names: Mapping[str, str], cells: Mapping[str, Sequence[str]] | None = None
) -> Table:
    """Return all candidates and scores, in the order of the ranking; those that failed at the end, with their reason.

    Args:
        names: how to call models; ids by default.
        cells: by model, ids of the cells behind its numbers.
    """
    scores = [name for name in ranking.scores if any(name in c.scores for c in ranking.candidates)]
    tuned = any(math.isfinite(c.finetuned) for c in ranking.candidates)
    style = MetricStyle("expected", "expected", percent=ranking.measure != "R2")
    columns = ["checkpoint", "#", style.heading, "behind", "FLOPs", "parameters", *["fine-tuned (%)"] * tuned]
    columns += [*scores, *["mean rank"] * bool(ranking.counted), "images/s"]
    rows = []
    for c in ranking.candidates:
        note = f"the weights of {c.same_as}" if c.same_as else ""
        first = TableCell(c.named(names), c.named(names).lower(), note=note, hint=c.error or c.model)
        if c.error:
            failed = [TableCell(), TableCell("failed", hint=c.error), *[TableCell(hint=c.error)] * (len(columns) - 3)]
            rows.append([first, *failed])
            continue
        expected = _expected(c, ranking, style, (cells or {}).get(c.model, ()))
        tuned_cell = [_number(c.finetuned, _PERCENT)] if tuned else []
        rank = [_number(c.mean_rank)] if ranking.counted else []
        costs = [TableCell(amount(count), value=count) for count in (c.flops, c.parameters)]
        evidence = [_number(c.scores.get(name)) for name in scores]
        speed = _number(c.images_per_second)
        place = TableCell(str(c.rank), value=c.rank)
        rows.append([first, place, *expected, *costs, *tuned_cell, *evidence, *rank, speed])
    return Table(
        caption=f"{names.get(ranking.dataset, ranking.dataset)}: all candidates",
        columns=columns,
        rows=rows,
        numeric=range(1, len(columns)),
        row_keys=[c.model for c in ranking.candidates],
        notes=_notes(ranking),
    )


def _expected(c: Candidate, ranking: CheckpointRanking, style: MetricStyle, cells: Sequence[str]) -> list[TableCell]:
    """Return the cells of the expected accuracy and of the difference to the first candidate."""
    if not math.isfinite(c.expected):
        return [TableCell(), TableCell()]
    n = c.dropped_after or ranking.images
    mark = mark_of(c.compared_as, ranking.decision)
    value = Interval(c.expected, c.low, c.high, n=n)
    limits = f"95 % confidence interval {style.text(c.behind_low)} to {style.text(c.behind_high)}"
    behind = TableCell(
        value=c.behind, metric=style, hint=limits, note=f"after {c.dropped_after} images" if c.dropped_after else ""
    )
    own = TableCell(mark=mark, cells=cells, value=c.expected, interval=value, metric=style, n=n, chance=ranking.chance)
    return [own, behind if c.rank > 1 else TableCell("0", value=0.0)]


def _notes(ranking: CheckpointRanking) -> list[str]:
    unit = "" if ranking.measure == "R2" else ", in points"
    evaluated = f"cross-validated {ranking.measure} of a linear head on {ranking.images:,} images"
    found = [
        f"Expected: {evaluated}{targets_text(ranking)}, 95 % confidence interval in brackets.",
        f"Behind: difference to the first candidate on the same images{unit}.",
    ]
    if any(mark_of(name, ranking.decision) for name in ranking.decision.order):
        found.append(f"{MARK_NOTE}.")
    guessing = guessing_text(ranking)
    return [*found, *([f"{guessing[0].upper()}{guessing[1:]}."] if guessing else [])]


def _number(value: float | None, metric: MetricStyle | None = None) -> TableCell:
    if value is None or not math.isfinite(value):
        return TableCell()
    return TableCell(value=value, metric=metric, hint=f"{value!r}")


def scores_table(rows: Sequence[RankingRow]) -> Table:
    """Return how well each score agrees with fine-tuned accuracy, like the tables of the paper."""
    layered = len({row.layer for row in rows if row.layer}) > 1
    named = [
        (f"{row.name} at {row.layer}" if layered and row.layer else row.name, f"{row.pairs} pairs", row.metrics)
        for row in rows
    ]
    return _scores_table("Scores against fine-tuned accuracy (%)", named)


def published_score_tables() -> list[Table]:
    """Return the tables of the paper."""
    found = []
    for group in GROUPS:
        table = published_table(group)
        caption = f"Published, Table {table.number}: Group {group}, {table.caption}; GFLOPs as the paper counts them"
        entries = [(find_score(r.cell.model).name, "", r.metrics) for r in published_results(group)]
        found.append(_scores_table(caption, entries, folded=True))
    return found


def _scores_table(
    caption: str, entries: Sequence[tuple[str, str, Mapping[str, float]]], *, folded: bool = False
) -> Table:
    """Return a table of metrics by score, percentages with the paper's two decimals, without empty columns."""
    shown = [
        (title, metric, place < _PERCENT_COLUMNS)
        for place, (title, metric) in enumerate(_SCORE_COLUMNS)
        if any(metric in metrics for *_, metrics in entries)
    ]
    rows = [
        [
            TableCell(name, name.lower(), note=note),
            *(_two_decimals(_number(metrics.get(m)), percent) for _, m, percent in shown),
        ]
        for name, note, metrics in entries
    ]
    columns = ["score", *(title for title, *_ in shown)]
    return Table(caption, columns, rows, numeric=range(1, len(columns)), folded=folded)


def _two_decimals(cell: TableCell, percent: bool) -> TableCell:
    return cell if cell.value is None or not percent else replace(cell, text=f"{100 * cell.value:.2f}")


def truth_table(truth: Sequence[Result], names: Mapping[str, str], notes: Sequence[str] = ()) -> Table:
    """Return the fine-tuned accuracies, checkpoints by tasks; they are not compared, so none is marked."""
    tasks, models = (sorted({getattr(r.cell, name) for r in truth}) for name in ("dataset", "model"))
    found = {(r.cell.model, r.cell.dataset): r for r in truth}
    rows = []
    for model in models:
        own = [found.get((model, task)) for task in tasks]
        cells = [
            TableCell() if r is None else TableCell(value=r.metrics["top1"], metric=_PERCENT, cells=(r.cell.id,))
            for r in own
        ]
        name = names.get(model, model)
        rows.append([TableCell(name, name.lower(), hint=model), *cells])
    columns = ["checkpoint", *(names.get(task, task) for task in tasks)]
    title = "Fine-tuned top-1 accuracy (%)"
    return Table(title, columns, rows, numeric=range(1, len(columns)), row_keys=models, notes=notes)
