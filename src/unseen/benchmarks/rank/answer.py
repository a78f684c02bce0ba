"""The answer, made when results are read: the expected accuracy of each candidate and the one to fine-tune.

Candidates are ordered by the cross-validated accuracy of a linear head on their features. `stats.decide` compares them
on the same images; of the candidates that are statistically tied for the first place, the cheapest is recommended. The
transferability scores are further evidence: their mean rank does not change the order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unseen.benchmarks.rank.candidates import POOLED
from unseen.benchmarks.rank.candidates import Candidate as Candidate
from unseen.benchmarks.rank.candidates import CheckpointRanking as CheckpointRanking
from unseen.benchmarks.rank.combine import Combined, combine
from unseen.benchmarks.rank.details import RankDetails, RankParameters
from unseen.benchmarks.rank.estimates import estimates
from unseen.benchmarks.rank.scoring import EXPECTED, read_hits
from unseen.core.errors import DataError
from unseen.core.identity import canonical_json
from unseen.core.records import Cell, Result
from unseen.results import comparable
from unseen.results.table import records_by_dataset
from unseen.stats import Candidate as Estimate
from unseen.stats import Decision, decide

#: With fewer resamples, the share of resamples in which a candidate comes first is not shown.
SHARE_RESAMPLES = 200


def answer(
    results: Iterable[Result], *, top: int = 1, notes: Sequence[str] = (), measure: str = ""
) -> CheckpointRanking:
    """Return the ranking of the checkpoints of some results.

    Args:
        results: of the rank benchmark, on one dataset and with the same options; failures among them.
        top: how many checkpoints the recommendation names.
        notes: about the whole ranking, before the notes of the results.
        measure: what the expected values are; by default what the results state, or accuracy.

    Raises:
        DataError: there is no score, or the results do not belong together.
    """
    groups = grouped(results)
    if len(groups) != 1:
        found = "; ".join(f"{group[0].cell.dataset} {canonical_json(shared(group[0].cell))}" for group in groups)
        raise DataError(f"one order needs the scores of one dataset with the same options; found {found or 'none'}.")
    (own,) = groups
    scores = tuple(name for name in dict.fromkeys(_parameters(r).score for r in own) if name != EXPECTED)
    candidates = _candidates(own)
    able = {c: found for c, found in candidates.items() if not _reason(found)}
    combined = combine(list(able.values()), scores)
    twins = _twins(able)
    ranked = [_candidate(*c, found, twins) for c, found in able.items()]
    compared = _estimates(ranked, list(able.values()))
    decision = decide(compared, seed=_parameters(own[0]).seed)
    ordered = _ordered(ranked, decision, combined)
    failed = (_candidate(*c, found, {}) for c, found in candidates.items() if c not in able)
    details = RankDetails.read(next((result.details for result in own if result.ok), {}))
    return CheckpointRanking(
        dataset=own[0].cell.dataset,
        candidates=(*ordered, *failed),
        scores=scores,
        counted=combined.counted,
        images=details.images,
        total=details.total,
        classes=details.classes,
        resamples=len(combined.draws),
        seconds=sum(result.seconds for result in own),
        measure=measure or details.measure,
        majority=details.majority,
        notes=(*notes, *combined.notes, *_twin_notes(twins)),
        parameters=shared(own[0].cell),
        record=records_by_dataset(own)[own[0].cell.dataset],
        top=top,
        estimates=compared,
        decision=decision,
    )


def grouped(results: Iterable[Result]) -> list[list[Result]]:
    """Return the scores over features that can be ranked together: same data, same options except score and layer."""
    everything = list(results)
    # Fine-tuned accuracy and scores that train have no half-samples.
    own = [result for result in everything if _parameters(result).resamples is not None]
    groups = [list(group.results) for group in comparable(own, axes=("score", "layer"), over=())]
    for result in own:
        if not result.ok:  # it belongs to the group that it would have belonged to
            alike = [g for g in groups if _place(g[0].cell) == _place(result.cell)]
            alike[-1].append(result) if alike else groups.append([result])
    for result in everything:  # early-stopped fine-tuning on the same images is one more score
        if _parameters(result).early_learning_rate is not None:
            for group in groups:
                same = group[0].cell.dataset == result.cell.dataset and group[0].cell.data == result.cell.data
                group += [result] if same else []
    return groups


def _place(cell: Cell) -> tuple[str, str, dict[str, Any]]:
    return cell.dataset, cell.data, shared(cell)


def shared(cell: Cell) -> dict[str, Any]:
    """Return the options that the cells of one ranking have in common."""
    return {name: value for name, value in cell.parameters.items() if name not in ("score", "layer")}


def _parameters(result: Result) -> RankParameters:
    return RankParameters.read(result.cell.parameters)


def _candidates(results: Sequence[Result]) -> dict[tuple[str, str], dict[str, Result]]:
    """Return results by (model, layer) and score; a score without a layer, such as LEEP, belongs to every layer."""
    found: dict[tuple[str, str], dict[str, Result]] = {}
    layers = list(dict.fromkeys(layer for r in results if (layer := _parameters(r).layer) is not None))
    for result in results:
        own = _parameters(result)
        for layer in [own.layer] if own.layer is not None else layers or [POOLED]:
            found.setdefault((result.cell.model, layer), {})[own.score] = result
    return found


def _reason(results: Mapping[str, Result]) -> str:
    """Return why a candidate cannot be ranked: no score could be computed at its layer."""
    own = [result for result in results.values() if _parameters(result).layer is not None] or list(results.values())
    return "" if any(result.ok for result in own) else own[0].error


def _candidate(
    model: str, layer: str, results: Mapping[str, Result], twins: Mapping[tuple[str, str], str]
) -> Candidate:
    able = sorted((r for r in results.values() if r.ok), key=lambda r: _parameters(r).layer is None)
    known = [RankDetails.read(result.details) for result in able]  # scores of the layer first
    first = known[0] if known else RankDetails()
    return Candidate(
        model=model,
        layer=layer,
        extraction_seconds=max((details.extraction_seconds for details in known), default=0.0),
        scoring_seconds=sum(result.seconds for result in results.values()),
        parameters=first.parameters,
        flops=first.flops,
        dimensions=first.dimensions,
        images_per_second=first.images_per_second,
        same_as=twins.get((model, layer), ""),
        notes=tuple(dict.fromkeys(note for details in known for note in details.notes)),
        error=_reason(results),
        revision=next(iter(results.values())).cell.revision,
    )


def _estimates(candidates: Sequence[Candidate], results: Sequence[Mapping[str, Result]]) -> dict[str, Estimate]:
    """Return the expected accuracies to compare, by label; a checkpoint under two names once."""
    found = {c.label: r[EXPECTED] for c, r in zip(candidates, results, strict=True) if EXPECTED in r and not c.same_as}
    able = {label: result for label, result in found.items() if result.ok}
    if len({result.cell.version for result in able.values()}) > 1:
        return {}
    return estimates({label: read_hits(RankDetails.read(result.details).hits) for label, result in able.items()})


def _with_decision(candidate: Candidate, decision: Decision) -> Candidate:
    """Return the candidate with its expected accuracy and how it compares with the others, as the decision has it."""
    name = candidate.compared_as
    if name not in decision.intervals:
        return candidate
    value = decision.intervals[name]
    behind = decision.behind.get(name)
    return replace(
        candidate,
        expected=value.value,
        low=value.low,
        high=value.high,
        behind=behind.value if behind else 0.0,
        behind_low=behind.low if behind else 0.0,
        behind_high=behind.high if behind else 0.0,
        may_be_best=name in (decision.possibly_best or decision.order[:1]),
        best_share=decision.best_share[name],
    )


def _ordered(candidates: Sequence[Candidate], decision: Decision, combined: Combined) -> list[Candidate]:
    """Return candidates in the order of the decision, then by mean rank, with their scores."""
    resampled, enough = len(combined.draws) > 0, len(combined.draws) >= SHARE_RESAMPLES
    shares = combined.first_shares if enough else np.full(len(candidates), np.nan)
    bounds = np.quantile(combined.draws, [0.025, 0.975], axis=0) if resampled else np.full((2, len(candidates)), np.nan)
    places = {name: place for place, name in enumerate(decision.order)}

    def place(i: int) -> tuple[float, float, bool, int]:
        c = candidates[i]
        return places.get(c.compared_as, math.inf), combined.mean_ranks[i], bool(c.same_as), i

    return [
        replace(
            _with_decision(candidates[i], decision),
            rank=number,
            scores={name: column[i] for name, column in combined.scores.items() if np.isfinite(column[i])},
            mean_rank=float(combined.mean_ranks[i]) if combined.counted else math.nan,
            rank_low=float(bounds[0, i]),
            rank_high=float(bounds[1, i]),
            first_share=float(shares[i]),
        )
        for number, i in enumerate(sorted(range(len(candidates)), key=place), start=1)
    ]


def _twins(candidates: Mapping[tuple[str, str], Mapping[str, Result]]) -> dict[tuple[str, str], str]:
    """Return checkpoints with the weights and preprocessing of an earlier one, with the name of that one."""
    seen: dict[tuple[str, str], str] = {}
    found = {}
    for (model, layer), results in candidates.items():
        weights = next(c for r in results.values() if r.ok and (c := RankDetails.read(r.details).checkpoint))
        first = seen.setdefault((weights, layer), model)
        if first != model:
            found[model, layer] = first
    return found


def _twin_notes(twins: Mapping[tuple[str, str], str]) -> list[str]:
    notes = [
        f"{m} has the weights of {first}: they are one checkpoint under two names" for (m, _), first in twins.items()
    ]
    return list(dict.fromkeys(notes))


def with_truth(ranking: CheckpointRanking, results: Iterable[Result]) -> CheckpointRanking:
    """Return the ranking with the test accuracy of the candidates that were fine-tuned."""
    found = {result.cell.model: result for result in results}
    reached = {model: result.metrics["top1"] for model, result in found.items() if result.ok}
    candidates = tuple(replace(c, finetuned=reached.get(c.model, math.nan)) for c in ranking.candidates)
    notes = [f"fine-tuning {model} failed: {result.error}" for model, result in found.items() if not result.ok]
    return replace(ranking, candidates=candidates, notes=(*ranking.notes, *notes))
