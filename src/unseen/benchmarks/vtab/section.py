"""VTAB on the page: groups of tasks, every task among the published methods, and further tables of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from unseen.benchmarks.vtab.analysis import (
    METRICS,
    ModelScores,
    Setting,
    vtab_settings,
)
from unseen.benchmarks.vtab.figures import page_figures
from unseen.benchmarks.vtab.published_tables import (
    ScoreTable,
    Size,
    paper_tables,
    published_aggregations,
    task_titles,
)
from unseen.benchmarks.vtab.ranking import Ranking, rank
from unseen.data.sources.vtab import vtab_tasks
from unseen.metrics.aggregation import agreement_with_mean
from unseen.metrics.subsets import search_subsets
from unseen.reports.blocks import (
    Headline,
    Part,
    SectionSpec,
    Standing,
    Table,
    TableCell,
    Text,
)
from unseen.reports.wording import PERCENT, counted, lead_sentence
from unseen.results.comparability import older_note
from unseen.results.info import MetricStyle

TAU = MetricStyle("tau", "tau")


@lru_cache(maxsize=16)
def _ranking(setting: Setting) -> Ranking:
    return rank(setting.scores)


def _answer(setting: Setting) -> Iterator[Part]:
    """Yield the answer, its headline, and the mean over tasks of the best adaptation of each model."""
    if not setting.rows:
        return
    ranking = _ranking(setting)
    best: dict[str, ModelScores] = {}
    for row in ranking.ordered:
        if not row.source:
            best.setdefault(row.model, row)
    values, words = ranking.candidates[ranking.mean], f"mean over {counted(len(ranking.tasks), 'task')}"
    standings = [
        Standing(f"Unseen tasks: top-1, {words}", row.model, values[row.key], row.cells(ranking.tasks))
        for row in best.values()
    ]
    text, sure, clear = lead_sentence(standings, setting.material.names, "adapts best,")
    headline = Headline("Unseen tasks", f"{text.removesuffix('.')} ({words}).", sure, clear)
    yield Text(headline.text, answer=True)
    yield headline
    yield from standings


def _prose(settings: Sequence[Setting]) -> list[str]:
    return [
        "Top-1 accuracy in percent, the median over seeds; intervals are 95 % intervals over test images.",
        "Hyper-parameters were chosen on the validation examples; then the model was adapted anew to all of them.",
        "Test labels were not readable before that.",
        older_note(sum(setting.group.older for setting in settings)),
    ]


vtab_section = SectionSpec(
    title="VTAB: unseen tasks, with few labels",
    settings=lambda material, _: [(setting.group.words, setting) for setting in vtab_settings(material)],
    blocks=(_answer, lambda s: _ranking(s).tables(s.material.names, s.group.older)),
    common=(_prose, page_figures),
    models=lambda setting: [result.cell.model for result in setting.group.results],
)


# ---- tables of the paper ---------------------------------------------------------------------------------------------


def subset_table(table: ScoreTable, size: Size, count: int = 5) -> Table:
    """Return Table 5 with the taus that a table gives, and the best `count` subsets of all."""
    titles, search = list(task_titles().values()), search_subsets(table.scores)
    printed = [row for row in paper_tables().table5 if row.size == size]
    subsets = [([table.tasks.index(task) for task in row.tasks], tau_cell(*row.tau)) for row in printed]
    subsets += [(each, TableCell(hint="found here")) for each in search.subsets[:count].tolist()]
    rows = []
    for tasks, paper in subsets:
        tau, better = search.tau_of(tasks)
        name = TableCell(", ".join(titles[task] for task in tasks))
        rows.append([name, paper, tau_cell(tau), TableCell(f"{better + 1:,}", better)])
    caption = f"5 tasks that rank the published methods like all 19 ({len(search.taus):,} subsets searched)"
    return Table(caption, ["tasks", "tau in the paper", "tau here", "place"], rows)


def aggregation_table(table: ScoreTable, size: Size) -> Table:
    """Return Table 4 with the taus that a table gives, and their distance from the printed ones."""
    rows = []
    for name, tau in agreement_with_mean(table.scores, published_aggregations()).items():
        printed, deviation = paper_tables().table4[name][size]
        distance = (tau - printed) / deviation
        cells = [tau_cell(printed, deviation), tau_cell(tau), TableCell(f"{distance:+.1f}", distance)]
        rows.append([TableCell(name), *cells])
    caption = "Other ways to aggregate (Table 4): Kendall's tau with the mean, for the published methods"
    return Table(caption, ["aggregation", "paper", "here", "difference in standard deviations"], rows)


def human_table() -> Table:
    """Return Table 3: raters and chance, in mean per-class accuracy."""
    rows = [
        [TableCell(vtab_tasks()[task].title), _percent(scores["chance"]), _percent(scores["human"])]
        for task, scores in paper_tables().table3.items()
    ]
    return Table("Human raters (Table 3): mean per-class accuracy (%)", ["task", "chance", "raters"], rows)


def literature_table() -> Table:
    """Return Table 8: the best published method on all examples, and the literature."""
    rows = []
    for row in paper_tables().table8:
        name = vtab_tasks()[row.task].title + (f", {METRICS[row.metric]}" if row.metric != "top1" else "")
        rows.append([TableCell(name), _percent(row.ours), replace(_percent(row.theirs), note=row.reference)])
    caption = "The best published method and the literature (Table 8), all examples (%)"
    return Table(caption, ["task", "Sup-Ex-100%, heavyweight", "literature"], rows)


def _percent(value: float) -> TableCell:
    return TableCell(value=value / 100, metric=PERCENT)


def tau_cell(value: float, deviation: float | None = None) -> TableCell:
    """Return the cell of a tau, with its standard deviation if it has one."""
    if value != value:
        return TableCell()
    return TableCell(value=value, metric=TAU, note="" if deviation is None else f"± {deviation:.3f}")
