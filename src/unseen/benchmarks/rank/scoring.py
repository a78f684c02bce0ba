"""Scores of one checkpoint on one labelled set and on half-samples of it.

A half-sample without replacement has the spread of a new sample of the full size (delete-half jackknife). A bootstrap
with replacement would contain equal images, which nearest neighbours and mixtures mistake for structure. A score that
is a mean over images is not computed again: its half-samples are means of the values per image. The expected accuracy
of a linear head, on which the answer is based, is in `expected`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from time import perf_counter

import numpy as np

from unseen.backbones.load import LOGITS
from unseen.benchmarks.rank.details import EXPECTED, RankDetails, RankParameters
from unseen.benchmarks.rank.expected import cross_validated, expect, written_hits, written_numbers
from unseen.benchmarks.workbench import GIVEN, SplitRows, Workbench
from unseen.core.arrays import AnyArray, FloatArray, IntArray
from unseen.core.errors import DataError, DiskFullError, UnseenError
from unseen.core.extras import one_thread
from unseen.core.identity import digest
from unseen.core.records import Cell, Result
from unseen.core.run_record import RunRecord, dropped
from unseen.data.dataset import CLASS, NUMBER, SEVERAL
from unseen.data.subset import select
from unseen.metrics import softmax
from unseen.ranking.cards import ScoreCard, find_score, score_flops, score_terms
from unseen.ranking.inputs import Tell, stratified_rows

#: Largest half-sample: larger ones cost time and add little; the spread is scaled to the number of all images.
LARGEST_SAMPLE = 2000
#: The measure of the answer, by kind of targets.
MEASURES = {CLASS: "accuracy", NUMBER: "R2", SEVERAL: "precision"}
BALANCED = "balanced accuracy"


class ScoredImages:
    """The images that one checkpoint is scored on, and their features: all layers of all cells in one pass."""

    def __init__(self, bench: Workbench, cells: Sequence[Cell], *, split: str, sample: int, seed: int) -> None:
        self.bench, self.model, self.split = bench, cells[0].model, split
        whole = bench.dataset(cells[0].dataset)
        self.total = len(whole.split(split))
        self.dataset = select(whole, limit=sample, seed=seed) if sample else whole
        self.seconds = 0.0
        options = [RankParameters.read(cell.parameters) for cell in cells]
        heads = [LOGITS for one in options if one.resamples is not None and find_score(one.score).needs_head]
        self._layers = list(dict.fromkeys([*(one.layer for one in options if one.layer is not None), *heads]))

    @cached_property
    def about(self) -> RankDetails:
        """What is known of the checkpoint, its images and their extraction."""
        from unseen.features.extraction import measure_cost  # loads torch, which planning does not need

        card, weights, cost, how = self.bench.card(self.model), self.model, None, self.bench.how
        if not self.model.startswith(GIVEN):
            backbone = self.bench.backbone(self.model)
            weights = digest([backbone.weights, backbone.preprocessing.to_dict()])
            cost = measure_cost(backbone, device=how.device, precision=how.precision, graphs=how.graphs)
        return RankDetails(
            latency=None if cost is None else cost.latency,
            batch_latency=None if cost is None else cost.batch_latency,
            memory=None if cost is None else cost.memory,
            total=self.total,
            images_per_second=next((r.speed for r in self._features.values() if isinstance(r, SplitRows)), None),
            extraction_seconds=self.seconds,
            parameters=card.parameters,
            flops=card.flops,
            checkpoint=weights,
        )

    def rows(self, layer: str) -> SplitRows:
        """Return features and labels at a layer, or raise the error of its extraction."""
        found = self._features[layer]
        if isinstance(found, UnseenError):
            raise found
        return found

    @cached_property
    def _features(self) -> dict[str, SplitRows | UnseenError]:
        began = perf_counter()
        given = self.model.startswith(GIVEN)
        known = ["pooled"] if given else self.bench.backbone(self.model).layer_names()
        found = self._extract([layer for layer in self._layers if layer in known])
        for layer in self._layers:  # an unknown layer is extracted alone, which raises its error
            found |= self._extract([layer]) if layer not in known else {}
        self.seconds = perf_counter() - began
        return found

    def _extract(self, layers: list[str]) -> dict[str, SplitRows | UnseenError]:
        try:
            return dict(self.bench.layers(self.model, self.dataset, self.split, layers)) if layers else {}
        except DiskFullError:
            raise
        except UnseenError as error:
            if len(layers) == 1:
                return {layers[0]: error}
        return {layer: one for layer in layers for one in self._extract([layer]).values()}


def score_result(cell: Cell, card: ScoreCard, images: ScoredImages, *, resamples: int, seed: int) -> Result:
    """Return one score on all images and on every half-sample."""
    target, options = images.dataset.target, RankParameters.read(cell.parameters)
    rows = images.rows(LOGITS if card.needs_head else str(options.layer))
    values, index = np.asarray(rows.features[:]), rows.index
    wanted: AnyArray = rows.labels
    lost: dict[str, str] = {}
    if target != CLASS:
        card, split = _for_targets(card, target), images.dataset.split(images.split)
        wanted = np.asarray(split.targets, np.float64)[index]
        # An image without any label has no precision; counted as right, it would raise the value of every checkpoint.
        kept = wanted.any(axis=1) if target == SEVERAL else np.ones(len(wanted), np.bool_)
        lost = {split.names[i]: "the image has no label" for i in index[~kept]}
        values, wanted, index = values[kept], wanted[kept], index[kept]
    (count, width), counts = values.shape, np.unique(wanted, return_counts=True)[1]
    kind, inputs = ("probabilities", softmax(values.astype(np.float64))) if card.needs_head else ("features", values)
    notes = [f"{len(lost):,} images without a label were left out"] if lost else []
    began = perf_counter()
    about, parts = images.about, None
    with one_thread(), ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        if card.id == EXPECTED:
            about, parts = expected_details(about, values, wanted, images, index, options)
        elif card.parts is not None:
            parts = card.parts(inputs, wanted, **card.arguments(seed, notes.append))

        def terms(some: IntArray | slice, tell: Tell | None = None) -> tuple[float, ...]:
            if parts is not None:
                whole = card.id == EXPECTED and tell is not None
                return (float(about.expected if whole and about.expected is not None else np.nanmean(parts[some])),)
            try:
                return score_terms(card, wanted[some], **{kind: inputs[some]}, seed=seed, tell=tell)
            except UnseenError:
                if tell is None:  # a half-sample is too small for the score
                    return ()
                raise

        whole = terms(slice(None), notes.append)
        seconds = perf_counter() - began
        samples = half_samples(rows.labels if target == CLASS else np.zeros(count, np.int64), resamples, seed)
        draws = tuple(pool.map(terms, samples))
    classes = len(counts) if target == CLASS else wanted.shape[1] if wanted.ndim == 2 else 1
    dimensions = int(images.bench.card(cell.model).feature_dim or width) if card.needs_head else width
    flops = score_flops(card, count, dimensions, classes, width) if target == CLASS else 0.0
    # The head is no part of a forward pass for features.
    head = 2.0 * count * dimensions * width if card.needs_head else 0.0
    details = replace(
        about,
        terms=whole,
        draws=draws,
        draw_images=len(samples[0]) if samples else 0,
        notes=tuple(notes),
        images=count,
        measure=MEASURES[target] if not options.balanced else BALANCED,
        classes=classes,
        majority=float(counts.max() / count) if target == CLASS else None,
        dimensions=dimensions,
        head=width if card.needs_head else RankDetails.head,
        gflops=(flops + head) / 1e9,
        score_seconds=seconds,
    )
    # A score that is relative to all candidates is computed from the terms of all of them when results are read.
    names = [f"term_{number}" for number in range(1, len(whole) + 1)] if card.pool_relative else ["score"]
    return Result(
        cell,
        metrics=dict(zip(names, whole, strict=True)),
        seconds=perf_counter() - began,
        details=details.to_dict(),
        record=RunRecord(dropped=dropped("unlabelled", lost, images.split)),
    )


def expected_details(
    about: RankDetails,
    features: AnyArray,
    targets: AnyArray,
    images: ScoredImages,
    index: IntArray,
    options: RankParameters,
) -> tuple[RankDetails, FloatArray]:
    """Return the details with the expected value and the outcome of every image, and the outcomes."""
    split = images.dataset.split(images.split)
    groups = None if split.groups is None else split.groups[index]
    found = cross_validated(features, targets, images.dataset.target, seed=options.seed, groups=groups)
    value, size = expect(found, balanced=options.balanced)
    classes = np.zeros(len(split.names), np.int64)
    classes[index] = found.index
    known = np.isfinite(found.outcomes)
    about = replace(
        about,
        hits=written_hits(found.outcomes, index, len(split.names)),
        expected=value,
        size=size,
        units=len(np.unique(found.groups[known])),
        evaluated=int(known.sum()),
        copies=found.copies,
        groups=0 if groups is None else len(np.unique(groups)),
        balanced=options.balanced,
    )
    if images.dataset.target == CLASS:
        names = [str(images.dataset.class_names[i]) for i in np.unique(targets).tolist()]
        about = replace(about, labels=written_numbers(classes), class_names=tuple(names))
    return about, found.outcomes


def _for_targets(card: ScoreCard, target: str) -> ScoreCard:
    """Return the variant of a score for values and several labels."""
    if card.id == EXPECTED:
        return card
    if card.targets is None:
        raise DataError(f"{card.id} needs classes; the targets of these images are of the kind {target!r}.")
    return replace(card, compute=card.targets)


def half_samples(labels: IntArray, count: int, seed: int) -> list[IntArray]:
    """Return row numbers of stratified half-samples; none if there are too few images.

    Different seeds give independent samples; a larger `count` begins with the samples of a smaller one.
    """
    names, index = np.unique(labels, return_inverse=True)
    size = min(max(min(len(labels) // 2, LARGEST_SAMPLE), 2 * len(names)), len(labels) - 1)
    if size <= len(names):
        return []
    seeds = (int(child.generate_state(1, np.uint64)[0]) for child in np.random.SeedSequence(seed).spawn(count))
    return [stratified_rows(index.astype(np.int64), size, one) for one in seeds]
