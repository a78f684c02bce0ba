"""The answer, made when results are read: candidates in order, how sure that is, and one sentence to act on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from unseen.benchmarks.rank.combine import Combined, combine
from unseen.core.errors import DataError
from unseen.core.identity import canonical_json
from unseen.core.records import Cell, Result
from unseen.reports.wording import counted, listed
from unseen.results import comparable

#: Share of half-samples from which a lead is called clear.
_CLEAR = 0.8
_POOLED = "pooled"


@dataclass(frozen=True)
class Candidate:
    """One checkpoint (or one layer of it) and how it ranks.

    Attributes:
        model, layer: what was scored.
        rank: 1 is the best; 0 for a candidate that failed.
        scores: by id; a score that could not be computed is missing.
        mean_rank, low, high: mean rank over the counted scores, and its 95 % interval over resamples.
        first_share: share of resamples in which it comes first; ties are shared.
        extraction_seconds, scoring_seconds: what it cost when it was computed; one extraction serves all layers.
        parameters, flops, dimensions: of the features.
        notes: what a reader of its scores should know.
        error: why it could not be ranked.
        revision: of the weights and the data.
    """

    model: str
    layer: str = _POOLED
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
    revision: str = ""

    @property
    def label(self) -> str:
        """The model, with its layer where that is not the usual one."""
        return self.model if self.layer == _POOLED else f"{self.model} at {self.layer}"


@dataclass(frozen=True)
class CheckpointRanking:
    """The answer.

    Attributes:
        candidates: best first; those that failed at the end.
        scores: the ids asked for; `counted` those that went into the mean rank.
        images, total: images that were used, and that there are.
        resamples: half-samples behind the intervals and shares.
        seconds: of the cells, or of the whole run where there was one.
        recommendation: one sentence.
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
    notes: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    page: str = ""

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
        """One result per candidate, with its place among the others: what charts and tables of the order show."""
        found = []
        for candidate in self.candidates:
            parameters = {**self.parameters, "layer": candidate.layer}
            cell = Cell("rank", candidate.model, self.dataset, parameters, revision=candidate.revision)
            metrics = {"mean_rank": candidate.mean_rank, "first_share": candidate.first_share, **candidate.scores}
            if math.isfinite(candidate.low):
                metrics |= {"mean_rank_low": candidate.low, "mean_rank_high": candidate.high}
            known = {} if candidate.error else {k: v for k, v in metrics.items() if math.isfinite(v)}
            found.append(Result(cell, metrics=known, error=candidate.error, seconds=candidate.scoring_seconds))
        return found


def answer(results: Iterable[Result], *, top: int = 1, notes: Sequence[str] = ()) -> CheckpointRanking:
    """The order of the checkpoints that some results are about.

    Args:
        results: of the rank benchmark, on one dataset and with the same options; failures among them.
        top: how many checkpoints the recommendation names.
        notes: said of the whole, before what the results say.

    Raises:
        DataError: there is no score, or the results do not belong together.
    """
    groups = grouped(results)
    if len(groups) != 1:
        found = "; ".join(f"{group[0].cell.dataset} {canonical_json(shared(group[0].cell))}" for group in groups)
        raise DataError(f"one order needs the scores of one dataset with the same options; found {found or 'none'}.")
    (own,) = groups
    scores = tuple(dict.fromkeys(str(result.cell.parameters["score"]) for result in own))
    candidates = _candidates(own)
    able = {c: found for c, found in candidates.items() if not _reason(found)}
    combined = combine(list(able.values()), scores)
    ordered = _ordered([_candidate(*c, found) for c, found in able.items()], combined)
    failed = (_candidate(*c, found) for c, found in candidates.items() if c not in able)
    details = next((result.details for result in own if result.ok), {})
    return CheckpointRanking(
        dataset=own[0].cell.dataset,
        candidates=(*ordered, *failed),
        scores=scores,
        counted=combined.counted,
        images=details.get("images", 0),
        total=details.get("total", 0),
        classes=details.get("classes", 0),
        resamples=len(combined.draws),
        seconds=sum(result.seconds for result in own),
        recommendation=recommend(
            ordered, combined.counted, len(combined.draws), top, asked=bool(own[0].cell.parameters["resamples"])
        ),
        notes=(*notes, *combined.notes, *_same(able)),
        parameters=shared(own[0].cell),
    )


def grouped(results: Iterable[Result]) -> list[list[Result]]:
    """Scores over features that may stand in one order: same data, and the same options but score and layer."""
    # Neither the truth nor what was trained: half-samples of them are not had.
    own = [result for result in results if "resamples" in result.cell.parameters]
    groups = [list(group.results) for group in comparable(own, axes=("score", "layer"), over=())]
    for result in own:
        if not result.ok:  # it stands with those that it would have stood with
            alike = [g for g in groups if _place(g[0].cell) == _place(result.cell)]
            alike[-1].append(result) if alike else groups.append([result])
    return groups


def _place(cell: Cell) -> tuple[str, str, dict[str, Any]]:
    return cell.dataset, cell.data, shared(cell)


def shared(cell: Cell) -> dict[str, Any]:
    """The options that the cells of one order have in common."""
    return {name: value for name, value in cell.parameters.items() if name not in ("score", "layer")}


def _candidates(results: Sequence[Result]) -> dict[tuple[str, str], dict[str, Result]]:
    """Results by (model, layer) and score; what has no layer, such as LEEP, is every layer's."""
    found: dict[tuple[str, str], dict[str, Result]] = {}
    layers = list(dict.fromkeys(str(r.cell.parameters["layer"]) for r in results if "layer" in r.cell.parameters))
    for result in results:
        own = result.cell.parameters.get("layer")
        for layer in [own] if own is not None else layers or [_POOLED]:
            found.setdefault((result.cell.model, str(layer)), {})[str(result.cell.parameters["score"])] = result
    return found


def _reason(results: Mapping[str, Result]) -> str:
    """Why a candidate cannot be ranked: nothing could be computed at its layer."""
    own = [result for result in results.values() if "layer" in result.cell.parameters] or list(results.values())
    return "" if any(result.ok for result in own) else own[0].error


def _candidate(model: str, layer: str, results: Mapping[str, Result]) -> Candidate:
    able = sorted((r for r in results.values() if r.ok), key=lambda r: "layer" not in r.cell.parameters)
    known = [result.details for result in able]  # those of its own layer first
    notes = [note for details in known for note in details["notes"]]
    skipped = max((sum(len(part) for part in details.get("skipped", {}).values()) for details in known), default=0)
    if skipped:
        notes.append(f"{counted(skipped, 'image')} could not be read and took no part")
    first: Mapping[str, Any] = known[0] if known else {}
    return Candidate(
        model=model,
        layer=layer,
        extraction_seconds=max((details["extraction_seconds"] for details in known), default=0.0),
        scoring_seconds=sum(result.seconds for result in results.values()),
        parameters=first.get("parameters"),
        flops=first.get("flops"),
        dimensions=first.get("dimensions"),
        notes=tuple(notes),
        error=_reason(results),
        revision=next(iter(results.values())).cell.revision,
    )


def _ordered(candidates: Sequence[Candidate], combined: Combined) -> list[Candidate]:
    """Candidates by mean rank, with their scores, intervals and shares filled in."""
    resampled = len(combined.draws) > 0
    shares = combined.first_shares if resampled else np.full(len(candidates), np.nan)
    bounds = np.quantile(combined.draws, [0.025, 0.975], axis=0) if resampled else np.full((2, len(candidates)), np.nan)
    order = sorted(range(len(candidates)), key=lambda i: (combined.mean_ranks[i], -np.nan_to_num(shares[i]), i))
    return [
        replace(
            candidates[i],
            rank=place,
            scores={name: column[i] for name, column in combined.scores.items() if np.isfinite(column[i])},
            mean_rank=float(combined.mean_ranks[i]),
            low=float(bounds[0, i]),
            high=float(bounds[1, i]),
            first_share=float(shares[i]),
        )
        for place, i in enumerate(order, start=1)
    ]


def _same(candidates: Mapping[tuple[str, str], Mapping[str, Result]]) -> list[str]:
    """A note for checkpoints that are one under two names: the same weights, looked at in the same way."""
    seen: dict[tuple[str, str], str] = {}
    notes = []
    for (model, layer), results in candidates.items():
        weights = next(str(result.details["checkpoint"]) for result in results.values() if result.ok)
        first = seen.setdefault((weights, layer), model)
        if first != model:
            notes.append(f"{model} has the weights of {first}: they are one checkpoint under two names")
    return list(dict.fromkeys(notes))


def recommend(
    ordered: Sequence[Candidate], counted: Sequence[str], resamples: int, top: int, *, asked: bool = True
) -> str:
    """One sentence: which checkpoint to fine-tune, and how sure that is; `asked` is whether resamples were wanted."""
    if not ordered:
        return "No checkpoint could be ranked."
    if not counted:
        return "No score could be computed for every checkpoint, so there is no common order: see the table."
    best, by = ordered[0], f"by the mean rank over {', '.join(counted)}"
    if len(ordered) == 1:
        return f"Fine-tune {best.label}: it is the only candidate."
    if not resamples:
        lack = "too few images" if asked else "no half-samples"
        return f"Fine-tune {best.label}: it comes first {by}; there are {lack} to say how sure that is."
    share = f"{100 * best.first_share:.0f} % of {resamples} resamples"
    others = [candidate.label for candidate in ordered[1 : max(top, 1)]]
    then = f" Then try {listed(others)}." if others else ""
    if best.first_share >= _CLEAR:
        return f"Fine-tune {best.label}: it comes first in {share} ({by}).{then}"
    rival = max(ordered[1:], key=lambda candidate: candidate.first_share)
    return (
        f"Fine-tune {best.label}, but the lead is not clear: it comes first in {share}, {rival.label} in "
        f"{100 * rival.first_share:.0f} % ({by}).{then}"
    )
