"""Who leads, by how much, and whether that is clear: from accuracies and their intervals over test images.

Implements: the interval of a mean over datasets from those of its parts; the interval of a difference as
            if the two models had been asked about images of their own. They were asked about the same ones, and agree
            on most: the true interval is narrower, and "clear" is said too seldom rather than too often
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from unseen.reports.blocks import Standing
from unseen.reports.wording import is_reference, listed

CLEAR, NOT_CLEAR, TIE, UNKNOWN = "clear", "not clear", "a tie", "no interval"


def mean_interval(
    mean: float, bounds: Sequence[tuple[float, float] | None], images: Sequence[str]
) -> tuple[float, float]:
    """The 95 % interval of a mean over parts; not a number where a part has none.

    Args:
        images: per part, which images it is of: parts of the same ones may err together, those of others do not.
    """
    if not bounds or any(each is None for each in bounds):
        return math.nan, math.nan
    if len(bounds) == 1 and bounds[0] is not None:
        return bounds[0]
    halves: dict[str, float] = {}
    for (low, high), name in zip(filter(None, bounds), images, strict=True):
        halves[name] = halves.get(name, 0.0) + (high - low) / 2
    half = math.sqrt(sum(each**2 for each in halves.values())) / len(bounds)
    return max(0.0, mean - half), min(1.0, mean + half)


def lead_sentence(
    standings: Sequence[Standing], names: Mapping[str, str], verb: str = "leads"
) -> tuple[str, str, bool]:
    """Who is first with what interval, and who cannot be told apart from it: (sentence, how sure, whether clear)."""
    ranked = sorted(standings, key=lambda s: (-s.value, s.model))
    best = ranked[0]
    shown = f"{100 * best.value:.1f}\u202f%"
    shown += f" [{100 * best.low:.1f}, {100 * best.high:.1f}]" if math.isfinite(best.low) else ""
    equal = [s for s in ranked if s.value == best.value]
    if len(ranked) == 1:
        return f"{names[best.model]} has {shown}.", "", False
    if len(equal) > 1:
        return f"{listed([names[s.model] for s in equal], 4)} tie at {shown}.", TIE, False
    if not all(math.isfinite(s.low) for s in ranked):
        return f"{names[best.model]} {verb} with {shown}, before {names[ranked[1].model]}.", UNKNOWN, False
    near = [s for s in ranked[1:] if not _apart(best, s)]
    learned = [s for s in near if not is_reference(s.model)]
    second = ranked[1]
    gap = f"{100 * (best.value - second.value):.1f} points before {names[second.model]}"
    if not near:
        return f"{names[best.model]} {verb} with {shown}, {gap}.", CLEAR, True
    others = listed([names[s.model] for s in (learned or near)], 3)
    return f"{names[best.model]} {verb} with {shown}; {others} cannot be told apart from it.", NOT_CLEAR, False


def _apart(one: Standing, other: Standing) -> bool:
    """Whether the 95 % interval of the difference leaves zero out."""
    half = math.hypot(one.value - one.low, other.high - other.value)
    return one.value - other.value > half
