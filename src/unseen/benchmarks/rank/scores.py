"""Scores of one checkpoint on one labelled set, and on half-samples of it, kept so that no score is computed twice.

A half-sample without replacement has the spread that a new sample of the full size would have (delete-half jackknife);
a bootstrap with replacement would show every score images that are equal, which nearest neighbours and mixtures mistake
for structure.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.core.errors import UnseenError
from unseen.ranking.cards import ScoreCard, score_terms
from unseen.ranking.sampling import stratified_rows

#: More rows than this in a half-sample cost more than they tell; the intervals are then a little too wide.
LARGEST_SAMPLE = 2000


@dataclass
class ScoreRecord:
    """One score of one checkpoint.

    Attributes:
        terms: of all images; empty where it could not be computed, and `error` says why.
        draws: terms of each half-sample.
        seconds: of the score on all images.
    """

    terms: list[float] = field(default_factory=list)
    draws: list[list[float]] = field(default_factory=list)
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    error: str = ""


class ScoreCache:
    """Records of one checkpoint on one labelled set, in one JSON file; a file that cannot be read is made anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            self.records = {name: ScoreRecord(**values) for name, values in content.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            self.records = {}

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        aside = self.path.with_suffix(".tmp")
        aside.write_text(json.dumps({name: asdict(r) for name, r in self.records.items()}), encoding="utf-8")
        aside.replace(self.path)


def score_candidate(
    cards: Sequence[ScoreCard],
    inputs: Mapping[str, npt.NDArray[Any]],
    labels: npt.NDArray[np.int64],
    cache: ScoreCache,
    *,
    samples: Sequence[npt.NDArray[np.int64]],
    seed: int,
) -> tuple[dict[str, ScoreRecord], float]:
    """Every score on all rows and on every half-sample; what the cache holds is not computed again.

    Args:
        inputs: "features", and "probabilities" where the checkpoint has a head.
        samples: row numbers of the half-samples, the same for every candidate.

    Returns:
        Records by score, and the seconds that were spent now.
    """
    began = perf_counter()
    with _one_thread_each(), ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for card in cards:
            record = cache.records.get(card.id) or ScoreRecord()
            if not record.terms and not record.error:
                _score_all(record, card, inputs, labels, seed)
            left = samples[len(record.draws) :] if not record.error else ()
            if not left and card.id in cache.records:
                continue
            work = partial(_score_rows, card, inputs, labels, seed)
            record.draws.extend(pool.map(work, left))
            cache.records[card.id] = record
            cache.write()
    return {card.id: cache.records[card.id] for card in cards}, perf_counter() - began


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Linear algebra on one thread while half-samples run side by side.

    Half-samples are small: threads that wait for one another inside each of them cost more than they give, and many
    times more where the machine is busy.
    """
    import torch
    from threadpoolctl import threadpool_limits

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)


def half_samples(labels: npt.NDArray[np.int64], count: int, seed: int) -> list[npt.NDArray[np.int64]]:
    """Row numbers of stratified half-samples; none where the images are too few to leave any out."""
    classes, images = len(np.unique(labels)), len(labels)
    size = min(max(images // 2, min(2 * classes, images - 1)), LARGEST_SAMPLE if images > LARGEST_SAMPLE else images)
    if size <= classes:
        return []
    index = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return [stratified_rows(index, size, seed + 1 + number) for number in range(count)]


def _score_all(
    record: ScoreRecord,
    card: ScoreCard,
    inputs: Mapping[str, npt.NDArray[Any]],
    labels: npt.NDArray[np.int64],
    seed: int,
) -> None:
    began = perf_counter()
    try:
        record.terms = list(
            score_terms(
                card,
                labels,
                features=inputs.get("features"),
                probabilities=inputs.get("probabilities"),
                seed=seed,
                tell=record.notes.append,
            )
        )
    except UnseenError as error:
        record.error = str(error)
    record.seconds = perf_counter() - began


def _score_rows(
    card: ScoreCard,
    inputs: Mapping[str, npt.NDArray[Any]],
    labels: npt.NDArray[np.int64],
    seed: int,
    rows: npt.NDArray[np.int64],
) -> list[float]:
    """Terms on some rows; empty where a sample cannot carry the score."""
    some = {name: values[rows] for name, values in inputs.items()}
    try:
        return list(
            score_terms(
                card, labels[rows], features=some.get("features"), probabilities=some.get("probabilities"), seed=seed
            )
        )
    except UnseenError:
        return []
