"""The section of a CoG: levels, the gap to a baseline, few-shot curves, concepts against distance, and what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

from unseen.benchmarks.cog.analysis import (
    ALL,
    LevelScore,
    concept_scores,
    duels,
    level_scores,
    order_levels,
    settings,
    slope_sentence,
    slopes,
    statements,
)
from unseen.benchmarks.cog.charts import (
    control_chart,
    distance_chart,
    few_shot_chart,
    images_chart,
    levels_chart,
    model_keys,
    relative_chart,
    without_legend,
)
from unseen.benchmarks.cog.domains import CONTROL, SEEN
from unseen.core.records import Result
from unseen.reports.blocks import Figure, Material, Section, Table, TableCell
from unseen.reports.charts import to_spec
from unseen.reports.wording import is_reference, short_names
from unseen.results import Group
from unseen.results.comparability import older_said

#: Pairs of models that are spelled out.
_MOST_SAID = 12


def cog_section(material: Material, benchmark: str) -> Section | None:
    """Everything that the results of a CoG say, setting by setting, or None where there are none."""
    groups = settings(material.results, benchmark)
    if not groups:
        return None
    models = list(dict.fromkeys(result.cell.model for group in groups for result in group.results))
    names = short_names(models, material.cards)
    return Section.joined(
        [(group.words, _setting_section(group, names)) for group in groups],
        title="CoG: generalization to unseen concepts",
        anchor=benchmark,
        prose=[older_said(sum(group.older for group in groups))],
        legend=model_keys(names),
    )


def _setting_section(group: Group, names: Mapping[str, str]) -> Section:
    """The part of one setting."""
    own = group.results
    scores = level_scores(own)
    models = list(dict.fromkeys(score.model for score in scores))
    baseline = next((model for model in models if not is_reference(model)), models[0])
    levels = [level for level in order_levels(s.level for s in scores) if not level.startswith(CONTROL)]
    lines = slopes(concept_scores(own))
    learned = [model for model in models if not is_reference(model)]
    said = statements(duels(own, list(combinations(learned, 2))), names)
    left = [f"{len(said) - _MOST_SAID} more pairs of models are not spelled out."] if len(said) > _MOST_SAID else []
    return Section(
        title="",
        anchor="",
        prose=_prose(own, levels),
        points=[
            *[("Trend", sentence) for sentence in trend_sentences(scores, names)],
            *[("Slope", slope_sentence(names[model], line) + ".") for model, line in lines.items()],
            *[("Compared", sentence) for sentence in [*said[:_MOST_SAID], *left]],
        ],
        figures=_figures(own, scores, names, baseline, levels, lines),
        tables=[_table(scores, {m: names[m] for m in models}, levels, shots) for shots in _shots(scores)],
    )


def trend_sentences(scores: Sequence[LevelScore], names: Mapping[str, str]) -> list[str]:
    """Whether accuracy falls from level to level, said plainly for each model."""
    said = []
    for model in dict.fromkeys(score.model for score in scores):
        own = [s for s in scores if s.model == model and s.shots == ALL and s.level.startswith("L")]
        if len(own) < 2:
            continue
        values = [s.mean for s in own]
        rises = [f"{b.level}" for a, b in pairwise(own) if b.mean > a.mean]
        shown = (
            " > ".join(f"{100 * v:.1f}" for v in values) if not rises else ", ".join(f"{100 * v:.1f}" for v in values)
        )
        if not rises:
            said.append(
                f"{names[model]}: accuracy falls at every step from {own[0].level} to {own[-1].level} ({shown})."
            )
        else:
            change = 100 * (values[-1] - values[0])
            said.append(
                f"{names[model]}: accuracy does not fall at every step ({shown}); it rises at {', '.join(rises)}, and "
                f"{own[-1].level} is {change:+.1f} points from {own[0].level}."
            )
    return said


def _prose(results: Sequence[Result], levels: Sequence[str]) -> list[str]:
    details = results[0].details
    domains = details.get("domains", {})
    size = details["classes"]
    seeds = len({result.cell.parameters.get("seed") for result in results})
    seen, measure = domains.get("seen", "the seen list"), domains.get("measure", "lin")
    how = (
        f"Linear classifiers on frozen features, learnt on the seen concepts and, apart, on {len(levels) - 1} levels "
        f"of unseen ones, ever further from {seen} (measure: {measure}). Every domain has {size} classes. Lines are "
        f"means over {seeds} seeds, bars one standard deviation."
    )
    tests = (
        "Statements on pairs of models rest on a paired bootstrap over test images, corrected by Holm's method for the "
        "number of comparisons."
    )
    return [how, tests]


def _figures(
    results: Sequence[Result],
    scores: Sequence[LevelScore],
    names: Mapping[str, str],
    baseline: str,
    levels: Sequence[str],
    lines: Mapping[str, Any],
) -> list[Figure]:
    concepts = concept_scores(results)
    table = "; ".join(f"{names[s.model]} {s.level} {100 * s.mean:.1f}" for s in scores if s.shots == ALL)
    figures = [
        Figure("Top-1 by level", to_spec(without_legend(levels_chart(scores, names))), f"Top-1 by level: {table}.")
    ]
    if len({s.model for s in scores}) > 1:
        spec = to_spec(without_legend(relative_chart(scores, names, baseline)))
        figures.append(
            Figure(f"Relative to {names[baseline]}", spec, f"Top-1 by level, less that of {names[baseline]}.")
        )
    if len(_shots(scores)) > 1:
        for level in [level for level in (SEEN, levels[1], levels[len(levels) // 2], levels[-1]) if level in levels]:
            spec = to_spec(without_legend(few_shot_chart(scores, names, level)))
            figures.append(Figure(f"Few-shot on {level}", spec, f"Top-1 on {level} over training images per concept."))
    if lines:
        said = "; ".join(slope_sentence(names[model], line) for model, line in lines.items())
        figures.append(
            Figure(
                "Every unseen concept against its distance",
                to_spec(without_legend(distance_chart(concepts, lines, names))),
                f"Accuracy per concept over similarity to the nearest seen concept: {said}.",
                caption="One point per concept and model; hover for the nearest seen concept.",
            )
        )
    controls = [model for model in names if any(s.level.startswith(CONTROL) and s.model == model for s in scores)]
    figures += [
        Figure(
            f"{names[model]}: levels beside random controls",
            to_spec(control_chart(scores, names, model)),
            "Top-1 by level, with the range of random control levels as a band.",
        )
        for model in controls
    ]
    figures.append(
        Figure("Training images per concept", to_spec(images_chart(concepts)), "Images per concept, by level.")
    )
    return figures


def _shots(scores: Sequence[LevelScore]) -> list[int | str]:
    found = {s.shots for s in scores}
    return [*([ALL] if ALL in found else []), *sorted((s for s in found if s != ALL), key=int, reverse=True)]


def _table(scores: Sequence[LevelScore], names: Mapping[str, str], levels: Sequence[str], shots: int | str) -> Table:
    cells = {(s.model, s.level): s for s in scores if s.shots == shots}
    best = {level: max((s.mean for (_, lv), s in cells.items() if lv == level), default=0.0) for level in levels}
    rows = []
    for model, name in names.items():
        row = [TableCell(name, name.lower(), note=model if name != model else "")]
        for level in levels:
            score = cells.get((model, level))
            if score is None:
                row.append(TableCell("–", None, hint="no result"))
                continue
            text = f"{100 * score.mean:.1f} ± {100 * score.std:.1f}"
            row.append(TableCell(text, score.mean, best=score.mean == best[level], hint=f"{score.mean!r}"))
        rows.append(row)
    return Table(
        caption=f"Top-1 accuracy (%) with {'all images' if shots == ALL else f'{shots} images per concept'}",
        columns=["model", *levels],
        rows=rows,
        numeric=range(1, len(levels) + 1),
        row_keys=list(names),
        folded=shots != ALL,
    )
