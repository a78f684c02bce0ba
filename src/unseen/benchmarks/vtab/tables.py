"""Further tables of the VTAB paper on the page: its methods, subsets and aggregations, raters and the literature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from unseen.benchmarks.vtab.analysis import ModelScores, complete, published_scores, shared_tasks
from unseen.benchmarks.vtab.published_tables import (
    Size,
    aggregation_taus,
    best_subsets,
    human_scores,
    literature,
    published_aggregations,
    score_table,
    task_titles,
)
from unseen.benchmarks.vtab.ranking import Ranking
from unseen.metrics.aggregation import aggregations, agreement_with_mean, sampled_agreement
from unseen.metrics.subsets import search_subsets
from unseen.reports.wording import PERCENT
from unseen.results.info import MetricStyle
from unseen.results.table import Table, TableCell, summary_cell
from unseen.stats import decide

TAU = MetricStyle("tau", "tau")


def published_tables(own: Sequence[ModelScores], size: Size) -> list[Table]:
    """Return the paper's own table, if it has no rows in the table of the user's models."""
    rows = published_scores(own[0].table, size)
    tasks = {task: info for row in rows[:1] for task, info in row.tasks.items()}
    (table,) = Ranking("", own[0].table, size, tasks, rows).tables({"vtab": "Published methods"})
    return [
        replace(table, caption=f"{table.caption}: VTAB's own tasks, not comparable with embedded ones", folded=True)
    ]


def subset_table(size: Size) -> Table:
    """Return Table 5 with the taus that the printed medians give, and the best subsets of all."""
    table, titles = score_table("lightweight", size), task_titles()
    search = search_subsets(table.scores)
    rows = []
    for subset in best_subsets(size):
        tau, better = search.tau_of([table.tasks.index(task) for task in subset.tasks])
        shown = ", ".join(titles[task] for task in subset.tasks)
        rows.append([TableCell(shown), _tau(subset.tau, subset.std), _tau(tau), TableCell(str(better + 1), better)])
    for k in range(5):
        shown = ", ".join(titles[table.tasks[t]] for t in search.subsets[k])
        rows.append([TableCell(shown, note="found here"), TableCell(), _tau(float(search.taus[k])), TableCell("1", k)])
    return Table(
        caption=f"Five tasks that rank the published methods like all nineteen ({len(search.taus):,} subsets searched)",
        columns=["tasks", "tau in the paper", "tau here", "place"],
        rows=rows,
        numeric=(1, 2, 3),
        folded=True,
    )


def aggregation_table(size: Size) -> Table:
    """Return Table 4 with the taus that the printed medians give."""
    found = agreement_with_mean(score_table("lightweight", size).scores, published_aggregations())
    return Table(
        caption="Other ways to aggregate: Kendall's tau with the mean, for the published methods",
        columns=["aggregation", "paper", "here"],
        rows=[[TableCell(n), _tau(*aggregation_taus(size)[n]), _tau(tau)] for n, tau in found.items()],
        numeric=(1, 2),
        folded=True,
    )


def own_aggregations(own: Sequence[ModelScores]) -> dict[str, tuple[float, float]]:
    """Return Table 4 for a user's models: by aggregation, tau with the mean and its deviation over sampled repeats.

    Empty for fewer than three models with all tasks, or fewer than two tasks.
    """
    own = complete(own)
    tasks = shared_tasks(own)
    if len(own) < 3 or len(tasks) < 2:
        return {}
    infos = [own[0].tasks[task] for task in tasks]
    runs = [[[100 * value for value in scores.runs[task]] for task in tasks] for scores in own]
    return sampled_agreement(runs, aggregations([i.data for i in infos], [i.group for i in infos]))


def own_aggregation_tables(own: Sequence[ModelScores]) -> list[Table]:
    """Return the same as a table of the page."""
    if not (found := own_aggregations(own)):
        return []
    models, seeds = len(complete(own)), sorted({len(values) for scores in own for values in scores.runs.values()})
    return [
        Table(
            caption=f"Other ways to aggregate, for these {models} models: Kendall's tau with the mean, over "
            f"100 draws of one of {' or '.join(map(str, seeds))} repeats",
            columns=["aggregation", "tau", "deviation"],
            rows=[[TableCell(n), _tau(tau), _tau(std)] for n, (tau, std) in found.items()],
            numeric=(1, 2),
            folded=True,
        )
    ]


def human_table(own: Sequence[ModelScores], names: Mapping[tuple[str, str], str], size: Size) -> Table:
    """Return Table 3: raters and chance, in mean per-class accuracy, and a user's models in the same metric.

    Args:
        own: scores of the metric "mean_per_class".
    """
    titles = task_titles()
    mine = [scores for scores in own if scores.size == size and set(scores.runs) & set(human_scores())]
    rows = [
        [
            TableCell(titles[task]),
            *(TableCell(value=row[name] / 100, metric=PERCENT) for name in ("chance", "human")),
            *(summary_cell(scores.summaries.get(task), decide({})) for scores in mine),
        ]
        for task, row in human_scores().items()
    ]
    columns = ["task", "chance", "raters", *(names[scores.model, scores.way] for scores in mine)]
    return Table(
        caption="Human raters (Table 3): mean per-class accuracy (%)",
        columns=columns,
        rows=rows,
        numeric=range(1, len(columns)),
        folded=True,
    )


def literature_table(own: Mapping[str, Sequence[ModelScores]], names: Mapping[tuple[str, str], str]) -> Table:
    """Return Table 8: the best published method on all examples, the literature, and a user's models of that size.

    Args:
        own: by metric.
    """
    titles, spoken = task_titles(), {"top1": "", "mean_per_class": "mean per-class", "kappa": "quadratic kappa"}
    ways = dict.fromkeys((s.model, s.way) for scores in own.values() for s in scores if s.size == "full")
    found = {(m, s.model, s.way): s.medians for m, scores in own.items() for s in scores if s.size == "full"}
    rows = [
        [
            TableCell(titles[row.task], note=spoken[row.metric]),
            TableCell(value=row.ours / 100, metric=PERCENT),
            TableCell(value=row.theirs / 100, metric=PERCENT, note=row.reference),
            *(TableCell(value=found.get((row.metric, *way), {}).get(row.task), metric=PERCENT) for way in ways),
        ]
        for row in literature()
    ]
    columns = ["task", "Sup-Ex-100%, heavyweight", "literature", *(names[way] for way in ways)]
    return Table(
        caption="The best published method and the literature (Table 8), all examples (%)",
        columns=columns,
        rows=rows,
        numeric=range(1, len(columns)),
        folded=True,
    )


def _tau(value: float, deviation: float | None = None) -> TableCell:
    if value != value:
        return TableCell()
    return TableCell(value=value, metric=TAU, note="" if deviation is None else f"± {deviation:.3f}")
