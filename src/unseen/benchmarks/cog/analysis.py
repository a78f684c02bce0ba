"""What the results of a CoG say: levels, gaps to a baseline, slopes over distance, statements with tests behind them.

Paper:      Sariyildiz et al., ICCV 2021 [P]: Fig. 3 (levels, relative), Fig. 4 (few-shot), section 4.2 (statements)
Implements: means over seeds; differences to a baseline model; paired bootstrap over test images for statements, with
            Holm's correction over all of a page's comparisons
Beyond:     accuracy per concept against its similarity to the nearest seen one, and the slope of that cloud as one
            number per model: points lost per 0.1 of similarity
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.cog.domains import CONTROL, SEEN, given_domain
from unseen.benchmarks.probing import unpack_correct
from unseen.core.errors import DataError
from unseen.core.names import Name
from unseen.core.records import Cell, Result
from unseen.metrics import Comparison, holm, paired_bootstrap, wilson_interval
from unseen.metrics.slope import Line, fit_line
from unseen.results import Group, comparable, only

ALL = "all"
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class LevelScore:
    """Accuracy of one model on one level with one number of shots, over seeds.

    Attributes:
        std: over seeds; 0 where there is one.
        low, high: 95 % interval of the mean over test images; not a number where these were not kept.
        images: how many test images it is of; 0 where these were not kept.
    """

    model: str
    level: str
    shots: int | str
    mean: float
    std: float
    seeds: int
    similarity: float | None
    low: float = math.nan
    high: float = math.nan
    images: int = 0

    @property
    def text(self) -> str:
        """In percent with the interval over test images: "87.5 [83.1, 90.9]"."""
        shown = f"{100 * self.mean:.1f}"
        return f"{shown} [{100 * self.low:.1f}, {100 * self.high:.1f}]" if self.images else shown


@dataclass(frozen=True)
class ConceptScore:
    """Accuracy of one model on one concept, over seeds; `dataset` is where its images are.

    `test_images` is 0 where results of an earlier version do not say it.
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
class Duel:
    """Two models on one level: first minus second, and the p-value after correction."""

    first: str
    second: str
    level: str
    comparison: Comparison
    corrected: float

    @property
    def verdict(self) -> int:
        """1 where the first is better, -1 where the second is, 0 where the test cannot tell."""
        if self.corrected >= SIGNIFICANT:
            return 0
        return 1 if self.comparison.difference.value > 0 else -1


def order_levels(levels: Iterable[str]) -> list[str]:
    """Seen first, then L1 to Ln, then controls."""
    return sorted(set(levels), key=lambda name: (name != SEEN, name[:1] != "L", int(name[1:]) if name != SEEN else 0))


def settings(results: Iterable[Result], benchmark: str = "cog") -> list[Group]:
    """Results that may be drawn in one chart: levels and numbers of images beside one another, seeds averaged.

    ImageNet-1K and the levels of ImageNet-CoG are datasets of their own, and one benchmark together, unless there are
    several of either.
    """
    own = [result for result in results if result.cell.benchmark == benchmark]
    names = {cell.dataset: Name.parse(cell.dataset) for cell in (result.cell for result in own)}
    seen = {dataset for dataset in names if given_domain(dataset) == SEEN}
    levels = {str(names[d].options): names[d].options for d in names if given_domain(d) not in (None, SEEN)}
    together = len(seen) == 1 and len(levels) == 1

    def place(cell: Cell) -> Mapping[str, Any]:
        if given_domain(cell.dataset) is None or (cell.dataset in seen and not together):
            return {"dataset": cell.dataset}
        read = next(iter(levels.values())) if cell.dataset in seen else names[cell.dataset].options
        return {"dataset": "imagenet:cog", **{f"levels' {name}": value for name, value in read.items()}}

    return comparable(own, place=place)


def level_scores(results: Sequence[Result]) -> list[LevelScore]:
    """One score per model, level and shots, in the order of levels.

    Raises:
        UsageError: results of several settings (see `settings`).
    """
    groups: dict[tuple[str, str, int | str], list[Result]] = defaultdict(list)
    for result in _one_setting(results):
        p = result.cell.parameters
        groups[result.cell.model, p["level"], p["shots"]].append(result)
    scores = []
    for (model, level, shots), group in groups.items():
        values = np.array([result.metrics["top1"] for result in group])
        std = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        similarity, mean = group[0].details.get("similarity"), float(values.mean())
        score = LevelScore(model, level, shots, mean, std, len(values), similarity)
        if (images := _test_images(group[0])) > 0:
            doubt = wilson_interval(mean, images)
            score = replace(score, low=doubt.low, high=doubt.high, images=images)
        scores.append(score)
    place = {level: i for i, level in enumerate(order_levels(score.level for score in scores))}
    return sorted(scores, key=lambda s: (place[s.level], s.shots == ALL, s.shots if s.shots != ALL else 0))


def relative_to(scores: Sequence[LevelScore], baseline: str) -> list[tuple[LevelScore, float]]:
    """Each score with its difference to the baseline's on the same level and shots."""
    base = {(s.level, s.shots): s.mean for s in scores if s.model == baseline}
    if not base:
        models = ", ".join(sorted({s.model for s in scores}))
        raise DataError(f"the baseline {baseline!r} has no results here. Models with results: {models}.")
    return [(s, s.mean - base[s.level, s.shots]) for s in scores if (s.level, s.shots) in base]


def concept_scores(results: Sequence[Result], *, controls: bool = False, shots: int | str = ALL) -> list[ConceptScore]:
    """Accuracy per concept, mean over seeds, with all images or with so many per concept."""
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in _one_setting(results):
        level = str(result.cell.parameters["level"])
        if result.cell.parameters["shots"] == shots and (controls or not level.startswith(CONTROL)):
            groups[result.cell.model, level].append(result)
    scores = []
    for (model, level), group in groups.items():
        details = group[0].details
        accuracy = np.nanmean([_per_class(result) for result in group], axis=0)
        tested = details.get("test_per_class") or [0] * len(accuracy)
        rows = zip(details["concepts"], accuracy, details["train_per_class"], tested, strict=True)
        for concept, value, images, test_images in rows:
            if not np.isnan(value) and concept["similarity"] is not None:
                scores.append(
                    ConceptScore(
                        model,
                        level,
                        concept["id"],
                        concept["name"],
                        float(value),
                        concept["similarity"],
                        concept["nearest"] or "",
                        images,
                        group[0].cell.dataset,
                        test_images,
                    )
                )
    return scores


def slopes(scores: Sequence[ConceptScore]) -> dict[str, Line]:
    """Per model the line of accuracy over similarity, through the unseen concepts only."""
    lines = {}
    for model in dict.fromkeys(score.model for score in scores):
        own = [s for s in scores if s.model == model and s.level != SEEN]
        if len(own) >= 3:
            lines[model] = fit_line([s.similarity for s in own], [s.accuracy for s in own])
    return lines


def slope_sentence(name: str, line: Line) -> str:
    """The slope in words: points of accuracy per 0.1 of similarity."""
    value, low, high = (10 * v for v in (line.slope.value, line.slope.low, line.slope.high))
    half = (high - low) / 2
    if low > 0:
        return f"{name} loses {value:.1f} ± {half:.1f} points per 0.1 of similarity lost"
    if high < 0:
        return f"{name} gains {-value:.1f} ± {half:.1f} points per 0.1 of similarity lost"
    return f"{name} shows no clear trend with distance ({value:+.1f} ± {half:.1f} points per 0.1 of similarity)"


def duels(results: Sequence[Result], pairs: Sequence[tuple[str, str]] | None = None) -> list[Duel]:
    """Paired comparisons with all images, on every level, corrected for their number by Holm's method.

    Args:
        pairs: which models to compare; by default every two.
    """
    right = _right_images(results)
    models = list(dict.fromkeys(model for model, _ in right))
    found: list[tuple[str, str, str, Comparison]] = []
    for first, second in list(combinations(models, 2)) if pairs is None else pairs:
        for level in order_levels(level for _, level in right):
            a, b = right.get((first, level)), right.get((second, level))
            if a is not None and b is not None and len(a) == len(b):
                found.append((first, second, level, paired_bootstrap(a, b)))
    corrected = holm([comparison.p_value for *_, comparison in found])
    return [Duel(*row, corrected=p) for row, p in zip(found, corrected, strict=True)]


def statements(fights: Sequence[Duel], names: Mapping[str, str]) -> list[str]:
    """What can be said of each pair of models, in the paper's manner: who wins on which levels, where nobody does."""
    said = []
    for pair in dict.fromkeys((d.first, d.second) for d in fights):
        own = [d for d in fights if (d.first, d.second) == pair]
        wins = {sign: [d for d in own if d.verdict == sign] for sign in (1, -1, 0)}
        first, second = (names.get(model, model) for model in pair)
        if wins[1] and wins[-1]:
            said.append(f"{first} beats {second} on {_levels(wins[1])}, but loses to it on {_levels(wins[-1])}.")
        elif wins[1] or wins[-1]:
            winner, loser = (first, second) if wins[1] else (second, first)
            text = f"{winner} beats {loser} on {_levels(wins[1] or wins[-1])}"
            said.append(f"{text}, but not on {_names(wins[0])}." if wins[0] else f"{text}: on every level.")
        else:
            said.append(f"{first} and {second} cannot be told apart on any level.")
    return said


def _levels(fights: Sequence[Duel]) -> str:
    """Levels with the difference and its interval, in points."""
    parts = []
    for d in fights:
        value, low, high = (100 * abs(v) for v in (d.comparison.difference.value, *_bounds(d)))
        parts.append(f"{d.level} (by {value:.1f} points [{min(low, high):.1f}, {max(low, high):.1f}])")
    return _joined(parts)


def _bounds(d: Duel) -> tuple[float, float]:
    return d.comparison.difference.low, d.comparison.difference.high


def _names(fights: Sequence[Duel]) -> str:
    return _joined([d.level for d in fights])


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _one_setting(results: Sequence[Result]) -> Sequence[Result]:
    benchmarks = list(dict.fromkeys(result.cell.benchmark for result in results))
    groups = settings(results, "cog" if "cog" in benchmarks or not benchmarks else benchmarks[0])
    return only(groups).results if groups else ()


def _test_images(result: Result) -> int:
    """How many test images a result is of; 0 where it does not say."""
    packed = str(result.details.get("correct", ""))
    return int(packed.partition(":")[0] or result.details.get("test_images", 0))


def _per_class(result: Result) -> npt.NDArray[np.float64]:
    values: Mapping[str, Any] = result.details["per_class"]
    count = len(result.details["concepts"])
    return np.array([np.nan if (v := values.get(str(i))) is None else v for i in range(count)], np.float64)


def _right_images(results: Sequence[Result]) -> dict[tuple[str, str], npt.NDArray[np.float64]]:
    """Per model and level, how often each test image was right over the seeds, with all training images."""
    groups: dict[tuple[str, str], list[npt.NDArray[np.bool_]]] = defaultdict(list)
    for result in _one_setting(results):
        level = str(result.cell.parameters["level"])
        if result.cell.parameters["shots"] == ALL and not level.startswith(CONTROL):
            groups[result.cell.model, level].append(unpack_correct(result.details["correct"]))
    return {key: np.mean(masks, axis=0) for key, masks in groups.items()}
