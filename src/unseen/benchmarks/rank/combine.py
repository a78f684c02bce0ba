"""From the scores of candidates to mean ranks, and how much those depend on the images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unseen.core.errors import UnseenError
from unseen.core.records import Result
from unseen.ranking.cards import combine_terms, find_score

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Combined:
    """Mean ranks of candidates.

    Attributes:
        scores: by id, one value per candidate.
        counted: ids that every candidate has.
        mean_ranks: (candidates,).
        draws: (resamples, candidates) mean ranks of every half-sample.
        notes: why a score does not count.
    """

    scores: dict[str, list[float]]
    counted: tuple[str, ...]
    mean_ranks: FloatArray
    draws: FloatArray
    notes: tuple[str, ...]

    @property
    def first_shares(self) -> FloatArray:
        """Share of half-samples in which each candidate has the least mean rank; ties are shared."""
        first = self.draws == self.draws.min(axis=1, keepdims=True)
        shares: FloatArray = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
        return shares


def combine(candidates: Sequence[Mapping[str, Result]], scores: Sequence[str]) -> Combined:
    """Ranks by each score, averaged over the scores that every candidate has.

    Args:
        candidates: the results of each, by score.
    """
    if not candidates:
        return Combined({}, (), np.zeros(0), np.zeros((0, 0)), ())
    found: dict[str, list[float]] = {}
    counted: list[str] = []
    notes: list[str] = []
    for name in scores:
        having = [i for i, results in enumerate(candidates) if name in results and results[name].ok]
        own = [candidates[i][name] for i in having]
        if len({result.cell.version for result in own}) > 1:
            notes.append(f"{name} does not count: some candidates have it from another version of the score")
            continue
        try:
            values = combine_terms(find_score(name), [result.details["terms"] for result in own]) if own else []
        except UnseenError as error:
            notes.append(f"{name} does not count: {error}")
            continue
        found[name] = [float("nan")] * len(candidates)
        for i, value in zip(having, values, strict=True):
            found[name][i] = value
        if len(having) == len(candidates):
            counted.append(name)
        else:
            lacking = [results.get(name) for i, results in enumerate(candidates) if i not in having]
            reason = next((result.error for result in lacking if result is not None), "it was not computed")
            notes.append(f"{name} does not count, since {len(lacking)} of {len(candidates)} lack it: {reason}")
    ranks = np.mean([_ranks(found[name]) for name in counted], axis=0) if counted else np.zeros(len(candidates))
    return Combined(found, tuple(counted), np.asarray(ranks), _draw_ranks(candidates, counted), tuple(notes))


def _draw_ranks(candidates: Sequence[Mapping[str, Result]], counted: Sequence[str]) -> FloatArray:
    """Mean ranks of every half-sample in which every score of every candidate could be computed."""
    draws = {name: [results[name].details.get("draws", ()) for results in candidates] for name in counted}
    rows = []
    for number in range(min((len(own) for many in draws.values() for own in many), default=0)):
        terms = {name: [own[number] for own in many] for name, many in draws.items()}
        if all(one for values in terms.values() for one in values):
            rows.append(np.mean([_ranks(combine_terms(find_score(n), v)) for n, v in terms.items()], axis=0))
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), len(candidates))


def _ranks(values: Sequence[float]) -> FloatArray:
    """1 is the highest; equal values share the mean of their places, and what differs by rounding only is equal."""
    from scipy.stats import rankdata

    found = np.asarray(values, dtype=np.float64)
    return np.asarray(rankdata(-np.round(found / max(1.0, float(np.abs(found).max())), 9)), dtype=np.float64)
