"""The answer, made when results are read: the expected accuracy of each candidate and the one to fine-tune.

Candidates are ordered by the cross-validated accuracy of a linear head on their features. `stats.decide` compares them
on the same images; the first is recommended, unless one that is statistically tied with it is much cheaper. The
transferability scores are further evidence: their mean rank does not change the order.

A score on half of the images differs from the score on all of them: N-LEEP is higher by 0.2 for one checkpoint and by
0.4 for another. Only the deviation of a half-sample from the mean of a candidate's half-samples is used: scaled to the
number of all images, it is added to the score on all images.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

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
from unseen.stats import Decision, Interval, accuracy_interval, decide, paired_difference, unpaired_difference

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
    combined, compared = combine(able, scores), _estimates(ranked, able)
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
        candidates=(*_ordered(ranked, decision, combined), *(c for c in candidates if c.error)),
        scores=scores,
        counted=combined.counted,
        images=details.images,
        total=details.total,
        classes=details.classes,
        resamples=len(combined.draws),
        seconds=sum(result.seconds for result in own),
        measure=measure or details.measure,
        majority=details.majority,
        evaluated=max((d.evaluated for d in judged), default=0),
        groups=max((d.groups for d in judged), default=0),
        prefer=prefer,
        notes=(*notes, *_fold_notes(judged), *combined.notes, *dict.fromkeys(twins)),
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
        found.append(f"{copies:,} images are near-duplicates of others, by their features: they share a fold with them")
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
        for group in grouped(r for r in everything if not is_bare(r))
    ]


def truth_results(results: Iterable[Result]) -> list[Result]:
    """Return the results that hold fine-tuned accuracy."""
    return [r for r in results if r.ok and _parameters(r).score == TRUTH]


def is_bare(result: Result) -> bool:
    """Return whether a score has no terms, as those of other programs: it is shown, but cannot be ranked."""
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
    gap = unpaired_difference(accuracy_interval(tuned[known]), Interval(c.expected, c.low, c.high, n=int(known.sum())))
    tuning = paired_difference(tuned[known], probe[known])
    found: dict[str, object] = {"probe_tested": float(probe[known].mean())}
    for name, each in (("gap", gap), ("tuning", tuning)):
        found |= {name: each.value, f"{name}_low": each.low, f"{name}_high": each.high}
    return found


def grouped(results: Iterable[Result]) -> list[list[Result]]:
    """Return the scores over features that can be ranked together: same data, same options except score and layer."""
    # Fine-tuned accuracy and scores that train have no half-samples.
    everything = [(result, _parameters(result)) for result in results]
    own = [result for result, options in everything if options.resamples is not None]
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
        at_layer = [r for r in results.values() if _parameters(r).layer is not None] or list(results.values())
        # Scores of the layer come first.
        known = [_details(r) for r in sorted(results.values(), key=lambda r: _parameters(r).layer is None) if r.ok]
        first = known[0] if known else RankDetails()
        failed = not any(r.ok for r in at_layer)
        twin = model if failed else seen.setdefault((first.checkpoint or model, layer), model)
        found.append(
            Candidate(
                model=model,
                layer=layer,
                extraction_seconds=max((details.extraction_seconds for details in known), default=0.0),
                scoring_seconds=sum(result.seconds for result in results.values()),
                parameters=first.parameters,
                flops=first.flops,
                dimensions=first.dimensions,
                images_per_second=first.images_per_second,
                latency=first.latency,
                batch_latency=first.batch_latency,
                memory=first.memory,
                per_class=_per_class(probe := next((d for d in known if d.hits), first)),
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


def _ordered(candidates: Sequence[Candidate], decision: Decision, combined: Combined) -> list[Candidate]:
    """Return candidates in the order of the decision, then by mean rank, with their expected values and scores."""
    places = {name: place for place, name in enumerate(decision.order)}
    names = [candidate.compared_as for candidate in candidates]

    def place(i: int) -> tuple[float, float, bool, int]:
        return places.get(names[i], math.inf), combined.mean_ranks[i], bool(candidates[i].same_as), i

    found = []
    for rank, i in enumerate(sorted(range(len(candidates)), key=place), start=1):
        candidate, name = replace(candidates[i], rank=rank, **combined.fields(i)), names[i]
        if name in decision.intervals:
            value, behind = decision.intervals[name], decision.behind.get(name, Interval(0.0, 0.0, 0.0))
            candidate = replace(
                candidate,
                expected=value.value,
                low=value.low,
                high=value.high,
                behind=behind.value,
                behind_low=behind.low,
                behind_high=behind.high,
                may_be_best=name in (decision.possibly_best or decision.order[:1]),
                best_share=decision.best_share[name],
            )
        found.append(candidate)
    return found


@dataclass(frozen=True, eq=False)
class Combined:
    """Mean ranks of candidates.

    Attributes:
        scores: by id, one value per candidate; NaN if a candidate lacks it.
        counted: ids that every candidate has.
        mean_ranks: (candidates,).
        draws: (resamples, candidates) mean ranks of every half-sample.
        notes: why a score does not count.
    """

    scores: dict[str, FloatArray]
    counted: tuple[str, ...]
    mean_ranks: FloatArray
    draws: FloatArray
    notes: tuple[str, ...]

    def fields(self, i: int) -> Values:
        """Return the fields of a candidate: its scores, and its mean rank with the interval over half-samples."""
        own = self.draws[:, i]
        low, high = np.quantile(own, [0.025, 0.975]).tolist() if len(own) else (math.nan, math.nan)
        return {
            "scores": {name: float(values[i]) for name, values in self.scores.items() if np.isfinite(values[i])},
            "mean_rank": float(self.mean_ranks[i]) if self.counted else math.nan,
            "rank_low": low,
            "rank_high": high,
        }


def combine(candidates: Sequence[Scores], scores: Sequence[str]) -> Combined:
    """Return the ranks by each score, averaged over the scores that every candidate has."""
    found: dict[str, FloatArray] = {}
    counted: list[str] = []
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
        if len(own) == len(candidates):
            counted.append(name)
            continue
        lacking = [results.get(name) for i, results in enumerate(candidates) if i not in own]
        reason = next((result.error for result in lacking if result is not None), "it was not computed")
        notes.append(f"{name} does not count, since {len(lacking)} of {len(candidates)} lack it: {reason}")
    ranks = np.mean([_ranks(found[name]) for name in counted], axis=0) if counted else np.zeros(len(candidates))
    return Combined(found, tuple(counted), np.asarray(ranks), _draw_ranks(candidates, counted), tuple(notes))


def _draw_ranks(candidates: Sequence[Scores], counted: Sequence[str]) -> FloatArray:
    """Return the mean ranks of every half-sample in which every score of every candidate could be computed."""
    # Scores that train are not trained again on half of the images.
    many = {
        name: [_details(results[name]) for results in candidates]
        for name in counted
        if not find_score(name).needs_training
    }
    every = [details for own in many.values() for details in own]
    able = [n for n in range(min((len(d.draws) for d in every), default=0)) if all(d.draws[n] for d in every)]
    moved = {name: np.stack([_centred(details, able) for details in own], axis=1) for name, own in many.items()}
    rows = [
        np.mean([_ranks(combine_terms(find_score(name), draws[n].tolist())) for name, draws in moved.items()], axis=0)
        for n in range(len(able))
    ]
    return np.asarray(rows, dtype=np.float64).reshape(len(able), len(candidates))


def _centred(details: RankDetails, able: Sequence[int]) -> FloatArray:
    """Return the (draws, terms) of one score of one candidate, centred on its terms on all images."""
    if not able:
        return np.zeros((0, len(details.terms)))
    draws = np.asarray([details.draws[n] for n in able], dtype=np.float64)
    images, size = details.images, details.draw_images
    # A sample of m of n without replacement scatters by sqrt(1/m - 1/n): a new sample of n would by sqrt(1/n).
    scale = np.sqrt(size / (images - size)) if 0 < size < images else 1.0
    return np.asarray(np.asarray(details.terms) + scale * (draws - draws.mean(axis=0)))


def _ranks(values: Sequence[float] | FloatArray) -> FloatArray:
    """Return ranks, 1 for the highest; values that are equal up to rounding share the mean of their ranks."""
    from scipy.stats import rankdata

    found = np.asarray(values, dtype=np.float64)
    return np.asarray(rankdata(-np.round(found / max(1.0, float(np.abs(found).max())), 9)), dtype=np.float64)
