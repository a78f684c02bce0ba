"""Scores of one checkpoint on one labelled set, and on half-samples of it.

A half-sample without replacement has the spread of a new sample of the full size (delete-half jackknife). A bootstrap
with replacement would contain equal images, which nearest neighbours and mixtures mistake for structure. A score that
is a mean over images is not computed again: its half-samples are means of the values per image.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.backbones.load import LOGITS
from unseen.benchmarks.rank.details import RankDetails, RankParameters
from unseen.benchmarks.workbench import SplitRows, Workbench
from unseen.core.errors import DataError, DiskFullError, UnseenError
from unseen.core.extras import one_thread
from unseen.core.identity import digest
from unseen.core.records import Cell, Result
from unseen.core.run_record import RunRecord, dropped
from unseen.data.dataset import CLASS, NUMBER, SEVERAL
from unseen.data.subset import select
from unseen.metrics import softmax
from unseen.ranking import score_flops
from unseen.ranking.cards import ScoreCard, find_score, score_terms
from unseen.ranking.inputs import FloatArray
from unseen.ranking.ridge import label_parts, value_parts
from unseen.ranking.sampling import stratified_rows

#: Largest half-sample: larger ones cost time and add little; the spread is scaled to the number of all images.
LARGEST_SAMPLE = 2000


#: The measure of the answer, by kind of targets.
MEASURES = {CLASS: "accuracy", NUMBER: "R2", SEVERAL: "precision"}


#: The score that the answer is based on: `unseen.benchmarks.rank.expected` computes it.
EXPECTED = "probe"


class ScoredImages:
    """The images that one checkpoint is scored on, and their features: all layers of all cells in one pass."""

    def __init__(self, bench: Workbench, cells: Sequence[Cell], *, split: str, sample: int, seed: int) -> None:
        self.bench, self.model, self.split = bench, cells[0].model, split
        whole = bench.dataset(cells[0].dataset)
        self.total = len(whole.split(split))
        self.dataset = select(whole, limit=sample, seed=seed) if sample else whole
        self.seconds = 0.0
        asked = [RankParameters.read(cell.parameters) for cell in cells]
        cards = [find_score(each.score) for each in asked if each.resamples is not None]
        self._wanted = list(dict.fromkeys(each.layer for each in asked if each.layer is not None))
        self._wanted += [LOGITS] if any(card.needs_head for card in cards) and LOGITS not in self._wanted else []

    @cached_property
    def about(self) -> RankDetails:
        """Size, operations and digest of the checkpoint."""
        backbone, card = self.bench.backbone(self.model), self.bench.card(self.model)
        same = digest([backbone.weights, backbone.preprocessing.to_dict()])
        return RankDetails(parameters=card.parameters, flops=card.flops, checkpoint=same)

    def described(self, details: RankDetails) -> RankDetails:
        """Return the details of a score with those of the checkpoint and its extraction."""
        return replace(
            details,
            total=self.total,
            extraction_seconds=self.seconds,
            images_per_second=self.speed,
            parameters=self.about.parameters,
            flops=self.about.flops,
            checkpoint=self.about.checkpoint,
        )

    @property
    def speed(self) -> float | None:
        """Images per second of the extraction, as the feature store recorded it."""
        found = next((rows for rows in self._features.values() if isinstance(rows, SplitRows)), None)
        return None if found is None else found.speed

    def rows(self, layer: str) -> SplitRows:
        """Return features and labels at a layer, or raise the error of its extraction."""
        found = self._features[layer]
        if isinstance(found, UnseenError):
            raise found
        return found

    @cached_property
    def _features(self) -> dict[str, SplitRows | UnseenError]:
        began = perf_counter()
        known = self.bench.backbone(self.model).layer_names()
        found = self._extracted([layer for layer in self._wanted if layer in known])
        for layer in self._wanted:  # an unknown layer is extracted alone, which raises its error
            found |= self._extracted([layer]) if layer not in known else {}
        self.seconds = perf_counter() - began
        return found

    def _extracted(self, layers: list[str]) -> dict[str, SplitRows | UnseenError]:
        try:
            return dict(self.bench.layers(self.model, self.dataset, self.split, layers)) if layers else {}
        except DiskFullError:
            raise
        except UnseenError as error:
            if len(layers) == 1:
                return {layers[0]: error}
        return {layer: one for layer in layers for one in self._extracted([layer]).values()}


def score_result(cell: Cell, card: ScoreCard, images: ScoredImages, *, resamples: int, seed: int) -> Result:
    """Return one score on all images and on every half-sample."""
    if images.dataset.target != CLASS:
        return target_result(cell, images, resamples=resamples, seed=seed)
    rows = images.rows(LOGITS if card.needs_head else str(RankParameters.read(cell.parameters).layer))
    values, labels = np.asarray(rows.features[:]), rows.labels
    (count, width), classes = values.shape, len(np.unique(labels))
    given = softmax(np.asarray(values, np.float64)) if card.needs_head else values
    notes: list[str] = []
    began = perf_counter()
    with one_thread(), ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        parts = None if card.parts is None else _parts(card, given, labels, seed, notes)
        terms = _terms(card, given, labels, seed, tell=notes.append) if parts is None else [float(np.nanmean(parts))]
        seconds = perf_counter() - began
        samples = half_samples(labels, resamples, seed)
        if parts is not None:
            draws = [[float(np.nanmean(parts[some]))] for some in samples]
        else:
            draws = list(pool.map(lambda some: _sample_terms(card, given[some], labels[some], seed), samples))
    features = int(images.bench.card(cell.model).feature_dim or width) if card.needs_head else width
    flops = score_flops(card, count, features, classes, width)
    if card.needs_head:  # the head, which a forward pass for features does not include
        flops += 2.0 * count * features * width
    # A score that is relative to all candidates is computed from the terms of all of them when results are read.
    names = [f"term_{number}" for number in range(1, len(terms) + 1)] if card.pool_relative else ["score"]
    details = RankDetails(
        terms=tuple(map(float, terms)),
        draws=tuple(tuple(map(float, draw)) for draw in draws),
        draw_images=len(samples[0]) if samples else 0,
        notes=tuple(notes),
        images=count,
        classes=classes,
        majority=float(np.unique(labels, return_counts=True)[1].max() / count),
        dimensions=features,
        head=width if card.needs_head else RankDetails.head,
        gflops=flops / 1e9,
        forward_gflops=float(images.about.flops or 0) * count / 1e9,
        score_seconds=seconds,
        hits=written_hits(parts, rows.index, rows.total) if parts is not None and card.id == EXPECTED else "",
    )
    details = images.described(details)
    return Result(
        cell, metrics=dict(zip(names, terms, strict=True)), seconds=perf_counter() - began, details=details.to_dict()
    )


def target_result(cell: Cell, images: ScoredImages, *, resamples: int, seed: int) -> Result:
    """Return the result of a score for values and several labels: ridge regression, or LogME."""
    from unseen.ranking.scores.logme import logme_targets  # planning does not need it

    score, target = RankParameters.read(cell.parameters).score, images.dataset.target
    rows = images.rows(str(RankParameters.read(cell.parameters).layer))
    split = images.dataset.split(images.split)
    wanted = np.asarray(split.targets, np.float64)[rows.index]
    # An image without any label has no precision; counted as right, it would raise the value of every checkpoint.
    kept = wanted.any(axis=1) if target == SEVERAL else np.ones(len(wanted), np.bool_)
    lost = {split.names[i]: "the image has no label" for i in rows.index[~kept]}
    features, wanted, index = np.asarray(rows.features[:])[kept], wanted[kept], rows.index[kept]
    began = perf_counter()
    with one_thread():
        if score == EXPECTED:
            parts = (value_parts if target == NUMBER else label_parts)(features, wanted, seed=seed)
            value = float(parts.mean())
        elif score == "logme":
            value = logme_targets(features, wanted)
        else:
            raise DataError(f"{score} needs classes; {images.dataset.id!r} has {target}.")
        seconds = perf_counter() - began
        samples = half_samples(np.zeros(len(wanted), np.int64), resamples, seed)
        halves = [parts[some].mean() if score == EXPECTED else _half(features[some], wanted[some]) for some in samples]
    details = RankDetails(
        terms=(float(value),),
        draws=tuple((float(each),) if np.isfinite(each) else () for each in halves),
        draw_images=len(samples[0]) if samples else 0,
        notes=(f"{len(lost):,} images without a label were left out",) if lost else (),
        images=len(wanted),
        classes=1 if wanted.ndim == 1 else wanted.shape[1],
        measure=MEASURES[target],
        dimensions=features.shape[1],
        score_seconds=seconds,
        hits=written_hits(parts, index, rows.total) if score == EXPECTED else "",
    )
    details = images.described(details)
    record = RunRecord(dropped=dropped("unlabelled", lost, images.split))
    return Result(
        cell, metrics={"score": value}, seconds=perf_counter() - began, details=details.to_dict(), record=record
    )


def _half(features: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> float:
    from unseen.ranking.scores.logme import logme_targets

    try:
        return logme_targets(features, wanted)
    except UnseenError:
        return float("nan")  # a label without an image in the half-sample


#: Signs of `written_hits`.
_WRONG, _RIGHT, _UNKNOWN = "01-"


def written_hits(parts: FloatArray, index: npt.NDArray[np.int64], total: int) -> str | tuple[float | None, ...]:
    """Return the outcome of every image of the split: "1" right, "0" wrong, "-" not evaluated; numbers for scores."""
    placed = np.full(total, np.nan)
    placed[index] = parts
    known = placed[np.isfinite(placed)]
    if np.isin(known, (0.0, 1.0)).all():
        return "".join(_UNKNOWN if value != value else _RIGHT if value else _WRONG for value in placed.tolist())
    return tuple(None if value != value else round(value, 6) for value in placed.tolist())


def read_hits(written: str | Sequence[float | None]) -> FloatArray:
    """Return the outcomes that `written_hits` wrote; NaN for images that were not evaluated."""
    if isinstance(written, str):
        return np.asarray([np.nan if sign == _UNKNOWN else float(sign) for sign in written])
    return np.asarray([np.nan if value is None else value for value in written], dtype=np.float64)


def half_samples(labels: npt.NDArray[np.int64], count: int, seed: int) -> list[npt.NDArray[np.int64]]:
    """Return row numbers of stratified half-samples; none if there are too few images.

    Different seeds give independent samples; a larger `count` begins with the samples of a smaller one.
    """
    classes, images = len(np.unique(labels)), len(labels)
    size = min(max(min(images // 2, LARGEST_SAMPLE), 2 * classes), images - 1)
    if size <= classes:
        return []
    index = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    seeds = (int(child.generate_state(1, np.uint64)[0]) for child in np.random.SeedSequence(seed).spawn(count))
    return [stratified_rows(index, size, one) for one in seeds]


def _terms(card: ScoreCard, given: Any, labels: npt.NDArray[np.int64], seed: int, **rest: Any) -> list[float]:
    kind = "probabilities" if card.needs_head else "features"
    return list(score_terms(card, labels, seed=seed, **{kind: given}, **rest))


def _parts(card: ScoreCard, given: Any, labels: npt.NDArray[np.int64], seed: int, notes: list[str]) -> FloatArray:
    assert card.parts is not None
    extra: dict[str, Any] = dict(card.options) | ({"seed": seed} if card.seeded else {})
    return card.parts(given, labels, **extra, **({"tell": notes.append} if card.tells else {}))


def _sample_terms(card: ScoreCard, given: Any, labels: npt.NDArray[np.int64], seed: int) -> list[float]:
    """Return the terms on some rows; empty if the sample is too small for the score."""
    try:
        return _terms(card, given, labels, seed)
    except UnseenError:
        return []
