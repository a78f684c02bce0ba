"""The answer, made when results are read: the expected accuracy of each candidate and the one to fine-tune.

Candidates are ordered by the cross-validated accuracy of a linear head on their features. `stats.decide` compares them
on the same images; the first is recommended, unless one that is statistically tied with it is much cheaper. The
transferability scores are further evidence: their mean rank does not change the order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from unseen.benchmarks.rank.candidates import Candidate as Candidate
from unseen.benchmarks.rank.candidates import CheckpointRanking as CheckpointRanking
from unseen.benchmarks.rank.details import EXPECTED, POOLED, TRUTH, Facts, RankDetails, RankParameters
from unseen.benchmarks.rank.expected import estimates, unpacked
from unseen.core.arrays import FloatArray
from unseen.core.errors import DataError
from unseen.core.identity import Values, canonical_json
from unseen.core.records import Cell, Result
from unseen.results import comparable
from unseen.results.table import records_by_dataset
from unseen.stats import (
    Decision,
    Difference,
    Interval,
    accuracy_interval,
    decide,
    paired_difference,
    unpaired_difference,
)


def answer(results: Iterable[Result], *, notes: Sequence[str] = (), prefer: str = "") -> CheckpointRanking:
    """Return the ranking of the checkpoints of some results.

    Args:
        results: of the rank benchmark, on one dataset and with the same options; failures among them.
        notes: about the whole ranking, before the notes of the results.
        prefer: the policy of the recommendation (`CheckpointRanking.choice`).

    Raises:
        DataError: there is no score, or the results do not belong together.
    """
    groups = grouped(results)
    if len(groups) != 1:
        found = "; ".join(f"{group[0].cell.dataset} {canonical_json(shared(group[0].cell))}" for group in groups)
        raise DataError(f"one order needs the scores of one dataset with the same options; found {found or 'none'}.")
    (own,) = groups
    by_candidate = _by_candidate(own)
    candidates = [_candidate(*place, found) for place, found in by_candidate.items()]
    ranked = [c for c in candidates if not c.error]
    probes = {c.label: by_candidate[c.model, c.layer].get(EXPECTED) for c in ranked}
    read = {label: _details(result) for label, result in probes.items() if result is not None and result.ok}
    judged = {label: details for label, details in read.items() if details.outcomes}  # older results have none
    compared = estimates(judged)
    decision = decide(compared, seed=_parameters(own[0]).seed)
    scores = tuple(name for name in dict.fromkeys(_parameters(r).score for r in own) if name != EXPECTED)
    without = {name: [c for c in ranked if name not in c.scores] for name in scores if ranked}
    counted = tuple(name for name, lacking in without.items() if not lacking)
    lost = [
        f"{name} does not count, since {len(lacking)} of {len(ranked)} lack it: "
        + next((r.error for c in lacking if (r := by_candidate[c.model, c.layer].get(name))), "it was not computed")
        for name, lacking in without.items()
        if lacking
    ]
    details = _details(next((result for result in own if result.ok), own[0]))
    return CheckpointRanking(
        dataset=own[0].cell.dataset,
        candidates=(*_ordered(ranked, decision, counted), *(c for c in candidates if c.error)),
        scores=scores,
        counted=counted,
        images=details.images,
        total=details.total,
        classes=details.classes,
        seconds=sum(result.seconds for result in own),
        measure=details.measure,
        majority=details.majority,
        evaluated=max((d.evaluated for d in judged.values()), default=0),
        groups=max((d.groups for d in judged.values()), default=0),
        prefer=prefer,
        notes=(*notes, *_fold_notes(judged.values()), *lost),
        parameters=shared(own[0].cell),
        record=records_by_dataset(own)[own[0].cell.dataset],
        estimates=compared,
        decision=decision,
    )


def _fold_notes(judged: Iterable[RankDetails]) -> list[str]:
    """State which images share a fold, and which have no outcome."""
    numbers = [(d.groups, d.copies, d.images - d.evaluated) for d in judged]
    groups, copies, alone = map(max, zip(*numbers, strict=True)) if numbers else (0, 0, 0)
    near = "images are near-duplicates of others" if copies > 1 else "image is a near-duplicate of another"
    found = {
        f"{groups:,} groups of images: cross-validation divides none": groups,
        f"{copies:,} {near}, by their features: near-duplicates share a fold": copies,
        f"{alone:,} images are the only ones of their class (or group of their class), so that their accuracy is "
        "extrapolated from the other classes": alone,
    }
    return [text for text, number in found.items() if number]


def rankings(results: Iterable[Result], prefer: str = "") -> list[CheckpointRanking]:
    """Return one ranking per dataset and setting, with the accuracy of candidates that were fine-tuned."""
    everything = list(results)
    truth = truth_results(everything)
    return [
        with_truth(answer(group, prefer=prefer), [r for r in truth if r.cell.dataset == group[0].cell.dataset])
        for group in grouped(everything)
    ]


def truth_results(results: Iterable[Result]) -> list[Result]:
    """Return the results that hold fine-tuned accuracy."""
    return [r for r in results if r.ok and _parameters(r).score == TRUTH]


def with_truth(ranking: CheckpointRanking, results: Iterable[Result]) -> CheckpointRanking:
    """Return the ranking with the test accuracy of the candidates that were fine-tuned."""
    found = {result.cell.model: result for result in results}
    candidates = tuple(
        replace(c, finetuned=result.metrics["top1"], **_beside(c, _details(result)))
        if (result := found.get(c.model)) is not None and result.ok
        else c
        for c in ranking.candidates
    )
    notes = [f"fine-tuning {model} failed: {result.error}" for model, result in found.items() if not result.ok]
    return replace(ranking, candidates=candidates, notes=(*ranking.notes, *notes))


def _beside(c: Candidate, details: RankDetails) -> Values:
    """Return the fields that compare the outcomes of fine-tuning with the prediction and with the linear head."""
    if not details.outcomes or not details.probe_outcomes:
        return {}
    both = np.stack([unpacked(details.outcomes), unpacked(details.probe_outcomes)])
    tuned, probe = both[:, np.isfinite(both).all(axis=0)]
    gap = unpaired_difference(accuracy_interval(tuned), Interval(c.expected, c.low, c.high, n=len(tuned)))
    return {
        "probe_tested": float(probe.mean()),
        **_limits("gap", gap),
        **_limits("tuning", paired_difference(tuned, probe)),
    }


def _limits(name: str, found: Interval | Difference) -> Values:
    """Return the fields of a value and its confidence limits."""
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def grouped(results: Iterable[Result]) -> list[list[Result]]:
    """Return the scores over features that can be ranked together: same data, same options except score and layer."""
    everything = [(result, _parameters(result)) for result in results]
    own = [r for r, options in everything if options.is_scored]
    groups = [list(group.results) for group in comparable(own, axes=("score", "layer"), over=())]
    for result in own:
        if not result.ok:  # it belongs to the group that it would have belonged to
            alike = [g for g in groups if _place(g[0].cell) == _place(result.cell)]
            alike[-1].append(result) if alike else groups.append([result])
    for group in groups:  # early-stopped fine-tuning on the same images is one more score
        same = _place(group[0].cell)[:2]
        group += [r for r, o in everything if o.early_learning_rate is not None and _place(r.cell)[:2] == same]
    return groups


def _place(cell: Cell) -> tuple[str, str, Values]:
    return cell.dataset, cell.data, shared(cell)


def shared(cell: Cell) -> Values:
    """Return the options that the cells of one ranking have in common."""
    return {name: value for name, value in cell.parameters.items() if name not in ("score", "layer")}


def _parameters(result: Result) -> RankParameters:
    return RankParameters.read(result.cell.parameters)


def _details(result: Result) -> RankDetails:
    return RankDetails.read(result.details)


def _by_candidate(results: Sequence[Result]) -> dict[tuple[str, str], dict[str, Result]]:
    """Return results by (model, layer) and score; a score without a layer, such as LEEP, belongs to every layer."""
    found: dict[tuple[str, str], dict[str, Result]] = {}
    layers = list(dict.fromkeys(layer for r in results if (layer := _parameters(r).layer))) or [POOLED]
    for result in results:
        own = _parameters(result)
        for layer in [own.layer] if own.layer else layers:
            found.setdefault((result.cell.model, layer), {})[own.score] = result
    return found


def _candidate(model: str, layer: str, results: Mapping[str, Result]) -> Candidate:
    """Return a candidate before it is compared; it failed if no score could be computed at its layer."""
    order = sorted(results.values(), key=lambda r: (not _parameters(r).layer, _parameters(r).score != EXPECTED))
    at_layer = [r for r in order if _parameters(r).layer] or order
    known = [_details(r) for r in order if r.ok]
    first = known[0] if known else RankDetails()
    return Candidate(
        model=model,
        layer=layer,
        **{f.name: getattr(first, f.name) for f in fields(Facts)},
        scores={n: r.metrics["score"] for n, r in results.items() if n != EXPECTED and "score" in r.metrics},
        per_class=_per_class(first),
        notes=tuple(dict.fromkeys(note for details in known for note in details.notes)),
        error="" if any(r.ok for r in at_layer) else at_layer[0].error,
        revision=at_layer[0].cell.revision,
    )


def _per_class(details: RankDetails) -> dict[str, float]:
    """Return the cross-validated accuracy of every class; NaN for a class without an evaluated image."""
    if not details.labels:
        return {}
    outcomes, labels = unpacked(details.outcomes), unpacked(details.labels)
    own = {name: outcomes[(labels == i) & np.isfinite(outcomes)] for i, name in enumerate(details.class_names)}
    return {name: float(found.mean()) if len(found) else math.nan for name, found in own.items()}


def _ordered(candidates: Sequence[Candidate], decision: Decision, counted: Sequence[str]) -> list[Candidate]:
    """Return candidates in the order of the decision, then by mean rank, with their expected values."""
    ranks = mean_rank([[c.scores[name] for c in candidates] for name in counted], len(candidates))
    places = {name: place for place, name in enumerate(decision.order)}
    found = []
    order = sorted(range(len(candidates)), key=lambda i: (places.get(candidates[i].label, math.inf), ranks[i]))
    for rank, i in enumerate(order, start=1):
        candidate = replace(candidates[i], rank=rank, mean_rank=float(ranks[i]) if counted else math.nan)
        if (name := candidate.label) in decision.intervals:
            value = decision.intervals[name]
            candidate = replace(
                candidate,
                expected=value.value,
                low=value.low,
                high=value.high,
                **_limits("behind", decision.behind.get(name, Interval(0.0, 0.0, 0.0))),
                may_be_best=name in (decision.possibly_best or decision.order[:1]),
                best_share=decision.best_share[name],
            )
        found.append(candidate)
    return found


def mean_rank(scores: Sequence[Sequence[float]], candidates: int) -> FloatArray:
    """Return ranks, 1 for the highest, averaged over scores; values that are equal up to rounding share their rank."""
    from scipy.stats import rankdata

    rounded = [-np.round(np.divide(values, max(1.0, np.abs(values).max())), 9) for values in scores]
    return np.asarray(rankdata(rounded, axis=1).mean(axis=0)) if rounded else np.zeros(candidates)
