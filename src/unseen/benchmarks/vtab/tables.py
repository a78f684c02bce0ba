"""Tables of the VTAB section after the paper's: its methods, subsets and aggregations, raters and the literature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unseen.benchmarks.vtab.analysis import PUBLISHED, ModelScores, shared_tasks
from unseen.benchmarks.vtab.published_tables import (
    aggregation_taus,
    best_subsets,
    human_scores,
    literature,
    published_aggregations,
    score_table,
    task_titles,
)
from unseen.metrics.aggregation import aggregations, agreement_with_mean, sampled_agreement
from unseen.metrics.subsets import search_subsets
from unseen.reports.blocks import Table, TableCell


def published_tables(own: Sequence[ModelScores], size: str) -> list[Table]:
    """The paper's own table, for tasks that the user's models have not all been run on."""
    kind = PUBLISHED[own[0].adaptation, own[0].sweep]
    table = score_table(kind, size)
    if all(task in table.tasks for s in own for task in s.runs):
        return []
    titles = task_titles()
    rows = [
        [TableCell(m, m.lower()), *(TableCell(f"{v:.1f}", v) for v in values), TableCell(f"{mean:.1f}", mean)]
        for m, values, mean in zip(table.methods, table.scores.tolist(), table.means.tolist(), strict=True)
    ]
    return [
        Table(
            caption=f"Published methods ({kind}, {size} examples): VTAB's own tasks, not comparable with embedded ones",
            columns=["method", *(titles[task] for task in table.tasks), "mean"],
            rows=rows[::-1],
            numeric=range(1, len(table.tasks) + 2),
            folded=True,
        )
    ]


def subset_table(size: str) -> Table:
    """Table 5 with what the printed medians give, and the best subsets of all."""
    table, titles = score_table("lightweight", size), task_titles()
    search = search_subsets(table.scores)
    rows = []
    for subset in best_subsets(size):  # type: ignore[arg-type]
        tau, better = search.tau_of([table.tasks.index(task) for task in subset.tasks])
        shown = ", ".join(titles[task] for task in subset.tasks)
        paper = TableCell(f"{subset.tau:.3f} ± {subset.std:.3f}", subset.tau)
        rows.append([TableCell(shown, shown), paper, TableCell(f"{tau:.3f}", tau), TableCell(str(better + 1), better)])
    for k in range(5):
        shown = ", ".join(titles[table.tasks[t]] for t in search.subsets[k])
        tau = float(search.taus[k])
        rows.append(
            [
                TableCell(shown, shown, note="found here"),
                TableCell("–", None),
                TableCell(f"{tau:.3f}", tau),
                TableCell("1", k),
            ]
        )
    return Table(
        caption=f"Five tasks that rank the published methods like all nineteen ({len(search.taus):,} subsets searched)",
        columns=["tasks", "tau in the paper", "tau here", "place"],
        rows=rows,
        numeric=(1, 2, 3),
        folded=True,
    )


def aggregation_table(size: str) -> Table:
    """Table 4 beside what the printed medians give."""
    printed = aggregation_taus(size)  # type: ignore[arg-type]
    table = score_table("lightweight", size)
    found = agreement_with_mean(table.scores, published_aggregations())
    return Table(
        caption="Other ways to aggregate: Kendall's tau with the mean, for the published methods",
        columns=["aggregation", "paper", "here"],
        rows=[
            [
                TableCell(n, n),
                TableCell(f"{printed[n][0]:.3f} ± {printed[n][1]:.3f}", printed[n][0]),
                TableCell(f"{tau:.3f}", tau),
            ]
            for n, tau in found.items()
        ],
        numeric=(1, 2),
        folded=True,
    )


def own_aggregations(own: Sequence[ModelScores]) -> dict[str, tuple[float, float]]:
    """Table 4 for a user's models: by aggregation, tau with the mean and its deviation over sampled repeats.

    Empty for fewer than three models or two tasks that all of them have.
    """
    tasks = shared_tasks(own)
    if len(own) < 3 or len(tasks) < 2:
        return {}
    infos = [own[0].tasks[task] for task in tasks]
    runs = [[[100 * value for value in scores.runs[task]] for task in tasks] for scores in own]
    return sampled_agreement(runs, aggregations([i.data for i in infos], [i.group for i in infos]))


def own_aggregation_tables(own: Sequence[ModelScores]) -> list[Table]:
    """The same as a table of the page."""
    if not (found := own_aggregations(own)):
        return []
    seeds = sorted({len(values) for scores in own for values in scores.runs.values()})
    return [
        Table(
            caption=f"Other ways to aggregate, for these {len(own)} models: Kendall's tau with the mean, over 100 "
            f"draws of one of {' or '.join(map(str, seeds))} repeats",
            columns=["aggregation", "tau", "deviation"],
            rows=[
                [TableCell(n, n), TableCell(_number(tau), tau), TableCell(_number(std), std)]
                for n, (tau, std) in found.items()
            ],
            numeric=(1, 2),
            folded=True,
        )
    ]


def human_table(own: Sequence[ModelScores], names: Mapping[tuple[str, str], str], size: str) -> Table:
    """Table 3: raters and chance, in mean per-class accuracy, and a user's models in the same metric.

    Args:
        own: scores of the metric "mean_per_class".
    """
    titles = task_titles()
    mine = [scores for scores in own if scores.size == size and set(scores.runs) & set(human_scores())]
    rows = [
        [
            TableCell(titles[task], titles[task]),
            TableCell(f"{row['chance']:.1f}", row["chance"]),
            TableCell(f"{row['human']:.1f}", row["human"]),
            *(_percent(scores.medians.get(task)) for scores in mine),
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
    """Table 8: the best published method on all examples beside the literature, and a user's models of that size.

    Args:
        own: by metric.
    """
    titles, spoken = task_titles(), {"top1": "", "mean_per_class": "mean per-class", "kappa": "quadratic kappa"}
    ways = dict.fromkeys((s.model, s.way) for scores in own.values() for s in scores if s.size == "full")
    found = {(m, s.model, s.way): s.medians for m, scores in own.items() for s in scores if s.size == "full"}
    rows = [
        [
            TableCell(titles[row.task], titles[row.task], note=spoken[row.metric]),
            TableCell(f"{row.ours:.1f}", row.ours, best=row.ours > row.theirs),
            TableCell(f"{row.theirs:.1f}", row.theirs, best=row.theirs > row.ours, note=row.reference),
            *(_percent(found.get((row.metric, *way), {}).get(row.task)) for way in ways),
        ]
        for row in literature()
    ]
    columns = ["task", "Sup-Ex-100%, heavyweight", "literature", *(names[way] for way in ways)]
    return Table(
        caption="The best published method beside the literature (Table 8), all examples (%)",
        columns=columns,
        rows=rows,
        numeric=range(1, len(columns)),
        folded=True,
    )


def _percent(value: float | None) -> TableCell:
    return TableCell("–", None) if value is None else TableCell(f"{100 * value:.1f}", 100 * value)


def _number(value: float) -> str:
    return f"{value:.3f}" if value == value else "–"
