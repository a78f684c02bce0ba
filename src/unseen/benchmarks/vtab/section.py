"""VTAB on the page: groups of tasks, every task among the published methods, and how far the ranking can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from unseen.benchmarks.vtab.analysis import group_scores, published_scores
from unseen.benchmarks.vtab.figures import across_figures, published_figures, setting_figures
from unseen.benchmarks.vtab.info import IMAGENET_BENCHMARK
from unseen.benchmarks.vtab.own_figures import Own
from unseen.benchmarks.vtab.published_tables import Size
from unseen.benchmarks.vtab.ranking import Column, Ranking, key_of, rank
from unseen.benchmarks.vtab.relations import METRICS, metric_agreement
from unseen.benchmarks.vtab.tables import (
    aggregation_table,
    human_table,
    literature_table,
    own_aggregation_tables,
    published_tables,
    subset_table,
)
from unseen.reports.blocks import Figure, Headline, Material, Section, Standing, Table
from unseen.reports.charts import to_spec, without_legends
from unseen.reports.overview import overview_chart
from unseen.reports.wording import counted, lead_sentence, listed
from unseen.results import Group
from unseen.results.comparability import older_note


def vtab_section(material: Material, benchmark: str) -> Section | None:
    """Return the section of VTAB, setting by setting, or None if it has no result."""
    own = Own([r for r in material.results if r.cell.benchmark in (benchmark, IMAGENET_BENCHMARK)], material.cards)
    if not own.groups:
        return None
    sizes: list[Size] = ["full" if s == "full" else "1000" for s in {g.setting["size"]: 0 for g in own.groups}]
    section = Section.joined(
        [(group.words, _setting_section(own, group, material)) for group in own.groups],
        title="VTAB: unseen tasks, with few labels",
        anchor=benchmark,
        legend=material.legend(result.cell.model for group in own.groups for result in group.results),
        prose=[
            "Top-1 accuracy in percent, the median over seeds; intervals are 95 % intervals over test images.",
            "Hyper-parameters were chosen on the validation examples; then the model was adapted anew to all of them.",
            "Test labels were not readable before that.",
            older_note(sum(group.older for group in own.groups)),
        ],
        tables=[*_all_rows(own), *(table for size in sizes for table in _paper_tables(own, size))],
    )
    published = [figure for size in sizes for figure in published_figures(size)]
    more = [replace(figure, folded=True) for figure in (*across_figures(own), *published)]
    return replace(section, figures=[*section.figures, *more])


def _setting_section(own: Own, group: Group, material: Material) -> Section:
    """Return the part of one setting."""
    scores = group_scores(group)
    ranking = rank(scores) if scores else None
    standings = _standings(ranking, ranking.mean, "Unseen tasks: top-1, mean over {}") if ranking else []
    headlines = [_headline(standings, material)] if standings else []
    figures = [*_standing_figures(ranking, standings, material), *map(_folded, setting_figures(own, group))]
    if ranking is None:
        return Section(title="", anchor="", figures=figures)
    embedded = not any(row.source for row in ranking.rows)
    return Section(
        title="",
        anchor="",
        answer=[("", headline.text) for headline in headlines],
        headlines=headlines,
        standings=standings,
        points=_points(metric_agreement(group)),
        figures=figures,
        tables=[
            *ranking.tables(own.short, group.older),
            *own_aggregation_tables(scores),
            *(published_tables(scores, ranking.size) if embedded else []),
        ],
    )


def _standings(ranking: Ranking, column: Column, question: str) -> list[Standing]:
    """Return the values of the user's models in one column; of the best adaptation of each model."""
    asked = question.format(counted(len(column.tasks), "task"))
    found: dict[str, Standing] = {}
    for row in ranking.ordered:
        if not row.source and row.model not in found:
            candidate = ranking.candidates[column][key_of(row)]
            found[row.model] = Standing(asked, row.model, candidate, row.cells(column.tasks))
    return list(found.values())


def _standing_figures(ranking: Ranking | None, standings: Sequence[Standing], material: Material) -> list[Figure]:
    """Return means by group of tasks as dots with their intervals (Figure 3)."""
    if ranking is None or not standings:
        return []
    groups = [c for c in ranking.columns if c.group == "Mean of" and c != ranking.mean and not c.by_group]
    found = [each for column in groups for each in _standings(ranking, column, f"{column.head.lower()}, {{}}")]
    found += standings
    keys = {model: key for model, key in material.keys.items() if any(s.model == model for s in found)}
    told = listed([f"{keys[s.model].label} {100 * s.value:.1f} % in {s.question}" for s in found], 40)
    return [
        Figure(
            "Means by group of tasks",
            without_legends(to_spec(overview_chart(found, keys))),
            f"Mean top-1 accuracy: {told}.",
            caption="Bars are 95 % confidence intervals over test images.",
            wide=True,
        )
    ]


def _all_rows(own: Own) -> list[Table]:
    """Return one table of all adaptations among the published methods of each, if models were adapted in several ways.

    Each way must have one setting, and all of them the same data.
    """
    chosen = [group for group in own.groups if group_scores(group)]
    ways = [str(group.setting["table"]) for group in chosen]
    same = {(str(group.setting["size"]), str(group.setting.get("root"))) for group in chosen}
    if len(ways) < 2 or len(set(ways)) < len(ways) or len(same) != 1:
        return []
    size: Size = "full" if chosen[0].setting["size"] == "full" else "1000"
    kinds = dict.fromkeys(row.table for row in own.scores)
    published = [row for kind in kinds for row in published_scores(kind, size)]
    ranking = rank([replace(row, setting="") for row in own.scores], published)
    tables = ranking.tables(own.short)[:1] if any(row.source for row in ranking.rows) else []
    return [replace(table, caption=f"All adaptations, {size} examples") for table in tables]


def _paper_tables(own: Own, size: Size) -> list[Table]:
    by_metric = {m: [s for group in own.groups for s in group_scores(group, m)] for m in METRICS}
    tables = [human_table(by_metric["mean_per_class"], own.names, size), subset_table(size), aggregation_table(size)]
    return [*tables, literature_table(by_metric, own.names)] if size == "full" else tables


def _folded(figure: Figure) -> Figure:
    """Fold the figures of a setting, except where the best model gains and the means by group."""
    at_once = ("Where the best model gains", "Means by group of tasks")
    return replace(figure, folded=figure.title not in at_once)


def _headline(standings: Sequence[Standing], material: Material) -> Headline:
    text, sure, clear = lead_sentence(standings, material.names, "adapts best,")
    tasks = standings[0].question.partition(": ")[2]
    return Headline("Unseen tasks", f"{text.removesuffix('.')} ({tasks}).", sure, clear)


def _points(agreement: Mapping[str, float]) -> list[tuple[str, str]]:
    return [
        (f"By {METRICS[metric]}", f"the models rank with Kendall's tau {tau:.2f} to the ranking by top-1.")
        for metric, tau in agreement.items()
    ]
