"""The tables of a CoG for all outputs, and its sections of the page: levels of unseen concepts, and fine-tuning.

Tables:     D to I of the supplement (one per number of training images), every concept, and frozen features relative to
            fine-tuning (C.2)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean

from unseen.benchmarks.cog.analysis import (
    ALL,
    FEW,
    ConceptScore,
    LevelScore,
    Ratio,
    answer,
    concept_scores,
    level_scores,
    measure_fall,
    order_levels,
    order_shots,
    ratios,
    settings,
    trend_sentences,
)
from unseen.benchmarks.cog.details import CogDetails, CogParameters, Shots
from unseen.benchmarks.cog.figures import VIEW_FIGURES, View, finetune_chart
from unseen.core.records import Result
from unseen.reports.blocks import (
    Figure,
    Headline,
    Material,
    SectionSpec,
    Standing,
    Table,
    TableCell,
    Text,
    folded,
)
from unseen.reports.wording import counted, is_reference, listed
from unseen.results import Group
from unseen.results.comparability import older_note
from unseen.results.grid import Column, Grid, order_models
from unseen.results.info import TOP1, MetricStyle, info_of
from unseen.results.table import DisplayNames, default_tables, grid_tables
from unseen.stats import decide
from unseen.stats.means import Mean, share_interval

#: Concepts of a level in a table; a level with more has this number, evenly along its ranking, without pictures.
_MOST_ROWS = 150
_SIMILARITY = MetricStyle("similarity", "similarity")
_RATIO = MetricStyle("ratio", "frozen / fine-tuned")


# ---- tables ----------------------------------------------------------------------------------------------------------


def cog_tables(results: Collection[Result], names: DisplayNames, metrics: Sequence[str] = ()) -> list[Table]:
    """Return the tables of all settings; other metrics than top-1 have the default tables."""
    if metrics:
        return default_tables(results, names, metrics)
    groups = settings(results)
    return [table for group in groups for table in level_tables(group, level_scores(group.results), names, group.words)]


def images_text(shots: Shots) -> str:
    """Return the number of training images in words."""
    return "all training images" if shots == ALL else f"{counted(int(shots), 'training image')} per concept"


def level_tables(group: Group, scores: Sequence[LevelScore], names: DisplayNames, words: str = "") -> list[Table]:
    """Return the tables for each number of training images, then those of the random control levels.

    Args:
        words: what distinguishes the setting from others.
    """
    found: list[Table] = []
    dataset = str(group.setting["dataset"])
    for control, shots in product((False, True), order_shots(scores)):
        own = [score for score in scores if (score.control, score.shots) == (control, shots)]
        if not own:
            continue
        benchmark = own[0].summary.benchmark
        columns = {s.level: Column(benchmark, dataset, (("level", s.level),), TOP1.name) for s in own}
        cells = {(s.model, columns[s.level]): s.summary for s in own}
        every = tuple(columns.values())
        grid = Grid(benchmark, order_models(cells, every), every, cells, [group])
        where = "by level" if len(columns) > 1 else f"on {own[0].level}"
        caption = f"{info_of(benchmark).title}, {names.get(dataset, dataset)}: top-1 accuracy (%) {where} with "
        caption += images_text(shots) + (f" · {words}" if words else "")
        folded = control or shots != ALL
        found += [replace(table, caption=caption, folded=folded) for table in grid_tables(grid, names)]
    return found


def _concept_tables(view: View) -> Iterator[Table]:
    """Yield a table per level: each concept with its id, its nearest seen concept and its accuracy."""
    own = [score for score in view.concepts if score.model in view.trained]
    for level in order_levels(score.level for score in own):
        groups: dict[str, list[ConceptScore]] = defaultdict(list)
        for score in own:
            if score.level == level:
                groups[score.concept].append(score)
        concepts = sorted(groups.values(), key=lambda group: (-group[0].similarity, group[0].name))
        shown = concepts[:: -(-len(concepts) // _MOST_ROWS)]
        is_cut = len(shown) < len(concepts)
        cut = f", {len(shown)} of them along the ranking" if is_cut else ""
        ends = dict.fromkeys(f"{concepts[place][0].similarity:.2f}" for place in (0, -1))
        yield Table(
            f"{level}: {counted(len(concepts), 'concept')}, similarity {' to '.join(ends)}{cut}",
            ["concept", "nearest seen", "similarity", "training images", "test images", "top-1 (%), mean of models"],
            [_concept_row(group, "" if is_cut else view.picture(group[0].dataset, group[0].name)) for group in shown],
            notes=["95 % confidence interval over the test images of a concept in brackets."],
        )


def _concept_row(scores: Sequence[ConceptScore], picture: str) -> list[TableCell]:
    score, mean = scores[0], fmean(each.accuracy for each in scores)
    n = score.test_images or None
    interval = share_interval(Mean(mean, math.nan, n), n, 0.95) if n else None
    over = f"mean over {counted(len(scores), 'model')}"
    return [
        TableCell(score.name, note=score.concept, picture=picture),
        TableCell(score.nearest),
        TableCell(value=score.similarity, metric=_SIMILARITY),
        _count(score.train_images),
        _count(n) if n else TableCell(),
        TableCell(value=mean, interval=interval, metric=TOP1, n=n, hint=over),
    ]


def _count(number: int) -> TableCell:
    return TableCell(f"{number:,}", number)


# ---- levels of unseen concepts ---------------------------------------------------------------------------------------


def _views(material: Material, benchmark: str) -> list[tuple[str, View]]:
    datasets = {name: card.name or name for name, card in material.dataset_cards.items()}
    found = []
    for group in settings(material.results, benchmark):
        models = group.by_model()
        view = View.of(group, {m: key for m, key in material.keys.items() if m in models}, material.picture)
        found.append((group.words, replace(view, datasets=datasets)))
    return found


def _charted(view: View) -> View:
    """Return the view without models with random weights if they are far below all others."""
    whole = [score for score in view.scores if score.shots == ALL and not score.control]
    own = [score.mean for score in whole if score.model in view.trained]
    others = [score.mean for score in whole if score.model not in view.trained]
    if not own or not others or min(own) - max(others) <= max(own) - min(own):
        return view
    return replace(view, keys={model: view.keys[model] for model in view.trained})


def _answer(view: View) -> str:
    shots = order_shots(view.scores)[-1]
    few = None if shots == ALL else measure_fall(concept_scores(view.group.results, shots=shots), view.trained)
    return answer(view.fall, (shots, few) if few is not None else None, view.controls)


def _headline(view: View) -> Headline | None:
    if view.fall is None:
        return None
    found = _versus_random(view)
    significant = view.fall.change.significant or bool(found)
    evidence = "significant" if significant else "not significant"
    return Headline("Unseen concepts", f"{found} {answer(view.fall, None, '')}".strip(), evidence, significant)


def _versus_random(view: View) -> str:
    """State at which levels all trained models are significantly better than random weights; "" if at none."""
    random = [model for model in view.keys if is_reference(model)]
    leads: dict[str, float] = {}
    for level in view.levels:
        whole = [score for score in view.scores if (score.level, score.shots) == (level, ALL)]
        decision = decide({score.model: score.summary.candidate for score in whole})
        pairs = [decision.pairs.get((model, other)) for model in view.trained for other in random]
        known = [pair for pair in pairs if pair is not None and pair.significant and pair.value > 0]
        if known and len(known) == len(pairs):
            leads[level] = min(pair.value for pair in known)
    if not leads:
        return ""
    where = f"all {len(view.levels)} levels" if len(leads) == len(view.levels) else f"{listed(list(leads))}"
    return (
        f"On {where}, all {counted(len(view.trained), 'trained model')} are significantly better than random weights, "
        f"by at least {100 * min(leads.values()):.1f} points."
    )


def _standings(view: View) -> list[Standing]:
    """Return the scores on the farthest level, with the most images."""
    last, shots = view.levels[-1], order_shots(view.scores)[0]
    where = f"Unseen concepts: top-1 on {last}" + (", the farthest" if len(view.levels) > 2 else "")
    own = [score for score in view.scores if (score.level, score.shots) == (last, shots)]
    return [Standing(where, score.model, score.summary.candidate, score.summary.cells) for score in own]


def _method(view: View) -> str:
    details = CogDetails.of(view.group.results[0])
    seeds = len({CogParameters.of(result.cell).seed for result in view.group.results})
    tests = sorted({score.images for score in view.scores if not score.control})
    images = " to ".join(dict.fromkeys(f"{count:,}" for count in (tests[0], tests[-1])))
    return (
        f"Linear classifiers on frozen features, trained separately on the seen concepts and on each of "
        f"{len(view.levels) - 1} levels of unseen concepts, from near to far from {details.domains.seen} (measure: "
        f"{details.domains.measure}), {details.classes} classes and {images} test images each. Numbers are means "
        f"over {counted(seeds, 'seed')}; brackets and bars are 95 % confidence intervals over test images."
    )


def _trends(view: View) -> list[Text]:
    names = {model: view.names[model] for model in view.trained} if len(view.keys) > FEW else view.names
    return [Text(sentence, "Trend") for sentence in trend_sentences(view.scores, view.concepts, names)]


def _figures(view: View) -> Iterator[Figure]:
    charted = _charted(view)
    charted = replace(charted, baseline=charted.reference)
    absent = [key.label for model, key in view.keys.items() if model not in charted.keys]
    for name in ("levels", "distance", "relative", "few-shot", "images"):
        figure = VIEW_FIGURES[name]
        if figure.relative and len(charted.keys) < 2:
            continue
        shown = charted if figure.relative else replace(charted, baseline="")
        caption = figure.caption
        if name == "levels" and absent:
            caption = f"{listed(absent)}: far below the others, shown in the table only."
        for part, chart in figure.charts(shown).items():
            title = f"{figure.title}: {part}" if part else figure.title
            yield Figure(title, chart, " ".join(figure.sentences(shown)), caption, wide=figure.wide)


def _older(found: Sequence[View | _Finetuned]) -> str:
    return older_note(sum(each.group.older for each in found))


cog_section = SectionSpec[View](
    title="CoG: does accuracy fall as concepts move away from the seen ones?",
    settings=_views,
    models=lambda view: view.keys,
    blocks=(
        lambda view: Text(_answer(view), answer=True),
        _headline,
        _standings,
        _method,
        _trends,
        _figures,
        lambda view: level_tables(view.group, view.scores, {**view.datasets, **view.names}),
        folded(_concept_tables),
    ),
    common=(_older,),
)


# ---- fine-tuning -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Finetuned:
    """Results of fine-tuning, and the ratios to frozen features."""

    group: Group
    ratios: Sequence[Ratio]
    names: DisplayNames


def _finetuned(material: Material, benchmark: str) -> list[tuple[str, _Finetuned]]:
    frozen, names = settings(material.results), material.names
    groups = settings(material.results, benchmark)
    return [(group.words, _Finetuned(group, ratios(group, frozen, names), names)) for group in groups]


def _ratio_figure(s: _Finetuned) -> Figure | None:
    chart = finetune_chart(s.ratios)
    return Figure("Frozen relative to fine-tuned", chart) if chart else None


def _ratio_table(s: _Finetuned) -> Table | None:
    """Return frozen over fine-tuned accuracy; a row per model and setting of probes, a column per level."""
    levels = order_levels(each.frozen.level for each in s.ratios)
    found = {(each.name, each.frozen.level): each.ratio for each in s.ratios}
    rows = []
    for name in dict.fromkeys(each.name for each in s.ratios):
        own = [found.get((name, level)) for level in levels]
        cells = [TableCell(value=r.value, interval=r, metric=_RATIO) if r else TableCell() for r in own]
        rows.append([TableCell(name), *cells])
    notes = ["95 % confidence intervals over test images in brackets."]
    return Table("Frozen / fine-tuned top-1", ["model", *levels], rows, notes=notes) if rows else None


#: Fine-tuned and frozen accuracy (of the CoG results of the page), and their ratio (supplement, Fig. B).
cog_finetune_section = SectionSpec[_Finetuned](
    title="CoG: fine-tuning against frozen features",
    settings=_finetuned,
    blocks=(
        lambda s: "Below 1, frozen features are worse than a network that was fine-tuned on the concepts of the level.",
        _ratio_figure,
        lambda s: default_tables(s.group.results, s.names),
        _ratio_table,
    ),
    common=(_older,),
)
