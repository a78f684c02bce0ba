"""Zero-shot learning model by model: who stands where, with which method, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from unseen.benchmarks.zsl.compare import CHOSEN, METHOD, plain_name
from unseen.core.records import Result
from unseen.reports.blocks import Figure, Headline, Material, Standing
from unseen.reports.charts import to_spec, without_legends
from unseen.reports.overview import overview_chart
from unseen.reports.wording import is_reference, lead_sentence, listed, short_names
from unseen.results import Group
from unseen.results.grid import interval_of

#: Models whose methods are drawn one by one; of the others there are tables.
_MOST = 2


def leading_models(results: Sequence[Result]) -> list[str]:
    """The models with the best zero-shot accuracies: those that charts of methods are drawn of."""
    best: dict[str, float] = {}
    for result in results:
        if "zsl" in result.metrics:
            best[result.cell.model] = max(result.metrics["zsl"], best.get(result.cell.model, 0.0))
    return sorted(best, key=lambda model: (is_reference(model), -best[model], model))[:_MOST]


def standings(groups: Sequence[Group]) -> list[Standing]:
    """ZSL of every model with one method, the one with the best mean over the models that have learnt something.

    One method for all: the best of many for each model would flatter those that had luck with one.
    """
    found: list[Standing] = []
    shown = [group for group in groups if group.setting[CHOSEN] == "all folds"]
    for group in shown:
        method = _common_method(group)
        if method is None:
            continue
        cell = group.results[0].cell
        where = f", {plain_name(cell.dataset)}, {cell.parameters['split']}" if len(shown) > 1 else ""
        question = f"Unseen classes: {method}, among unseen classes{where}"
        own = [r for r in group.results if r.cell.parameters[METHOD] == method]
        found += [_standing(question, result) for result in own]
    return found


def headlines(groups: Sequence[Group], material: Material) -> list[Headline]:
    """One per dataset and setting: the best model, over chance or not, and who cannot be told apart from it."""
    names = short_names({plain_name(g.results[0].cell.dataset) for g in groups}, material.dataset_cards)
    found = []
    shown = [group for group in groups if group.setting[CHOSEN] == "all folds" and _common_method(group)]
    for group in shown:
        own = standings([group])
        details = group.results[0].details
        method, chance = _common_method(group), float(details["chance"])
        if len(own) == 1:  # of one model, the question is which method
            own = [
                _standing(str(method), replace(r, cell=replace(r.cell, model=r.cell.parameters[METHOD])))
                for r in group.results
            ]
            names_of = {s.model: s.model for s in own}
            text, sure, clear = lead_sentence(own, names_of, "tells them apart best,")
            with_method = ""
        else:
            text, sure, clear = lead_sentence(own, material.names, "tells them apart best,")
            with_method = f" with {method}, the best method on average"
        best = max(own, key=lambda s: s.value)
        over = math.isfinite(best.low) and best.low > chance
        guess = f"chance is {100 * chance:.1f}\u202f%" + ("" if over else ", which the interval does not leave out")
        told = f"{text.removesuffix('.')} (per-class accuracy among {details['unseen_classes']} unseen classes"
        told += f"{with_method}; {guess})."
        cell = group.results[0].cell
        where = f" of {names[plain_name(cell.dataset)]}, {cell.parameters['split']}" if len(shown) > 1 else ""
        found.append(Headline(f"Unseen classes{where}", told, sure if over else "not clear", clear and over))
    return found


def method_figures(groups: Sequence[Group], material: Material) -> list[Figure]:
    """ZSL by method, a dot per model: one chart for all models of a setting."""
    figures = []
    shown = [group for group in groups if group.setting[CHOSEN] == "all folds" and len(group.by_model()) > 1]
    for group in shown:
        order = sorted(_means(group).items(), key=lambda pair: -pair[1])
        rows = [
            _standing(method, r) for method, _ in order for r in group.results if r.cell.parameters[METHOD] == method
        ]
        keys = {m: key for m, key in material.keys.items() if any(row.model == m for row in rows)}
        if not rows:
            continue
        told = listed([f"{keys[s.model].label} {100 * s.value:.1f} % with {s.question}" for s in rows], 40)
        cell = group.results[0].cell
        where = f" · {plain_name(cell.dataset)}, {cell.parameters['split']}" if len(shown) > 1 else ""
        figures.append(
            Figure(
                f"ZSL accuracy by method and model{where}",
                without_legends(to_spec(overview_chart(rows, keys))),
                f"Per-class accuracy among unseen classes: {told}.",
                caption="Methods in the order of their mean over models; bars are 95 % intervals over test images.",
                wide=True,
            )
        )
    return figures


def _standing(question: str, result: Result) -> Standing:
    low, high = interval_of(result, "zsl") or (math.nan, math.nan)
    return Standing(question, result.cell.model, float(result.metrics["zsl"]), low, high, (result.cell.id,))


def _means(group: Group) -> Mapping[str, float]:
    """By method, the mean over models that have learnt something (over all, where none has); whole ones first."""
    known = [r for r in group.results if "zsl" in r.metrics]
    learned = [r for r in known if not is_reference(r.cell.model)] or known
    found: dict[str, list[float]] = {}
    for result in learned:
        found.setdefault(str(result.cell.parameters[METHOD]), []).append(float(result.metrics["zsl"]))
    most = max(map(len, found.values()), default=0)
    return {method: sum(v) / len(v) - (len(v) < most) for method, v in found.items()}


def _common_method(group: Group) -> str | None:
    means = _means(group)
    return max(means, key=lambda method: (means[method], method)) if means else None
