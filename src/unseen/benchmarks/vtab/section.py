"""VTAB on the page: groups of tasks, every task among the published methods, and further tables of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from unseen.benchmarks.vtab.analysis import (
    METRICS,
    ModelScores,
    Setting,
    VtabResults,
    complete,
    group_scores,
    metric_agreement,
    published_scores,
    row_names,
    shared_tasks,
    size_of,
)
from unseen.benchmarks.vtab.figures import across_figures, setting_figures
from unseen.benchmarks.vtab.info import IMAGENET_BENCHMARK
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
    TableBlock,
    TableCell,
    Text,
    TextBlock,
)
from unseen.reports.overview import overview_chart
from unseen.reports.wording import PERCENT, counted, lead_sentence
from unseen.results.comparability import older_said
from unseen.results.styles import MetricStyle
from unseen.results.table import summary_cell

TAU = MetricStyle("tau", "tau")


@dataclass(frozen=True, eq=False)
class _Page:
    """One setting of the page."""

    setting: Setting
    material: Material

    @cached_property
    def ranking(self) -> Ranking | None:
        return rank(self.setting.scores) if self.setting.scores else None

    def standings(self, column: Column, question: str) -> list[Standing]:
        """Return the values of the user's models in one column; of the best adaptation of each model."""
        question = question.format(counted(len(column.tasks), "task"))
        found: dict[str, Standing] = {}
        for row in self.ranking.ordered if self.ranking else ():
            if not row.source and row.model not in found:
                candidate = self.ranking.candidates[column][row.key] if self.ranking else None
                assert candidate is not None
                found[row.model] = Standing(question, row.model, candidate, row.cells(column.tasks))
        return list(found.values())


def _pages(material: Material, benchmark: str) -> list[tuple[str, _Page]]:
    own = [result for result in material.results if result.cell.benchmark in (benchmark, IMAGENET_BENCHMARK)]
    return [(s.group.words, _Page(s, material)) for s in VtabResults(own, material.cards).settings]


def _answer(page: _Page) -> Iterator[Part]:
    """Yield the answer, its headline and the means by group of tasks as dots with their intervals (Figure 3)."""
    if not (ranking := page.ranking):
        return
    standings = page.standings(ranking.mean, "Unseen tasks: top-1, mean over {}")
    text, sure, clear = lead_sentence(standings, page.material.names, "adapts best,")
    tasks = standings[0].question.partition(": ")[2]
    headline = Headline("Unseen tasks", f"{text.removesuffix('.')} ({tasks}).", sure, clear)
    yield Text(headline.text, answer=True)
    yield headline
    yield from standings
    means = [c for c in ranking.columns if c.group == ranking.mean.group and c != ranking.mean and not c.by_group]
    found = [each for column in means for each in page.standings(column, f"{column.head.lower()}, {{}}")]
    models = {standing.model for standing in standings}
    keys = {model: key for model, key in page.material.keys.items() if model in models}
    caption = "Bars are 95 % confidence intervals over test images."
    yield Figure("Means by group of tasks", overview_chart([*found, *standings], keys), caption=caption, wide=True)


def _agreement(page: _Page) -> list[Text]:
    taus = metric_agreement(page.setting.group)
    text = "the models rank with Kendall's tau {:.2f} to the ranking by top-1."
    return [Text(text.format(tau), f"By {METRICS[metric]}") for metric, tau in taus.items()]


def _setting_tables(page: _Page) -> list[Table]:
    if not (ranking := page.ranking):
        return []
    own, scores = page.setting.study, page.setting.scores
    found = [*ranking.tables(own.short, page.setting.group.older), *own_aggregation_tables(scores)]
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
    chosen = [page.setting.group for page in pages if page.setting.scores]
    ways = [str(group.setting["table"]) for group in chosen]
    same = {(str(group.setting["size"]), str(group.setting.get("root"))) for group in chosen}
    if len(ways) < 2 or len(set(ways)) < len(ways) or len(same) != 1:
        return []
    rows = [row for page in pages for row in page.setting.scores]
    size = size_of(chosen[0])
    published = [row for kind in dict.fromkeys(row.table for row in rows) for row in published_scores(kind, size)]
    ranking = rank(rows, published)
    tables = ranking.tables(pages[0].setting.study.short)[:1] if any(row.source for row in ranking.rows) else []
    return [replace(table, caption=f"All adaptations, {size} examples") for table in tables]


def _sizes(pages: Sequence[_Page]) -> list[Size]:
    return list(dict.fromkeys(size_of(page.setting.group) for page in pages))


def _paper_tables(pages: Sequence[_Page]) -> Iterator[Table]:
    by_metric = {m: [row for page in pages for row in group_scores(page.setting.group, m)] for m in METRICS}
    names = row_names(by_metric["top1"], pages[0].setting.study.short)
    for size in _sizes(pages):
        table = score_table("lightweight", size)
        yield human_table(by_metric["mean_per_class"], names, size)
        yield from (subset_table(table, size), aggregation_table(table, size))
        yield from [literature_table(by_metric, names)] if size == "full" else []


def _older(pages: Sequence[_Page]) -> str:
    return older_said(sum(page.setting.group.older for page in pages))


_PROSE = (
    "Top-1 accuracy in percent, the median over seeds; intervals are 95 % intervals over test images.",
    "Hyper-parameters were chosen on the validation examples; then the model was adapted anew to all of them.",
    "Test labels were not readable before that.",
)
vtab_section: SectionSpec[_Page] = SectionSpec(
    title="VTAB: unseen tasks, with few labels",
    settings=_pages,
    blocks=(_answer, lambda page: setting_figures(page.setting), _agreement, TableBlock(_setting_tables)),
    common=(
        *(TextBlock[Sequence[_Page]](text) for text in _PROSE),
        TextBlock(_older),
        TableBlock(_all_rows),
        TableBlock(_paper_tables),
        lambda pages: across_figures(pages[0].setting.study, _sizes(pages)),
    ),
    models=lambda page: [result.cell.model for result in page.setting.group.results],
)


# ---- tables of the paper ---------------------------------------------------------------------------------------------


def subset_table(table: ScoreTable, size: Size, subset_size: int = 5, count: int = 5) -> Table:
    """Return Table 5 with the taus that a table gives, and the best subsets of all.

    Args:
        subset_size: number of tasks in a subset; Table 5 has five.
        count: number of best subsets.
    """
    titles, search = task_titles(), search_subsets(table.scores, subset_size)
    rows = []
    for subset in best_subsets(size) if subset_size == 5 else ():
        tau, better = search.tau_of([table.tasks.index(task) for task in subset.tasks])
        name = TableCell(", ".join(titles[task] for task in subset.tasks), note="Table 5")
        rows.append([name, tau_cell(subset.tau, subset.std), tau_cell(tau), TableCell(f"{better + 1:,}", better)])
    for k in range(count):
        name = TableCell(", ".join(titles[table.tasks[task]] for task in search.subsets[k]), note="found here")
        rows.append([name, TableCell(), tau_cell(float(search.taus[k])), TableCell("1", k)])
    return Table(
        f"{subset_size} tasks that rank the published methods like all 19 ({len(search.taus):,} subsets searched)",
        ["tasks", "tau in the paper", "tau here", "place"],
        rows,
        numeric=(1, 2, 3),
        folded=True,
    )


def aggregation_table(table: ScoreTable, size: Size) -> Table:
    """Return Table 4 with the taus that a table gives, and their distance from the printed ones."""
    found, printed = agreement_with_mean(table.scores, published_aggregations()), aggregation_taus(size)
    return Table(
        "Other ways to aggregate (Table 4): Kendall's tau with the mean, for the published methods",
        ["aggregation", "paper", "here", "difference in standard deviations"],
        [
            [TableCell(name), tau_cell(*printed[name]), *deviation_cells(tau, printed[name])]
            for name, tau in found.items()
        ],
        numeric=(1, 2, 3),
        folded=True,
    )


def deviation_cells(tau: float, printed: tuple[float, float]) -> list[TableCell]:
    """Return a tau and its distance from a printed mean, in printed standard deviations."""
    distance = (tau - printed[0]) / printed[1]
    return [tau_cell(tau), TableCell(f"{distance:+.1f}", distance)]


def own_aggregation_tables(own: Sequence[ModelScores]) -> list[Table]:
    """Return Table 4 for a user's models: tau with the mean and its deviation over sampled seeds.

    Empty for fewer than three models with all tasks, or fewer than two tasks.
    """
    rows = complete(own)
    tasks = shared_tasks(rows)
    if len(rows) < 3 or len(tasks) < 2:
        return []
    infos = [rows[0].tasks[task] for task in tasks]
    runs = [[[100 * value for value in row.summaries[task].values] for task in tasks] for row in rows]
    seeds = sorted({len(values) for row in runs for values in row})
    found = sampled_agreement(runs, aggregations([info.data for info in infos], [info.group for info in infos]))
    return [
        Table(
            f"Other ways to aggregate, for these {len(rows)} models: Kendall's tau with the mean, over 100 samples of "
            f"one of {' or '.join(map(str, seeds))} seeds",
            ["aggregation", "tau", "deviation"],
            [[TableCell(name), tau_cell(tau), tau_cell(std)] for name, (tau, std) in found.items()],
            numeric=(1, 2),
            folded=True,
        )
    ]


def human_table(own: Sequence[ModelScores], names: Mapping[str, str], size: Size) -> Table:
    """Return Table 3: raters and chance, in mean per-class accuracy, and a user's models in the same metric.

    Args:
        own: scores of the metric "mean_per_class".
    """
    titles, raters = task_titles(), human_scores()
    mine = [row for row in own if row.size == size and {*row.summaries} & {*raters}]
    columns = ["task", "chance", "raters", *(names[row.key] for row in mine)]
    rows = [
        [
            TableCell(titles[task]),
            *(TableCell(value=scores[name] / 100, metric=PERCENT) for name in ("chance", "human")),
            *(summary_cell(row.summaries.get(task), UNDECIDED) for row in mine),
        ]
        for task, scores in raters.items()
    ]
    caption = "Human raters (Table 3): mean per-class accuracy (%)"
    return Table(caption, columns, rows, numeric=range(1, len(columns)), folded=True)


def literature_table(own: Mapping[str, Sequence[ModelScores]], names: Mapping[str, str]) -> Table:
    """Return Table 8: the best published method on all examples, the literature, and a user's models of that size.

    Args:
        own: by metric.
    """
    titles, spoken = task_titles(), {"top1": "", "mean_per_class": "mean per-class", "kappa": "quadratic kappa"}
    found = {(metric, row.key): row.medians for metric, rows in own.items() for row in rows if row.size == "full"}
    mine = list(dict.fromkeys(key for _, key in found))
    columns = ["task", "Sup-Ex-100%, heavyweight", "literature", *(names[key] for key in mine)]
    rows = [
        [
            TableCell(titles[row.task], note=spoken[row.metric]),
            TableCell(value=row.ours / 100, metric=PERCENT),
            TableCell(value=row.theirs / 100, metric=PERCENT, note=row.reference),
            *(TableCell(value=found.get((row.metric, key), {}).get(row.task), metric=PERCENT) for key in mine),
        ]
        for row in literature()
    ]
    caption = "The best published method and the literature (Table 8), all examples (%)"
    return Table(caption, columns, rows, numeric=range(1, len(columns)), folded=True)


def tau_cell(value: float, deviation: float | None = None) -> TableCell:
    """Return the cell of a tau, with its standard deviation if it has one."""
    if value != value:
        return TableCell()
    return TableCell(value=value, metric=TAU, note="" if deviation is None else f"± {deviation:.3f}")
