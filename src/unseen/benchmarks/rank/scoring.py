"""Scores of one checkpoint on one labelled set and on half-samples of it, and the expected accuracy of a linear head.

A half-sample without replacement has the spread of a new sample of the full size (delete-half jackknife). A bootstrap
with replacement would contain equal images, which nearest neighbours and mixtures mistake for structure. A score that
is a mean over images is not computed again: its half-samples are means of the values per image.

Papers:     Hastie, Tibshirani & Friedman, "The Elements of Statistical Learning", 2nd ed., 7.10 (cross-validation)
            Nadeau & Bengio, "Inference for the generalization error", Machine Learning 2003 [N]
Shapes:     X (n, d) features; y (n,) classes, (n,) values or (n, t) labels in {0, 1}; outcomes (n,): 1 or 0 (right or
            wrong), or a score, of each image when its fold was held out
Implements: per image whether the `logistic` probe of `unseen.probes` gets it right when its fold is held out; from
            LARGEST multiplications on, ridge regression onto class indicators, which takes seconds for 2,500 classes.
            For values 1 - (y - found)^2 / var(y), whose mean is R^2, and for several labels the precision at every
            right label averaged over the image's own, both by ridge (`unseen.ranking.ridge`). `expected_interval`
            turns the outcomes into the accuracy to expect on new images, with its confidence interval
Differs:    an image is evaluated at the penalty that the images of the other folds choose, by fits that each held its
            own fold out: choosing by the image itself promised up to 3 points too much (200 images, 13 penalties), a
            search for every fold would cost five times as much.
            Standard errors are larger than those over independent images [N], because the fits of cross-validation
            share training images and the final fit is another one. Over 200 simulated data sets of each of five kinds
            (200 to 1,000 images, 5 to 30 classes) a value varied 1.1 (1,000 images) to 1.4 times (200) as much about
            the accuracy on new images as the held-out images alone imply, and a difference of two equal candidates
            about 1.2 times as much: `spread` and SCATTER. bench/rank_calibration.py measures what follows from them
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from unseen.backbones.load import LOGITS
from unseen.benchmarks.rank.details import EXPECTED, RankDetails, RankParameters
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
from unseen.ranking.cards import FEATURES, LBFGS_STEPS, ScoreCard, Sizes, find_score, score_flops, score_terms
from unseen.ranking.inputs import Tell, check_features, mean_over_images, stratified_rows
from unseen.ranking.ridge import class_hits, label_parts, value_parts
from unseen.stats import Candidate, Interval
from unseen.stats.means import estimate_mean, share_interval, t_interval

#: Largest half-sample: larger ones cost time and add little; the spread is scaled to the number of all images.
LARGEST_SAMPLE = 2000
#: The measure of the answer, by kind of targets.
MEASURES = {CLASS: "accuracy", NUMBER: "R2", SEVERAL: "precision"}


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
        card, weights = self.bench.card(self.model), self.model
        if not self.model.startswith(GIVEN):
            backbone = self.bench.backbone(self.model)
            weights = digest([backbone.weights, backbone.preprocessing.to_dict()])
        return RankDetails(
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
    target = images.dataset.target
    rows = images.rows(LOGITS if card.needs_head else str(RankParameters.read(cell.parameters).layer))
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
    with one_thread(), ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        parts = None if card.parts is None else card.parts(inputs, wanted, **card.arguments(seed, notes.append))

        def terms(some: IntArray | slice, tell: Tell | None = None) -> tuple[float, ...]:
            if parts is not None:
                return (float(np.nanmean(parts[some])),)
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
        images.about,
        terms=whole,
        draws=draws,
        draw_images=len(samples[0]) if samples else 0,
        notes=tuple(notes),
        images=count,
        measure=MEASURES[target],
        classes=classes,
        majority=float(counts.max() / count) if target == CLASS else None,
        dimensions=dimensions,
        head=width if card.needs_head else RankDetails.head,
        gflops=(flops + head) / 1e9,
        score_seconds=seconds,
        hits=written_hits(parts, index, rows.total) if parts is not None and card.id == EXPECTED else "",
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


def _for_targets(card: ScoreCard, target: str) -> ScoreCard:
    """Return the variant of a score for values and several labels."""
    if card.id == EXPECTED:
        return replace(card, parts=value_parts if target == NUMBER else label_parts)
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


#: Signs of `written_hits`.
_WRONG, _RIGHT, _UNKNOWN = "01-"


def written_hits(parts: FloatArray, index: IntArray, total: int) -> str | tuple[float | None, ...]:
    """Return the outcome of every image of the split: "1" right, "0" wrong, "-" not evaluated; numbers for scores."""
    placed = np.full(total, np.nan)
    placed[index] = parts
    if np.isin(placed[np.isfinite(placed)], (0.0, 1.0)).all():
        return "".join(_UNKNOWN if value != value else _RIGHT if value else _WRONG for value in placed.tolist())
    return tuple(None if value != value else round(value, 6) for value in placed.tolist())


def read_hits(written: str | Sequence[float | None]) -> FloatArray:
    """Return the outcomes that `written_hits` wrote; NaN for images that were not evaluated."""
    return np.asarray([math.nan if value is None or value == _UNKNOWN else float(value) for value in written])


# ---- the expected accuracy -------------------------------------------------------------------------------------------

#: n x d x classes from which ridge regression takes the place of the logistic one.
LARGEST = 1 << 33
_FOLDS = 5
_DEFAULT = 10.0**-4.5  # penalty
#: Factor on the standard error of a difference of two candidates.
SCATTER = 1.25
#: Factor on the standard error of a value: it grows for few images, with which the fit and its penalty vary as well.
SPREAD, FEW = 1.1, 45.0
LEVEL = 0.95


def left_out_hits(features: ArrayLike, labels: ArrayLike, *, seed: int = 0) -> FloatArray:
    """Return 1 for images that a probe fitted without them classifies correctly, else 0; NaN if never held out."""
    rows, known = check_features(features, labels)
    if known.counts.max() < 2:
        raise DataError("no class has two images, so cross-validation is impossible. Add images, or use fewer classes.")
    if rows.size * known.classes >= LARGEST:
        return class_hits(rows, known, seed=seed)
    from unseen.probes import evaluate, sampling, solvers, workers  # they load torch, which planning does not need
    from unseen.probes.rows import FeatureSet

    data = evaluate.labelled(FeatureSet(np.asarray(features), "features"), known.index)
    with workers.Workers() as pool:
        settings = solvers.Settings(power=1.0)
        (fit,) = solvers.solve("logistic", data, sampling.draw_rows(known.index, seed=seed), pool, settings)
    estimate = fit.estimate
    assert estimate is not None and estimate.rows is not None and estimate.correct is not None
    fold_of = sampling.draw_folds(known.index, seed)[0][estimate.rows]
    penalties = [float(trial.parameters["regularization"]) for trial in fit.trials]
    hits = np.full(len(rows), np.nan)
    for fold in np.unique(fold_of):
        held = fold_of == fold
        others = ~held if not held.all() else held  # one fold alone: its images are many enough for one choice
        chosen = sampling.choose_penalty(estimate.correct[:, others], penalties, _DEFAULT)
        hits[estimate.rows[held]] = estimate.correct[chosen, held]
    return hits


#: The expected accuracy of a linear head on other images like these.
expected_accuracy = mean_over_images("expected_accuracy", left_out_hits)


def _cost(s: Sizes) -> float:
    return 4 * _FOLDS * 0.8 * s.n * s.m * s.c * LBFGS_STEPS + 2 * s.n * s.d * s.m


CARD = ScoreCard(
    EXPECTED,
    "Linear probe, cross-validated",
    FEATURES,
    expected_accuracy,
    _cost,
    parts=left_out_hits,
    seeded=True,
    notes="the expected accuracy of the answer",
)


def spread(images: int) -> float:
    """Return the factor on the standard error of a value."""
    return SPREAD + FEW / max(images, 100)


def expected_interval(outcomes: ArrayLike) -> Interval:
    """Return the expected value on new images with its 95 % confidence interval.

    No other code turns outcomes into an expected value: text, table, JSON, report and Python show this one.
    """
    values = np.asarray(outcomes, np.float64)
    n = len(values)
    scale, mean = spread(n), estimate_mean(values)
    if values.min() >= 0 and values.max() <= 1:
        return share_interval(replace(mean, variance=mean.variance * scale**2, size=mean.size / scale**2), n, LEVEL)
    error = math.sqrt(mean.variance) * scale
    return t_interval(mean.value, error, n - 1, n=n, level=LEVEL, method="Student's t, widened")


def estimates(hits: Mapping[str, FloatArray]) -> dict[str, Candidate]:
    """Return what `stats.decide` compares, by name, over the images for which every candidate has an outcome."""
    if not hits:
        return {}
    rows = np.stack(list(hits.values()))
    rows = rows[:, np.isfinite(rows).all(axis=0)]
    return {
        name: Candidate(row, expected_interval(row), units="held-out images", error_scale=SCATTER)
        for name, row in zip(hits, rows, strict=True)
    }


def rank_candidate(results: Sequence[Result], metric: str) -> Candidate | None:
    """Return the expected accuracy of one result with its interval and outcomes; None for any other score."""
    hits = RankDetails.read(results[0].details).hits
    return estimates({"": read_hits(hits)})[""] if metric == "score" and len(results) == 1 and hits else None
