"""Every figure of the VTAB paper by name, for the published methods and for a user's results alike.

Paper:      Zhai et al., 2019 [P]
Differs:    what [P] shows as pictures only (Figures 6 to 13 and 17 to 20) is drawn from a user's results alone; Figure
            21 compares with the four tasks that the Visual Decathlon shares with VTAB
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

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
    searches,
    shared_tasks,
    sweep_gains,
    unseen_task_taus,
)
from unseen.benchmarks.vtab.info import IMAGENET_BENCHMARK
from unseen.benchmarks.vtab.published_tables import Adaptation, Size, TaskInfo
from unseen.core.errors import DataError, UnknownNameError
from unseen.metrics.sensitivity import Sensitivity
from unseen.reports.blocks import Figure, Material
from unseen.reports.charts import (
    INK,
    NEUTRAL,
    OTHERS,
    PALETTE,
    Axis,
    Bars,
    Distribution,
    Dots,
    Key,
    Lines,
    Panels,
    Scatter,
    interval_fields,
)
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
#: Returns the figures of some settings.
Draw = Callable[[Sequence[Setting]], Iterable[Figure]]


@dataclass(frozen=True)
class FigureKind:
    """One figure of the paper.

    Attributes:
        paper: its number there.
        published: the tables of [P] that it is drawn for; empty if [P] does not print the numbers.
        needs: which results it needs.
    """

    paper: str
    draw: Draw
    published: Sequence[Adaptation] = ()
    needs: str = f"there are no VTAB results of that study. {_RUN}"


def draw(name: str, own: Sequence[Setting] = (), *, size: Size = "1000") -> list[Figure]:
    """Return the figures of one name: those of the published methods first, then those of a user's results.

    Args:
        size: of the published methods.

    Raises:
        UnknownNameError: there is no such figure.
        DataError: nothing can be drawn; the message states what is needed.
    """
    if name not in FIGURES:
        raise UnknownNameError("figure", name, tuple(FIGURES))
    kind = FIGURES[name]
    chosen = [s for s in published_settings(size) if s.group.setting["table"] in kind.published]
    figures = [*_titled(kind.draw(chosen), f"published, {size} examples"), *kind.draw(own)]
    if not figures:
        raise DataError(f"there is nothing to draw {kind.paper} of: {kind.needs}")
    return figures


def _each(draw_one: Callable[[Setting], Iterable[Figure]]) -> Draw:
    """Return a function that draws settings one by one; titles state what distinguishes them."""
    return lambda settings: [f for setting in settings for f in _titled(draw_one(setting), setting.group.words)]


def _titled(figures: Iterable[Figure], words: str) -> list[Figure]:
    return [replace(figure, title=f"{figure.title} · {words}") if words else figure for figure in figures]


def _task_bars(values: Mapping[TaskInfo, float], axis: Axis = _TAU) -> Bars:
    """Return one bar per task, coloured by its group, largest first (Figures 4, 5, 14, 15, 16 and 21)."""
    ordered = sorted(values.items(), key=lambda item: -item[1])
    rows = [{"name": info.title, "group": info.group, "value": value} for info, value in ordered]
    return Bars(rows=rows, series="group", keys=_GROUPS, x=axis)


# ---- one setting -----------------------------------------------------------------------------------------------------


@_each
def _groups(setting: Setting) -> Iterator[Figure]:
    """Draw the means by group of tasks of rows with the same tasks (Figure 3)."""
    parts: dict[str, list[str]] = {}
    for task, info in (tasks := reference_tasks(setting.rows)).items():
        parts.setdefault(info.group, []).append(task)
    parts |= {"all": list(tasks)} if len(parts) > 1 else {}
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
        yield Figure("Means by group of tasks", chart, caption=caption, wide=True)


@_each
def _kinds(setting: Setting) -> Iterator[Figure]:
    """Draw the means by kind of published methods and group of tasks (Figure 2)."""
    caption = "Means over the methods of a kind, lines are one standard deviation over them."
    axis = Axis("mean top-1 accuracy", zero=True)
    if setting.rows and setting.rows[0].source:
        rows = kind_means(setting.size)
        yield Figure(
            "Kinds of methods", Bars(rows=rows, y="group", series="kind", vertical=True, x=axis), caption=caption
        )


@_each
def _pairs(setting: Setting) -> Iterator[Figure]:
    """Draw the differences of two rows by task (Figures 4 and 15)."""
    found, names = pairs(setting.rows), setting.names
    titles = [f"{names[first.key]} less {names[second.key]}" for first, second in found]
    chart = Panels(charts=[_task_bars(differences(*pair), _POINTS) for pair in found], titles=titles)
    title = "Where the best model gains" if len(found) == 1 else "Pairs of methods"
    if found:
        yield Figure(title, chart, wide=len(found) > 1)


@_each
def _metrics(setting: Setting) -> Iterator[Figure]:
    """Draw the models in the order of each metric (Figure 7)."""
    by_metric = metric_means(setting)
    panels = []
    for metric, means in by_metric.items():
        ordered = sorted(means.items(), key=lambda item: -item[1])
        rows = [{"name": setting.names[row], "value": mean} for row, mean in ordered]
        panels.append(Bars(rows=rows, series="", x=Axis(METRICS[metric], kind="number", zero=True)))
    taus = [f"{METRICS[metric]} {tau:.2f}" for metric, tau in metric_agreement(by_metric).items()]
    caption = f"Kendall's tau with the ranking by top-1: {listed(taus)}." if taus else ""
    if len(panels) > 1 and len(panels[0].rows) > 1:
        chart = Panels(charts=panels, titles=[panel.x.title for panel in panels], columns=3)
        yield Figure("Models in the order of each metric", chart, caption=caption, wide=True)


@_each
def _budgets(setting: Setting) -> Iterator[Figure]:
    """Draw accuracy over the number of steps: the mean over tasks (Figure 6), and each task (Figures 19 and 20)."""
    budgets = [row for row in setting.scores if row.budget]
    shared, steps, charts = shared_tasks(budgets), Axis("steps of training", kind="log"), []
    panels = {"mean": shared} if len(shared) > 1 else {}
    panels |= {info.title: [task] for row in budgets for task, info in row.tasks.items()}
    for tasks in panels.values():
        rows = [
            {"name": f"{setting.material.names[row.model]} ({row.adaptation})", "steps": row.budget}
            | {"value": row.average(tasks)}
            for row in budgets
            if row.summaries.keys() >= {*tasks}
        ]
        charts.append(Lines(rows=rows, x="steps", x_axis=steps, y=Axis("top-1 accuracy"), height=160))
    caption = f"The mean is over the {len(shared)} tasks that all have." if len(shared) > 1 else ""
    if charts:
        chart = Panels(charts=charts, titles=list(panels))
        yield Figure("Accuracy under a budget of steps", chart, caption=caption, wide=True)


@_each
def _good_values(setting: Setting) -> Iterator[Figure]:
    """Draw which values of the hyper-parameters are good, task by task (Figures 8 to 11), one figure per model."""
    for title, by_task in searches(setting).items():
        names = dict.fromkeys(name for found in by_task.values() for name in found)
        panels = [_good_panel(n, {task: found[n] for task, found in by_task.items() if n in found}) for n in names]
        caption = "Green: values of settings within two points of the best of the task; red: the best."
        yield Figure(f"Good values: {title}", Panels(charts=panels, columns=4), caption=caption, wide=True)


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


@_each
def _violins(setting: Setting) -> Iterator[Figure]:
    """Draw how all settings of a search did, by value of each hyper-parameter (Figures 12 and 13), per model.

    The tasks of the paper are shown, or the first two.
    """
    for title, by_task in searches(setting).items():
        for task in [task for task in _VIOLINS if task in by_task] or list(by_task)[:2]:
            found = by_task[task]
            panels = [_violin(each) for each in found.values() if len(each.scores or each.binned) > 1]
            best = listed([f"{name} {_short(each.best)}" for name, each in found.items()])
            caption = f"Mirrored densities of validation accuracy, by value or by range of values. Best: {best}."
            if panels:
                yield Figure(
                    f"All settings on {task}: {title}", Panels(charts=panels, columns=3), caption=caption, wide=True
                )


def _violin(found: Sensitivity) -> Distribution:
    by_value = {_short(value): scores for value, scores in found.scores.items()} or found.binned
    rows = [{"name": value, "value": score} for value, scores in by_value.items() for score in scores]
    return Distribution(rows=rows, title=found.name, y=Axis("validation accuracy"))


def _short(value: object) -> str:
    """Return a value of a hyper-parameter in a few characters."""
    return f"{value:.2g}" if isinstance(value, float) else str(value)


@_each
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
    yield Figure("What predicts an unseen task?", chart, caption=caption, wide=True)


# ---- several settings ------------------------------------------------------------------------------------------------


def _linear(own: Sequence[Setting]) -> Iterator[Figure]:
    """Draw Kendall's tau between linear and fine-tuned scores by task (Figures 5 and 16)."""
    title = "Does linear evaluation rank models as fine-tuning does?"
    caption = "Kendall's tau between the rankings of the same {} models; tasks on which one of the two gives all "
    caption += "models the same score are not shown."
    for count, taus in linear_taus(own):
        yield Figure(title, _task_bars(taus), caption=caption.format(count))


def _sweeps(own: Sequence[Setting]) -> Iterator[Figure]:
    """Draw what the heavyweight search gained over the lightweight sweep, by task (Figure 14)."""
    gains = {f"{own[0].material.names[row.model]} ({row.adaptation})": points for row, points in sweep_gains(own)}
    means = [f"{title} {np.mean(list(points.values())):+.1f}" for title, points in gains.items()]
    chart = Panels(charts=[_task_bars(points, _POINTS) for points in gains.values()], titles=list(gains))
    caption = f"Points of top-1 accuracy, heavyweight less lightweight. Mean gains: {listed(means)}."
    if gains:
        yield Figure("What the heavyweight search gains", chart, caption=caption, wide=True)


@_each
def _scale(setting: Setting) -> Iterator[Figure]:
    """Draw means over VTAB's tasks by the number of parameters (Figure 17)."""
    tasks = reference_tasks(setting.rows)
    means = {row.model: row.average(tasks) for row in setting.rows if row.adaptation != "scratch"}
    yield from _scaled(setting.material, means, "Larger models", f"mean top-1 over {len(tasks)} tasks")


def _imagenet(own: Sequence[Setting]) -> Iterator[Figure]:
    """Draw the accuracy on ImageNet, if it was probed, by the number of parameters (Figure 18)."""
    found: dict[str, list[float]] = {}
    for result in own[0].material.results if own else ():
        if result.ok and result.cell.benchmark == IMAGENET_BENCHMARK and result.cell.dataset.startswith("imagenet:"):
            found.setdefault(result.cell.model, []).append(result.metrics["top1"])
    tops = {model: float(np.median(values)) for model, values in found.items()}
    if tops:
        yield from _scaled(own[0].material, tops, "Larger models on ImageNet", "top-1 on ImageNet")


def _scaled(material: Material, scores: Mapping[str, float], title: str, axis: str) -> Iterator[Figure]:
    rows = [
        {"name": material.names[model], "family": family(model, material.cards), "value": score}
        | {"parameters": card.parameters / 1e6}
        for model, score in scores.items()
        if (card := material.cards.get(model)) and card.parameters
    ]
    size = Axis("parameters (millions)", kind="log")
    if len(rows) > 1:
        chart = Scatter(rows=rows, x="parameters", x_axis=size, y=Axis(axis), series="family", label="name")
        yield Figure(title, chart, caption="Colour is the family.")


_LIGHT: tuple[Adaptation, ...] = ("lightweight",)
_BOTH: tuple[Adaptation, ...] = ("lightweight", "heavyweight")
_SEARCH = f"it takes a search of many settings. {_RUN} --adaptation finetune --sweep heavyweight"
_KNOWN = f"it takes two models whose numbers of parameters are known. {_RUN}"
_BUDGETS = f"it takes results of fixed budgets. {_RUN} --budgets 40,100,400,1000"
_TWO = f"it takes two models, and the paper prints no numbers of its own. {_RUN}"
FIGURES: Mapping[str, FigureKind] = {
    "groups": FigureKind("Figure 3", _groups, _LIGHT),
    "kinds": FigureKind("Figure 2", _kinds, _LIGHT),
    "pairs": FigureKind("Figures 4 and 15", _pairs, _BOTH),
    "linear": FigureKind("Figures 5 and 16", _linear, ("linear", "lightweight")),
    "sweeps": FigureKind("Figure 14", _sweeps, _BOTH),
    "metrics": FigureKind("Figure 7", _metrics, needs=_TWO),
    "budgets": FigureKind("Figures 6, 19 and 20", _budgets, needs=_BUDGETS),
    "good-values": FigureKind("Figures 8 to 11", _good_values, needs=_SEARCH),
    "violins": FigureKind("Figures 12 and 13", _violins, needs=_SEARCH),
    "scale": FigureKind("Figure 17", _scale, needs=_KNOWN),
    "imagenet": FigureKind("Figure 18", _imagenet, needs="it takes two models with: unseen probe imagenet:in1k"),
    "unseen-tasks": FigureKind("Figure 21", _unseen_tasks, _LIGHT),
}
