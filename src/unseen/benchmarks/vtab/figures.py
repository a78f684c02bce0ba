"""Every figure of the VTAB paper by name: for the published methods, and for a user's results.

Paper:      Zhai et al., 2019 [P]
Differs:    what [P] shows as pictures only (Figures 6 to 13 and 17 to 20) is drawn from a user's results alone; Figure
            21 is set against the four tasks that the Visual Decathlon shares with VTAB
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from unseen.benchmarks.vtab import charts, own_figures, relations
from unseen.benchmarks.vtab.analysis import complete, published_scores, row_names
from unseen.benchmarks.vtab.own_figures import Own
from unseen.benchmarks.vtab.published_tables import Adaptation, Size, published_aggregations, score_table, task_titles
from unseen.core.errors import DataError, UnknownNameError
from unseen.data.sources.vtab.tasks import vtab_tasks
from unseen.metrics.aggregation import tau_matrix
from unseen.reports.blocks import Figure
from unseen.reports.charts import beside, to_spec
from unseen.results import Group


@dataclass(frozen=True)
class FigureKind:
    """One figure of the paper.

    Attributes:
        paper: its number there.
        published: makes it for the published methods; None where [P] does not print the numbers.
        setting: makes it for each setting of a user's results.
        across: makes it for all of a user's results together, where it relates settings.
    """

    paper: str
    published: Callable[[Size], list[Figure]] | None = None
    setting: Callable[[Own, Group], list[Figure]] | None = None
    across: Callable[[Own], list[Figure]] | None = None


def draw(name: str, own: Own | None = None, *, size: Size = "1000", published: bool = True) -> list[Figure]:
    """The figures of one name: the published methods' first, then those of a user's results.

    Args:
        size: of the published methods.
        published: whether to draw these.

    Raises:
        UnknownNameError: there is no such figure.
        DataError: nothing can be drawn; the message states what is needed.
    """
    if name not in FIGURES:
        raise UnknownNameError("figure", name, tuple(FIGURES))
    kind = FIGURES[name]
    figures = kind.published(size) if kind.published and published else []
    if own and kind.setting:
        for group in own.groups:
            said = f" · {group.words}" if group.words else ""
            figures += [_titled(figure, f"{figure.title}{said}") for figure in kind.setting(own, group)]
    if own and kind.across:
        figures += kind.across(own)
    if not figures:
        raise DataError(f"there is nothing to draw {kind.paper} of: {_NEEDS[name]}")
    return figures


def published_figures(size: Size) -> list[Figure]:
    """Return all figures of the published methods except Figure 3, whose numbers are in the table of the page."""
    kinds = [kind for name, kind in FIGURES.items() if name != "groups"]
    return _packed([figure for kind in kinds if kind.published for figure in kind.published(size)])


def setting_figures(own: Own, group: Group) -> list[Figure]:
    """All that can be drawn for one setting; means by group where models were adapted in several ways."""
    kinds = [kind for name, kind in FIGURES.items() if name != "groups"]
    rest = [figure for kind in kinds if kind.setting for figure in kind.setting(own, group)]
    several = len({scores.way for scores in own.of_group(group)}) > 1
    return [*(own_figures.group_figures(own, group) if several else []), *_packed(rest)]


def across_figures(own: Own) -> list[Figure]:
    """All that relates one setting to another."""
    return _packed([figure for kind in FIGURES.values() if kind.across for figure in kind.across(own)])


def _packed(figures: Sequence[Figure]) -> list[Figure]:
    """Those that share a row of the page before those that take one of their own: no gaps between them."""
    return sorted(figures, key=lambda figure: figure.wide)


def _titled(figure: Figure, title: str) -> Figure:
    return replace(figure, title=title)


def _kinds(size: Size) -> list[Figure]:
    rows = relations.kind_rows(size)
    best = {g: max((r for r in rows if r["group"] == g), key=lambda r: float(r["mean"])) for g in ("natural",)}
    return [
        Figure(
            title="Kinds of published methods",
            spec=to_spec(charts.kind_chart(rows)),
            description=f"Mean top-1 by kind of method and group of tasks; on natural tasks "
            f"{best['natural']['kind']} lead with {best['natural']['mean']:.1f} %.",
            caption="Means over methods; lines are one standard deviation over them (Figure 2).",
        )
    ]


def _groups(size: Size) -> list[Figure]:
    rows = complete(published_scores("lightweight", size))
    caption = "Means of the printed medians (Figure 3); lines are 95 % confidence intervals over test images, from the "
    caption += "printed accuracies and the sizes of the test sets."
    return [own_figures.group_figure("Published methods by group of tasks", rows, row_names(rows), caption)]


def _pairs(size: Size) -> list[Figure]:
    panels, titles = [], []
    tables: tuple[Adaptation, ...] = ("lightweight", "heavyweight")
    for table in tables:
        for first, second in relations.PAIRS:
            panels.append(_task_panel(relations.published_pair(first, second, table, size)))
            titles.append(f"{first} less {second}, {table}")
    return [
        Figure(
            title="Pairs of published methods",
            spec=beside(panels, titles=titles),
            description=f"Differences of top-1 accuracy per task: {'; '.join(titles)}.",
            caption="Points of top-1 accuracy (Figures 4 and 15).",
            wide=True,
        )
    ]


def _sweeps(size: Size) -> list[Figure]:
    gains = relations.published_sweeps(size)
    panels = [_task_panel(dict(sorted(points.items(), key=lambda item: -item[1]))) for points in gains.values()]
    means = ", ".join(f"{method} {np.mean(list(points.values())):+.1f}" for method, points in gains.items())
    return [
        Figure(
            title="Heavyweight less lightweight, published",
            spec=beside(panels, titles=list(gains)),
            description=f"Mean gain in points: {means}.",
            caption="Points of top-1 accuracy (Figure 14).",
            wide=True,
        )
    ]


def _linear(size: Size) -> list[Figure]:
    taus = dict(sorted(relations.linear_against_finetuning(size).items(), key=lambda item: -item[1]))
    low = list(taus)[-1]
    return [
        Figure(
            title="Does linear evaluation rank published methods as fine-tuning does?",
            spec=_task_panel(taus, "Kendall's tau", ".2f"),
            description=f"Kendall's tau per task, from {max(taus.values()):.2f} to {taus[low]:.2f} on "
            f"{task_titles()[low]}.",
            caption="17 methods (Figures 5 and 16).",
        )
    ]


def _unseen(size: Size) -> list[Figure]:
    taus = relations.unseen_task_taus(size)
    gains = dict(sorted(((t, a - b) for t, (a, b) in taus.items()), key=lambda item: -item[1]))
    both = np.mean(list(taus.values()), axis=0)
    return [
        Figure(
            title="What predicts an unseen task?",
            spec=beside(
                [
                    _task_panel(
                        dict(sorted(((t, a) for t, (a, _) in taus.items()), key=lambda item: -item[1])), "tau", ".2f"
                    ),
                    _task_panel(gains, "difference of tau", "+.2f"),
                ],
                titles=["VTAB's other tasks predict the ranking", "less the tasks shared with the Decathlon"],
            ),
            description=f"Kendall's tau with the ranking on a left-out task, on average {both[0]:.2f} by VTAB's other "
            f"tasks and {both[1]:.2f} by the four that the Visual Decathlon shares with it.",
            caption="After Figure 21, whose scores on the Decathlon's other tasks are not published.",
            wide=True,
        )
    ]


def _aggregations(size: Size) -> list[Figure]:
    table = score_table("lightweight", size)
    names, taus = tau_matrix(table.scores, published_aggregations())
    return [
        Figure(
            title="Do other aggregations rank the published methods alike?",
            spec=to_spec(charts.tau_chart(names, taus)),
            description=f"Kendall's tau of {len(names)} rankings of {len(table.methods)} methods; with the mean at "
            f"least {float(np.nanmin(taus[0])):.2f}.",
            caption=f"Kendall's tau between rankings of {len(table.methods)} methods (Table 4 is the first row).",
        )
    ]


def _task_panel(
    values: Mapping[str, float], axis: str = "points of top-1 accuracy", spec: str = "+.1f"
) -> dict[str, object]:
    titles, groups = task_titles(), {task.title: task.group for task in vtab_tasks().values()}
    return to_spec(charts.task_chart({titles[t]: v for t, v in values.items()}, groups, axis, spec=spec))


FIGURES: Mapping[str, FigureKind] = {
    "groups": FigureKind("Figure 3", _groups, own_figures.group_figures),
    "kinds": FigureKind("Figure 2", _kinds, own_figures.kind_figures),
    "pairs": FigureKind("Figures 4 and 15", _pairs, own_figures.pair_figures),
    "linear": FigureKind("Figures 5 and 16", _linear, across=own_figures.linear_figures),
    "sweeps": FigureKind("Figure 14", _sweeps, across=own_figures.sweep_figures),
    "aggregations": FigureKind("Table 4", _aggregations, own_figures.agreement_figures),
    "metrics": FigureKind("Figure 7", None, own_figures.metric_figures),
    "budgets": FigureKind("Figure 6", None, own_figures.budget_figures),
    "task-budgets": FigureKind("Figures 19 and 20", None, partial(own_figures.budget_figures, by_task=True)),
    "good-values": FigureKind("Figures 8 to 11", None, own_figures.good_value_figures),
    "violins": FigureKind("Figures 12 and 13", None, own_figures.violin_figures),
    "scale": FigureKind("Figures 17 and 18", None, across=own_figures.scale_figures),
    "unseen-tasks": FigureKind("Figure 21", _unseen),
}
_RUN = "Make some with: unseen vtab run"
_NEEDS: Mapping[str, str] = {
    **dict.fromkeys(FIGURES, f"there are no VTAB results of that study. {_RUN}"),
    "metrics": f"it takes two models, and the paper prints no numbers of its own. {_RUN}",
    "budgets": f"it takes results of fixed budgets. {_RUN} --budgets 40,100,400,1000",
    "task-budgets": f"it takes results of fixed budgets. {_RUN} --budgets 40,100,400,1000",
    "good-values": f"it takes a search of many settings. {_RUN} --adaptation finetune --sweep heavyweight",
    "violins": f"it takes a search of many settings. {_RUN} --adaptation finetune --sweep heavyweight",
    "scale": f"it takes two models whose numbers of parameters are known. {_RUN}",
}


def one_spec(figures: Sequence[Figure]) -> Mapping[str, object]:
    """Several figures as one, each under its title."""
    if len(figures) == 1:
        return figures[0].vega
    return beside([figure.vega for figure in figures], titles=[figure.title for figure in figures], columns=1)
