"""VTAB on the page: groups of tasks, every task among the published methods, and further tables of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from unseen.benchmarks.vtab.analysis import (
    METRICS,
    ModelScores,
    Setting,
    complete,
    score_matrix,
    shared_tasks,
    vtab_settings,
)
from unseen.benchmarks.vtab.figures import across_figures, setting_figures
from unseen.benchmarks.vtab.published_tables import (
    ScoreTable,
    Size,
    paper_tables,
    published_aggregations,
    score_table,
    task_titles,
)
from unseen.benchmarks.vtab.ranking import Column, Ranking, rank
from unseen.data.sources.vtab import vtab_tasks
from unseen.metrics.aggregation import aggregations, agreement_with_mean, sampled_agreement
from unseen.metrics.subsets import search_subsets
from unseen.reports.blocks import (
    Figure,
    Headline,
    Material,
    Part,
    SectionSpec,
    Standing,
    Table,
    TableCell,
    Text,
)
from unseen.reports.scores import overview_chart
from unseen.reports.wording import PERCENT, counted, lead_sentence
from unseen.results.comparability import older_note
from unseen.results.info import MetricStyle

TAU = MetricStyle("tau", "tau")


@dataclass(frozen=True, eq=False)
class _Page:
    """One setting of the page, and its ranking; None if all its results are of fixed budgets."""

    setting: Setting
    ranking: Ranking | None


def _pages(material: Material, benchmark: str) -> list[tuple[str, _Page]]:
    return [(s.group.words, _Page(s, rank(s.scores) if s.scores else None)) for s in vtab_settings(material)]


def _answer(page: _Page) -> Iterator[Part]:
    """Yield the answer, its headline and the means by group of tasks as dots with their intervals (Figure 3)."""
    if not (ranking := page.ranking):
        return
    material = page.setting.material
    standings = _standings(ranking, ranking.mean, "Unseen tasks: top-1, mean over {}")
    text, sure, clear = lead_sentence(standings, material.names, "adapts best,")
    tasks = standings[0].question.partition(": ")[2]
    headline = Headline("Unseen tasks", f"{text.removesuffix('.')} ({tasks}).", sure, clear)
    yield Text(headline.text, answer=True)
    yield headline
    yield from standings
    means = [c for c in ranking.columns if c.group == ranking.mean.group and c != ranking.mean and not c.by_group]
    found = [each for column in means for each in _standings(ranking, column, f"{column.head.lower()}, {{}}")]
    keys = {standing.model: material.keys[standing.model] for standing in standings}
    caption = "Bars are 95 % confidence intervals over test images."
    yield Figure("Means by group of tasks", overview_chart([*found, *standings], keys), caption=caption, wide=True)


def _standings(ranking: Ranking, column: Column, question: str) -> list[Standing]:
    """Return the values of the user's models in one column; of the best adaptation of each model."""
    best: dict[str, ModelScores] = {}
    for row in ranking.ordered:
        if not row.source:
            best.setdefault(row.model, row)
    question, values = question.format(counted(len(column.tasks), "task")), ranking.candidates[column]
    return [Standing(question, row.model, values[row.key], row.cells(column.tasks)) for row in best.values()]


def _setting_tables(page: _Page) -> list[Table]:
    if not (ranking := page.ranking):
        return []
    found = ranking.tables(page.setting.material.names, page.setting.group.older)
    return [*found, *own_aggregation_tables(page.setting.scores)]


def _paper_tables(pages: Sequence[_Page]) -> Iterator[Table]:
    for size in dict.fromkeys(page.setting.size for page in pages):
        table = score_table("lightweight", size)
        yield from (human_table(), subset_table(table, size), aggregation_table(table, size))
        yield from [literature_table()] if size == "full" else []


def _prose(pages: Sequence[_Page]) -> list[str]:
    return [
        "Top-1 accuracy in percent, the median over seeds; intervals are 95 % intervals over test images.",
        "Hyper-parameters were chosen on the validation examples; then the model was adapted anew to all of them.",
        "Test labels were not readable before that.",
        older_note(sum(page.setting.group.older for page in pages)),
    ]


vtab_section = SectionSpec(
    title="VTAB: unseen tasks, with few labels",
    settings=_pages,
    blocks=(_answer, lambda page: setting_figures(page.setting), _setting_tables),
    common=(
        _prose,
        _paper_tables,
        lambda pages: across_figures([page.setting for page in pages]),
    ),
    models=lambda page: [result.cell.model for result in page.setting.group.results],
)


# ---- tables of the paper ---------------------------------------------------------------------------------------------


def _table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[TableCell]]) -> Table:
    return Table(caption, columns, rows, folded=True)


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
    return _table(caption, ["tasks", "tau in the paper", "tau here", "place"], rows)


def aggregation_table(table: ScoreTable, size: Size) -> Table:
    """Return Table 4 with the taus that a table gives, and their distance from the printed ones."""
    rows = []
    for name, tau in agreement_with_mean(table.scores, published_aggregations()).items():
        printed, deviation = paper_tables().table4[name][size]
        distance = (tau - printed) / deviation
        cells = [tau_cell(printed, deviation), tau_cell(tau), TableCell(f"{distance:+.1f}", distance)]
        rows.append([TableCell(name), *cells])
    caption = "Other ways to aggregate (Table 4): Kendall's tau with the mean, for the published methods"
    return _table(caption, ["aggregation", "paper", "here", "difference in standard deviations"], rows)


def own_aggregation_tables(own: Sequence[ModelScores]) -> list[Table]:
    """Return Table 4 for a user's models: tau with the mean and its deviation over sampled seeds.

    Empty for fewer than three models with all tasks, or fewer than two tasks.
    """
    rows = complete(own)
    if len(rows) < 3 or len(shared_tasks(rows)) < 2:
        return []
    tasks, _ = score_matrix(rows)
    runs = [[[100 * value for value in row.summaries[task.name].values] for task in tasks] for row in rows]
    seeds = sorted({len(values) for row in runs for values in row})
    found = sampled_agreement(runs, aggregations([task.data for task in tasks], [task.group for task in tasks]))
    caption = f"Other ways to aggregate, for these {len(rows)} models: Kendall's tau with the mean, over 100 samples "
    caption += f"of one of {' or '.join(map(str, seeds))} seeds"
    cells = [[TableCell(name), tau_cell(tau), tau_cell(std)] for name, (tau, std) in found.items()]
    return [_table(caption, ["aggregation", "tau", "deviation"], cells)]


def human_table() -> Table:
    """Return Table 3: raters and chance, in mean per-class accuracy."""
    rows = [
        [TableCell(vtab_tasks()[task].title), _percent(scores["chance"]), _percent(scores["human"])]
        for task, scores in paper_tables().table3.items()
    ]
    return _table("Human raters (Table 3): mean per-class accuracy (%)", ["task", "chance", "raters"], rows)


def literature_table() -> Table:
    """Return Table 8: the best published method on all examples, and the literature."""
    rows = []
    for row in paper_tables().table8:
        name = vtab_tasks()[row.task].title + (f", {METRICS[row.metric]}" if row.metric != "top1" else "")
        rows.append([TableCell(name), _percent(row.ours), replace(_percent(row.theirs), note=row.reference)])
    caption = "The best published method and the literature (Table 8), all examples (%)"
    return _table(caption, ["task", "Sup-Ex-100%, heavyweight", "literature"], rows)


def _percent(value: float) -> TableCell:
    return TableCell(value=value / 100, metric=PERCENT)


def tau_cell(value: float, deviation: float | None = None) -> TableCell:
    """Return the cell of a tau, with its standard deviation if it has one."""
    if value != value:
        return TableCell()
    return TableCell(value=value, metric=TAU, note="" if deviation is None else f"± {deviation:.3f}")
