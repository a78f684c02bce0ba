"""Does accuracy fall with distance, by how much, and how sure is that: the answer that a CoG is run for.

Paper:      Sariyildiz et al., ICCV 2021, section 4.2.1; supplement D.1 for the random controls [S]
Implements: the accuracy of every concept, averaged over models that have learnt something; the fall is the mean over
            the nearest level less that over the farthest, with Welch's interval over concepts, because another draw
            of concepts is what would change it most. Controls: how many random draws of as many concepts are harder
Why so:     an interval over test images alone takes the concepts of a level for given. On levels whose concepts differ
            by chance only it would call every second fall clear; over concepts it is one in twenty (tests)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unseen.benchmarks.cog.analysis import ALL, ConceptScore, LevelScore, order_levels
from unseen.benchmarks.cog.domains import CONTROL
from unseen.metrics import Comparison, welch_comparison
from unseen.reports.wording import counted, listed


@dataclass(frozen=True)
class Fall:
    """From the nearest level of unseen concepts to the farthest.

    Attributes:
        change: accuracy on the nearest less that on the farthest, with its interval over concepts.
        concepts: how many there are on both together.
        models: how many the accuracies are averaged over.
    """

    nearest: str
    farthest: str
    change: Comparison
    concepts: int
    models: int

    @property
    def clear(self) -> bool:
        """Whether the interval leaves zero out."""
        return 0.0 not in self.change.difference

    @property
    def verdict(self) -> str:
        """The answer in words, with the points and their interval."""
        value, low, high = (round(100 * v, 1) for v in _bounds(self.change))
        if not self.clear:
            change, least, most = (0.0 - v for v in (value, high, low))  # no "-0.0"
            return (
                f"accuracy changes by {change:+.1f} points [{least:+.1f}, {most:+.1f}] from {self.nearest} to "
                f"{self.farthest}"
            )
        direction = "falls" if value > 0 else "rises"
        small, large = sorted((abs(low), abs(high)))
        return (
            f"accuracy {direction} by {abs(value):.1f} points [{small:.1f}, {large:.1f}] from {self.nearest} to "
            f"{self.farthest}"
        )


def measure_fall(scores: Sequence[ConceptScore], models: Sequence[str]) -> Fall | None:
    """The fall over some models, from accuracies per concept; None where there is nothing to compare."""
    levels = [level for level in order_levels(s.level for s in scores) if level.startswith("L")]
    if len(levels) < 2:
        return None
    means: dict[str, dict[str, list[float]]] = {levels[0]: defaultdict(list), levels[-1]: defaultdict(list)}
    for score in scores:
        if score.level in means and score.model in models:
            means[score.level][score.concept].append(score.accuracy)
    near, far = ([sum(found) / len(found) for found in means[level].values()] for level in (levels[0], levels[-1]))
    if min(len(near), len(far)) < 2:
        return None
    known = {score.model for score in scores if score.model in models}
    return Fall(levels[0], levels[-1], welch_comparison(near, far), len(near) + len(far), len(known))


def answer(fall: Fall | None, few: tuple[int | str, Fall] | None, controls: str) -> str:
    """One paragraph: the fall with all images, with few, and whether controls could explain it."""
    if fall is None:
        return ""
    said = f"{_opening(fall)}: {fall.verdict} with all images"
    if few is not None:
        shots, other = few
        said += f"; with {counted(int(shots), 'image')} per concept {other.verdict}"
    over = f"mean over {counted(fall.models, 'model')}, " if fall.models > 1 else ""
    said += f" ({over}95 % intervals over {fall.concepts} concepts)."
    return f"{said} {controls}".rstrip()


def controls_said(scores: Sequence[LevelScore], models: Sequence[str]) -> str:
    """Where the farthest level lies among random draws of as many concepts; nothing where there are no controls."""
    own = [s for s in scores if s.shots == ALL and s.model in models]
    levels = [level for level in order_levels(s.level for s in own) if level.startswith("L")]
    means = _means(own)
    controls = [value for level, value in means.items() if level.startswith(CONTROL)]
    if not controls or not levels:
        return ""
    harder = {level: sum(value <= means[level] for value in controls) for level in (levels[0], levels[-1])}
    outside = {level: place in (0, len(controls)) for level, place in harder.items()}
    parts = []
    for level, place in harder.items():
        where = "below every one" if place == 0 else "above every one" if place == len(controls) else f"above {place}"
        parts.append(f"{level} lies {where} of {len(controls)} random draws of as many concepts")
    doubt = "" if outside[levels[-1]] else ": a draw of concepts by chance can be as hard"
    return f"{listed(parts)}{doubt}."


def _means(scores: Sequence[LevelScore]) -> Mapping[str, float]:
    found: dict[str, list[float]] = defaultdict(list)
    for score in scores:
        found[score.level].append(score.mean)
    return {level: sum(values) / len(values) for level, values in found.items()}


def _opening(fall: Fall) -> str:
    if not fall.clear:
        return "Not clearly"
    return "Yes" if fall.change.difference.value > 0 else "No"


def _bounds(change: Comparison) -> tuple[float, float, float]:
    return change.difference.value, change.difference.low, change.difference.high
