"""From scores to an order: mean ranks, how sure they are, and a sentence that says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.rank.records import Candidate
from unseen.benchmarks.rank.scores import ScoreRecord
from unseen.core.errors import UnseenError
from unseen.ranking.cards import combine_terms, find_score

FloatArray = npt.NDArray[np.float64]
_CLEAR = 0.8


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


def combine(records: Sequence[dict[str, ScoreRecord]], scores: Sequence[str]) -> Combined:
    """Ranks by each score, averaged over the scores that every candidate has."""
    found: dict[str, list[float]] = {}
    counted: list[str] = []
    notes: list[str] = []
    for name in scores:
        own = [record[name] for record in records]
        having = [i for i, record in enumerate(own) if record.terms]
        try:
            values = combine_terms(find_score(name), [own[i].terms for i in having]) if having else []
        except UnseenError as error:
            notes.append(f"{name} does not count: {error}")
            continue
        full = [float("nan")] * len(own)
        for i, value in zip(having, values, strict=True):
            full[i] = value
        found[name] = full
        if len(having) == len(own):
            counted.append(name)
        else:
            reason = next(record.error for record in own if not record.terms)
            notes.append(f"{name} does not count, since {len(own) - len(having)} of {len(own)} lack it: {reason}")
    mean_ranks = np.mean([_ranks(found[name]) for name in counted], axis=0) if counted else np.zeros(len(records))
    return Combined(found, tuple(counted), np.asarray(mean_ranks), _draw_ranks(records, counted), tuple(notes))


def _draw_ranks(records: Sequence[dict[str, ScoreRecord]], counted: Sequence[str]) -> FloatArray:
    """Mean ranks of every half-sample in which every score of every candidate could be computed."""
    draws = min((len(record[name].draws) for record in records for name in counted), default=0)
    rows = []
    for number in range(draws):
        terms = {name: [record[name].draws[number] for record in records] for name in counted}
        if all(one for values in terms.values() for one in values):
            rows.append(np.mean([_ranks(combine_terms(find_score(n), v)) for n, v in terms.items()], axis=0))
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), len(records))


def _ranks(values: Sequence[float]) -> FloatArray:
    """1 is the highest; equal values share the mean of their places, and what differs by rounding only is equal."""
    from scipy.stats import rankdata

    found = np.asarray(values, dtype=np.float64)
    return np.asarray(rankdata(-np.round(found / max(1.0, float(np.abs(found).max())), 9)), dtype=np.float64)


def recommend(ordered: Sequence[Candidate], counted: Sequence[str], resamples: int, top: int) -> str:
    """One sentence: which checkpoint to fine-tune, and how sure that is."""
    if not ordered:
        return "No checkpoint could be ranked."
    if not counted:
        return "No score could be computed for every checkpoint, so there is no common order: see the table."
    best, by = ordered[0], f"by the mean rank over {', '.join(counted)}"
    if len(ordered) == 1:
        return f"Fine-tune {best.label}: it is the only candidate."
    if not resamples:
        return f"Fine-tune {best.label}: it comes first {by}; there are too few images to say how sure that is."
    share = f"{100 * best.first_share:.0f} % of {resamples} resamples"
    others = [candidate.label for candidate in ordered[1 : max(top, 1)]]
    then = (
        f" Then try {' and '.join([', '.join(others[:-1]), others[-1]] if len(others) > 1 else others)}."
        if others
        else ""
    )
    if best.first_share >= _CLEAR:
        return f"Fine-tune {best.label}: it comes first in {share} ({by}).{then}"
    rival = max(ordered[1:], key=lambda candidate: candidate.first_share)
    return (
        f"Fine-tune {best.label}, but the lead is not clear: it comes first in {share}, {rival.label} in "
        f"{100 * rival.first_share:.0f} % ({by}).{then}"
    )
