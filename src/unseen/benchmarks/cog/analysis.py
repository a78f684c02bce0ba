"""Scores of a CoG, and how accuracy changes with the distance to the seen concepts.

Paper:      Sariyildiz et al., ICCV 2021 [P]: Fig. 3 (levels, relative), Fig. 4 (few-shot); supplement D.1 for
            the random controls
Implements: accuracy per level: means over seeds with confidence intervals over test images; differences to a baseline
            are paired, image by image. The fall: the mean over the concepts of the
            nearest level minus that of the farthest, with Welch's interval over concepts; steps between adjacent
            levels alike, with Holm's correction. Controls: how many random samples of as many concepts are harder
Beyond:     the slope of accuracy per concept over similarity: points lost per 0.1, with HC3 errors over concepts
Why so:     another sample of concepts would change the result most. An interval over test images alone regards the
            concepts of a level as fixed: on levels whose concepts differ by chance only it would find more than one
            fall in five significant; over concepts it is one in twenty (tests)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from statistics import fmean

import numpy as np

from unseen.benchmarks.cog.details import ALL as ALL
from unseen.benchmarks.cog.details import CogDetails, CogParameters, Shots
from unseen.benchmarks.cog.domains import CONTROL, SEEN, DomainRecipe
from unseen.core.records import Result
from unseen.reports.wording import counted, listed
from unseen.results import Group, comparable, only
from unseen.results.comparability import sort_key
from unseen.results.grid import Summary, decide_summaries, summary_of
from unseen.results.info import TOP1
from unseen.results.table import DisplayNames, format_interval
from unseen.stats import (
    Difference,
    Interval,
    combine_intervals,
    holm,
    slope_interval,
    welch_difference,
)
from unseen.stats.interval import no_interval

#: Similarity that slopes are stated for.
_PER = 0.1
#: The largest number of models that a sentence lists, and that pairs are compared of.
FEW = 6


@dataclass(frozen=True, eq=False)
class LevelScore:
    """Accuracy of one model on one level with one number of shots, over seeds."""

    summary: Summary
    level: str
    shots: Shots

    @property
    def model(self) -> str:
        return self.summary.model

    @property
    def control(self) -> bool:
        """Whether this is a random control level."""
        return self.level.startswith(CONTROL)

    @property
    def mean(self) -> float:
        return self.summary.value

    @property
    def interval(self) -> Interval:
        """The 95 % confidence interval over test images."""
        return self.summary.interval

    @property
    def images(self) -> int:
        """Number of test images; 0 if unknown."""
        return self.summary.images or self.interval.n

    @property
    def text(self) -> str:
        """The score in percent with its interval, such as "87.5 [83.1, 90.9]"."""
        return f"{TOP1.text(self.mean)} {format_interval(self.interval, TOP1)}".rstrip()


@dataclass(frozen=True)
class ConceptScore:
    """Accuracy of one model on one concept, over seeds; `dataset` has its images.

    `test_images` is 0 if a result of an earlier version does not state it.
    """

    model: str
    level: str
    concept: str
    name: str
    accuracy: float
    similarity: float
    nearest: str
    train_images: int
    dataset: str = ""
    test_images: int = 0


@dataclass(frozen=True)
class Line:
    """The least-squares line of accuracy over similarity, through the unseen concepts.

    Attributes:
        slope: with its 95 % confidence interval over concepts.
    """

    slope: Interval
    intercept: float

    @classmethod
    def fit(cls, similarity: Sequence[float], accuracy: Sequence[float]) -> Line:
        """Return the line through three points or more."""
        slope = slope_interval(similarity, accuracy)
        return cls(slope, float(np.mean(accuracy) - slope.value * np.mean(similarity)))


def order_levels(levels: Iterable[str]) -> list[str]:
    """Return levels in order: seen first, then L1 to Ln, then controls."""
    return sorted(set(levels), key=lambda name: (name != SEEN, sort_key(name)))


def order_shots(scores: Iterable[LevelScore]) -> list[Shots]:
    """Return the numbers of training images per concept: all images first, then from the most to the fewest."""
    return sorted({score.shots for score in scores}, key=sort_key, reverse=True)


def settings(results: Iterable[Result], benchmark: str = "cog") -> list[Group]:
    """Return groups of results that one chart may show: levels and shots side by side, averaged over seeds."""
    return comparable([result for result in results if result.cell.benchmark == benchmark])


def level_scores(results: Sequence[Result]) -> list[LevelScore]:
    """Return one score per model, level and number of shots, in the order of levels.

    Raises:
        UsageError: results of several settings (see `settings`).
    """
    scores = [
        LevelScore(summary_of(group, TOP1.name), level, shots)
        for (_, level, shots), group in _by_level(results).items()
    ]
    place = {level: i for i, level in enumerate(order_levels(score.level for score in scores))}
    return sorted(scores, key=lambda score: (place[score.level], sort_key(score.shots)))


def _by_level(results: Sequence[Result]) -> dict[tuple[str, str, Shots], list[Result]]:
    """Return the results of one setting by model, level and number of shots."""
    found: dict[tuple[str, str, Shots], list[Result]] = defaultdict(list)
    benchmarks = {result.cell.benchmark for result in results}
    groups = settings(results, "cog" if len(benchmarks) != 1 else benchmarks.pop())
    for result in only(groups).results if groups else ():
        p = CogParameters.of(result.cell)
        found[result.cell.model, p.level, p.shots].append(result)
    return found


def relative_to(scores: Sequence[LevelScore], baseline: str) -> list[tuple[LevelScore, Difference]]:
    """Return each score with its difference to the baseline on the same level with the same number of shots."""
    base = {(s.level, s.shots): s.summary for s in scores if s.model == baseline}

    def difference(score: LevelScore) -> Difference:
        if score.model == baseline:
            return Difference(0.0, 0.0, 0.0)
        pair = decide_summaries([score.summary, base[score.level, score.shots]])
        return pair.pairs[score.model, baseline]

    return [(s, difference(s)) for s in scores if (s.level, s.shots) in base]


def concept_scores(results: Sequence[Result], *, shots: Shots = ALL) -> list[ConceptScore]:
    """Return the accuracy per concept of all levels but controls, mean over seeds, with one number of shots."""
    scores = []
    for (model, level, number), group in _by_level(results).items():
        if number != shots or level.startswith(CONTROL):
            continue
        details = [CogDetails.of(result) for result in group]
        first = details[0]
        counts = [own or (0,) * len(first.concepts) for own in (first.train_per_class, first.test_per_class)]
        accuracies = np.transpose([each.accuracies for each in details])
        for concept, values, train, test in zip(first.concepts, accuracies, *counts, strict=True):
            known = values[~np.isnan(values)]
            if len(known) and concept.similarity is not None:
                about = concept.id, concept.name, float(known.mean()), concept.similarity, concept.nearest or ""
                scores.append(ConceptScore(model, level, *about, train, group[0].cell.dataset, test))
    return scores


def slopes(scores: Sequence[ConceptScore]) -> dict[str, Line]:
    """Return per model the line of accuracy over similarity, through the unseen concepts only."""
    lines = {}
    for model in dict.fromkeys(score.model for score in scores):
        own = [s for s in scores if s.model == model and s.level != SEEN]
        if len(own) >= 3 and len({s.similarity for s in own}) > 1:
            lines[model] = Line.fit([s.similarity for s in own], [s.accuracy for s in own])
    return lines


@dataclass(frozen=True)
class Fall:
    """The change from a level of unseen concepts to one that is farther away.

    Attributes:
        change: accuracy on the nearer level minus that on the farther one, with its interval over concepts.
        concepts: number of concepts of both levels.
        models: number of models that the accuracies are averaged over.
    """

    nearest: str
    farthest: str
    change: Difference
    concepts: int
    models: int

    @property
    def verdict(self) -> str:
        """The change in words, with its interval."""
        ends = f"from {self.nearest} to {self.farthest}"
        if not self.change.significant:
            return f"accuracy does not change significantly {ends} ({_points(self.change.reversed())})"
        falls = self.change.value > 0
        size = _points(self.change if falls else self.change.reversed(), sign="")
        return f"accuracy {'falls' if falls else 'rises'} significantly, by {size}, {ends}"


def measure_fall(scores: Sequence[ConceptScore], models: Sequence[str]) -> Fall | None:
    """Return the fall from the nearest to the farthest level over some models; None if it cannot be tested."""
    own = [score for score in scores if score.level != SEEN and score.model in models]
    levels = order_levels(score.level for score in own)
    ends = [score for score in own if score.level in levels[:1] + levels[-1:]]
    return next(iter(measure_steps(ends, models)), None)


def measure_steps(scores: Sequence[ConceptScore], models: Sequence[str]) -> list[Fall]:
    """Return the fall from each level to the next over some models, with p-values adjusted by Holm's method.

    The list is empty if one of the steps cannot be tested.
    """
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        if score.level != SEEN and score.model in models:
            found[score.level][score.concept].append(score.accuracy)
    means = {level: [fmean(values) for values in found[level].values()] for level in order_levels(found)}
    models_of = {level: max(map(len, own.values())) for level, own in found.items()}
    steps = [
        Fall(near, far, welch_difference(one, other), len(one) + len(other), models_of[near])
        for (near, one), (far, other) in pairwise(means.items())
    ]
    if not all(step.change.known for step in steps):
        return []
    adjusted = holm([step.change.p for step in steps])
    return [replace(s, change=replace(s.change, adjusted_p=p)) for s, p in zip(steps, adjusted, strict=True)]


@dataclass(frozen=True)
class Ratio:
    """Accuracy of frozen features relative to fine-tuning, of one model on one level.

    Attributes:
        name: of the model, and of the setting of the probes if there are several.
        ratio: with its interval over test images.
    """

    name: str
    frozen: LevelScore
    tuned: LevelScore
    ratio: Interval


def ratios(group: Group, frozen: Sequence[Group], names: DisplayNames) -> list[Ratio]:
    """Return frozen over fine-tuned accuracy by model, level and setting of probes on the same concepts.

    Args:
        group: results of fine-tuning.
        frozen: results of probes, by setting.
        names: the models to compare, with their names.
    """
    tuned = {(s.model, s.level): s for s in level_scores(group.results)}
    alike = [other for other in frozen if _same_concepts(group, other)]
    found = []
    for other in alike:
        words = f" ({other.words})" if len(alike) > 1 else ""
        for cold in level_scores(other.results):
            warm = tuned.get((cold.model, cold.level))
            if warm is not None and cold.shots == ALL and warm.mean and cold.model in names:
                found.append(Ratio(names[cold.model] + words, cold, warm, _ratio(cold.interval, warm.interval)))
    return found


def _same_concepts(tuned: Group, frozen: Group) -> bool:
    """Return whether two groups have the same concepts of the same data."""
    recipe = ["dataset", *(field.name for field in fields(DomainRecipe))]
    data = [{result.cell.data for result in group.results} for group in (tuned, frozen)]
    return data[0] == data[1] and all(tuned.setting.get(name) == frozen.setting.get(name) for name in recipe)


def _ratio(frozen: Interval, tuned: Interval) -> Interval:
    """Return the ratio of two accuracies, as that of different images: conservative for the same images."""
    if not tuned.known or tuned.low <= 0:
        return no_interval(frozen.value / tuned.value, "the divisor may be 0", level=frozen.level, n=frozen.n)
    inverse = Interval(1 / tuned.value, 1 / tuned.high, 1 / tuned.low, tuned.level, tuned.n)
    return combine_intervals(lambda pair: pair[0] * pair[1], [frozen, inverse])


# ---- sentences -------------------------------------------------------------------------------------------------------


def answer(fall: Fall | None, few: tuple[Shots, Fall] | None, controls: str) -> str:
    """Answer in one paragraph: the fall with all images, with few, and whether controls could explain it."""
    if fall is None:
        return ""
    found = f"With all images {fall.verdict}"
    if few is not None:
        shots, other = few
        found += f"; with {counted(int(shots), 'image')} per concept {other.verdict}"
    over = f"mean over {counted(fall.models, 'model')}, " if fall.models > 1 else ""
    return f"{found} ({over}95 % confidence intervals over {fall.concepts} concepts). {controls}".rstrip()


def control_sentence(scores: Sequence[LevelScore], models: Sequence[str]) -> str:
    """State how the nearest and the farthest level compare with the random control levels; "" without controls."""
    own = [score for score in scores if score.shots == ALL and score.model in models]
    means = {
        level: fmean(score.mean for score in own if score.level == level)
        for level in order_levels(score.level for score in own)
    }
    levels = [level for level in means if level.startswith("L")]
    controls = [value for level, value in means.items() if level.startswith(CONTROL)]
    if not controls or not levels:
        return ""
    above = {level: sum(value <= means[level] for value in controls) for level in (levels[0], levels[-1])}
    parts = [f"{level} is above {count} of {len(controls)}" for level, count in above.items()]
    return f"Accuracy on {listed(parts)} random draws of as many concepts."


def trend_sentences(scores: Sequence[LevelScore], concepts: Sequence[ConceptScore], names: DisplayNames) -> list[str]:
    """State the trend of each model: a change at every step if all steps are significant, otherwise its slope.

    Models with the same kind of trend share a sentence.
    """
    found: dict[str, list[str]] = defaultdict(list)
    lines = slopes(concepts)
    for model, name in names.items():
        steps = measure_steps(concepts, [model])
        falling = {step.change.value > 0 for step in steps}
        if len(falling) == 1 and all(step.change.significant for step in steps):
            own = [s for s in scores if s.model == model and s.shots == ALL and s.level.startswith("L")]
            verb = "falls" if True in falling else "rises"
            kind = f"Accuracy {verb} significantly at every step from {steps[0].nearest} to {steps[-1].farthest}"
            found[kind].append(f"{name} ({', '.join(TOP1.text(s.mean) for s in own)})")
        elif model in lines:
            slope = lines[model].slope
            lost = replace(slope, value=-_PER * slope.value, low=-_PER * slope.high, high=-_PER * slope.low)
            verb = "falls" if lost.value < 0 else "rises"
            trend = f"Accuracy {verb} significantly" if lost.significant else "No significant trend"
            over = f"change per {_PER} of similarity lost, 95 % confidence interval over concepts"
            found[f"{trend} with distance ({over})"].append(f"{name} {_points(lost)}")
    return [f"{kind}: {listed(models, FEW)}." for kind, models in found.items()]


def shots_sentence(results: Sequence[Result], models: Sequence[str]) -> str:
    """State with how many training images per concept the nearest and the farthest level differ; "" if unknown."""
    falls = {
        str(shots): measure_fall(concept_scores(results, shots=shots), models)
        for shots in order_shots(level_scores(results))
    }
    known = {shots: fall for shots, fall in falls.items() if fall is not None}
    differ = [shots for shots, fall in known.items() if fall.change.significant]
    if not known:
        return ""
    if not differ:
        return "The nearest and the farthest level differ significantly with no number of training images per concept."
    return f"The nearest and the farthest level differ significantly with {listed(differ)} training images per concept."


def _points(interval: Interval, *, sign: str = "+") -> str:
    """Return a change in points such as "-0.4 points [-2.1, +1.3]"; without plus signs if `sign` is empty."""
    value, low, high = (round(100 * v, 1) + 0.0 for v in (interval.value, interval.low, interval.high))  # no "-0.0"
    return f"{value:{sign}.1f} points [{low:{sign}.1f}, {high:{sign}.1f}]"
