"""What `rank_checkpoints` gives back: candidates in order, and one sentence to act on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from unseen.core.records import Cell, Result


@dataclass(frozen=True)
class Candidate:
    """One checkpoint (or one layer of it) and how it ranks.

    Attributes:
        model, layer: what was scored.
        rank: 1 is the best; 0 for a candidate that failed.
        scores: by id; a score that could not be computed is missing.
        mean_rank, low, high: mean rank over the counted scores, and its 95 % interval over resamples.
        first_share: share of resamples in which it comes first; ties are shared.
        extraction_seconds, scoring_seconds: what it cost now; 0 where everything was in the store.
        parameters, flops, dimensions: of the features.
        notes: what a reader of its scores should know.
        error: why it could not be ranked.
    """

    model: str
    layer: str = "pooled"
    rank: int = 0
    scores: Mapping[str, float] = field(default_factory=dict)
    mean_rank: float = math.nan
    low: float = math.nan
    high: float = math.nan
    first_share: float = math.nan
    extraction_seconds: float = 0.0
    scoring_seconds: float = 0.0
    parameters: int | None = None
    flops: int | None = None
    dimensions: int | None = None
    notes: tuple[str, ...] = ()
    error: str = ""

    @property
    def label(self) -> str:
        """The model, with its layer where that is not the usual one."""
        return self.model if self.layer == "pooled" else f"{self.model} at {self.layer}"


@dataclass(frozen=True)
class CheckpointRanking:
    """The answer.

    Attributes:
        candidates: best first; those that failed at the end.
        scores: the ids asked for; `counted` those that went into the mean rank.
        images, total: images that were used, and that there are.
        resamples: half-samples behind the intervals and shares.
        recommendation: one sentence.
        notes: of the whole run.
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
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Candidate | None:
        return next((c for c in self.candidates if not c.error), None)

    @property
    def failed(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.error]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: NaN becomes None."""
        values = asdict(self)
        for candidate in values["candidates"]:
            for name, value in candidate.items():
                if isinstance(value, float) and math.isnan(value):
                    candidate[name] = None
        return values

    def results(self) -> list[Result]:
        """One result per candidate, as a report page takes them."""
        found = []
        for candidate in self.candidates:
            cell = Cell("rank", candidate.model, self.dataset, {"layer": candidate.layer})
            if candidate.error:
                found.append(Result(cell, error=candidate.error))
                continue
            metrics = {"mean_rank": candidate.mean_rank, "first_share": candidate.first_share, **candidate.scores}
            if math.isfinite(candidate.low):
                metrics |= {"mean_rank_low": candidate.low, "mean_rank_high": candidate.high}
            details = {
                "recommendation": self.recommendation,
                "counted": list(self.counted),
                "images": self.images,
                "total": self.total,
                "classes": self.classes,
                "resamples": self.resamples,
                "rank": candidate.rank,
                "notes": [*self.notes, *candidate.notes],
            }
            seconds = candidate.extraction_seconds + candidate.scoring_seconds
            found.append(Result(cell, metrics=metrics, seconds=seconds, details=details))
        return found
