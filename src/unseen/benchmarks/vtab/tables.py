"""Tables of the VTAB section that come from the paper: its methods, its subsets, its aggregations, recomputed."""

from __future__ import annotations

from collections.abc import Sequence

from unseen.benchmarks.vtab.analysis import PUBLISHED, ModelScores
from unseen.benchmarks.vtab.published_tables import aggregation_taus, best_subsets, score_table, task_titles
from unseen.data.sources.vtab.tasks import vtab_tasks
from unseen.metrics.aggregation import aggregations, agreement_with_mean
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
    rows, printed = vtab_tasks().values(), aggregation_taus(size)  # type: ignore[arg-type]
    table = score_table("lightweight", size)
    found = agreement_with_mean(table.scores, aggregations([r.data for r in rows], [r.group for r in rows]))
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
