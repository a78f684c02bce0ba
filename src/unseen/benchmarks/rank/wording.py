"""The recommendation in words: which checkpoint to fine-tune, and what accuracy to expect."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from unseen.reports.wording import amount, listed

if TYPE_CHECKING:
    from unseen.benchmarks.rank.candidates import Candidate, CheckpointRanking

#: How a measure is shown: its name in a sentence, and whether in percent.
_MEASURES = {"accuracy": ("", True), "R2": ("R\u00b2 ", False), "precision": ("a precision of ", True)}


#: A cheap candidate is recommended only if it comes first in at least this share of samples.
FAIR = 0.1


def expected_text(candidate: Candidate, measure: str = "accuracy") -> str:
    """Return "87 ± 3 %", or "0.61 ± 0.04" for values; the two limits, "97 to 100 %", if "±" would pass 0 or 100 %."""
    low, high, half = candidate.low, candidate.high, (candidate.high - candidate.low) / 2
    if not _MEASURES[measure][1]:
        return f"{candidate.expected:.2f} ± {half:.2f}"
    digits = 0 if 100 * half >= 0.95 else 1
    if candidate.expected - half < 0 or candidate.expected + half > 1:
        return f"{100 * low:.{digits}f} to {100 * high:.{digits}f} %"
    return f"{100 * candidate.expected:.{digits}f} ± {100 * half:.{digits}f} %"


def points(value: float, measure: str = "accuracy") -> str:
    return f"{100 * value:.1f} points" if _MEASURES[measure][1] else f"{value:.3f}"


def targets_text(ranking: CheckpointRanking) -> str:
    """Return " of 14 classes" or " with up to 5 labels"; nothing for values."""
    kinds = {"accuracy": f" of {ranking.classes} classes", "precision": f" with up to {ranking.classes} labels"}
    return kinds.get(ranking.measure, "")


def guessing_text(ranking: CheckpointRanking) -> str:
    """Return the accuracy of guessing: "chance 7.1 %, most frequent class 12.3 %"; nothing if it is unknown."""
    known = (("chance", ranking.chance), ("most frequent class", ranking.majority))
    return ", ".join(f"{name} {100 * value:.1f} %" for name, value in known if value is not None)


def _versus_guessing(ranking: CheckpointRanking) -> str:
    """State whether the best candidate is no better than a constant prediction; nothing if it is better."""
    baseline, first = ranking.baseline, ranking.candidates[0]
    if baseline is None or not first.low <= baseline:
        return ""
    constant = "the mean of all values (R\u00b2 0)"
    if ranking.measure == "accuracy":
        constant = f"the most frequent class ({100 * baseline:.1f} %)"
    verb = "beats guessing" if first.high <= baseline else "is significantly better than guessing"
    return f" No candidate {verb}: always predicting {constant}."


#: What a candidate costs, the measure that decides first: attribute, and its name in a sentence.
_COSTS = (("flops", "operations per image"), ("parameters", "parameters"))


def choose(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the recommended candidate: the cheapest of those that may be the best with a fair chance.

    Costs are compared only if they are known for all of these candidates; otherwise, and among equal costs, the
    highest expected accuracy decides. None if no accuracy is known.
    """
    rivals = _rivals(_distinct(candidates))
    if not rivals:
        return None
    known = [name for name, _ in _COSTS if all(getattr(c, name) is not None for c in rivals)]
    return min(rivals, key=lambda c: (*(getattr(c, name) for name in known), c.rank))


def recommendation(ranking: CheckpointRanking, name: Callable[[Candidate], str]) -> str:
    """Return the sentences that recommend `ranking.choice`, with the candidates named by `name`."""
    choice, distinct, measure = ranking.choice, _distinct(ranking.candidates), ranking.measure
    if not distinct:
        return "No checkpoint could be ranked."
    if choice is None:
        return "No accuracy could be estimated, so nothing is recommended: see the scores."
    expect = f"expect {_MEASURES[measure][0]}{expected_text(choice, measure)} with a linear head."
    expect += _versus_guessing(ranking)
    if len([c for c in ranking.candidates if not c.error and not c.same_as]) == 1:
        return f"Fine-tune {name(choice)}: it is the only candidate; {expect}{_finetuned(ranking, name)}"
    text = f"Fine-tune {name(choice)}: {expect}"
    equals = ranking.equals
    if len(equals) == 1:
        text += _significant_lead(ranking, name)
    else:
        text += f" The lead is not significant: {_equals(equals, choice, ranking, name)}"
    others = [name(c) for c in distinct if c is not choice][: max(ranking.top, 1) - 1]
    text += f" Then try {listed(others)}." if others else ""
    return text + _finetuned(ranking, name)


def _distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates that were ranked on all images, without second names of the same weights."""
    return [c for c in candidates if not c.error and not c.same_as and not c.dropped_after]


def _rivals(distinct: Sequence[Candidate]) -> list[Candidate]:
    """Return the first candidate and those that may be the best with a fair chance."""
    if not distinct or math.isnan(distinct[0].expected):
        return []
    return [c for c in distinct if c is distinct[0] or (c.may_be_best and c.best_share >= FAIR)]


def _significant_lead(ranking: CheckpointRanking, name: Callable[[Candidate], str]) -> str:
    """Return the difference of the first and the next candidate on the images that both were evaluated on."""
    measure = ranking.measure
    ranked = [c for c in ranking.candidates if not c.error and not c.same_as]
    second = next(c for c in ranked if c is not ranking.choice)
    low, high = points(second.behind_low, measure).removesuffix(" points"), points(second.behind_high, measure)
    return (
        f" The lead is significant: {points(second.behind, measure)} on {name(second)}, the next (95 % confidence "
        f"interval {low} to {high} on the same {second.dropped_after or ranking.images:,} images)."
    )


def _equals(
    equals: Sequence[Candidate], choice: Candidate, ranking: CheckpointRanking, name: Callable[[Candidate], str]
) -> str:
    """Name the candidates that are tied with the choice and why it is the choice, then those with little chance."""
    rivals = _rivals(_distinct(ranking.candidates))
    others, unlikely = [c for c in rivals if c is not choice], [c for c in equals if c not in rivals]
    images, text = f" on {ranking.images:,} images", ""
    if others:
        verb = "is" if len(others) == 1 else "are"
        tied = f"{_named(others, ranking.measure, name)} {verb} statistically tied with it{images}"
        text = f"{tied}, and {_why(choice, others, name)}."
    if unlikely:
        where, verb = (" either" if others else images), "has" if len(unlikely) == 1 else "have"
        named = _named(unlikely, ranking.measure, name)
        text += f"{' ' * bool(text)}{named} cannot be ruled out{where}, but {verb} little chance."
    return text


def _why(choice: Candidate, others: Sequence[Candidate], name: Callable[[Candidate], str]) -> str:
    """State why the choice is preferred to candidates that are tied with it, by the costs that are known."""
    for attribute, unit in _COSTS:
        own, theirs = getattr(choice, attribute), [getattr(c, attribute) for c in others]
        if own is None or None in theirs or all(own == each for each in theirs):
            continue
        if all(own < each for each in theirs):
            which = "cheaper of the two" if len(others) == 1 else f"cheapest of the {len(others) + 1}"
            return f"{name(choice)} is the {which} ({amount(own)} {unit})"
        return f"none of them has fewer {unit} than {name(choice)} ({amount(own)})"
    return f"{name(choice)} has the highest estimate"


def _finetuned(ranking: CheckpointRanking, name: Callable[[Candidate], str]) -> str:
    """Compare fine-tuned accuracies with the predictions; nothing if no candidate was fine-tuned."""
    trained = list({c.model: c for c in reversed(ranking.candidates) if math.isfinite(c.finetuned)}.values())[::-1]
    if not trained:
        return ""
    text = " Fine-tuned on the training images and tested: "
    text += "; ".join(f"{name(c)} {100 * c.finetuned:.1f} %, {_beside_prediction(c)}" for c in trained) + "."
    best = max(trained, key=lambda c: c.finetuned)
    choice = next((c for c in trained if ranking.choice is not None and c.model == ranking.choice.model), None)
    if choice is not None and best.finetuned > choice.finetuned:
        more = points(best.finetuned - choice.finetuned)
        text += f" {name(best)} reached {more} more than {name(choice)}; this difference was not tested."
    elif choice is not None and choice.low <= choice.finetuned <= choice.high:
        text += f" This confirms what was expected of {name(choice)}."
    return text


def _beside_prediction(candidate: Candidate) -> str:
    """State where the fine-tuned accuracy lies relative to the confidence interval of the expected accuracy."""
    value, low, high = candidate.finetuned, candidate.low, candidate.high
    if math.isnan(candidate.expected):
        return "for which no accuracy was predicted"
    interval = f"the 95 % confidence interval of the prediction ({100 * low:.1f} to {100 * high:.1f} %)"
    if low <= value <= high:
        return f"inside {interval}"
    return f"{points(low - value)} below {interval}" if value < low else f"{points(value - high)} above {interval}"


def _named(candidates: Sequence[Candidate], measure: str, name: Callable[[Candidate], str]) -> str:
    return listed([f"{name(c)} ({expected_text(c, measure)})" for c in candidates], limit=5)
