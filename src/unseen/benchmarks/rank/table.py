"""The tables of a ranking: its candidates, and how well scores agree with fine-tuned accuracy, beside the paper's.

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), Tables 1 to 3, CVPR 2021 [P]; data in `published.toml`
Implements: Recall@1, Rel@1, Recall@3, Rel@3, Pearson, Kendall, GFLOPs without the forward pass over the training
            images, which every method needs; weighted tau and seconds in addition
Differs:    a score is evaluated over the checkpoints that it has a value for, on the tasks with at least two of them;
            the row states their number. [P] has means over four tasks (Caltech101, Flowers102, Sun397, Patch
            Camelyon), so its Recall@k is a multiple of 25 %
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from itertools import groupby
from typing import Any

import numpy as np

from unseen.benchmarks.rank.answer import rankings, truth_results
from unseen.benchmarks.rank.candidates import Candidate, CheckpointRanking
from unseen.benchmarks.rank.details import TRUTH, RankDetails, RankParameters
from unseen.core.errors import DataError
from unseen.core.records import Cell, Result
from unseen.core.run_record import RunRecord
from unseen.metrics import pearson, recall_at_k, relative_accuracy_at_k, weighted_tau
from unseen.ranking.cards import SCORES, Sizes, find_score, paper_flops
from unseen.reports.wording import PERCENT, amount
from unseen.results import comparable
from unseen.results.info import MetricStyle
from unseen.results.table import MARK_NOTE, DisplayNames, Table, TableCell, default_tables, mark_of
from unseen.stats import Interval, kendall_tau

#: The first columns of a table of candidates, which decide on the recommendation, have these words.
DECIDING = ("checkpoint", "#", "expected", "expected (%)", "behind", "FLOPs", "parameters")

#: Tables 1 to 3 of the paper, and the columns of a table of scores; those in percent have the paper's two decimals.
_PUBLISHED = tomllib.loads((files("unseen.benchmarks.rank") / "published.toml").read_text(encoding="utf-8"))
_METRICS = [MetricStyle(**column) for column in _PUBLISHED["columns"]]


def rank_tables(results: Collection[Result], names: DisplayNames, metrics: Sequence[str] = ()) -> list[Table]:
    """Return the tables of stored results: one per ranking, and scores against fine-tuned accuracy if it is known."""
    truth = truth_results(results)
    found = [candidates_table(ranking, names) for ranking in rankings(results)]
    found += truth_tables(truth, names)
    if truth:
        try:
            rows = ranking_rows(results)  # none if nothing was scored
            found += [scores_table(rows)] if rows else []
        except DataError as error:  # results of several settings
            found[-1] = replace(found[-1], notes=(*found[-1].notes, str(error)))
    return found


def _table(caption: str, rows: Sequence[Mapping[str, TableCell]], fixed: int, **more: Any) -> Table:
    """Return a table of rows by column, without those columns after the first `fixed` ones that are empty."""
    columns = [
        name
        for place, name in enumerate(rows[0])
        if place < fixed or any(row[name].text or row[name].value is not None for row in rows)
    ]
    return Table(caption, columns, [[row[name] for name in columns] for row in rows], **more)


# ---- candidates ------------------------------------------------------------------------------------------------------


def candidates_table(
    ranking: CheckpointRanking, names: DisplayNames, cells: Mapping[str, Sequence[str]] | None = None
) -> Table:
    """Return all candidates and scores, in the order of the ranking; those that failed at the end, with their reason.

    Args:
        names: how to call models; ids by default.
        cells: by model, ids of the cells behind its numbers.
    """
    style = MetricStyle("expected", "expected", percent=ranking.percent)
    rows = [_candidate_row(c, ranking, style, names, (cells or {}).get(c.model, ())) for c in ranking.candidates]
    guessing = ranking.guessing_text
    on = f"on {ranking.images:,} images{ranking.targets_text}"
    notes = [
        f"Expected: cross-validated {ranking.measure} of a linear head {on}, 95 % confidence interval in brackets.",
        f"Behind: difference to the first candidate on the same images{', in points' if ranking.percent else ''}.",
        f"{MARK_NOTE}." if any(mark_of(name, ranking.decision) for name in ranking.decision.order) else "",
        f"{guessing[0].upper()}{guessing[1:]}." if guessing else "",
        ranking.guessing_verdict,
    ]
    caption = f"Ranking scores, {names.get(ranking.dataset, ranking.dataset)}: all candidates"
    keys = [c.model for c in ranking.candidates]
    return _table(caption, rows, len(DECIDING) - 1, row_keys=keys, notes=[note for note in notes if note])


def _candidate_row(
    c: Candidate, ranking: CheckpointRanking, style: MetricStyle, names: DisplayNames, cells: Sequence[str]
) -> dict[str, TableCell]:
    limits = f"95 % confidence interval {style.text(c.behind_low)} to {style.text(c.behind_high)}"
    expected = TableCell(
        mark=mark_of(c.label, ranking.decision),
        cells=cells,
        value=c.expected,
        interval=Interval(c.expected, c.low, c.high, n=ranking.images),
        metric=style,
        n=ranking.images,
        chance=ranking.chance,
    )
    behind = TableCell(value=c.behind, metric=style, hint=limits) if c.rank > 1 else TableCell("0", value=0.0)
    found = {
        "checkpoint": TableCell(c.named(names), hint=c.error or c.model),
        "#": TableCell(str(c.rank), value=c.rank),
        style.heading: expected if math.isfinite(c.expected) else TableCell(),
        "behind": behind if math.isfinite(c.expected) else TableCell(),
        "FLOPs": TableCell(amount(c.flops), value=c.flops),
        "parameters": TableCell(amount(c.parameters), value=c.parameters),
        "fine-tuned (%)": _number(c.finetuned, PERCENT),
        **{name: _number(c.scores.get(name)) for name in ranking.scores},
        "mean rank": _number(c.mean_rank),
        "ms, one image": _number(c.latency and c.latency * 1e3),
        "ms, batch": _number(c.batch_latency and c.batch_latency * 1e3),
        "memory (MB)": _number(c.memory and c.memory / 1e6),
    }
    if c.error:
        empty = dict.fromkeys(found, TableCell(hint=c.error))
        found = empty | {"checkpoint": found["checkpoint"], style.heading: TableCell("failed", hint=c.error)}
    return found


def per_class_table(ranking: CheckpointRanking, names: Mapping[str, str], most: int = 5) -> Table | None:
    """Return the cross-validated accuracy of every class for the first candidates; None if it is unknown."""
    shown = [c for c in ranking.ranked if c.per_class][:most]
    if not shown:
        return None
    classes = sorted(shown[0].per_class, key=lambda name: (math.isnan(v := shown[0].per_class[name]), v))
    return Table(
        caption=f"{names.get(ranking.dataset, ranking.dataset)}: cross-validated accuracy by class (%)",
        columns=["class", *(c.named(names) for c in shown)],
        rows=[
            [TableCell(name, name.lower()), *(_number(c.per_class.get(name), PERCENT) for c in shown)]
            for name in classes
        ],
        folded=True,
    )


def _number(value: float | None, metric: MetricStyle | None = None) -> TableCell:
    if value is None or not math.isfinite(value):
        return TableCell()
    return TableCell(value=value, metric=metric, hint=f"{value!r}")


def truth_tables(truth: Sequence[Result], names: DisplayNames) -> list[Table]:
    """Return the fine-tuned accuracies, checkpoints by tasks; they are not compared, so none is marked."""
    return default_tables(truth, {**names, "rank": "Fine-tuned accuracy"}, ("top1",))


# ---- scores ----------------------------------------------------------------------------------------------------------


def ranking_rows(results: Iterable[Result]) -> list[Result]:
    """Return how well each score (and layer) ranked the checkpoints, as results like those of the paper.

    They are in the order of `unseen ls scores`. Scores stand in the place of models. Metrics are those of the paper,
    correlations in [-1, 1] and shares in [0, 1]; `gflops` and `seconds` are means per (checkpoint, task), without the
    forward pass, and `paper_gflops` is the same as the paper counts it (`unseen.ranking.cards.paper_flops`), a fifth of
    the images standing for its test images. Details are the numbers of tasks and of (checkpoint, task) pairs.

    Args:
        results: of the rank benchmark, ground truth among them.

    Raises:
        DataError: nothing was fine-tuned, or the results of one score are of several settings.
    """
    by: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if result.ok and result.cell.benchmark == "rank":
            parameters = RankParameters.read(result.cell.parameters)
            by.setdefault((parameters.score, parameters.layer or ""), []).append(result)
    for (score, _), own in by.items():
        # Other options, another version, or other images under the same name must not stand in one row.
        groups = comparable(own, axes=(), over=(), place=lambda _cell: {})
        if len(groups) > 1:
            found = "; ".join(group.words for group in groups)
            raise DataError(f"the results of {score!r} do not belong into one table: {found}. Choose those of one run.")
    truth = {_key(result): result.metrics["top1"] for result in by.pop((TRUTH, ""), [])}
    if not truth:
        raise DataError(
            "there is no fine-tuned accuracy to compare scores with. Run the benchmark with truth = true first."
        )
    order = {score: place for place, score in enumerate(SCORES)}
    rows = (_row(*key, by[key], truth) for key in sorted(by, key=lambda key: (order.get(key[0], len(order)), key[0])))
    return [row for row in rows if row is not None]


def _key(result: Result) -> tuple[str, str, str]:
    """Return the dataset and the checkpoint: its name, and the files behind the name when a result was computed."""
    return result.cell.dataset, result.cell.model, result.cell.revision


#: Agreement of scores with accuracies, of every task; the name is that of the field.
_AGREEMENT: dict[str, Callable[[list[list[float]], list[list[float]]], float]] = {
    "recall_at_1": partial(recall_at_k, k=1),
    "relative_at_1": partial(relative_accuracy_at_k, k=1),
    "recall_at_3": partial(recall_at_k, k=3),
    "relative_at_3": partial(relative_accuracy_at_k, k=3),
    "pearson": pearson,
    "kendall": lambda values, truth: float(np.mean([kendall_tau(v, a) for v, a in zip(values, truth, strict=True)])),
    "weighted": weighted_tau,
}


def _row(score: str, layer: str, results: list[Result], truth: Mapping[tuple[str, str, str], float]) -> Result | None:
    values, accuracies = [], []
    for task in dict.fromkeys(task for task, *_ in truth):
        scored = [r for r in results if r.cell.dataset == task and _key(r) in truth]
        if len(scored) >= 2:
            values.append([r.metrics["score"] for r in scored])
            accuracies.append([truth[_key(r)] for r in scored])
    if not values:
        return None
    details = [RankDetails.read(r.details) for r in results]
    metrics = {name: agreement(values, accuracies) for name, agreement in _AGREEMENT.items()}
    metrics |= {"gflops": float(np.mean([d.gflops for d in details]))}
    metrics |= {"paper_gflops": float(np.mean([_paper_gflops(score, d) for d in details]))}
    return Result(
        Cell("neucrab", score, "own", {"layer": layer}),
        metrics=metrics | {"seconds": float(np.mean([r.seconds for r in results]))},
        details={"tasks": len(values), "pairs": sum(map(len, values))},
    )


def _paper_gflops(score: str, details: RankDetails) -> float:
    if not details.images or not details.classes or details.dimensions is None:  # an older result does not state them
        return math.nan
    sizes = Sizes(details.images, details.dimensions, details.classes, details.head)
    found = paper_flops(score, sizes, float(details.flops or 0), details.images / 5)
    return math.nan if found is None else found / 1e9


def scores_table(rows: Sequence[Result], caption: str = "Scores against fine-tuned accuracy (%)", **more: Any) -> Table:
    """Return a table of scores, like those of the paper."""
    layered = len({row.cell.parameters.get("layer") for row in rows} - {"", None}) > 1
    entries = []
    for row in rows:
        at = f" at {layer}" if (layer := row.cell.parameters.get("layer")) and layered else ""
        note = f"{row.details['pairs']} pairs" if row.details else ""
        first = {"score": TableCell(f"{find_score(row.cell.model).name}{at}", note=note)}
        entries.append(first | {style.title: _number(row.metrics.get(style.name), style) for style in _METRICS})
    return _table(caption, entries, 1, **more)


# ---- the tables of the paper -----------------------------------------------------------------------------------------


def published_results() -> list[Result]:
    """Return Tables 1 to 3 of the paper as results: scores in place of models, a dataset per table, fractions."""
    found = []
    for table in _PUBLISHED["tables"]:
        name = f"Table {table['number']}: Group {table['group']}, {table['caption']}"
        for score, values in table["rows"].items():
            printed = zip(_PUBLISHED["metrics"], values, strict=True)  # NaN is a dash
            metrics = {m: v if m == "paper_gflops" else v / 100 for m, v in printed if not math.isnan(v)}
            record = RunRecord(source=_PUBLISHED["source"])
            found.append(Result(Cell("neucrab", score, name), metrics=metrics, record=record))
    return found


def published_tables() -> list[Table]:
    """Return the tables of the paper, for comparison with one's own."""
    return [
        scores_table(list(rows), f"Published, {name}; GFLOPs as the paper counts them", folded=True)
        for name, rows in groupby(published_results(), key=lambda result: result.cell.dataset)
    ]
