"""The recommendation in words: what to expect, of which checkpoint, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unseen.reports.wording import amount, listed

if TYPE_CHECKING:
    from unseen.benchmarks.rank.candidates import Candidate

#: How a measure is shown: its name in a sentence, and whether in percent.
_MEASURES = {"accuracy": ("", True), "R2": ("R\u00b2 ", False), "precision": ("a precision of ", True)}


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
    choice = cheapest(equals) if len(equals) > 1 else best
    text = f"Fine-tune {choice.label}: {expect}{expected_text(choice, measure)} with a linear head."
    if len(equals) == 1:
        second = next(c for c in distinct if c is not best)
        low, high = points(second.behind_low, measure).removesuffix(" points"), points(second.behind_high, measure)
        text += (
            f" The lead is clear: {points(second.behind, measure)} on {second.label}, the next "
            f"({low} to {high} on the same {images:,} images)."
        )
    else:
        text += f" The lead is not clear: {_equals(equals, choice, images, measure)}"
    others = [c.label for c in distinct if c is not choice][: max(top, 1) - 1]
    return choice, text + (f" Then try {listed(others)}." if others else "")


def _equals(equals: Sequence[Candidate], choice: Candidate, images: int, measure: str) -> str:
    others = [c for c in equals if c is not choice]
    cost = f" ({amount(choice.flops)} operations per image)" if choice.flops is not None else ""
    which = "both" if len(equals) == 2 else f"all {len(equals)}"
    names = listed([f"{c.label} ({expected_text(c, measure)})" for c in others], limit=5)
    return f"{names} cannot be told apart from it on {images:,} images, and it is the cheapest of {which}{cost}."
