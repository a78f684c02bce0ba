"""VTAB on the page: groups of tasks, every task among the published methods, and further tables of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from unseen.benchmarks.vtab.analysis import (
    METRICS,
    ModelScores,
    Setting,
    complete,
    metric_agreement,
    published_scores,
    row_names,
    score_matrix,
    shared_tasks,
    vtab_settings,
)
from unseen.benchmarks.vtab.figures import across_figures, setting_figures
from unseen.benchmarks.vtab.published_tables import (
    ScoreTable,
    Size,
    aggregation_taus,
    best_subsets,
    human_scores,
    literature,
    published_aggregations,
    score_table,
    task_titles,
)
from unseen.benchmarks.vtab.ranking import UNDECIDED, Column, Ranking, rank
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
    TextBlock,
)
from unseen.reports.scores import overview_chart
from unseen.reports.wording import PERCENT, counted, lead_sentence
from unseen.results.comparability import older_note
from unseen.results.grid import Summary
from unseen.results.info import MetricStyle
from unseen.results.table import DisplayNames, summary_cell

TAU = MetricStyle("tau", "tau")


@dataclass(frozen=True, eq=False)
class _Page:
    """One setting of the page, and its ranking; None if all its results are of fixed budgets."""

    setting: Setting
    ranking: Ranking | None


def _pages(material: Material, benchmark: str) -> list[tuple[str, _Page]]:
    found = vtab_settings(material)
    return [(s.group.words, _Page(s, rank(s.scores) if s.scores else None)) for s in found]


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


def _agreement(page: _Page) -> list[Text]:
    text = "the models rank with Kendall's tau {:.2f} to the ranking by top-1."
    taus = metric_agreement(page.setting)
    return [Text(text.format(tau), f"By {METRICS[metric]}") for metric, tau in taus.items()]


def _setting_tables(page: _Page) -> list[Table]:
    if not (ranking := page.ranking):
        return []
    found = ranking.tables(page.setting.material.names, page.setting.group.older)
    found += own_aggregation_tables(page.setting.scores)
    if any(row.source for row in ranking.rows):
        return found
    rows = published_scores(ranking.rows[0].table, ranking.size)
    (table,) = replace(ranking, setting="", tasks=rows[0].tasks, rows=rows, incomplete=(), note="").tables({})
    caption = f"Published methods: {table.caption}, VTAB's own tasks, not comparable with embedded ones"
    return [*found, replace(table, caption=caption, folded=True)]


def _all_rows(pages: Sequence[_Page]) -> list[Table]:
    """Return one table of all adaptations among the published methods of each, if models were adapted in several ways.

    Each way must have one setting, and all of them the same data.
    """
    chosen = [page.setting for page in pages if page.ranking]
    ways = {str(setting.group.setting["table"]) for setting in chosen}
    same = {(setting.size, str(setting.group.setting.get("root"))) for setting in chosen}
    if not len(ways) == len(chosen) > 1 or len(same) > 1:
        return []
    rows, size = [row for setting in chosen for row in setting.scores], chosen[0].size
    published = [row for setting in chosen for row in published_scores(setting.scores[0].table, size)]
    ranking = rank(rows, published)
    tables = ranking.tables(chosen[0].material.names)[:1] if any(row.source for row in ranking.rows) else []
    return [replace(table, caption=f"All adaptations, {size} examples") for table in tables]


def _paper_tables(pages: Sequence[_Page]) -> Iterator[Table]:
    settings = [page.setting for page in pages]
    own = {metric: [row for setting in settings for row in setting.by(metric)] for metric in METRICS}
    names = row_names(own["top1"], settings[0].material.names)
    for size in dict.fromkeys(setting.size for setting in settings):
        table = score_table("lightweight", size)
        yield from (human_table(own, names, size), subset_table(table, size), aggregation_table(table, size))
        yield from [literature_table(own, names)] if size == "full" else []


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
    blocks=(_answer, lambda page: setting_figures(page.setting), _agreement, _setting_tables),
    common=(
        TextBlock(_prose),
        _all_rows,
        _paper_tables,
        lambda pages: across_figures([page.setting for page in pages]),
    ),
    models=lambda page: [result.cell.model for result in page.setting.group.results],
)


# ---- tables of the paper ---------------------------------------------------------------------------------------------


def _table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[TableCell]]) -> Table:
    return Table(caption, columns, rows, folded=True)


def subset_table(table: ScoreTable, size: Size, subset_size: int = 5, count: int = 5) -> Table:
    """Return Table 5 with the taus that a table gives, and the best subsets of all.

    Args:
        subset_size: number of tasks in a subset; Table 5 has five.
        count: number of best subsets.
    """
    titles, search = list(task_titles().values()), search_subsets(table.scores, subset_size)
    printed = best_subsets(size) if subset_size == 5 else ()
    subsets = [([table.tasks.index(task) for task in each.tasks], tau_cell(each.tau, each.std)) for each in printed]
    subsets += [(each, TableCell(hint="found here")) for each in search.subsets[:count].tolist()]
    rows = []
    for tasks, paper in subsets:
        tau, better = search.tau_of(tasks)
        name = TableCell(", ".join(titles[task] for task in tasks))
        rows.append([name, paper, tau_cell(tau), TableCell(f"{better + 1:,}", better)])
    caption = f"{subset_size} tasks that rank the published methods like all 19 ({len(search.taus):,} subsets searched)"
    return _table(caption, ["tasks", "tau in the paper", "tau here", "place"], rows)


def aggregation_table(table: ScoreTable, size: Size) -> Table:
    """Return Table 4 with the taus that a table gives, and their distance from the printed ones."""
    printed, rows = aggregation_taus(size), []
    for name, tau in agreement_with_mean(table.scores, published_aggregations()).items():
        distance = (tau - printed[name][0]) / printed[name][1]
        cells = [tau_cell(*printed[name]), tau_cell(tau), TableCell(f"{distance:+.1f}", distance)]
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


def human_table(own: Mapping[str, Sequence[ModelScores]], names: DisplayNames, size: Size) -> Table:
    """Return Table 3: raters and chance, in mean per-class accuracy, and a user's models in the same metric.

    Args:
        own: rows by metric.
    """
    titles, rows = task_titles(), []
    for task, scores in human_scores().items():
        cells = [TableCell(titles[task]), _percent(scores["chance"]), _percent(scores["human"])]
        rows.append((task, "mean_per_class", cells))
    mine = {key: found for key, found in _by_row(own, size).items() if {task for _, task in found} & {*human_scores()}}
    columns = ["task", "chance", "raters", *(names[key] for key in mine)]
    return _table("Human raters (Table 3): mean per-class accuracy (%)", columns, _reference_rows(rows, mine))


def literature_table(own: Mapping[str, Sequence[ModelScores]], names: DisplayNames) -> Table:
    """Return Table 8: the best published method on all examples, the literature, and a user's models of that size.

    Args:
        own: rows by metric.
    """
    titles, rows = task_titles(), []
    for row in literature():
        name = titles[row.task] if row.metric == "top1" else f"{titles[row.task]}, {METRICS[row.metric]}"
        cells = [TableCell(name), _percent(row.ours), _percent(row.theirs, row.reference)]
        rows.append((row.task, row.metric, cells))
    mine = _by_row(own, "full")
    columns = ["task", "Sup-Ex-100%, heavyweight", "literature", *(names[key] for key in mine)]
    caption = "The best published method and the literature (Table 8), all examples (%)"
    return _table(caption, columns, _reference_rows(rows, mine))


_ByRow = Mapping[str, Mapping[tuple[str, str], Summary]]


def _by_row(own: Mapping[str, Sequence[ModelScores]], size: Size) -> _ByRow:
    """Return the summaries of a user's rows by key, then metric and task."""
    keys = dict.fromkeys(row.key for rows in own.values() for row in rows if row.size == size)
    return {
        key: {(m, task): each for m in own for row in own[m] if row.key == key for task, each in row.summaries.items()}
        for key in keys
    }


def _reference_rows(rows: Sequence[tuple[str, str, Sequence[TableCell]]], own: _ByRow) -> list[list[TableCell]]:
    """Return rows of the paper by task and metric, with a user's models in the same metric."""
    found = []
    for task, metric, cells in rows:
        mine = (summary_cell(summaries.get((metric, task)), UNDECIDED) for summaries in own.values())
        found.append([*cells, *(replace(cell, metric=PERCENT) for cell in mine)])
    return found


def _percent(value: float, note: str = "") -> TableCell:
    return TableCell(value=value / 100, metric=PERCENT, note=note)


def tau_cell(value: float, deviation: float | None = None) -> TableCell:
    """Return the cell of a tau, with its standard deviation if it has one."""
    if value != value:
        return TableCell()
    return TableCell(value=value, metric=TAU, note="" if deviation is None else f"± {deviation:.3f}")
