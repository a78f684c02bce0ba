"""Mean ranks of candidates over scores, and how much they depend on the images.

A score on half of the images differs from the score on all of them: N-LEEP is higher by 0.2 for one checkpoint and by
0.4 for another. Only the deviation of a draw from the mean of a candidate's draws is used: scaled to the number of all
images, it is added to the score on all images. The shares of draws then agree with the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.rank.details import RankDetails
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
    """Return the ranks by each score, averaged over the scores that every candidate has.

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
            values = (
                combine_terms(find_score(name), [list(RankDetails.read(result.details).terms) for result in own])
                if own
                else []
            )
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
    """Return the mean ranks of every half-sample in which every score of every candidate could be computed."""
    # Scores that train are not trained again on half of the images.
    counted = [name for name in counted if not find_score(name).needs_training]
    many = {name: [RankDetails.read(results[name].details) for results in candidates] for name in counted}
    asked = min((len(d.draws) for own in many.values() for d in own), default=0)
    able = [n for n in range(asked) if all(d.draws[n] for own in many.values() for d in own)]
    if not able:
        return np.zeros((0, len(candidates)))
    moved = {name: np.stack([_centred(details, able) for details in own], axis=1) for name, own in many.items()}
    rows = [
        np.mean([_ranks(combine_terms(find_score(name), draws[n].tolist())) for name, draws in moved.items()], axis=0)
        for n in range(len(able))
    ]
    return np.asarray(rows, dtype=np.float64)


def _centred(details: RankDetails, able: Sequence[int]) -> FloatArray:
    """Return the (draws, terms) of one score of one candidate, centred on its terms on all images."""
    draws = np.asarray([details.draws[n] for n in able], dtype=np.float64)
    images, size = details.images, details.draw_images
    # A sample of m of n without replacement scatters by sqrt(1/m - 1/n): a new sample of n would by sqrt(1/n).
    scale = np.sqrt(size / (images - size)) if 0 < size < images else 1.0
    return np.asarray(np.asarray(details.terms) + scale * (draws - draws.mean(axis=0)))


def _ranks(values: Sequence[float]) -> FloatArray:
    """Return ranks, 1 for the highest; values that are equal up to rounding share the mean of their ranks."""
    from scipy.stats import rankdata

    found = np.asarray(values, dtype=np.float64)
    return np.asarray(rankdata(-np.round(found / max(1.0, float(np.abs(found).max())), 9)), dtype=np.float64)
