"""Scores of a CoG, and how accuracy changes with the distance to the seen concepts.

Paper:      Sariyildiz et al., ICCV 2021 [P]: Fig. 3 (levels, relative), Fig. 4 (few-shot), section 4.2 (statements);
            supplement D.1 for the random controls
Implements: accuracy per level: means over seeds with confidence intervals over test images, and on every level one
            decision (`stats.decide`) over all models, image by image. The fall: the mean over the concepts of the
            nearest level minus that of the farthest, with Welch's interval over concepts; steps between adjacent
            levels alike, with Holm's correction. Controls: how many random samples of as many concepts are harder
Beyond:     the slope of accuracy per concept over similarity: points lost per 0.1, with HC3 errors over concepts
Why so:     another sample of concepts would change the result most. An interval over test images alone regards the
            concepts of a level as fixed: on levels whose concepts differ by chance only it would find more than one
            fall in five significant; over concepts it is one in twenty (tests)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np

from unseen.benchmarks.cog.details import ALL as ALL
from unseen.benchmarks.cog.details import CogDetails, CogParameters, Shots
from unseen.benchmarks.cog.domains import CONTROL, SEEN, given_domain
from unseen.core.errors import DataError
from unseen.core.names import Name
from unseen.core.records import Cell, Result
from unseen.reports.wording import counted, listed
from unseen.results import Group, comparable, only
from unseen.results.grid import Summary, decide_summaries, summary_of
from unseen.results.info import TOP1
from unseen.results.table import format_interval
from unseen.stats import Decision, Difference, Interval, holm, slope_interval, welch_difference

#: Similarity that slopes are stated for.
_PER = 0.1


@dataclass(frozen=True, eq=False)
class LevelScore:
    """Accuracy of one model on one level with one number of shots, over seeds.

    Attributes:
        similarity: mean over the concepts of the level; None for controls.
    """

    summary: Summary
    level: str
    shots: Shots
    similarity: float | None

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
    def seeds(self) -> int:
        return len(self.summary.values)

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
    return sorted(set(levels), key=lambda name: (name != SEEN, name[:1] != "L", int(name[1:]) if name != SEEN else 0))


def settings(results: Iterable[Result], benchmark: str = "cog") -> list[Group]:
    """Return groups of results that one chart may show: levels and shots side by side, averaged over seeds.

    ImageNet-1K and the levels of ImageNet-CoG are different datasets, and one benchmark together, unless there are
    several of either.
    """
    own = [result for result in results if result.cell.benchmark == benchmark]
    names = {cell.dataset: Name.parse(cell.dataset) for cell in (result.cell for result in own)}
    seen = {dataset for dataset in names if given_domain(dataset) == SEEN}
    levels = {str(names[d].options): names[d].options for d in names if given_domain(d) not in (None, SEEN)}
    together = len(seen) == 1 and len(levels) == 1

    def place(cell: Cell) -> Mapping[str, str]:
        if given_domain(cell.dataset) is None or (cell.dataset in seen and not together):
            return {"dataset": cell.dataset}
        read = next(iter(levels.values())) if cell.dataset in seen else names[cell.dataset].options
        return {"dataset": "imagenet:cog", **{f"levels' {name}": value for name, value in read.items()}}

    return comparable(own, place=place)


def level_scores(results: Sequence[Result]) -> list[LevelScore]:
    """Return one score per model, level and number of shots, in the order of levels.

    Raises:
        UsageError: results of several settings (see `settings`).
    """
    groups: dict[tuple[str, str, Shots], list[Result]] = defaultdict(list)
    for result in _one_setting(results):
        p = CogParameters.of(result.cell)
        groups[result.cell.model, p.level, p.shots].append(result)
    scores = [
        LevelScore(summary_of(group, TOP1.name), level, shots, CogDetails.of(group[0]).similarity)
        for (_, level, shots), group in groups.items()
    ]
    place = {level: i for i, level in enumerate(order_levels(score.level for score in scores))}
    return sorted(scores, key=lambda s: (place[s.level], s.shots == ALL, s.shots if s.shots != ALL else 0))


def decide_levels(scores: Sequence[LevelScore]) -> dict[tuple[str, Shots], Decision]:
    """Decide which models differ, for every level and number of shots."""
    groups: dict[tuple[str, Shots], list[Summary]] = defaultdict(list)
    for score in scores:
        groups[score.level, score.shots].append(score.summary)
    return {place: decide_summaries(group) for place, group in groups.items()}


def relative_to(scores: Sequence[LevelScore], baseline: str) -> list[tuple[LevelScore, Difference]]:
    """Return each score with its difference to the baseline on the same level with the same number of shots."""
    base = {(s.level, s.shots): s.summary for s in scores if s.model == baseline}
    if not base:
        models = ", ".join(sorted({s.model for s in scores}))
        raise DataError(f"the baseline {baseline!r} has no results here. Models with results: {models}.")

    def difference(score: LevelScore) -> Difference:
        if score.model == baseline:
            return Difference(0.0, 0.0, 0.0)
        pair = decide_summaries([score.summary, base[score.level, score.shots]])
        return pair.pairs[score.model, baseline]

    return [(s, difference(s)) for s in scores if (s.level, s.shots) in base]


def concept_scores(results: Sequence[Result], *, shots: Shots = ALL) -> list[ConceptScore]:
    """Return the accuracy per concept of all levels but controls, mean over seeds, with one number of shots."""
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in _one_setting(results):
        p = CogParameters.of(result.cell)
        if p.shots == shots and not p.level.startswith(CONTROL):
            groups[result.cell.model, p.level].append(result)
    scores = []
    for (model, level), group in groups.items():
        details = [CogDetails.of(result) for result in group]
        first = details[0]
        known = ~np.isnan([each.accuracies for each in details])
        counts = known.sum(axis=0)
        totals = np.nansum([each.accuracies for each in details], axis=0)
        tested = first.test_per_class or (0,) * len(counts)
        rows = zip(first.concepts, totals, counts, first.train_per_class, tested, strict=True)
        for concept, total, count, images, test_images in rows:
            if count and concept.similarity is not None:
                scores.append(
                    ConceptScore(
                        model=model,
                        level=level,
                        concept=concept.id,
                        name=concept.name,
                        accuracy=float(total / count),
                        similarity=concept.similarity,
                        nearest=concept.nearest or "",
                        train_images=images,
                        dataset=group[0].cell.dataset,
                        test_images=test_images,
                    )
                )
    return scores


def slopes(scores: Sequence[ConceptScore]) -> dict[str, Line]:
    """Return per model the line of accuracy over similarity, through the unseen concepts only."""
    lines = {}
    for model in dict.fromkeys(score.model for score in scores):
        own = [s for s in scores if s.model == model and s.level != SEEN]
        if len(own) >= 3 and len({s.similarity for s in own}) > 1:
            lines[model] = Line.fit([s.similarity for s in own], [s.accuracy for s in own])
    return lines


def statements(
    scores: Sequence[LevelScore], names: Mapping[str, str], pairs: Sequence[tuple[str, str]] | None = None
) -> list[str]:
    """State for each pair of models on which levels they differ significantly, with all training images.

    Args:
        pairs: which models to compare; by default every two.
    """
    whole = [s for s in scores if s.shots == ALL and not s.control]
    decisions = {level: decision for (level, _), decision in decide_levels(whole).items()}
    models = list(dict.fromkeys(s.model for s in whole))
    found = []
    for pair in list(combinations(models, 2)) if pairs is None else pairs:
        own = {level: decision.pairs[pair] for level, decision in decisions.items() if pair in decision.pairs}
        tested = {level: each for level, each in own.items() if each.known}
        if not tested:
            continue
        first, second = (names.get(model, model) for model in pair)
        better = {level: each for level, each in tested.items() if each.significant and each.value > 0}
        worse = {level: each.reversed() for level, each in tested.items() if each.significant and each.value < 0}
        tied = [level for level, each in tested.items() if not each.significant]
        parts = [f"{first} is significantly better than {second} on {_level_differences(better)}"] if better else []
        parts += [f"{second} is significantly better than {first} on {_level_differences(worse)}"] if worse else []
        if tied:
            on = "all levels" if len(tied) == len(tested) else listed(tied)
            parts.append(f"{first} and {second} are statistically tied on {on}")
        found.append(f"{'; '.join(parts)}.")
    return found


def _level_differences(differences: Mapping[str, Difference]) -> str:
    """Return levels with the difference and its interval, in points."""
    return listed([f"{level} (by {_points(each, sign='')})" for level, each in differences.items()])


def _one_setting(results: Sequence[Result]) -> Sequence[Result]:
    benchmarks = list(dict.fromkeys(result.cell.benchmark for result in results))
    groups = settings(results, "cog" if "cog" in benchmarks or not benchmarks else benchmarks[0])
    return only(groups).results if groups else ()


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
    def significant(self) -> bool:
        """Whether the accuracies differ significantly."""
        return self.change.significant

    @property
    def verdict(self) -> str:
        """The change in words, with its interval."""
        ends = f"from {self.nearest} to {self.farthest}"
        if not self.significant:
            return f"accuracy does not change significantly {ends} ({_points(self.change.reversed())})"
        falls = self.change.value > 0
        size = _points(self.change if falls else self.change.reversed(), sign="")
        return f"accuracy {'falls' if falls else 'rises'} significantly, by {size}, {ends}"


def measure_fall(scores: Sequence[ConceptScore], models: Sequence[str]) -> Fall | None:
    """Return the fall from the nearest to the farthest level over some models; None if it cannot be measured."""
    levels = _concept_means(scores, models)
    ends = [next(iter(levels)), next(reversed(levels))] if len(levels) > 1 else []
    return next(iter(_falls({level: levels[level] for level in ends}, scores, models)), None)


def measure_steps(scores: Sequence[ConceptScore], model: str) -> list[Fall]:
    """Return the fall from each level to the next, with p-values adjusted by Holm's method over these steps.

    The list is empty if one of the steps cannot be tested.
    """
    levels = _concept_means(scores, [model])
    steps = _falls(levels, scores, [model])
    if len(steps) < len(levels) - 1:
        return []
    adjusted = holm([step.change.p for step in steps])
    return [replace(s, change=replace(s.change, adjusted_p=p)) for s, p in zip(steps, adjusted, strict=True)]


def _concept_means(scores: Sequence[ConceptScore], models: Sequence[str]) -> dict[str, list[float]]:
    """Return by level, nearest first, the accuracy per concept, averaged over models."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        if score.level.startswith("L") and score.model in models:
            found[score.level][score.concept].append(score.accuracy)
    return {level: [sum(v) / len(v) for v in found[level].values()] for level in order_levels(found)}


def _falls(levels: Mapping[str, Sequence[float]], scores: Sequence[ConceptScore], models: Sequence[str]) -> list[Fall]:
    """Return the falls between adjacent levels that can be tested."""
    known = len({score.model for score in scores if score.model in models})
    falls = [
        Fall(near, far, welch_difference(levels[near], levels[far]), len(levels[near]) + len(levels[far]), known)
        for near, far in pairwise(levels)
    ]
    return [fall for fall in falls if fall.change.known]


def answer(fall: Fall | None, few: tuple[Shots, Fall] | None, controls: str) -> str:
    """Answer in one paragraph: the fall with all images, with few, and whether controls could explain it."""
    if fall is None:
        return ""
    found = f"With all images {fall.verdict}"
    if few is not None:
        shots, other = few
        found += f"; with {counted(int(shots), 'image')} per concept {other.verdict}"
    over = f"mean over {counted(fall.models, 'model')}, " if fall.models > 1 else ""
    found += f" ({over}95 % confidence intervals over {fall.concepts} concepts)."
    return f"{found} {controls}".rstrip()


def control_sentence(scores: Sequence[LevelScore], models: Sequence[str]) -> str:
    """State how the nearest and the farthest level compare with the random control levels; "" without controls."""
    found: dict[str, list[float]] = defaultdict(list)
    for score in scores:
        if score.shots == ALL and score.model in models:
            found[score.level].append(score.mean)
    means = {level: sum(found[level]) / len(found[level]) for level in order_levels(found)}
    levels = [level for level in means if level.startswith("L")]
    controls = [value for level, value in means.items() if level.startswith(CONTROL)]
    if not controls or not levels:
        return ""
    parts, harder = [], 0
    for level in dict.fromkeys((levels[0], levels[-1])):
        harder = sum(value <= means[level] for value in controls)
        where = {0: "below every one", len(controls): "above every one"}.get(harder, f"above {harder}")
        parts.append(f"{level} is {where} of {len(controls)} random draws of as many concepts")
    doubt = "" if harder in (0, len(controls)) else ": a random draw of concepts can be as hard"
    return f"{listed(parts)}{doubt}."


def slope_sentence(name: str, line: Line) -> str:
    """State the slope: points of accuracy per 0.1 of similarity, without the full stop."""
    lost = _scaled(line.slope, -_PER)
    if not lost.significant:
        return f"{name} has no significant trend with distance ({_points(lost)} per {_PER} of similarity lost)"
    verb, size = ("loses", _scaled(lost, -1)) if lost.value < 0 else ("gains", lost)
    return f"{name} {verb} {_points(size, sign='')} per {_PER} of similarity lost"


def trend_sentences(
    scores: Sequence[LevelScore], concepts: Sequence[ConceptScore], names: Mapping[str, str]
) -> list[str]:
    """State the trend of each model: a change at every step if all steps are significant, otherwise its slope.

    Models with the same kind of trend share a sentence.
    """
    found: dict[str, list[str]] = {}
    lines = slopes(concepts)
    for model, name in names.items():
        steps = measure_steps(concepts, model)
        falling = {step.change.value > 0 for step in steps}
        if steps and all(step.significant for step in steps) and len(falling) == 1:
            own = [s for s in scores if s.model == model and s.shots == ALL and s.level.startswith("L")]
            verb = "falls" if True in falling else "rises"
            kind = f"Accuracy {verb} significantly at every step from {steps[0].nearest} to {steps[-1].farthest}"
            found.setdefault(kind, []).append(f"{name} ({', '.join(TOP1.text(s.mean) for s in own)})")
        elif model in lines:
            lost = _scaled(lines[model].slope, -_PER)
            verb = "falls" if lost.value < 0 else "rises"
            trend = f"Accuracy {verb} significantly" if lost.significant else "No significant trend"
            kind = (
                f"{trend} with distance (change per {_PER} of similarity lost, 95 % confidence interval over concepts)"
            )
            found.setdefault(kind, []).append(f"{name} {_points(lost)}")
    return [f"{kind}: {'; '.join(models)}." for kind, models in found.items()]


def agreement(
    concepts: Sequence[ConceptScore], models: Sequence[str], names: Mapping[str, str], lines: Mapping[str, Line]
) -> str:
    """Summarise many models: how many fall, how many significantly, and the extremes."""
    falls = {model: fall for model in models if (fall := measure_fall(concepts, [model])) is not None}
    if not falls:
        return f"{len(models)} models."
    ranked = sorted(falls, key=lambda model: falls[model].change.value)
    first = falls[ranked[0]]
    down = sum(fall.change.value > 0 for fall in falls.values())
    significant = _significant([fall.change for fall in falls.values()])
    sloped = _significant([line.slope for model, line in lines.items() if model in falls])
    smallest, largest = (f"{names[m]} ({_points(falls[m].change.reversed())})" for m in (ranked[0], ranked[-1]))
    worse = f"All {len(falls)} models" if down == len(falls) else f"Of {len(falls)} models {down}"
    return (
        f"{worse} are worse on {first.farthest} than on {first.nearest}, "
        f"{_all_or(significant, down)} of them significantly. The change is smallest for {smallest}, largest for "
        f"{largest}. Along the distance of single concepts {_all_or(sloped, len(falls))} lose significantly. "
        "95 % confidence intervals over concepts; p-values are corrected for the number of models by Holm's method."
    )


def _significant(found: Sequence[Interval]) -> int:
    """Return how many values are significantly above 0, after Holm's correction."""
    adjusted = holm([each.p for each in found])
    return sum(each.value > 0 and p < 1 - each.level for each, p in zip(found, adjusted, strict=True))


def _all_or(count: int, total: int) -> str:
    return "all" if count == total else str(count)


def _scaled(interval: Interval, factor: float) -> Interval:
    low, high = sorted((factor * interval.low, factor * interval.high))
    return replace(interval, value=factor * interval.value, low=low, high=high)


def _points(interval: Interval, *, sign: str = "+") -> str:
    """Return a change in points such as "-0.4 points [-2.1, +1.3]"; without plus signs if `sign` is empty."""
    value, low, high = (round(100 * v, 1) + 0.0 for v in (interval.value, interval.low, interval.high))  # no "-0.0"
    return f"{value:{sign}.1f} points [{low:{sign}.1f}, {high:{sign}.1f}]"
