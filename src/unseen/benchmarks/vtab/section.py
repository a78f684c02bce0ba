"""VTAB on the page: groups of tasks, every task among the published methods, and how far the ranking can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from unseen.benchmarks.vtab.analysis import PUBLISHED, ModelScores, group_scores, ranked, shared_tasks
from unseen.benchmarks.vtab.figures import across_figures, published_figures, setting_figures
from unseen.benchmarks.vtab.own_figures import Own
from unseen.benchmarks.vtab.published_tables import Size, score_table
from unseen.benchmarks.vtab.relations import METRICS, metric_agreement
from unseen.benchmarks.vtab.standings import Behind, mean_standings, standing_figures, task_cells
from unseen.benchmarks.vtab.tables import (
    aggregation_table,
    human_table,
    literature_table,
    own_aggregation_tables,
    published_tables,
    subset_table,
)
from unseen.reports.blocks import Figure, Headline, Material, Section, Standing, Table, TableCell
from unseen.reports.wording import bracketed, lead_sentence
from unseen.results import Group
from unseen.results.comparability import older_said

_PLAIN = "Top-1 accuracy (%)"


def vtab_section(material: Material, benchmark: str) -> Section | None:
    """The section of VTAB, setting by setting, or None where it has no result to show."""
    own = Own([r for r in material.results if r.cell.benchmark in (benchmark, "probe")], material.cards)
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
            "Test labels were under seal until that was done.",
            older_said(sum(group.older for group in own.groups)),
        ],
        tables=[*_all_rows(own), *(table for size in sizes for table in _paper_tables(own, size))],
    )
    published = [figure for size in sizes for figure in published_figures(size)]
    more = [replace(figure, folded=True) for figure in (*across_figures(own), *published)]
    return replace(section, figures=[*section.figures, *more])


def _setting_section(own: Own, group: Group, material: Material) -> Section:
    """The part of one setting."""
    scores, size = own.of_group(group), str(group.setting["size"])
    standings = mean_standings(scores, group)
    headlines = [_headline(standings, material)] if standings else []
    return Section(
        title="",
        anchor="",
        answer=[("", headline.text) for headline in headlines],
        headlines=headlines,
        standings=standings,
        points=_points(metric_agreement(group)),
        figures=[*standing_figures(scores, group, material), *map(_folded, setting_figures(own, group))],
        tables=[
            _scores(scores, own.names, size, group, standings),
            *own_aggregation_tables(scores),
            *published_tables(scores, size),
        ]
        if scores
        else [],
    )


def _all_rows(own: Own) -> list[Table]:
    """Where models were adapted in several ways: all their rows among the published methods, on the tasks of all.

    Each way must have one setting, and all of them the same data: a deliberately short run is not set beside others.
    """
    chosen = [group for group in own.groups if group_scores(group)]
    ways = [str(group.setting["table"]) for group in chosen]
    same = {(str(group.setting["size"]), str(group.setting.get("root"))) for group in chosen}
    if len(ways) < 2 or len(set(ways)) < len(ways) or len(same) != 1:
        return []
    size: Size = "full" if chosen[0].setting["size"] == "full" else "1000"
    infos = {task: info for scores in own.scores for task, info in scores.tasks.items()}
    tasks = [task for task in shared_tasks(own.scores) if infos[task].published]
    if not tasks:
        return []
    rows = [(own.names[s.model, s.way], "yours", {t: 100 * s.medians[t] for t in tasks}) for s in own.scores]
    for kind in (name for name in ("linear", "lightweight", "heavyweight") if name in ways):
        table = score_table(kind, size)
        told = "published, linear" if kind == "linear" else f"published, fine-tuned, {kind}"
        for method, values in zip(table.methods, table.among(tasks).tolist(), strict=True):
            rows.append((method, told, dict(zip(tasks, values, strict=True))))
    means = [(name, note, scores, float(np.mean(list(scores.values())))) for name, note, scores in rows]
    caption = f"All ways of adapting, among the published methods of each ({size} examples, {len(tasks)} tasks)"
    return [_table(means, tasks, [infos[t].title for t in tasks], caption)]


def _paper_tables(own: Own, size: Size) -> list[Table]:
    by_metric = {m: [s for group in own.groups for s in group_scores(group, m)] for m in METRICS}
    tables = [human_table(by_metric["mean_per_class"], own.names, size), subset_table(size), aggregation_table(size)]
    return [*tables, literature_table(by_metric, own.names)] if size == "full" else tables


def _folded(figure: Figure) -> Figure:
    """Of a setting's figures, where the best model gains is shown at once, and the ways of adapting are."""
    at_once = ("Where the best model gains", "Means by group of tasks")
    return replace(figure, folded=figure.title not in at_once)


def _headline(standings: Sequence[Standing], material: Material) -> Headline:
    text, sure, clear = lead_sentence(standings, material.names, "adapts best,")
    tasks = standings[0].question.partition(": ")[2]
    return Headline("Unseen tasks", f"{text.removesuffix('.')} ({tasks}).", sure, clear)


def _scores(
    own: Sequence[ModelScores],
    names: Mapping[tuple[str, str], str],
    size: str,
    group: Group,
    standings: Sequence[Standing],
) -> Table:
    """Every task: the user's models, and the published methods on tasks that both have."""
    behind = task_cells(group)
    keys = {names[s.model, s.way]: (s.model, s.adaptation) for s in own}
    tasks = list(dict.fromkeys(task for s in own for task in s.runs))
    infos = {task: info for s in own for task, info in s.tasks.items()}
    table = score_table(PUBLISHED[own[0].adaptation, own[0].sweep], size)
    shared = [task for task in tasks if task in table.tasks]
    whole = bool(shared) and len(shared) == len(tasks)
    rows: list[tuple[str, str, dict[str, float], float | None]] = []
    for s, lacking in ranked(own):
        medians = {task: 100 * value for task, value in s.medians.items()}
        whose = "yours" if whole else s.model
        note = f"{whose}, {len(medians)} of {len(tasks)} tasks" if lacking else whose
        mean = None if lacking else float(np.mean(list(medians.values())))
        rows.append((names[s.model, s.way], note, medians, mean))
    if whole:
        for method, values in zip(table.methods, table.among(shared).tolist(), strict=True):
            rows.append((method, "published", dict(zip(shared, values, strict=True)), float(np.mean(values))))
    kind = PUBLISHED[own[0].adaptation, own[0].sweep]
    caption = _PLAIN + (f", among the published methods ({kind}, {size} examples)" if whole else "")
    titles = [infos[task].title for task in tasks]
    return _table(
        rows,
        tasks,
        titles,
        caption,
        lambda name, task: behind.get((*keys[name], task)) if name in keys else None,
        {name: s for name, (model, _) in keys.items() for s in standings if s.model == model},
    )


def _table(
    rows: Sequence[tuple[str, str, Mapping[str, float], float | None]],
    tasks: Sequence[str],
    titles: Sequence[str],
    caption: str,
    behind: Callable[[str, str], Behind | None] = lambda name, task: None,
    means: Mapping[str, Standing] | None = None,
) -> Table:
    """Rows of (name, note, scores, mean), best mean first, those without one last.

    Args:
        behind: by name and task, the cells of a value and its interval.
        means: by name, where the mean comes from; the interval is shown where it is that mean's.
    """
    ordered = sorted(rows, key=lambda row: -np.inf if row[3] is None else row[3], reverse=True)
    best = {task: max(r[2][task] for r in rows if task in r[2]) for task in tasks}
    top = max((mean for *_, mean in rows if mean is not None), default=None)
    entries = [
        [
            TableCell(name, name.lower(), note=note),
            _mean(mean, mean == top and len(rows) > 1, (means or {}).get(name)),
            *(_entry(scores.get(task), best[task], behind(name, task)) for task in tasks),
        ]
        for name, note, scores, mean in ordered
    ]
    first = "model" if caption == _PLAIN else "method"
    return Table(caption=caption, columns=[first, "mean", *titles], rows=entries, numeric=range(1, len(tasks) + 2))


def _mean(value: float | None, best: bool, standing: Standing | None) -> TableCell:
    if value is None:
        return TableCell("–", None, hint="not all tasks")
    if standing is None or abs(100 * standing.value - value) > 1e-6:
        return TableCell(f"{value:.1f}", value, best=best)
    note = bracketed(standing.low, standing.high)
    return TableCell(f"{value:.1f}", value, best=best, note=note, cells=standing.cells)


def _entry(value: float | None, best: float, behind: Behind | None) -> TableCell:
    if value is None:
        return TableCell("–", None)
    note = bracketed(*behind.bounds) if behind and behind.bounds else ""
    return TableCell(f"{value:.1f}", value, best=value == best, note=note, cells=behind.cells if behind else ())


def _points(agreement: Mapping[str, float]) -> list[tuple[str, str]]:
    spoken = {"mean_per_class": "mean per-class accuracy", "kappa": "quadratic kappa"}
    return [
        (f"By {spoken[metric]}", f"the models rank with Kendall's tau {tau:.2f} to the ranking by top-1.")
        for metric, tau in agreement.items()
    ]
