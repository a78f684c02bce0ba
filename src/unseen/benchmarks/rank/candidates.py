"""What an answer is made of: candidates, best first, and the ranking that holds them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from unseen.core.records import Cell, Result

POOLED = "pooled"


@dataclass(frozen=True)
class Candidate:
    """One checkpoint (or one layer of it) and what to expect of it.

    Attributes:
        model, layer: what was looked at.
        rank: 1 is the best; 0 for a candidate that failed.
        expected, low, high: accuracy of a linear head on other images like these, and its 95 % interval.
        behind, behind_low, behind_high: how much less it is than the first one's, paired on the same images; the
            interval holds for all candidates together.
        may_be_best: whether the images leave it open that it is the best.
        best_share: how often it comes first when the images are drawn anew.
        scores: by id; a score that could not be computed is missing.
        mean_rank, rank_low, rank_high: over the counted scores, and its 95 % interval over resamples.
        first_share: share of resamples in which its mean rank is the least; NaN below 200 resamples.
        extraction_seconds, scoring_seconds: what it cost when it was computed; one extraction serves all layers.
        parameters, flops, dimensions: of the features.
        images_per_second: of the extraction on the machine that made it.
        same_as: the candidate that has the same weights and stands before it.
        dropped_after: images after which it was dropped, where others went on; 0 otherwise.
        finetuned: test accuracy of fine-tuning it, where that was asked for.
        notes: what a reader should know.
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
        """The model, with its layer where that is not the usual one."""
        return self.model if self.layer == POOLED else f"{self.model} at {self.layer}"


@dataclass(frozen=True)
class CheckpointRanking:
    """The answer.

    Attributes:
        candidates: best first; those that failed at the end.
        scores: the ids asked for; `counted` those that went into the mean rank.
        images, total: images that were used, and that there are.
        resamples: half-samples behind the intervals of mean ranks.
        seconds: of the cells, or of the whole run where there was one.
        recommendation: what to do, in words.
        clear: whether one candidate alone may be the best: on equal candidates it is so in 5 to 10 % of data sets.
        choice: the candidate that is recommended; None where nothing could be ranked.
        measure: what `expected` is: "accuracy", "R2" of values, or "precision" of several labels.
        notes: of the whole.
        parameters: the options that all of its cells share.
        page: the file of the page, where one was written.
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
    recommendation: str
    clear: bool = False
    choice: Candidate | None = None
    measure: str = "accuracy"
    notes: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    page: str = ""

    @property
    def best(self) -> Candidate | None:
        """The first of the order; `choice` may be a cheaper one that cannot be told apart from it."""
        return next((c for c in self.candidates if not c.error), None)

    @property
    def equals(self) -> list[Candidate]:
        """Those that may be the best, in order; one checkpoint under two names stands once."""
        return [c for c in self.candidates if c.may_be_best and not c.same_as]

    @property
    def failed(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.error]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: NaN becomes None."""
        values = asdict(self)
        for candidate in [*values["candidates"], values["choice"] or {}]:
            for name, value in candidate.items():
                if isinstance(value, float) and math.isnan(value):
                    candidate[name] = None
        return values

    def results(self) -> list[Result]:
        """One result per candidate, in order: what charts and tables show."""
        found = []
        for candidate in self.candidates:
            parameters = {**self.parameters, "layer": candidate.layer}
            cell = Cell("rank", candidate.model, self.dataset, parameters, revision=candidate.revision)
            metrics = {
                "expected": candidate.expected,
                "expected_low": candidate.low,
                "expected_high": candidate.high,
                "mean_rank": candidate.mean_rank,
                "mean_rank_low": candidate.rank_low,
                "mean_rank_high": candidate.rank_high,
                **candidate.scores,
            }
            known = {} if candidate.error else {k: v for k, v in metrics.items() if math.isfinite(v)}
            found.append(Result(cell, metrics=known, error=candidate.error, seconds=candidate.scoring_seconds))
        return found
