"""The candidates of a ranking, best first, and the ranking itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from unseen.benchmarks.rank.wording import choose, recommendation
from unseen.core.run_record import RunRecord
from unseen.stats import Candidate as Estimate
from unseen.stats import Decision, decide

POOLED = "pooled"


@dataclass(frozen=True)
class Candidate:
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
        mean_rank, rank_low, rank_high: over the counted scores, with its 95 % interval over resamples.
        first_share: share of resamples in which its mean rank is the smallest; NaN below 200 resamples.
        extraction_seconds, scoring_seconds: time of the computation; one extraction serves all layers.
        parameters, flops, dimensions: of the features.
        images_per_second: of the extraction on the machine that ran it.
        same_as: an earlier candidate that has the same weights.
        dropped_after: images after which successive halving dropped it; 0 otherwise.
        finetuned: test accuracy after fine-tuning; NaN without `--finetune-top`.
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
    rank_low: float = math.nan
    rank_high: float = math.nan
    first_share: float = math.nan
    extraction_seconds: float = 0.0
    scoring_seconds: float = 0.0
    parameters: int | None = None
    flops: int | None = None
    dimensions: int | None = None
    images_per_second: float | None = None
    same_as: str = ""
    dropped_after: int = 0
    finetuned: float = math.nan
    notes: tuple[str, ...] = ()
    error: str = ""
    revision: str = ""

    @property
    def label(self) -> str:
        """The model, with its layer unless that is the default one."""
        return self.named({})

    @property
    def compared_as(self) -> str:
        """The label under which a decision has it: that of the first candidate with the same weights."""
        return replace(self, model=self.same_as or self.model).label

    def named(self, names: Mapping[str, str]) -> str:
        """Return the label with the model under its name in `names`, if it has one there."""
        name = names.get(self.model, self.model)
        return name if self.layer == POOLED else f"{name} at {self.layer}"


@dataclass(frozen=True)
class CheckpointRanking:
    """The answer.

    Attributes:
        candidates: best first; those that failed at the end.
        scores: ids of the computed scores; `counted` those that the mean rank is over.
        images, total: images that were used, and images of the split.
        resamples: half-samples behind the intervals of mean ranks.
        seconds: of the cells, or of the whole run.
        measure: what `expected` is: "accuracy", "R2" of values, or "precision" of several labels.
        majority: share of the most frequent class; None if unknown.
        notes: about the whole ranking.
        parameters: the options that all of its cells share.
        top: how many candidates the recommendation names.
        page: the file of the page, if one was written.
        record: what the evaluations received, used and dropped, merged over candidates.
        estimates: by label, the outcomes that the decision compares.
        decision: which candidates differ and which may be the best; candidates of earlier rounds of successive
            halving are not in it.
    """

    dataset: str
    candidates: tuple[Candidate, ...]
    scores: tuple[str, ...]
    counted: tuple[str, ...]
    images: int
    total: int
    classes: int
    resamples: int
    seconds: float
    measure: str = "accuracy"
    majority: float | None = None
    notes: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    top: int = 1
    page: str = ""
    record: RunRecord = field(default_factory=RunRecord)
    estimates: Mapping[str, Estimate] = field(default_factory=dict, repr=False, compare=False)
    decision: Decision = field(default_factory=lambda: decide({}), repr=False, compare=False)

    @property
    def clear(self) -> bool:
        """Whether the first candidate is significantly better than all others, or the only one."""
        return len(self.equals) == 1

    @property
    def chance(self) -> float | None:
        """Accuracy of a random guess; None for values and several labels."""
        return 1 / self.classes if self.measure == "accuracy" and self.classes else None

    @property
    def baseline(self) -> float | None:
        """The expected value of a constant prediction: the most frequent class, or the mean; None if unknown."""
        return {"accuracy": self.majority, "R2": 0.0}.get(self.measure)

    @property
    def choice(self) -> Candidate | None:
        """The recommended candidate, or None if no accuracy could be estimated.

        It is the first of the order, or a cheaper candidate that is statistically tied with it.
        """
        return choose(self.candidates)

    @property
    def recommendation(self) -> str:
        """What to do, as text; it recommends `choice`."""
        return self.describe({})

    def describe(self, names: Mapping[str, str]) -> str:
        """Return the recommendation with models under their names in `names`."""
        return recommendation(self, lambda candidate: candidate.named(names))

    @property
    def equals(self) -> list[Candidate]:
        """The candidates that may be the best, in order; a checkpoint under two names once."""
        return [c for c in self.candidates if c.may_be_best and not c.same_as]

    @property
    def failed(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.error]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values: NaN becomes None."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("estimates", "decision")}
        choice = None if self.choice is None else _plain(self.choice)
        return plain | {
            "candidates": [_plain(candidate) for candidate in self.candidates],
            "choice": choice,
            "clear": self.clear,
            "chance": self.chance,
            "possibly_best": [candidate.label for candidate in self.equals],
            "recommendation": self.recommendation,
            "record": self.record.to_dict(),
        }


def _plain(candidate: Candidate) -> dict[str, Any]:
    values = asdict(candidate)
    return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in values.items()}
