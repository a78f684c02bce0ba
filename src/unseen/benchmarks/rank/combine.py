"""From the scores of candidates to mean ranks, and how much those depend on the images.

A score on fewer images is not the score on all of them: N-LEEP of half the images is higher by 0.2 for one checkpoint
and by 0.4 for another. So a draw says only how far it is from the mean of a candidate's draws, and that distance,
scaled to what all images would give, is added to the score on all images. Order and shares then agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
    # What was trained is not trained again on half of the images: it stands as it is in every draw.
    counted = [name for name in counted if not find_score(name).needs_training]
    many = {name: [results[name].details for results in candidates] for name in counted}
    asked = min((len(d.get("draws", ())) for own in many.values() for d in own), default=0)
    able = [n for n in range(asked) if all(d["draws"][n] for own in many.values() for d in own)]
    if not able:
        return np.zeros((0, len(candidates)))
    moved = {name: np.stack([_centred(details, able) for details in own], axis=1) for name, own in many.items()}
    rows = [
        np.mean([_ranks(combine_terms(find_score(name), draws[n].tolist())) for name, draws in moved.items()], axis=0)
        for n in range(len(able))
    ]
    return np.asarray(rows, dtype=np.float64)


def _centred(details: Mapping[str, Any], able: Sequence[int]) -> FloatArray:
    """(draws, terms) of one score of one candidate about its terms on all images, with the spread of these."""
    draws = np.asarray([details["draws"][n] for n in able], dtype=np.float64)
    images, size = int(details["images"]), int(details.get("draw_images", 0))
    # A sample of m of n without replacement scatters by sqrt(1/m - 1/n): a new sample of n would by sqrt(1/n).
    scale = np.sqrt(size / (images - size)) if 0 < size < images else 1.0
    return np.asarray(np.asarray(details["terms"]) + scale * (draws - draws.mean(axis=0)))


def _ranks(values: Sequence[float]) -> FloatArray:
    """1 is the highest; equal values share the mean of their places, and what differs by rounding only is equal."""
    from scipy.stats import rankdata

    found = np.asarray(values, dtype=np.float64)
    return np.asarray(rankdata(-np.round(found / max(1.0, float(np.abs(found).max())), 9)), dtype=np.float64)
