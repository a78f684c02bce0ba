"""The ranking as an answer: the candidates, best first, the recommended one, and the sentences that recommend it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from unseen.benchmarks.rank.details import POOLED, Facts
from unseen.core.identity import Values
from unseen.core.run_record import RunRecord
from unseen.reports.wording import amount, is_reference, listed
from unseen.results.table import DisplayNames
from unseen.stats import Candidate as Estimate
from unseen.stats import Decision, decide

#: A cheap candidate is recommended only if it comes first in at least this share of samples.
FAIR = 0.1
#: How many times cheaper than the first a candidate must be to be recommended in its place.
CHEAPER = 2.0
#: Points of expected accuracy that being so much cheaper is worth at most.
WORTH = 0.01
#: By policy: the largest loss of expected accuracy, and how many times cheaper a candidate must be.
_POLICIES = {"": (WORTH, CHEAPER), "accuracy": (-1.0, 1.0), "cheap": (math.inf, 1.0)}
#: At most so many candidates are named in a sentence.
_NAMED = 3
#: Properties of a ranking that are in its JSON.
_DERIVED = ("clear", "chance", "baseline", "beats_guessing", "copies", "recommendation")
#: What is expected, in a sentence.
_MEASURES = {"accuracy": "", "balanced accuracy": "a balanced accuracy of ", "R2": "R\u00b2 "}
_MEASURES |= {"precision": "a precision of "}


@dataclass(frozen=True)
class Candidate(Facts):
    """One checkpoint (or one layer of it) and its expected accuracy.

    Attributes:
        model, layer: what was ranked.
        rank: 1 is the best; 0 for a candidate that failed.
        expected, low, high: accuracy of a linear head on other images like these, with its 95 % confidence interval.
        behind, behind_low, behind_high: difference of the first candidate and this one on the same images; the
            limits hold simultaneously for all candidates.
        may_be_best: whether it is the best, or statistically tied with it.
        best_share: how often it comes first when the values are sampled within their errors.
        scores: by id; a score that could not be computed is missing.
        mean_rank: over the counted scores.
        per_class: cross-validated accuracy by class; NaN for a class without an evaluated image.
        finetuned: test accuracy after fine-tuning; NaN without `--finetune-top`.
        probe_tested: test accuracy of the linear head before fine-tuning.
        gap, gap_low, gap_high: `finetuned` minus `expected`, with its 95 % confidence interval.
        tuning, tuning_low, tuning_high: `finetuned` minus `probe_tested` on the same test images, with its interval.
        notes: remarks of its scores.
        error: why it could not be ranked.
        revision: of the weights and the data.
    """

    model: str
    layer: str = POOLED
    rank: int = 0
    expected: float = math.nan
    low: float = math.nan
    high: float = math.nan
    behind: float = math.nan
    behind_low: float = math.nan
    behind_high: float = math.nan
    may_be_best: bool = False
    best_share: float = math.nan
    scores: Mapping[str, float] = field(default_factory=dict)
    mean_rank: float = math.nan
    per_class: Mapping[str, float] = field(default_factory=dict)
    finetuned: float = math.nan
    probe_tested: float = math.nan
    gap: float = math.nan
    gap_low: float = math.nan
    gap_high: float = math.nan
    tuning: float = math.nan
    tuning_low: float = math.nan
    tuning_high: float = math.nan
    notes: tuple[str, ...] = ()
    error: str = ""
    revision: str = ""

    @property
    def label(self) -> str:
        """The model, with its layer unless that is the default one."""
        return self.named({})

    def named(self, names: DisplayNames) -> str:
        """Return the label with the model under its name in `names`, if it has one there."""
        name = names.get(self.model, self.model)
        return name if self.layer == POOLED else f"{name} at {self.layer}"

    def to_dict(self) -> Values:
        """Return JSON values: NaN becomes None."""
        return _plain(asdict(self) | {"per_class": _plain(self.per_class)})


@dataclass(frozen=True)
class CheckpointRanking:
    """The answer.

    Attributes:
        candidates: best first; those that failed at the end.
        scores: ids of the computed scores; `counted` those that the mean rank is over.
        images, total: images that were used, and images of the split.
        seconds: of the cells, or of the whole run.
        evaluated: images that cross-validation evaluated; fewer than `images` if a class has one image only.
        groups: groups of images that share a fold; 0 without groups.
        measure: what `expected` is: "accuracy", "balanced accuracy", "R2" of values, or "precision" of several labels.
        majority: share of the most frequent class; None if unknown.
        prefer: the policy of `choice`: "accuracy", "cheap", a number of points, or "" for the default.
        notes: about the whole ranking.
        parameters: the options that all of its cells share.
        page: the file of the page, if one was written.
        record: what the evaluations received, used and dropped, merged over candidates.
        estimates: by label, the outcomes that the decision compares.
        decision: which candidates differ and which may be the best.
    """

    dataset: str
    candidates: tuple[Candidate, ...]
    scores: tuple[str, ...]
    counted: tuple[str, ...]
    images: int
    total: int
    classes: int
    seconds: float
    measure: str = "accuracy"
    majority: float | None = None
    evaluated: int = 0
    groups: int = 0
    prefer: str = ""
    notes: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    page: str = ""
    record: RunRecord = field(default_factory=RunRecord)
    estimates: Mapping[str, Estimate] = field(default_factory=dict, repr=False, compare=False)
    decision: Decision = field(default_factory=lambda: decide({}), repr=False, compare=False)

    @property
    def ranked(self) -> list[Candidate]:
        """The candidates that did not fail, in order."""
        return [c for c in self.candidates if not c.error]

    @property
    def failed(self) -> list[Candidate]:
        return [c for c in self.candidates if c.error]

    @property
    def equals(self) -> list[Candidate]:
        """The candidates that may be the best, in order."""
        return [c for c in self.candidates if c.may_be_best]

    @property
    def clear(self) -> bool:
        """Whether the first candidate is significantly better than all others, or the only one."""
        return len(self.equals) == 1

    @property
    def percent(self) -> bool:
        """Whether expected values are shown in percent."""
        return self.measure != "R2"

    @property
    def copies(self) -> int:
        """Near-duplicates among the images: the largest number that the features of a candidate show."""
        return max((c.copies for c in self.candidates), default=0)

    @property
    def chance(self) -> float | None:
        """Accuracy of a random guess; None for values and several labels."""
        return 1 / self.classes if self.measure.endswith("accuracy") and self.classes else None

    @property
    def baseline(self) -> float | None:
        """The expected value of a constant prediction: the most frequent class, or the mean; None if unknown."""
        return {"accuracy": self.majority, "balanced accuracy": self.chance, "R2": 0.0}.get(self.measure)

    @property
    def beats_guessing(self) -> bool | None:
        """Whether a candidate is significantly better than a constant prediction; None if this is unknown."""
        known = [c for c in self.candidates if math.isfinite(c.low)]
        return None if self.baseline is None or not known else any(c.low > self.baseline for c in known)

    @property
    def choice(self) -> Candidate | None:
        """The recommended candidate, or None if no accuracy could be estimated.

        It is the cheapest candidate that the policy allows, or the first by expected accuracy if none is cheaper. By
        default a candidate is allowed if it is statistically tied with the first, has a fair chance to be the best, is
        expected to lose at most WORTH, and is at least CHEAPER times cheaper. `prefer` changes this: "accuracy" allows
        no other than the first, "cheap" all that are tied and have a fair chance, and a number of points all that are
        expected to lose no more. A candidate of unknown cost is not cheaper.
        """
        first, *others = self.ranked or [Candidate("")]
        if math.isnan(first.expected):
            return None
        if self.prefer in _POLICIES:
            loss, least = _POLICIES[self.prefer]
            others = [c for c in others if c.may_be_best and c.best_share >= FAIR]
        else:
            loss, least = float(self.prefer) / (100 if self.percent else 1), 1.0
        near = [c for c in others if first.expected - c.expected <= loss + 1e-9 and _ratio(first, c) >= least]
        return max([first, *near], key=lambda c: (_ratio(first, c), -c.rank))

    @property
    def front(self) -> list[Candidate]:
        """The candidates that no other is both better and cheaper than (Pareto), cheapest first."""
        return pareto([c for c in self.ranked if math.isfinite(c.expected)])

    def to_dict(self) -> Values:
        """Return JSON values: NaN becomes None."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("estimates", "decision")}
        return plain | {
            **{name: getattr(self, name) for name in _DERIVED},
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "choice": None if self.choice is None else self.choice.to_dict(),
            "pareto": [candidate.label for candidate in self.front],
            "possibly_best": [candidate.label for candidate in self.equals],
            "record": self.record.to_dict(),
        }

    # ---- in words

    def expected_text(self, c: Candidate) -> str:
        """Return "87 ± 3 %", or "0.61 ± 0.04" for values; two limits, "97 to 100 %", if "±" would pass 0 or 100 %."""
        half = (c.high - c.low) / 2
        if not self.percent:
            return f"{c.expected:.2f} ± {half:.2f}"
        digits = 0 if 100 * half >= 0.95 else 1
        if c.expected - half < 0 or c.expected + half > 1:
            return f"{100 * c.low:.{digits}f} to {100 * c.high:.{digits}f} %"
        return f"{100 * c.expected:.{digits}f} ± {100 * half:.{digits}f} %"

    def points(self, value: float) -> str:
        """Return a difference of expected values: "1.5 points", or "0.015" for values."""
        return f"{100 * value:.1f} points" if self.percent else f"{value:.3f}"

    @property
    def targets_text(self) -> str:
        """Return " of 14 classes" or " with up to 5 labels"; nothing for values."""
        if self.measure.endswith("accuracy"):
            return f" of {self.classes} classes"
        return f" with up to {self.classes} labels" if self.measure == "precision" else ""

    @property
    def guessing_text(self) -> str:
        """Return the accuracy of guessing: "chance 7.1 %, most frequent class 12.3 %"; nothing if it is unknown."""
        known = (("chance", self.chance), ("most frequent class", self.majority))
        return ", ".join(f"{name} {100 * value:.1f} %" for name, value in known if value is not None)

    @property
    def all_notes(self) -> list[str]:
        """Return the notes of the ranking and of its candidates, each once."""
        return list(dict.fromkeys([*self.notes, *(note for c in self.candidates for note in c.notes)]))

    @property
    def recommendation(self) -> str:
        """What to do, as text; it recommends `choice`."""
        return self.describe({})

    def describe(self, names: DisplayNames) -> str:
        """Return the recommendation with models under their names in `names`."""
        choice, rivals = self.choice, self.ranked
        if choice is None:
            lost = "No accuracy could be estimated, so nothing is recommended: see the scores."
            return lost if rivals else "No checkpoint could be ranked."
        only = "it is the only candidate; " if len(rivals) == 1 else ""
        expect = f"expect {_MEASURES[self.measure]}{self.expected_text(choice)} with a linear head."
        texts = [f"Fine-tune {choice.named(names)}: {only}{expect}", self.guessing_verdict]
        if len(rivals) > 1:
            texts += [*self._compared(choice, rivals, names), self._reason(choice, names)]
        return " ".join(text for text in (*texts, self._finetuned(names)) if text)

    @property
    def guessing_verdict(self) -> str:
        """Whether no candidate is better than a constant prediction; nothing if one is better."""
        baseline, first = self.baseline, self.candidates[0]
        if baseline is None or self.beats_guessing is not False:
            return ""
        constant = f"the most frequent class ({100 * baseline:.1f} %)" if self.percent else "the mean of all values"
        verb = "beats guessing" if first.high <= baseline else "is significantly better than guessing"
        return f"No candidate {verb}: always predicting {constant}{'' if self.percent else ' (R² 0)'}."

    def _compared(self, choice: Candidate, rivals: Sequence[Candidate], names: DisplayNames) -> Iterator[str]:
        """Yield the significant lead; or which candidates are ruled out, which are tied, and what to do about many."""
        if self.clear:
            second = rivals[1]
            low, high = self.points(second.behind_low).removesuffix(" points"), self.points(second.behind_high)
            yield (
                f"The lead is significant: {self.points(second.behind)} on {second.named(names)}, the next (95 % "
                f"confidence interval {low} to {high} on the same {self.images:,} images)."
            )
            return
        if excluded := [c for c in rivals if not c.may_be_best]:
            many = len(excluded) > _NAMED
            yield f"Ruled out, significantly behind: {len(excluded) if many else self._listed(excluded, names)}."
        tied = [c for c in self.equals if c is not choice]
        lead = "The lead is not significant" if tied[0].expected != choice.expected else "No candidate leads"
        verb = "is" if len(tied) == 1 else "are"
        yield f"{lead}: {self._listed(tied, names)} {verb} statistically tied with it on {self.images:,} images."
        if len(tied) > _NAMED:
            yield f"Next: fine-tune some of these {len(self.equals)} (--finetune-top {_NAMED}), or add images."

    def _reason(self, choice: Candidate, names: Mapping[str, str]) -> str:
        """State why the choice is not the first by expected accuracy, or what a cheaper candidate would cost."""
        first = self.ranked[0]
        if choice is not first:
            equal = choice.expected == first.expected
            highest = "" if equal else f"{first.named(names)} has the highest estimate ({self.expected_text(first)}); "
            return highest + self._price(choice, first, names)
        cheaper = [c for c in self.front if _ratio(first, c) >= CHEAPER and c.expected < first.expected]
        if cheaper:
            return f"The cheaper {self._price(max(cheaper, key=lambda c: c.expected), first, names)}"
        return "" if self.clear else f"{choice.named(names)} has the highest estimate."

    def _price(self, other: Candidate, first: Candidate, names: Mapping[str, str]) -> str:
        """State how much cheaper a candidate is than the first, and what it is expected to lose."""
        measured = ""
        if first.latency and other.latency:
            measured = f", measured {1e3 * other.latency:.3g} ms instead of {1e3 * first.latency:.3g} ms for one image"
        return (
            f"{other.named(names)} is {_ratio(first, other):.1f} times cheaper ({amount(other.flops)} operations per "
            f"image{measured}) and is expected to lose {self.points(first.expected - other.expected)}."
        )

    def per_class_text(self, names: Mapping[str, str], lowest: int = 3) -> str:
        """Name the classes with the lowest accuracy of the choice; nothing if they are unknown."""
        known = {} if self.choice is None else {k: v for k, v in self.choice.per_class.items() if math.isfinite(v)}
        if self.choice is None or len(known) < 2:
            return ""
        worst = sorted(known.items(), key=lambda each: each[1])[:lowest]
        found = ", ".join(f"{name} {100 * value:.0f} %" for name, value in worst)
        return f"Lowest per-class accuracy of {self.choice.named(names)}: {found}."

    def front_text(self, names: Mapping[str, str]) -> str:
        """Name the Pareto front of expected accuracy and cost, cheapest first; nothing if it is one candidate."""
        if len(front := self.front) < 2:
            return ""
        shown = [f"{c.named(names)} ({self.expected_text(c)}, {_costs_text(c)})" for c in front]
        return f"No candidate is both better and cheaper than (Pareto front): {listed(shown, limit=6)}."

    def _listed(self, candidates: Sequence[Candidate], names: Mapping[str, str]) -> str:
        if len(candidates) > _NAMED:
            return listed([c.named(names) for c in candidates], limit=_NAMED)
        return listed([f"{c.named(names)} ({self.expected_text(c)})" for c in candidates])

    def _finetuned(self, names: DisplayNames) -> str:
        """Compare fine-tuned accuracies with the predictions; nothing if no candidate was fine-tuned."""
        trained = list({c.model: c for c in reversed(self.candidates) if math.isfinite(c.finetuned)}.values())[::-1]
        if not trained:
            return ""
        found = "; ".join(f"{c.named(names)} {100 * c.finetuned:.1f} %{_beside_prediction(c)}" for c in trained)
        text = f"Fine-tuned on the training images and tested: {found}."
        choice = next((c for c in trained if self.choice is not None and c.model == self.choice.model), None)
        if choice is not None and choice.low <= choice.finetuned <= choice.high:
            text += f" This confirms what was expected of {choice.named(names)}."
        return text


def pareto(candidates: Sequence[Candidate], cost: str = "flops") -> list[Candidate]:
    """Return the candidates with no cheaper and better alternative, cheapest first; those of unknown cost are left out.

    Args:
        cost: the attribute that holds the cost.
    """
    found: list[Candidate] = []
    priced = [c for c in candidates if getattr(c, cost)]
    learned = [c for c in priced if not is_reference(c.model)] or priced  # random weights are no choice
    for candidate in sorted(learned, key=lambda c: (getattr(c, cost), -c.expected)):
        if not found or candidate.expected > found[-1].expected:
            found.append(candidate)
    return found


def _plain(values: Mapping[str, Any]) -> Values:
    """Return a mapping with None in place of NaN."""
    return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in values.items()}


def _ratio(first: Candidate, other: Candidate) -> float:
    """Return how many times cheaper the other candidate is; 0 if this is unknown."""
    return first.flops / other.flops if first.flops and other.flops else float(first is other)


def _costs_text(c: Candidate) -> str:
    """Return what a candidate costs: "768 M operations, 12 ms"."""
    parts = [f"{amount(c.flops)} operations"] if c.flops else []
    parts += [f"{1e3 * c.latency:.3g} ms"] if c.latency else []
    return ", ".join(parts)


def _beside_prediction(c: Candidate) -> str:
    """Compare the fine-tuned accuracy with its prediction, and explain a significant gap."""
    if math.isnan(c.gap):  # no prediction, or a result of an older version
        return ""
    limits = f"95 % confidence interval {100 * c.gap_low:+.1f} to {100 * c.gap_high:+.1f}"
    text = f", {100 * c.gap:+.1f} points beside the prediction of {100 * c.expected:.1f} % ({limits})"
    if c.gap_low <= 0 <= c.gap_high:
        return f"{text}: no significant gap"
    tuned = f"{100 * c.tuning:+.1f} points, {100 * c.tuning_low:+.1f} to {100 * c.tuning_high:+.1f}"
    probe = f"the linear head alone reaches {100 * c.probe_tested:.1f} % on the same test images"
    if abs(c.probe_tested - c.expected) > abs(c.tuning):
        why = "mostly because the test images differ from the training images, or are preprocessed differently"
    else:
        why = "mostly because of fine-tuning"
    return f"{text}: {probe}, so the gap is {why} (fine-tuning itself: {tuned})"
