"""The answer, made when results are read: what accuracy to expect of each candidate, which one to take, how sure.

Candidates stand in the order of the accuracy that a linear head on their features reaches on images left out in turn.
Which of them may be the best is told from the same images for all (`leads`); among those that cannot be told apart the
cheapest is recommended. The transferability scores stand beside as evidence: their mean rank orders nobody.
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
from unseen.benchmarks.rank.leads import find_leads, interval
from unseen.benchmarks.rank.scoring import EXPECTED, read_hits
from unseen.benchmarks.rank.wording import recommend
from unseen.core.errors import DataError
from unseen.core.identity import canonical_json
from unseen.core.records import Cell, Result
from unseen.reports.wording import counted
from unseen.results import comparable

#: Resamples from which the share of them in which a candidate comes first is worth saying.
SHARE_RESAMPLES = 200


def answer(
    results: Iterable[Result], *, top: int = 1, notes: Sequence[str] = (), measure: str = ""
) -> CheckpointRanking:
    """The order of the checkpoints that some results are about.

    Args:
        results: of the rank benchmark, on one dataset and with the same options; failures among them.
        top: how many checkpoints the recommendation names.
        notes: said of the whole, before what the results say.
        measure: what the expected values are; by default what the results say, or accuracy.

    Raises:
        DataError: there is no score, or the results do not belong together.
    """
    groups = grouped(results)
    if len(groups) != 1:
        found = "; ".join(f"{group[0].cell.dataset} {canonical_json(shared(group[0].cell))}" for group in groups)
        raise DataError(f"one order needs the scores of one dataset with the same options; found {found or 'none'}.")
    (own,) = groups
    asked = dict.fromkeys(str(result.cell.parameters["score"]) for result in own)
    scores = tuple(score for score in asked if score != EXPECTED)
    candidates = _candidates(own)
    able = {c: found for c, found in candidates.items() if not _reason(found)}
    combined = combine(list(able.values()), scores)
    twins = _twins(able)
    seed = int(own[0].cell.parameters.get("seed", 0))
    expected = _expected([_candidate(*c, found, twins) for c, found in able.items()], list(able.values()), seed)
    ordered = _ordered(expected, combined)
    failed = (_candidate(*c, found, {}) for c, found in candidates.items() if c not in able)
    details = next((result.details for result in own if result.ok), {})
    measure = measure or str(details.get("measure", "accuracy"))
    choice, text = recommend(ordered, images=int(details.get("images", 0)), top=top, measure=measure)
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
        recommendation=text,
        clear=sum(c.may_be_best and not c.same_as for c in ordered) == 1,
        choice=choice,
        measure=measure,
        notes=(*notes, *combined.notes, *_said(twins)),
        parameters=shared(own[0].cell),
    )


def grouped(results: Iterable[Result]) -> list[list[Result]]:
    """Scores over features that may stand in one order: same data, and the same options but score and layer."""
    everything = list(results)
    # Neither the truth nor what was trained: half-samples of them are not had.
    own = [result for result in everything if "resamples" in result.cell.parameters]
    groups = [list(group.results) for group in comparable(own, axes=("score", "layer"), over=())]
    for result in own:
        if not result.ok:  # it stands with those that it would have stood with
            alike = [g for g in groups if _place(g[0].cell) == _place(result.cell)]
            alike[-1].append(result) if alike else groups.append([result])
    for result in everything:  # early-stopped fine-tuning of the same images stands beside
        if "early_learning_rate" in result.cell.parameters:
            for group in groups:
                same = group[0].cell.dataset == result.cell.dataset and group[0].cell.data == result.cell.data
                group += [result] if same else []
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
        for layer in [own] if own is not None else layers or [POOLED]:
            found.setdefault((result.cell.model, str(layer)), {})[str(result.cell.parameters["score"])] = result
    return found


def _reason(results: Mapping[str, Result]) -> str:
    """Why a candidate cannot be ranked: nothing could be computed at its layer."""
    own = [result for result in results.values() if "layer" in result.cell.parameters] or list(results.values())
    return "" if any(result.ok for result in own) else own[0].error


def _candidate(
    model: str, layer: str, results: Mapping[str, Result], twins: Mapping[tuple[str, str], str]
) -> Candidate:
    able = sorted((r for r in results.values() if r.ok), key=lambda r: "layer" not in r.cell.parameters)
    known = [result.details for result in able]  # those of its own layer first
    notes = [note for details in known for note in details.get("notes", ())]
    skipped = max((sum(len(part) for part in details.get("skipped", {}).values()) for details in known), default=0)
    if skipped:
        notes.append(f"{counted(skipped, 'image')} could not be read and took no part")
    first: Mapping[str, Any] = known[0] if known else {}
    return Candidate(
        model=model,
        layer=layer,
        extraction_seconds=max((details.get("extraction_seconds", 0.0) for details in known), default=0.0),
        scoring_seconds=sum(result.seconds for result in results.values()),
        parameters=first.get("parameters"),
        flops=first.get("flops"),
        dimensions=first.get("dimensions"),
        images_per_second=first.get("images_per_second"),
        same_as=twins.get((model, layer), ""),
        notes=tuple(dict.fromkeys(notes)),
        error=_reason(results),
        revision=next(iter(results.values())).cell.revision,
    )


def _expected(candidates: list[Candidate], results: Sequence[Mapping[str, Result]], seed: int) -> list[Candidate]:
    """Candidates with their accuracies and what the images say of their differences; a twin has those of its twin."""
    places = [i for i, r in enumerate(results) if EXPECTED in r and r[EXPECTED].ok]
    versions = {results[i][EXPECTED].cell.version for i in places}
    if not places or len(versions) > 1:
        return candidates
    hits = [read_hits(results[i][EXPECTED].details["hits"]) for i in places]
    distinct = [n for n, i in enumerate(places) if not candidates[i].same_as]
    leads = find_leads(np.stack([hits[n] for n in distinct], axis=1), seed=seed)
    found = list(candidates)
    for n, place in enumerate(distinct):
        value, (low, high) = float(leads.values[n]), interval(float(leads.values[n]), float(leads.errors[n]))
        found[places[place]] = replace(
            candidates[places[place]],
            expected=value,
            low=low,
            high=high,
            behind=float(leads.behind[n, 0]),
            behind_low=float(leads.behind[n, 1]),
            behind_high=float(leads.behind[n, 2]),
            may_be_best=bool(leads.may_be_best[n]),
            best_share=float(leads.shares[n]),
        )
    copied = ("expected", "low", "high", "behind", "behind_low", "behind_high", "may_be_best", "best_share")
    for i in places:
        if candidates[i].same_as:
            twin = next(c for c in found if c.model == candidates[i].same_as and c.layer == candidates[i].layer)
            found[i] = replace(candidates[i], **{name: getattr(twin, name) for name in copied})
    return found


def _ordered(candidates: Sequence[Candidate], combined: Combined) -> list[Candidate]:
    """Candidates by what to expect of them, then by mean rank, with their scores filled in."""
    resampled, enough = len(combined.draws) > 0, len(combined.draws) >= SHARE_RESAMPLES
    shares = combined.first_shares if enough else np.full(len(candidates), np.nan)
    bounds = np.quantile(combined.draws, [0.025, 0.975], axis=0) if resampled else np.full((2, len(candidates)), np.nan)

    def place(i: int) -> tuple[float, float, bool, int]:
        expected = candidates[i].expected
        return (math.inf if math.isnan(expected) else -expected), combined.mean_ranks[i], bool(candidates[i].same_as), i

    return [
        replace(
            candidates[i],
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
    """Checkpoints that are one under two names, the same weights looked at in the same way: the first of the names."""
    seen: dict[tuple[str, str], str] = {}
    found = {}
    for (model, layer), results in candidates.items():
        weights = next(str(r.details["checkpoint"]) for r in results.values() if r.ok and "checkpoint" in r.details)
        first = seen.setdefault((weights, layer), model)
        if first != model:
            found[model, layer] = first
    return found


def _said(twins: Mapping[tuple[str, str], str]) -> list[str]:
    said = [
        f"{m} has the weights of {first}: they are one checkpoint under two names" for (m, _), first in twins.items()
    ]
    return list(dict.fromkeys(said))
