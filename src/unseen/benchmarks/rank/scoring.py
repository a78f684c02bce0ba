"""Scores of one checkpoint on one labelled set. The answer is based on the expected accuracy, see `expected`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from time import perf_counter

import numpy as np

from unseen.backbones.load import LOGITS
from unseen.benchmarks.rank.details import EXPECTED, RankDetails, RankParameters
from unseen.benchmarks.rank.expected import cross_validated, expect, written_hits, written_numbers
from unseen.benchmarks.workbench import GIVEN, SplitRows, Workbench
from unseen.core.arrays import AnyArray, IntArray
from unseen.core.errors import DataError, DiskFullError, UnseenError
from unseen.core.extras import one_thread
from unseen.core.identity import Values, digest
from unseen.core.records import Cell, Result
from unseen.core.run_record import RunRecord, dropped
from unseen.data.dataset import CLASS, NUMBER, SEVERAL
from unseen.data.subset import select
from unseen.metrics import softmax
from unseen.ranking.cards import ScoreCard, find_score, score_flops, score_terms

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
        options = [RankParameters.read(cell.parameters) for cell in cells]
        heads = [LOGITS for one in options if one.is_scored and find_score(one.score).needs_head]
        self._layers = list(dict.fromkeys([*(one.layer for one in options if one.layer is not None), *heads]))

    @cached_property
    def about(self) -> RankDetails:
        """What is known of the checkpoint, its images and their extraction."""
        from unseen.features.extraction import measure_cost  # loads torch, which planning does not need

        card, how = self.bench.card(self.model), self.bench.how
        measured: Values = {"checkpoint": self.model}
        if not self.model.startswith(GIVEN):
            backbone = self.bench.backbone(self.model)
            cost = measure_cost(backbone, device=how.device, precision=how.precision, graphs=how.graphs)
            weights = digest([backbone.weights, backbone.preprocessing.to_dict()])
            measured = {**asdict(cost), "checkpoint": weights}
            del measured["batch"]
        return RankDetails(
            total=self.total,
            images_per_second=next((r.speed for r in self._features.values() if isinstance(r, SplitRows)), None),
            parameters=card.parameters,
            flops=card.flops,
            **measured,
        )

    def rows(self, layer: str) -> SplitRows:
        """Return features and labels at a layer, or raise the error of its extraction."""
        found = self._features[layer]
        if isinstance(found, UnseenError):
            raise found
        return found

    @cached_property
    def _features(self) -> dict[str, SplitRows | UnseenError]:
        known = ["pooled"] if self.model.startswith(GIVEN) else self.bench.backbone(self.model).layer_names()
        own = [layer for layer in self._layers if layer in known]
        found: dict[str, SplitRows | UnseenError] = {}
        for layers in [own] * bool(own) + [[layer] for layer in self._layers if layer not in known]:
            try:
                found |= self.bench.layers(self.model, self.dataset, self.split, layers)
            except DiskFullError:
                raise
            except UnseenError as error:
                found |= dict.fromkeys(layers, error)
        return found


def score_result(cell: Cell, card: ScoreCard, images: ScoredImages, *, seed: int) -> Result:
    """Return one score."""
    target, options = images.dataset.target, RankParameters.read(cell.parameters)
    rows, split = images.rows(LOGITS if card.needs_head else str(options.layer)), images.dataset.split(images.split)
    values, index = np.asarray(rows.features[:]), rows.index
    wanted: AnyArray = rows.labels if target == CLASS else np.asarray(split.targets, np.float64)[index]
    lost: dict[str, str] = {}
    if target == SEVERAL:
        # An image without any label has no precision; counted as right, it would raise the value of every checkpoint.
        kept = wanted.any(axis=1)
        lost = {split.names[i]: "the image has no label" for i in index[~kept]}
        values, wanted, index = values[kept], wanted[kept], index[kept]
    (count, width), counts = values.shape, np.unique(wanted, return_counts=True)[1]
    notes = [f"{len(lost):,} images without a label were left out"] if lost else []
    began = perf_counter()
    about = images.about
    with one_thread():
        if card.id == EXPECTED:
            about = expected_details(about, values, wanted, images, index, options)
            terms: tuple[float, ...] = (float(about.expected or 0.0),)
        elif target == CLASS:
            head = softmax(values.astype(np.float64)) if card.needs_head else None
            terms = score_terms(card, wanted, features=values, probabilities=head, seed=seed, tell=notes.append)
        elif card.targets is not None:
            terms = (card.targets(values, wanted),)
        else:
            raise DataError(f"{card.id} needs classes; the targets of these images are of the kind {target!r}.")
    seconds = perf_counter() - began
    classes = len(counts) if target == CLASS else wanted.shape[1] if wanted.ndim == 2 else 1
    flops, dimensions, outputs = 0.0, width, RankDetails.head
    if card.needs_head:  # the head is no part of a forward pass for features
        dimensions, outputs = int(images.bench.card(cell.model).feature_dim or width), width
        flops = 2.0 * count * dimensions * width
    if target == CLASS:
        flops += score_flops(card, count, dimensions, classes, width)
    details = replace(
        about,
        terms=terms,
        notes=tuple(notes),
        images=count,
        measure=MEASURES[target] if not options.balanced else BALANCED,
        classes=classes,
        majority=float(counts.max() / count) if target == CLASS else None,
        dimensions=dimensions,
        head=outputs,
        gflops=flops / 1e9,
        score_seconds=seconds,
    )
    # A score that is relative to all candidates is computed from the terms of all of them when results are read.
    names = [f"term_{number}" for number in range(1, len(terms) + 1)] if card.pool_relative else ["score"]
    return Result(
        cell,
        metrics=dict(zip(names, terms, strict=True)),
        seconds=seconds,
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
) -> RankDetails:
    """Return the details with the expected value and the outcome of every image."""
    split, target = images.dataset.split(images.split), images.dataset.target
    groups = None if split.groups is None else split.groups[index]
    found = cross_validated(features, targets, target, seed=options.seed, groups=groups)
    value, size = expect(found, balanced=options.balanced)
    known = np.isfinite(found.outcomes)
    labels, names = np.zeros(len(split.names), np.int64), np.empty(0)
    labels[index] = found.index
    if target == CLASS:
        names = np.asarray(images.dataset.class_names)[np.unique(targets)]
    return replace(
        about,
        hits=written_hits(found.outcomes, index, len(split.names)),
        expected=value,
        size=size,
        units=len(np.unique(found.groups[known])),
        evaluated=int(known.sum()),
        copies=found.copies,
        groups=0 if groups is None else len(np.unique(groups)),
        balanced=options.balanced,
        labels=written_numbers(labels) if target == CLASS else "",
        class_names=tuple(map(str, names)),
    )
