"""Scores of one checkpoint on one labelled set. The answer is based on the expected accuracy, see `expected`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from time import perf_counter

import numpy as np

from unseen.backbones.load import LOGITS
from unseen.benchmarks.rank.details import EXPECTED, POOLED, RankDetails, RankParameters
from unseen.benchmarks.rank.expected import cross_validated, expect, packed
from unseen.benchmarks.workbench import GIVEN, SplitRows, Workbench
from unseen.core.arrays import AnyArray, IntArray
from unseen.core.errors import DataError
from unseen.core.extras import one_thread
from unseen.core.records import Cell, Result
from unseen.core.run_record import RunRecord, dropped
from unseen.data.dataset import CLASS, NUMBER, SEVERAL
from unseen.data.subset import select
from unseen.metrics import softmax
from unseen.ranking.cards import ScoreCard, find_score, score_flops, score_value

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
        measured = RankDetails()
        if not self.model.startswith(GIVEN):
            backbone = self.bench.backbone(self.model)
            cost = measure_cost(backbone, device=how.device, precision=how.precision, graphs=how.graphs)
            measured = RankDetails.read(asdict(cost))
        return replace(
            measured,
            total=self.total,
            images_per_second=next((rows.speed for rows in self._features.values()), None),
            parameters=card.parameters,
            flops=card.flops,
        )

    def rows(self, layer: str) -> SplitRows:
        """Return features and labels at a layer; an unknown layer raises an error of its own."""
        if layer not in self._features:
            self._features |= self.bench.layers(self.model, self.dataset, self.split, [layer])
        return self._features[layer]

    @cached_property
    def _features(self) -> dict[str, SplitRows]:
        known = [POOLED] if self.model.startswith(GIVEN) else self.bench.backbone(self.model).layer_names()
        own = [layer for layer in self._layers if layer in known]
        return self.bench.layers(self.model, self.dataset, self.split, own) if own else {}


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
            value = about.expected or 0.0
        elif target == CLASS:
            head = softmax(values.astype(np.float64)) if card.needs_head else None
            value = score_value(card, wanted, features=values, probabilities=head, seed=seed, tell=notes.append)
        elif card.targets is not None:
            value = card.targets(values, wanted)
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
        notes=tuple(notes),
        images=count,
        measure=MEASURES[target] if not options.balanced else BALANCED,
        classes=classes,
        majority=float(counts.max() / count) if target == CLASS else None,
        dimensions=dimensions,
        head=outputs,
        gflops=flops / 1e9,
    )
    return Result(
        cell,
        metrics={"score": value},
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
    total = len(split.names)
    names = [str(images.dataset.class_names[i]) for i in np.unique(targets)] if target == CLASS else []
    return replace(
        about,
        outcomes=packed(found.outcomes, index, total),
        expected=value,
        size=size,
        units=len(np.unique(found.groups[known])),
        evaluated=int(known.sum()),
        copies=found.copies,
        groups=0 if groups is None else len(np.unique(groups)),
        balanced=options.balanced,
        labels=packed(found.index, index, total) if target == CLASS else "",
        class_names=tuple(names),
    )
