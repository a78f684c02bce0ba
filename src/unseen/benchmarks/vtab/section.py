"""VTAB on the page: groups of tasks, every task among the published methods, and further tables of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from unseen.benchmarks.vtab.analysis import (
    METRICS,
    ModelScores,
    Setting,
    vtab_settings,
)
from unseen.benchmarks.vtab.figures import FIGURES
from unseen.benchmarks.vtab.published_tables import (
    ScoreTable,
    Size,
    paper_tables,
    published_aggregations,
    task_titles,
)
from unseen.benchmarks.vtab.ranking import Ranking, rank
from unseen.metrics.aggregation import agreement_with_mean
from unseen.metrics.subsets import search_subsets
from unseen.reports.blocks import (
    Headline,
    Part,
    SectionSpec,
    Standing,
    Table,
    Text,
    plain_table,
)
from unseen.reports.wording import counted, lead_sentence
from unseen.results.comparability import older_note


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
    common=(_prose, lambda settings: [figure for kind in FIGURES.values() for figure in kind.draw(settings)]),
    models=lambda setting: [result.cell.model for result in setting.group.results],
)


# ---- tables of the paper ---------------------------------------------------------------------------------------------


def subset_table(table: ScoreTable, size: Size, count: int = 5) -> Table:
    """Return Table 5 with the taus that a table gives, and the best `count` subsets of all."""
    titles, search = list(task_titles().values()), search_subsets(table.scores)
    printed = [row for row in paper_tables().table5 if row.size == size]
    subsets = [([table.tasks.index(task) for task in row.tasks], "{:.3f} ± {:.3f}".format(*row.tau)) for row in printed]
    subsets += [(each, "") for each in search.subsets[:count].tolist()]
    rows: list[list[str | int]] = []
    for tasks, paper in subsets:
        tau, better = search.tau_of(tasks)
        rows.append([", ".join(titles[task] for task in tasks), paper, f"{tau:.3f}", better + 1])
    caption = f"5 tasks that rank the published methods like all 19 ({len(search.taus):,} subsets searched)"
    return plain_table(caption, ["tasks", "tau in the paper", "tau here", "place"], rows)


def aggregation_table(table: ScoreTable, size: Size) -> Table:
    """Return Table 4 with the taus that a table gives, and their distance from the printed ones."""
    rows = []
    for name, tau in agreement_with_mean(table.scores, published_aggregations()).items():
        printed, deviation = paper_tables().table4[name][size]
        distance = (tau - printed) / deviation
        rows.append([name, f"{printed:.3f} ± {deviation:.3f}", f"{tau:.3f}", f"{distance:+.1f}"])
    caption = "Other ways to aggregate (Table 4): Kendall's tau with the mean, for the published methods"
    return plain_table(caption, ["aggregation", "paper", "here", "difference in standard deviations"], rows)


def human_table() -> Table:
    """Return Table 3: raters and chance, in mean per-class accuracy."""
    titles = task_titles()
    rows = [
        [titles[task], f"{row['chance']:.1f}", f"{row['human']:.1f}"] for task, row in paper_tables().table3.items()
    ]
    return plain_table("Human raters (Table 3): mean per-class accuracy (%)", ["task", "chance", "raters"], rows)


def literature_table() -> Table:
    """Return Table 8: the best published method on all examples, and the literature."""
    titles = task_titles()
    rows = [
        [f"{titles[row.task]}, {METRICS[row.metric]}", f"{row.ours:.1f}", f"{row.theirs:.1f}", row.reference]
        for row in paper_tables().table8
    ]
    caption = "The best published method and the literature (Table 8), all examples (%)"
    return plain_table(caption, ["task", "Sup-Ex-100%, heavyweight", "literature", "reference"], rows)
