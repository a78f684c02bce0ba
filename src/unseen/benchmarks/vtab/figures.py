"""Every figure of the VTAB paper by name, for the published methods and for a user's results alike.

Paper:      Zhai et al., 2019 [P]
Differs:    what [P] shows as pictures only (Figures 6 to 13 and 17 to 20) is drawn from a user's results alone; Figure
            21 compares with the four tasks that the Visual Decathlon shares with VTAB
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from unseen.benchmarks.vtab.analysis import (
    DECATHLON,
    METRICS,
    Setting,
    differences,
    kind_means,
    linear_taus,
    metric_agreement,
    metric_means,
    pairs,
    published_settings,
    reference_tasks,
    score_matrix,
    searches,
    shared_tasks,
    sweep_gains,
    unseen_task_taus,
)
from unseen.benchmarks.vtab.info import IMAGENET_BENCHMARK
from unseen.benchmarks.vtab.published_tables import Adaptation, Size, TaskInfo, published_aggregations
from unseen.core.errors import DataError, UnknownNameError
from unseen.metrics.aggregation import aggregations, tau_matrix
from unseen.metrics.sensitivity import Sensitivity
from unseen.reports.blocks import Figure, Material
from unseen.reports.charts import (
    INK,
    NEUTRAL,
    OTHERS,
    PALETTE,
    Axis,
    Bars,
    Chart,
    Distribution,
    Dots,
    Key,
    Lines,
    Matrix,
    Panels,
    Scatter,
    interval_fields,
    to_spec,
)
from unseen.reports.theme import CONTAINER, PANEL_WIDTH, Spec
from unseen.reports.wording import family, listed

#: One colour per group of tasks, in all charts.
_GROUPS = [
    Key("natural", OTHERS[1]),
    Key("specialized", OTHERS[2]),
    Key("structured", OTHERS[0]),
    Key("other", NEUTRAL),
    Key("all", INK),
]
_GOOD = [Key("within 2 points", PALETTE[2], "■"), Key("best", PALETTE[1])]
_TAU = Axis("Kendall's tau", kind="number", zero=True)
_POINTS = Axis("points of top-1 accuracy", kind="points", zero=True)
#: The tasks of Figures 12 and 13.
_VIOLINS = ("CIFAR-100", "DMLab")
_RUN = "Make some with: unseen vtab run"


@dataclass(frozen=True)
class FigureKind:
    """One figure of the paper.

    Attributes:
        paper: its number there.
        setting: draws it for one setting; None if it relates several.
        across: draws it for all settings together.
        published: the tables of [P] that it is drawn for; empty if [P] does not print the numbers.
        needs: which results it needs.
    """

    paper: str
    setting: Callable[[Setting], Iterable[Figure]] | None = None
    across: Callable[[Sequence[Setting]], Iterable[Figure]] | None = None
    published: Sequence[Adaptation] = ()
    needs: str = f"there are no VTAB results of that study. {_RUN}"


def draw(name: str, own: Sequence[Setting] = (), *, size: Size = "1000", published: bool = True) -> list[Figure]:
    """Return the figures of one name: those of the published methods first, then those of a user's results.

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
    figures = [*(_published(kind, size) if published else []), *_figures(kind, own)]
    if not figures:
        raise DataError(f"there is nothing to draw {kind.paper} of: {kind.needs}")
    return figures


def setting_figures(setting: Setting) -> list[Figure]:
    """Return all figures of one setting."""
    return _packed([figure for kind in FIGURES.values() if kind.setting for figure in kind.setting(setting)])


def across_figures(own: Sequence[Setting]) -> list[Figure]:
    """Return all figures that relate settings, and those of the published methods for the same sizes."""
    found = [figure for kind in FIGURES.values() if kind.across for figure in kind.across(own)]
    sizes = dict.fromkeys(setting.size for setting in own)
    published = [figure for size in sizes for kind in FIGURES.values() for figure in _published(kind, size)]
    return [*_packed(found), *_packed(published)]


def one_spec(figures: Sequence[Figure]) -> Mapping[str, object]:
    """Return several figures as one, each under its title."""
    if len(figures) == 1:
        return figures[0].vega
    parts: list[Spec] = []
    for figure in figures:
        spec = {name: value for name, value in figure.vega.items() if name not in ("config", "params")}
        own = {"width": PANEL_WIDTH} if spec.get("width") == CONTAINER else {}
        parts.append({**spec, **own, "title": figure.title})
    return to_spec({"concat": parts, "columns": 1, "resolve": {"scale": {"color": "independent"}}})


def _figures(kind: FigureKind, settings: Sequence[Setting]) -> list[Figure]:
    found = list(kind.across(settings)) if kind.across and settings else []
    if kind.setting:
        for setting in settings:
            found += _titled(kind.setting(setting), setting.group.words)
    return found


def _published(kind: FigureKind, size: Size) -> list[Figure]:
    chosen = [s for s in published_settings(size) if s.group.setting["table"] in kind.published]
    figures = _titled(_figures(kind, chosen), f"published, {size} examples")
    return [replace(figure, folded=True) for figure in figures]


def _packed(figures: Sequence[Figure]) -> list[Figure]:
    """Return the figures that share a row of the page before those that fill one: no gaps between them."""
    return sorted(figures, key=lambda figure: figure.wide)


def _titled(figures: Iterable[Figure], words: str) -> list[Figure]:
    return [replace(figure, title=f"{figure.title} · {words}") if words else figure for figure in figures]


def _figure(title: str, chart: Chart, caption: str = "", *, wide: bool = False) -> Figure:
    return Figure(title, chart, "", caption, wide, folded=True)


def _task_bars(values: Mapping[TaskInfo, float], axis: Axis = _TAU) -> Bars:
    """Return one bar per task, coloured by its group, largest first (Figures 4, 5, 14, 15, 16 and 21)."""
    ordered = sorted(values.items(), key=lambda item: -item[1])
    rows = [{"name": info.title, "group": info.group, "value": value} for info, value in ordered]
    return Bars(rows=rows, series="group", keys=_GROUPS, x=axis)


# ---- one setting -----------------------------------------------------------------------------------------------------


def _groups(setting: Setting) -> Iterator[Figure]:
    """Draw the means by group of tasks of rows with the same tasks (Figure 3)."""
    parts: dict[str, list[str]] = {}
    for task in (tasks := reference_tasks(setting.rows)):
        parts.setdefault(setting.rows[0].tasks[task].group, []).append(task)
    parts |= {"all": tasks} if len(parts) > 1 else {}
    rows = [
        {"model": row.model, "name": setting.names[row.key], "part": part, **interval_fields(interval)}
        for row in setting.rows
        for part, some in parts.items()
        if (interval := row.mean(some).interval)
    ]
    missing = len(setting.scores) - len(setting.rows)
    caption = "Bars are means over the tasks of a group; lines are 95 % confidence intervals over test images."
    caption += f" Not shown: {missing} without all of these tasks." if missing else ""
    chart = Bars(rows=rows, series="part", keys=_GROUPS, x=Axis("mean top-1 accuracy", zero=True))
    if rows:
        yield _figure("Accuracy by group of tasks", chart, caption, wide=True)


def _kinds(setting: Setting) -> Iterator[Figure]:
    """Draw a setting's models as separate kinds among the kinds of published methods (Figure 2)."""
    if not (rows := kind_means(setting.rows, setting.size)) or not setting.rows:
        return
    caption = "Means over the methods of a kind, lines are one standard deviation over them. Published methods were "
    caption += "fine-tuned, lightweight."
    axis = Axis("mean top-1 accuracy", zero=True)
    yield _figure("Kinds of methods", Bars(rows=rows, y="group", series="kind", vertical=True, x=axis), caption)


def _pairs(setting: Setting) -> Iterator[Figure]:
    """Draw the differences of two rows by task (Figures 4 and 15)."""
    found, names = pairs(setting.rows), setting.names
    titles = [f"{names[first.key]} less {names[second.key]}" for first, second in found]
    chart = Panels(charts=[_task_bars(differences(*pair), _POINTS) for pair in found], titles=titles)
    title = "Where the best model gains" if len(found) == 1 else "Pairs of methods"
    if found:
        yield Figure(title, chart, wide=len(found) > 1)


def _aggregations(setting: Setting) -> Iterator[Figure]:
    """Draw Kendall's tau between ways to aggregate (Table 4, and the rest of its matrix)."""
    scores = setting.rows
    if len(scores) < 3 or len(shared_tasks(scores)) < 2:
        return
    tasks, table = score_matrix(scores)
    ways = aggregations([task.data for task in tasks], [task.group for task in tasks])
    names, taus = tau_matrix(table, published_aggregations() if scores[0].source else ways)
    if np.isnan(taus[0, 1:]).all():  # all models are equal
        return
    rows = [
        {"x": names[j], "y": names[i], "value": float(tau), "shown": f"{tau:.2f}"}
        for (i, j), tau in np.ndenumerate(taus)
        if tau == tau
    ]
    caption = f"Kendall's tau between rankings of {len(scores)} models; 1 is the same order."
    yield _figure("Do other aggregations rank these models alike?", Matrix(rows=rows, domain=(0.4, 1)), caption)


def _metrics(setting: Setting) -> Iterator[Figure]:
    """Draw the models in the order of each metric (Figure 7)."""
    panels, by_metric = [], metric_means(setting)
    for metric, means in by_metric.items():
        ordered = sorted(means.items(), key=lambda item: -item[1])
        rows = [{"name": setting.names[row], "value": mean} for row, mean in ordered]
        panels.append(Bars(rows=rows, series="", x=Axis(METRICS[metric], kind="number", zero=True)))
    if len(panels) < 2 or len(panels[0].rows) < 2:
        return
    taus = [f"{METRICS[metric]} {tau:.2f}" for metric, tau in metric_agreement(by_metric).items()]
    caption = f"Kendall's tau with the ranking by top-1: {listed(taus)}." if taus else ""
    chart = Panels(charts=panels, titles=[panel.x.title for panel in panels], columns=3)
    yield _figure("Models in the order of each metric", chart, caption, wide=True)


def _budgets(setting: Setting, *, by_task: bool = False) -> Iterator[Figure]:
    """Draw accuracy over the number of steps: the mean over tasks (Figure 6), or task by task (Figures 19 and 20)."""
    infos = {task: info for row in setting.budgets for task, info in row.tasks.items()}

    def lines(tasks: Sequence[str], title: str) -> Lines:
        rows = [row for row in setting.budgets if all(task in row.summaries for task in tasks)]
        points = [{"name": setting.names[row.key], "steps": row.budget, "value": row.average(tasks)} for row in rows]
        steps = Axis("steps of training", kind="log")
        return Lines(rows=points, x="steps", x_axis=steps, y=Axis(title), height=160 if by_task else 260)

    if infos and by_task:
        titles = [info.title for info in infos.values()]
        chart = Panels(charts=[lines([task], "top-1 accuracy") for task in infos], titles=titles)
        yield _figure("Accuracy under a budget of steps, task by task", chart, wide=True)
    elif tasks := shared_tasks(setting.budgets):
        caption = f"Means over the {len(tasks)} tasks that all of them have."
        yield _figure("Accuracy under a budget of steps", lines(tasks, "mean top-1 accuracy"), caption)


def _good_values(setting: Setting) -> Iterator[Figure]:
    """Draw which values of the hyper-parameters are good, task by task (Figures 8 to 11), one figure per model."""
    for (model, adaptation), by_task in searches(setting).items():
        names = dict.fromkeys(name for found in by_task.values() for name in found)
        panels = [_good_panel(n, {task: found[n] for task, found in by_task.items() if n in found}) for n in names]
        caption = "Green: values of settings within two points of the best of the task; red: the best."
        title = f"Good values: {setting.material.names[model]} ({adaptation})"
        yield _figure(title, Panels(charts=panels, columns=4), caption, wide=True)


def _good_panel(name: str, found: Mapping[str, Sensitivity]) -> Dots:
    continuous = any(each.binned for each in found.values())
    tried = [value for each in found.values() for value in each.tried]
    axis = Axis(name, kind="names", order=list(dict.fromkeys(map(_short, tried))))
    if continuous:
        axis = Axis(name, kind="log" if min(tried) > 0 else "number", include=tried)
    rows = [
        {"task": task, "value": value if continuous else _short(value), "kind": kind.label}
        for task, each in found.items()
        for kind, values in zip(_GOOD, (each.good, (each.best,)), strict=True)
        for value in values
    ]
    return Dots(rows=rows, y="task", series="kind", keys=_GOOD, x=axis, width=170)


def _violins(setting: Setting) -> Iterator[Figure]:
    """Draw how all settings of a search did, by value of each hyper-parameter (Figures 12 and 13), per model.

    Of more than two tasks, those of the paper are shown, or the first two.
    """
    for (model, adaptation), by_task in searches(setting).items():
        usual = [task for task in _VIOLINS if task in by_task]
        for task in list(by_task) if len(by_task) <= 2 else usual or list(by_task)[:2]:
            found = by_task[task]
            panels = [_violin(each) for each in found.values() if len(each.scores or each.binned) > 1]
            best = listed([f"{name} {_short(each.best)}" for name, each in found.items()])
            caption = f"Mirrored densities of validation accuracy, by value or by range of values. Best: {best}."
            title = f"All settings on {task}: {setting.material.names[model]} ({adaptation})"
            if panels:
                yield _figure(title, Panels(charts=panels, columns=3), caption, wide=True)


def _violin(found: Sensitivity) -> Distribution:
    by_value = {_short(value): scores for value, scores in found.scores.items()} or found.binned
    rows = [{"name": value, "value": score} for value, scores in by_value.items() for score in scores]
    return Distribution(rows=rows, title=found.name, y=Axis("validation accuracy"))


def _short(value: object) -> str:
    """Return a value of a hyper-parameter in a few characters."""
    return f"{value:.2g}" if isinstance(value, float) else str(value)


def _unseen_tasks(setting: Setting) -> Iterator[Figure]:
    """Draw how well other tasks predict the ranking on a task (Figure 21)."""
    if len(setting.rows) < 3 or not {*DECATHLON} < {*shared_tasks(setting.rows)}:
        return
    taus = unseen_task_taus(setting.rows)
    panels = [
        _task_bars({info: tau for info, (tau, _) in taus.items()}),
        _task_bars(
            {info: tau - other for info, (tau, other) in taus.items()}, replace(_TAU, title="difference of tau")
        ),
    ]
    titles = ["The other tasks predict the ranking", "less the tasks shared with the Decathlon"]
    both = np.nanmean(list(taus.values()), axis=0)
    caption = f"On average tau is {both[0]:.2f} with all other tasks and {both[1]:.2f} with the four that the Visual "
    caption += "Decathlon shares with VTAB. After Figure 21: scores on the Decathlon's other tasks are not published."
    chart = Panels(charts=panels, titles=titles)
    yield _figure("What predicts an unseen task?", chart, caption, wide=True)


# ---- several settings ------------------------------------------------------------------------------------------------


def _linear(own: Sequence[Setting]) -> Iterator[Figure]:
    """Draw Kendall's tau between linear and fine-tuned scores by task (Figures 5 and 16)."""
    title = "Does linear evaluation rank models as fine-tuning does?"
    caption = "Kendall's tau between the rankings of the same {} models; tasks on which one of the two gives all "
    caption += "models the same score are not shown."
    for count, taus in linear_taus(own):
        yield _figure(title, _task_bars(taus), caption.format(count))


def _sweeps(own: Sequence[Setting]) -> Iterator[Figure]:
    """Draw what the heavyweight search gained over the lightweight sweep, by task (Figure 14)."""
    gains = {f"{own[0].material.names[row.model]} ({row.adaptation})": points for row, points in sweep_gains(own)}
    means = [f"{title} {np.mean(list(points.values())):+.1f}" for title, points in gains.items()]
    chart = Panels(charts=[_task_bars(points, _POINTS) for points in gains.values()], titles=list(gains))
    caption = f"Points of top-1 accuracy, heavyweight less lightweight. Mean gains: {listed(means)}."
    if gains:
        yield _figure("What the heavyweight search gains", chart, caption, wide=True)


def _scale(own: Sequence[Setting]) -> Iterator[Figure]:
    """Draw scores over the number of parameters: means over VTAB's tasks (Figure 17), and ImageNet (Figure 18)."""
    for setting in own:
        tasks = reference_tasks(setting.rows)
        means = {row.model: row.average(tasks) for row in setting.rows if row.adaptation != "scratch"}
        scaled = _scaled(setting.material, means, "Larger models", f"mean top-1 over {len(tasks)} tasks")
        yield from _titled(scaled, setting.group.words)
    found: dict[str, list[float]] = {}
    for result in own[0].material.results:
        if result.ok and result.cell.benchmark == IMAGENET_BENCHMARK and result.cell.dataset.startswith("imagenet:"):
            found.setdefault(result.cell.model, []).append(result.metrics["top1"])
    tops = {model: float(np.median(values)) for model, values in found.items()}
    yield from _scaled(own[0].material, tops, "Larger models on ImageNet", "top-1 on ImageNet")


def _scaled(material: Material, scores: Mapping[str, float], title: str, axis: str) -> Iterator[Figure]:
    rows = [
        {"name": material.names[model], "family": family(model, material.cards), "value": score}
        | {"parameters": card.parameters / 1e6, "width": card.feature_dim or 1}
        for model, score in scores.items()
        if (card := material.cards.get(model)) and card.parameters
    ]
    size = Axis("parameters (millions)", kind="log")
    chart = Scatter(rows=rows, x="parameters", x_axis=size, y=Axis(axis), series="family", size="width", label="name")
    if len(rows) > 1:
        yield _figure(title, chart, "Colour is the family, size the width of the features.")


_LIGHT: tuple[Adaptation, ...] = ("lightweight",)
_BUDGETS = f"it takes results of fixed budgets. {_RUN} --budgets 40,100,400,1000"
_SEARCH = f"it takes a search of many settings. {_RUN} --adaptation finetune --sweep heavyweight"
FIGURES: Mapping[str, FigureKind] = {
    "groups": FigureKind("Figure 3", _groups, published=_LIGHT),
    "kinds": FigureKind("Figure 2", _kinds, published=_LIGHT),
    "pairs": FigureKind("Figures 4 and 15", _pairs, published=("lightweight", "heavyweight")),
    "linear": FigureKind("Figures 5 and 16", across=_linear, published=("linear", "lightweight")),
    "sweeps": FigureKind("Figure 14", across=_sweeps, published=("lightweight", "heavyweight")),
    "aggregations": FigureKind("Table 4", _aggregations, published=_LIGHT),
    "metrics": FigureKind(
        "Figure 7", _metrics, needs=f"it takes two models, and the paper prints no numbers of its own. {_RUN}"
    ),
    "budgets": FigureKind("Figure 6", _budgets, needs=_BUDGETS),
    "task-budgets": FigureKind("Figures 19 and 20", partial(_budgets, by_task=True), needs=_BUDGETS),
    "good-values": FigureKind("Figures 8 to 11", _good_values, needs=_SEARCH),
    "violins": FigureKind("Figures 12 and 13", _violins, needs=_SEARCH),
    "scale": FigureKind(
        "Figures 17 and 18", across=_scale, needs=f"it takes two models whose numbers of parameters are known. {_RUN}"
    ),
    "unseen-tasks": FigureKind("Figure 21", _unseen_tasks, published=_LIGHT),
}
