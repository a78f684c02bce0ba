"""The recommendation in words: what to expect, of which checkpoint, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unseen.reports.wording import amount, listed

if TYPE_CHECKING:
    from unseen.benchmarks.rank.candidates import Candidate, CheckpointRanking

#: How a measure is shown: its name in a sentence, and whether in percent.
_MEASURES = {"accuracy": ("", True), "R2": ("R\u00b2 ", False), "precision": ("a precision of ", True)}


#: Of the draws of the images: who comes first in fewer is not recommended for being cheap.
FAIR = 0.1


def expected_text(candidate: Candidate, measure: str = "accuracy") -> str:
    """ "87 ± 3 %": what to expect, and half the interval; "0.61 ± 0.04" of values."""
    percent = _MEASURES[measure][1]
    half = (candidate.high - candidate.low) / 2
    if not percent:
        return f"{candidate.expected:.2f} ± {half:.2f}"
    digits = 0 if 100 * half >= 0.95 else 1
    return f"{100 * candidate.expected:.{digits}f} ± {100 * half:.{digits}f} %"


def points(value: float, measure: str = "accuracy") -> str:
    return f"{100 * value:.1f} points" if _MEASURES[measure][1] else f"{value:.3f}"


def told_targets(ranking: CheckpointRanking) -> str:
    """What the images are of: " of 14 classes", " with up to 5 labels", nothing of values."""
    kinds = {"accuracy": f" of {ranking.classes} classes", "precision": f" with up to {ranking.classes} labels"}
    return kinds.get(ranking.measure, "")


def cheapest(candidates: Sequence[Candidate]) -> Candidate:
    """The one with the least to compute; parameters where operations are not known, the first where nothing is."""

    def cost(candidate: Candidate) -> tuple[float, float, int]:
        flops, size = candidate.flops, candidate.parameters
        return (math.inf if flops is None else flops), (math.inf if size is None else size), candidate.rank

    return min(candidates, key=cost)


def recommend(
    ordered: Sequence[Candidate], *, images: int, top: int = 1, measure: str = "accuracy"
) -> tuple[Candidate | None, str]:
    """The candidate to take, and the sentences that say so."""
    if not ordered:
        return None, "No checkpoint could be ranked."
    best = ordered[0]
    if math.isnan(best.expected):
        return None, "No accuracy could be estimated, so nothing is recommended: see the scores."
    distinct = [c for c in ordered if not c.same_as]
    expect = f"expect {_MEASURES[measure][0]}"
    if len(distinct) == 1:
        value = expected_text(best, measure)
        return best, f"Fine-tune {best.label}: it is the only candidate; {expect}{value} with a linear head."
    equals = [c for c in distinct if c.may_be_best]
    rivals = [c for c in equals if c is best or c.best_share >= FAIR]
    choice = cheapest(rivals)
    text = f"Fine-tune {choice.label}: {expect}{expected_text(choice, measure)} with a linear head."
    if len(equals) == 1:
        second = next(c for c in distinct if c is not best)
        low, high = points(second.behind_low, measure).removesuffix(" points"), points(second.behind_high, measure)
        text += (
            f" The lead is clear: {points(second.behind, measure)} on {second.label}, the next "
            f"({low} to {high} on the same {images:,} images)."
        )
    else:
        text += f" The lead is not clear: {_equals(equals, rivals, choice, images, measure)}"
    others = [c.label for c in distinct if c is not choice][: max(top, 1) - 1]
    return choice, text + (f" Then try {listed(others)}." if others else "")


def _equals(
    equals: Sequence[Candidate], rivals: Sequence[Candidate], choice: Candidate, images: int, measure: str
) -> str:
    """Who cannot be told apart from the choice, and why it is the choice; who has little chance, but some."""
    others, unlikely = [c for c in rivals if c is not choice], [c for c in equals if c not in rivals]
    said = ""
    if others:
        cost = f" ({amount(choice.flops)} operations per image)" if choice.flops is not None else ""
        which = "cheaper of the two" if len(rivals) == 2 else f"cheapest of the {len(rivals)}"
        said = f"{_named(others, measure)} cannot be told apart from it on {images:,} images, and {choice.label} is "
        said += f"the {which}{cost}."
    if unlikely:
        also = " either" if others else f" on {images:,} images"
        little = "has" if len(unlikely) == 1 else "have"
        said += f"{' ' * bool(said)}{_named(unlikely, measure)} cannot be ruled out{also}, but {little} little chance."
    return said


def _named(candidates: Sequence[Candidate], measure: str) -> str:
    return listed([f"{c.label} ({expected_text(c, measure)})" for c in candidates], limit=5)
