"""The sections of CoG on the page: levels of unseen concepts, and fine-tuning against frozen features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from unseen.benchmarks.cog.analysis import (
    ALL,
    ConceptScore,
    Fall,
    LevelScore,
    Line,
    agreement,
    answer,
    concept_scores,
    control_sentence,
    level_scores,
    measure_fall,
    order_levels,
    settings,
    slope_sentence,
    slopes,
    statements,
    trend_sentences,
)
from unseen.benchmarks.cog.charts import (
    control_chart,
    distance_chart,
    few_shot_charts,
    finetune_chart,
    images_chart,
    levels_chart,
    relative_charts,
)
from unseen.benchmarks.cog.details import CogDetails, CogParameters, Shots
from unseen.benchmarks.cog.figures import FEW, trained_models
from unseen.benchmarks.cog.tables import (
    Picture,
    Ratio,
    concept_tables,
    error_table,
    finetune_table,
    funnel_table,
    level_tables,
    ratios,
    shots_of,
)
from unseen.reports.blocks import (
    ChartBlock,
    Figure,
    Headline,
    Material,
    SectionSpec,
    Standing,
    Table,
    TableBlock,
    Text,
    TextBlock,
)
from unseen.reports.charts import Lines, Scatter
from unseen.reports.theme import REFERENCE, Key
from unseen.reports.wording import counted, listed
from unseen.results import Group
from unseen.results.comparability import older_note
from unseen.results.table import default_tables

#: The largest number of pictures of concepts in a page, and in its tables.
_MOST_PICTURES = 400


@dataclass(frozen=True)
class _Setting:
    """The results of one setting.

    Attributes:
        page_keys: legend entries of all models of the page.
        datasets: names of datasets, by id.
        picture: returns a picture of a class of a dataset.
    """

    group: Group
    page_keys: Mapping[str, Key]
    datasets: Mapping[str, str]
    picture: Picture

    @cached_property
    def scores(self) -> list[LevelScore]:
        return level_scores(self.group.results)

    @cached_property
    def concepts(self) -> list[ConceptScore]:
        return concept_scores(self.group.results)

    @cached_property
    def keys(self) -> dict[str, Key]:
        """Legend entries of the models of this setting."""
        own = {score.model for score in self.scores}
        return {model: key for model, key in self.page_keys.items() if model in own}

    @property
    def names(self) -> dict[str, str]:
        return {model: key.label for model, key in self.keys.items()}

    @cached_property
    def trained(self) -> list[str]:
        return trained_models(self.keys)

    @cached_property
    def charted(self) -> dict[str, Key]:
        """Legend entries of the models in the charts: without random weights that are far below all others."""
        whole = [s for s in self.scores if s.shots == ALL and not s.control]
        own = [s.mean for s in whole if s.model in self.trained]
        others = [s.mean for s in whole if s.model not in self.trained]
        if not own or not others or min(own) - max(others) <= max(own) - min(own):
            return self.keys
        return {model: key for model, key in self.keys.items() if model in self.trained}

    @cached_property
    def levels(self) -> list[str]:
        return order_levels(s.level for s in self.scores if not s.control)

    @cached_property
    def lines(self) -> dict[str, Line]:
        return slopes(self.concepts)

    @cached_property
    def shots(self) -> list[Shots]:
        return shots_of(self.scores)

    @cached_property
    def fall(self) -> Fall | None:
        return measure_fall(self.concepts, self.trained)


@dataclass(frozen=True)
class _Finetuned:
    """Results of fine-tuning, and the ratios to frozen features."""

    group: Group
    ratios: Sequence[Ratio]
    names: Mapping[str, str]


def _older(found: Sequence[_Setting | _Finetuned]) -> str:
    return older_note(sum(s.group.older for s in found))


def _settings(material: Material, benchmark: str) -> list[tuple[str, _Setting]]:
    datasets = {name: card.name or name for name, card in material.dataset_cards.items()}
    groups = settings(material.results, benchmark)
    return [(group.words, _Setting(group, material.keys, datasets, material.picture)) for group in groups]


def _answer(s: _Setting) -> str:
    few = None
    if s.fall is not None and len(s.shots) > 1 and s.shots[-1] != ALL:
        fewest = measure_fall(concept_scores(s.group.results, shots=s.shots[-1]), s.trained)
        few = (s.shots[-1], fewest) if fewest is not None else None
    return answer(s.fall, few, control_sentence(s.scores, s.trained))


def _headline(s: _Setting) -> Headline | None:
    if s.fall is None:
        return None
    evidence = "significant" if s.fall.significant else "not significant"
    return Headline("Unseen concepts", answer(s.fall, None, ""), evidence, s.fall.significant)


def _standings(s: _Setting) -> list[Standing]:
    """Return the scores on the farthest level, with the most images."""
    last = s.levels[-1]
    where = f"Unseen concepts: top-1 on {last}" + (", the farthest" if len(s.levels) > 2 else "")
    own = [score for score in s.scores if score.level == last and score.shots == s.shots[0]]
    return [Standing(where, score.model, score.summary.candidate, score.summary.cells) for score in own]


def _method(s: _Setting) -> str:
    details = CogDetails.of(s.group.results[0])
    seeds = len({CogParameters.of(result.cell).seed for result in s.group.results})
    tests = sorted({score.images for score in s.scores if not score.control})
    images = f"{tests[0]:,}" if len(tests) == 1 else f"{tests[0]:,} to {tests[-1]:,}"
    return (
        f"Linear classifiers on frozen features, trained separately on the seen concepts and on each of "
        f"{len(s.levels) - 1} levels of unseen concepts, from near to far from {details.domains.seen} (measure: "
        f"{details.domains.measure}), {details.classes} classes and {images} test images each. Numbers are means "
        f"over {counted(seeds, 'seed')}; brackets and bars are 95 % confidence intervals over test images."
    )


def _statements(s: _Setting) -> Iterator[Text]:
    """Yield sentences on single models, or a summary of many."""
    if len(s.trained) > FEW:
        yield Text(agreement(s.concepts, s.trained, s.names, s.lines), "Models")
        return
    yield from (Text(sentence, "Trend") for sentence in trend_sentences(s.scores, s.concepts, s.names))
    if found := statements(s.scores, s.names, list(combinations(s.trained, 2))):
        note = "Paired differences on the same test images, corrected over all pairs of a level by Holm's method."
        yield Text(f"{' '.join(found)} {note}", "Compared")


def _levels(s: _Setting) -> Figure:
    values = "; ".join(f"{s.names[each.model]} {each.level} {each.text}" for each in s.scores if each.shots == ALL)
    absent = [key.label for model, key in s.keys.items() if model not in s.charted]
    caption = f"{listed(absent)}: far below the others, shown in the table only." if absent else ""
    chart = levels_chart(s.scores, s.charted)
    return Figure("Top-1 by level", chart, f"Top-1 by level: {values}.", caption, wide=len(s.charted) > FEW)


def _relative(s: _Setting) -> Iterator[Figure]:
    """Yield the differences to a baseline: one figure per category if there are many models."""
    if len(s.charted) < 2 or ALL not in s.shots:
        return
    baseline = next((m for m in s.trained if s.keys[m].group == REFERENCE), s.trained[0])
    title, words = f"relative to {s.names[baseline]}", f"Top-1 by level minus that of {s.names[baseline]}."
    if len(s.charted) <= FEW:
        yield Figure(title.capitalize(), levels_chart(s.scores, s.charted, baseline), words)
        return
    for category, chart in relative_charts(s.scores, s.charted, baseline).items():
        yield Figure(f"{category.capitalize()}: {title}" if category else title.capitalize(), chart, words)


def _distance(s: _Setting) -> Scatter | None:
    """Return the chart of single concepts, with pictures of all of them, or of some along the ranking."""
    if not s.lines:
        return None
    unseen = {(score.level, score.concept): score for score in s.concepts if score.level.startswith("L")}
    ranked = sorted(unseen.values(), key=lambda score: -score.similarity)
    chosen = {score.concept for score in ranked[:: max(1, -(-len(ranked) // _MOST_PICTURES))]}
    return distance_chart(
        s.concepts,
        s.lines,
        s.charted,
        lambda score: s.picture(score.dataset, score.name) if score.concept in chosen else "",
    )


def _few_shot(s: _Setting) -> list[Figure]:
    if len(s.shots) < 2:
        return []
    chosen = list(dict.fromkeys((*s.levels[:2], s.levels[len(s.levels) // 2], s.levels[-1])))
    return [
        Figure(f"Few-shot on {level}", chart, f"Top-1 on {level} over training images per concept.")
        for level, chart in few_shot_charts(s.scores, s.charted, chosen).items()
    ]


def _controls(s: _Setting) -> Lines | None:
    return control_chart(s.scores, s.charted) if any(score.control for score in s.scores) else None


def _images(s: _Setting) -> Lines | None:
    return images_chart(s.concepts) if s.concepts else None


def _tables(s: _Setting) -> list[Table]:
    few = len({score.concept for score in s.concepts}) <= _MOST_PICTURES
    return [
        *level_tables(s.group, s.scores, {**s.datasets, **s.names}),
        *funnel_table(CogDetails.of(s.group.results[0]).domains),
        *concept_tables(s.concepts, s.trained, s.picture if few else lambda dataset, name: ""),
        *error_table(s.group.results, s.trained, s.picture),
    ]


cog_section = SectionSpec[_Setting](
    title="CoG: does accuracy fall as concepts move away from the seen ones?",
    settings=_settings,
    models=lambda s: s.keys,
    blocks=(
        TextBlock(_answer, answer=True),
        _headline,
        _standings,
        TextBlock(_method),
        _statements,
        _levels,
        _relative,
        ChartBlock(
            "Every unseen concept against its distance",
            _distance,
            alt=lambda s: (
                "Accuracy per concept over similarity to the nearest seen concept: "
                + "; ".join(slope_sentence(s.names[m], line) for m, line in s.lines.items())
            ),
            caption="A point per concept, of one model; a line per model. Point at a concept to see its name.",
            wide=True,
        ),
        _few_shot,
        ChartBlock(
            "Levels against random draws of concepts",
            _controls,
            alt=lambda s: f"Points over the mean of random control levels. {control_sentence(s.scores, s.trained)}",
            caption="Zero is the mean of a model's controls; the band contains all of them.",
        ),
        ChartBlock("Training images per concept", _images, alt="Images per concept, by level."),
        TableBlock(_tables),
    ),
    common=(TextBlock(_older),),
)


def _finetuned(material: Material, benchmark: str) -> list[tuple[str, _Finetuned]]:
    frozen = settings(material.results)
    return [
        (group.words, _Finetuned(group, ratios(group, frozen, material.names), material.names))
        for group in settings(material.results, benchmark)
    ]


def _ratio_chart(s: _Finetuned) -> Lines | None:
    return finetune_chart(s.ratios) if s.ratios else None


def _accuracy_tables(s: _Finetuned) -> list[Table]:
    return default_tables(s.group.results, s.names)


def _ratio_table(s: _Finetuned) -> Table:
    return finetune_table(s.group, s.ratios, s.names)


#: Fine-tuned and frozen accuracy (of the CoG results of the page), and their ratio (supplement, Fig. B).
cog_finetune_section = SectionSpec[_Finetuned](
    title="CoG: fine-tuning against frozen features",
    settings=_finetuned,
    blocks=(
        TextBlock[_Finetuned](
            "Below 1, frozen features are worse than a network that was fine-tuned on the concepts of the level."
        ),
        ChartBlock("Frozen relative to fine-tuned", _ratio_chart),
        TableBlock(_accuracy_tables),
        TableBlock(_ratio_table),
    ),
    common=(TextBlock(_older),),
)
