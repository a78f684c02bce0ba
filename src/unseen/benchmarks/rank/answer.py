"""The answer, made when results are read: the expected accuracy of each candidate and the one to fine-tune.

Candidates are ordered by the cross-validated accuracy of a linear head on their features. `stats.decide` compares them
on the same images; the first is recommended, unless one that is statistically tied with it is much cheaper. The
transferability scores are further evidence: their mean rank does not change the order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from unseen.benchmarks.rank.candidates import Candidate as Candidate
from unseen.benchmarks.rank.candidates import CheckpointRanking as CheckpointRanking
from unseen.benchmarks.rank.details import EXPECTED, POOLED, TRUTH, RankDetails, RankParameters
from unseen.benchmarks.rank.expected import estimates, read_hits, read_numbers
from unseen.core.arrays import FloatArray
from unseen.core.errors import DataError, UnseenError
from unseen.core.identity import Values, canonical_json
from unseen.core.records import Cell, Result
from unseen.ranking.cards import combine_terms, find_score
from unseen.results import comparable
from unseen.results.table import records_by_dataset
from unseen.stats import Candidate as Estimate
from unseen.stats import (
    Decision,
    Difference,
    Interval,
    accuracy_interval,
    decide,
    paired_difference,
    unpaired_difference,
)

#: What is known of a checkpoint, under the same names in details and candidates.
_FACTS = ("parameters", "flops", "dimensions", "images_per_second", "latency", "batch_latency", "memory")
#: The results of one candidate, by score.
Scores = Mapping[str, Result]


def answer(
    results: Iterable[Result], *, top: int = 1, notes: Sequence[str] = (), measure: str = "", prefer: str = ""
) -> CheckpointRanking:
    """Return the ranking of the checkpoints of some results.

    Args:
        results: of the rank benchmark, on one dataset and with the same options; failures among them.
        top: how many checkpoints the recommendation names.
        notes: about the whole ranking, before the notes of the results.
        measure: what the expected values are; by default what the results state, or accuracy.
        prefer: the policy of the recommendation (`CheckpointRanking.choice`).

    Raises:
        DataError: there is no score, or the results do not belong together.
    """
    groups = grouped(results)
    if len(groups) != 1:
        found = "; ".join(f"{group[0].cell.dataset} {canonical_json(shared(group[0].cell))}" for group in groups)
        raise DataError(f"one order needs the scores of one dataset with the same options; found {found or 'none'}.")
    (own,) = groups
    scores = tuple(name for name in dict.fromkeys(_parameters(r).score for r in own) if name != EXPECTED)
    by_candidate = _by_candidate(own)
    candidates = _candidates(by_candidate)
    ranked = [c for c in candidates if not c.error]
    able = [by_candidate[c.model, c.layer] for c in ranked]
    values, counted, lacking = combine(able, scores)
    compared = _estimates(ranked, able)
    decision = decide(compared, seed=_parameters(own[0]).seed)
    details = _details(next((result for result in own if result.ok), own[0]))
    judged = [_details(r[EXPECTED]) for r in able if EXPECTED in r and r[EXPECTED].ok]
    twins = [
        f"{c.model} has the weights of {c.same_as}: they are one checkpoint under two names"
        for c in ranked
        if c.same_as
    ]
    return CheckpointRanking(
        dataset=own[0].cell.dataset,
        candidates=(*_ordered(ranked, decision, values, counted), *(c for c in candidates if c.error)),
        scores=scores,
        counted=counted,
        images=details.images,
        total=details.total,
        classes=details.classes,
        seconds=sum(result.seconds for result in own),
        measure=measure or details.measure,
        majority=details.majority,
        evaluated=max((d.evaluated for d in judged), default=0),
        groups=max((d.groups for d in judged), default=0),
        prefer=prefer,
        notes=(*notes, *_fold_notes(judged), *lacking, *dict.fromkeys(twins)),
        parameters=shared(own[0].cell),
        record=records_by_dataset(own)[own[0].cell.dataset],
        top=top,
        estimates=compared,
        decision=decision,
    )


def _fold_notes(judged: Sequence[RankDetails]) -> list[str]:
    """State which images share a fold, and which have no outcome."""
    copies, groups = (max((getattr(d, name) for d in judged), default=0) for name in ("copies", "groups"))
    alone = max((d.images - d.evaluated for d in judged if d.evaluated), default=0)
    found = [f"{groups:,} groups of images: cross-validation divides none"] if groups else []
    if copies:
        text = "images are near-duplicates of others" if copies > 1 else "image is a near-duplicate of another"
        found.append(f"{copies:,} {text}, by their features: near-duplicates share a fold")
    if alone:
        found.append(
            f"{alone:,} images are the only ones of their class (or group of their class), so that their accuracy is "
            "extrapolated from the other classes"
        )
    return found


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


def is_bare(result: Result) -> bool:
    """Return whether a score has no terms, as those of papers: it is shown, but cannot be ranked."""
    return result.ok and _parameters(result).score != TRUTH and not _details(result).terms


def with_truth(ranking: CheckpointRanking, results: Iterable[Result]) -> CheckpointRanking:
    """Return the ranking with the test accuracy of the candidates that were fine-tuned."""
    found = {result.cell.model: result for result in results}
    reached = {model: result.metrics["top1"] for model, result in found.items() if result.ok}
    candidates = tuple(
        replace(c, finetuned=reached[c.model], **_beside(c, _details(found[c.model]))) if c.model in reached else c
        for c in ranking.candidates
    )
    notes = [f"fine-tuning {model} failed: {result.error}" for model, result in found.items() if not result.ok]
    return replace(ranking, candidates=candidates, notes=(*ranking.notes, *notes))


def _beside(c: Candidate, details: RankDetails) -> Values:
    """Return the fields that compare the outcomes of fine-tuning with the prediction and with the linear head."""
    if not details.hits or not details.probe_hits:
        return {}
    tuned, probe = read_hits(details.hits), read_hits(details.probe_hits)
    known = np.isfinite(tuned) & np.isfinite(probe)
    tuned, probe = tuned[known], probe[known]
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
    own = [r for r, options in everything if options.is_scored and not is_bare(r)]
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
    layers = list(dict.fromkeys(layer for r in results if (layer := _parameters(r).layer) is not None))
    for result in results:
        own = _parameters(result)
        for layer in [own.layer] if own.layer is not None else layers or [POOLED]:
            found.setdefault((result.cell.model, layer), {})[own.score] = result
    return found


def _candidates(by_candidate: Mapping[tuple[str, str], Scores]) -> list[Candidate]:
    """Return the candidates before they are compared; one fails if no score could be computed at its layer."""
    seen: dict[tuple[str, str], str] = {}
    found = []
    for (model, layer), results in by_candidate.items():
        # Scores of the layer come first; one of the class head alone does not make a candidate.
        own = sorted(results.values(), key=lambda r: _parameters(r).layer is None)
        at_layer = [r for r in own if _parameters(r).layer is not None] or own
        known = [_details(r) for r in own if r.ok]
        first = known[0] if known else RankDetails()
        failed = not any(r.ok for r in at_layer)
        twin = model if failed else seen.setdefault((first.checkpoint or model, layer), model)
        probe = next((details for details in known if details.hits), first)
        found.append(
            Candidate(
                model=model,
                layer=layer,
                **{name: getattr(first, name) for name in _FACTS},
                per_class=_per_class(probe),
                copies=probe.copies,
                same_as="" if twin == model else twin,
                notes=tuple(dict.fromkeys(note for details in known for note in details.notes)),
                error=at_layer[0].error if failed else "",
                revision=at_layer[0].cell.revision,
            )
        )
    return found


def _per_class(details: RankDetails) -> dict[str, float]:
    """Return the cross-validated accuracy of every class; NaN for a class without an evaluated image."""
    if not details.labels:
        return {}
    hits, labels = read_hits(details.hits), read_numbers(details.labels)
    known = np.isfinite(hits)
    counts = np.bincount(labels[known], minlength=len(details.class_names))
    with np.errstate(invalid="ignore"):
        shares = np.bincount(labels[known], hits[known], len(details.class_names)) / counts
    return dict(zip(details.class_names, shares.tolist(), strict=True))


def _estimates(candidates: Sequence[Candidate], results: Sequence[Scores]) -> dict[str, Estimate]:
    """Return the expected accuracies to compare, by label; a checkpoint under two names once."""
    found = {
        c.label: r[EXPECTED]
        for c, r in zip(candidates, results, strict=True)
        if EXPECTED in r and r[EXPECTED].ok and not c.same_as
    }
    if len({result.cell.version for result in found.values()}) > 1:
        return {}
    return estimates({label: _details(result) for label, result in found.items()})


def _ordered(
    candidates: Sequence[Candidate], decision: Decision, scores: Mapping[str, FloatArray], counted: Sequence[str]
) -> list[Candidate]:
    """Return candidates in the order of the decision, then by mean rank, with their expected values and scores."""
    mean_ranks = mean_rank([scores[name] for name in counted], len(candidates))
    places = {name: place for place, name in enumerate(decision.order)}

    def place(i: int) -> tuple[float, float, bool, int]:
        return places.get(candidates[i].compared_as, math.inf), mean_ranks[i], bool(candidates[i].same_as), i

    found = []
    for rank, i in enumerate(sorted(range(len(candidates)), key=place), start=1):
        own = {name: float(values[i]) for name, values in scores.items() if np.isfinite(values[i])}
        ranks = float(mean_ranks[i]) if counted else math.nan
        candidate = replace(candidates[i], rank=rank, scores=own, mean_rank=ranks)
        if (name := candidate.compared_as) in decision.intervals:
            value, behind = decision.intervals[name], decision.behind.get(name, Interval(0.0, 0.0, 0.0))
            candidate = replace(
                candidate,
                expected=value.value,
                low=value.low,
                high=value.high,
                **_limits("behind", behind),
                may_be_best=name in (decision.possibly_best or decision.order[:1]),
                best_share=decision.best_share[name],
            )
        found.append(candidate)
    return found


def combine(
    candidates: Sequence[Scores], scores: Sequence[str]
) -> tuple[dict[str, FloatArray], tuple[str, ...], list[str]]:
    """Return the values of each score, NaN for a candidate that lacks it; the scores that all have; notes on others."""
    found: dict[str, FloatArray] = {}
    notes: list[str] = []
    for name in scores if candidates else ():
        own = {i: results[name] for i, results in enumerate(candidates) if name in results and results[name].ok}
        try:
            if len({result.cell.version for result in own.values()}) > 1:
                raise DataError("some candidates have it from another version of the score")
            values = combine_terms(find_score(name), [_details(r).terms for r in own.values()]) if own else []
        except UnseenError as error:
            notes.append(f"{name} does not count: {error}")
            continue
        found[name] = np.full(len(candidates), np.nan)
        found[name][list(own)] = values
        lacking = [results.get(name) for i, results in enumerate(candidates) if i not in own]
        if lacking:
            reason = next((result.error for result in lacking if result is not None), "it was not computed")
            notes.append(f"{name} does not count, since {len(lacking)} of {len(candidates)} lack it: {reason}")
    return found, tuple(name for name, values in found.items() if np.isfinite(values).all()), notes


def mean_rank(scores: Sequence[FloatArray], candidates: int) -> FloatArray:
    """Return ranks, 1 for the highest, averaged over scores; values that are equal up to rounding share their rank."""
    from scipy.stats import rankdata

    rounded = [-np.round(values / max(1.0, float(np.abs(values).max())), 9) for values in scores]
    return np.asarray(rankdata(rounded, axis=1).mean(axis=0)) if rounded else np.zeros(candidates)
