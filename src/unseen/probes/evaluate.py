"""Probe one set of features: all seeds and all numbers of shots in one call, over shared work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from unseen.core.arrays import AnyArray, BoolArray, FloatArray, IntArray
from unseen.core.errors import DataError, UsageError
from unseen.probes.outcome import Fit, Model, ProbeResult
from unseen.probes.rows import FeatureSet, LabelledRows, Rows, Workers, join_rows, prepare_rows
from unseen.probes.sampling import Draw, Shots, draw_rows
from unseen.probes.solvers import SEEDS, Settings, SolverName, solve, solver_name, solver_version

Found = TypeVar("Found")

_TOP = 5
_BINS = 15
_SMALLEST_LIMIT = 1 << 28  # bytes; below it, features are streamed
_LEAST = 1e-7  # probability that a log loss is taken of


def evaluate_probe(
    train_features: object,
    train_labels: npt.ArrayLike,
    test_features: object,
    test_labels: npt.ArrayLike,
    *,
    solver: SolverName = "logistic",
    shots: Shots | Sequence[Shots] = "all",
    seeds: int | Sequence[int] = SEEDS,
    validation_features: object = None,
    validation_labels: npt.ArrayLike | None = None,
    square_root: bool = False,
    device: torch.device | str = "cpu",
    memory_limit: int | None = None,
    settings: Settings | None = None,
    groups: IntArray | None = None,
) -> list[ProbeResult]:
    """Tune, fit and test a probe for every seed and number of shots.

    Test images are read after everything is chosen and fitted; nothing is tuned on them.

    Args:
        train_features: (n, d) array, tensor, memory map, or store of rows.
        train_labels: (n,) labels of any sortable type.
        test_features: (m, d), of the same model.
        test_labels: (m,); a label that is not in the training data counts as wrong.
        solver: "logistic", "paper", "ridge", "knn" or "ncm".
        shots: images per class ("all" for all of them), one or several; one record each.
        seeds: of sampling and of the search, one record each; a number means that many of the published ones.
        validation_features: the dataset's own validation split; without one, `logistic` uses 5-fold cross-validation,
            and the others hold out a fifth of each class.
        validation_labels: its labels.
        square_root: take square roots of the features before they are scaled to unit length; `logistic` then uses no
            other power.
        device: where to compute, such as "cuda".
        memory_limit: bytes that working copies may take before features are streamed; by default a quarter of the
            machine's memory, or 80 % of the free memory of a GPU. If a device runs out of memory, the probe is
            evaluated again with a quarter of the limit, at last with streamed features.
        settings: other hyper-parameters of the solver.
        groups: (n,) group of each training image: neither a fold nor a validation split divides a group.

    Returns:
        One record per (shots, seed), in that order.
    """
    chosen, where = settings or Settings(), torch.device(device)
    if memory_limit is not None:
        chosen = replace(chosen, memory_limit=memory_limit)
    elif where.type == "cuda":
        chosen = replace(chosen, memory_limit=device_memory(where))
    name, numbers = solver_name(solver), _several_seeds(seeds)
    counts = list(dict.fromkeys([shots] if isinstance(shots, int | str) else shots))

    pair = _checked(train_features, train_labels, "training")
    if (validation_features is None) != (validation_labels is None):
        raise DataError("validation features and validation labels go together: give both, or neither.")
    held = None if validation_features is None else _checked(validation_features, validation_labels, "validation")
    joined, wanted = join_rows(pair, held)
    test_rows, tested = _checked(test_features, test_labels, "test")
    start = None if held is None else len(pair[1])

    def evaluate(limit: int) -> list[ProbeResult]:
        rows, test = prepare_rows(joined, test_rows, device=where, square_root=square_root, memory_limit=limit)
        data, classes = labelled(rows, wanted, start), np.unique(wanted)
        index = data.labels.cpu().numpy()
        draws = [
            draw
            for seed in numbers
            for draw in draw_rows(index, seed=seed, shots=counts, validation_start=start, groups=groups)
        ]
        draws.sort(key=lambda draw: counts.index(draw.shots))
        with Workers() as workers:
            fits = solve(name, data, draws, workers, replace(chosen, memory_limit=limit))
            pairs = zip(draws, fits, strict=True)
            return [_test(name, draw, fit, test, tested, classes, workers) for draw, fit in pairs]

    return within_memory(evaluate, chosen.memory_limit)


def device_memory(device: torch.device) -> int:
    """Return the bytes that working copies may take on a GPU: 80 % of what is free."""
    return int(0.8 * torch.cuda.mem_get_info(device)[0])


def within_memory(work: Callable[[int], Found], limit: int) -> Found:
    """Return `work(limit)`; if the device runs out of memory, with smaller limits, at last 0."""
    while True:
        try:
            return work(limit)
        except torch.cuda.OutOfMemoryError:
            if not limit:
                raise
        limit = limit // 4 if limit > _SMALLEST_LIMIT else 0
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _several_seeds(seeds: int | Sequence[int]) -> list[int]:
    if not isinstance(seeds, int):
        return list(seeds)
    if seeds < 1:
        raise UsageError(f"at least one seed is needed, found {seeds}. Give how many, or the seeds themselves.")
    return [*SEEDS, *range(100, 100 + seeds)][:seeds]


def _checked(features: object, labels: npt.ArrayLike | None, name: str) -> tuple[Rows, AnyArray]:
    """Return rows, without a copy of them in memory, and one label per row."""
    rows = FeatureSet(features, f"{name} features", memory_limit=0)
    return rows.source, _labels(labels, rows.count, name)


def labelled(rows: FeatureSet, labels: AnyArray, stop: int | None = None) -> LabelledRows:
    """Return rows with class indices.

    Args:
        rows: the features.
        labels: one per row.
        stop: labels before this row, the training labels, must have two classes; all by default.
    """
    classes, index = np.unique(labels, return_inverse=True)
    if len(np.unique(labels[:stop])) < 2:
        raise DataError(
            f"the training labels have one class only ({labels[:1].tolist()[0]!r}): a classifier needs at least two. "
            "Check that the right column was read as labels."
        )
    return LabelledRows(rows, torch.from_numpy(index.astype(np.int64)).to(rows.device), len(classes))


def _labels(labels: npt.ArrayLike | None, count: int, name: str) -> AnyArray:
    """Return one label per row.

    Raises:
        DataError: labels are missing, or do not fit the rows.
    """
    if labels is None:
        raise DataError(f"{name}: labels are missing. Give one per row of the features.")
    array = labels.detach().cpu().numpy() if isinstance(labels, torch.Tensor) else np.asarray(labels)
    if array.shape == (count, 1):
        array = array[:, 0]
    if array.shape != (count,):
        raise DataError(f"{name}: {count} rows of features need {count} labels in one dimension, found {array.shape}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DataError(f"{name} labels contain NaN or infinity. Every image needs a class.")
    return array


def _test(
    solver: str, draw: Draw, fit: Fit, rows: FeatureSet, wanted: AnyArray, classes: AnyArray, workers: Workers
) -> ProbeResult:
    """Test one fitted probe on rows with their labels; `classes` are those of the training data."""
    estimate = fit.estimate
    place = np.searchsorted(classes, wanted).clip(max=len(classes) - 1)
    index = np.where(classes[place] == wanted, place, -1)
    predicted, rank, confidence, own_chance = classify(fit.model, rows, index, workers)
    predictions, correct, known = classes[predicted], rank < 1, index >= 0
    everything, places = np.unique(np.concatenate([classes, wanted]), return_inverse=True)
    own, number = places[len(classes) :], len(everything)
    with np.errstate(invalid="ignore"):  # NaN where a class has no test image
        per_class = np.bincount(own, predictions == wanted, number) / np.bincount(own, minlength=number)
    record = ProbeResult(
        solver=solver,
        seed=draw.seed,
        shots=draw.shots,
        top1=float(correct.mean()),
        top5=float((rank < _TOP).mean()),
        per_class=per_class,
        classes=everything,
        labels=wanted,
        predictions=predictions,
        correct=correct,
        trials=fit.trials,
        best=fit.best,
        seconds=fit.seconds,
        train_size=len(draw.final),
        validation_size=len(draw.validation),
        log_loss=float(-np.log(own_chance[known].clip(min=_LEAST)).mean()) if known.any() else math.nan,
        calibration_error=calibration_error(confidence, correct),
        note=fit.note,
        version=solver_version(solver),
    )
    if estimate is None:
        return record
    return replace(
        record,
        validation_size=estimate.images,
        expected=estimate.accuracy,
        expected_se=estimate.standard_error,
        expected_shots=estimate.shots,
    )


def classify(
    model: Model, rows: FeatureSet, labels: IntArray, workers: Workers
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Return per row the predicted class, the number of classes above its own, and the probabilities of both.

    Equal scores rank by column, as argmax does. A label of -1 ranks below all classes.
    """

    def block(bounds: tuple[int, int]) -> tuple[AnyArray, ...]:
        scores = model.scores(rows.read(*bounds))
        truth = torch.from_numpy(labels[slice(*bounds)])[:, None]
        own = scores.gather(1, truth.clamp_min(0))
        earlier = torch.arange(scores.shape[1])[None] < truth
        rank = ((scores > own) | ((scores == own) & earlier)).sum(dim=1)
        rank[truth[:, 0] < 0] = scores.shape[1]
        chances = model.probabilities(scores)
        found = (scores.argmax(dim=1), rank, chances.amax(dim=1), chances.gather(1, truth.clamp_min(0))[:, 0])
        return tuple(part.numpy() for part in found)

    found = list(workers.ordered(block, rows.blocks(2048)))
    predicted, rank, confidence, own = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return predicted, rank, confidence.astype(np.float64), own.astype(np.float64)


def calibration_error(confidence: FloatArray, correct: BoolArray) -> float:
    """Return the expected calibration error of Guo et al., ICML 2017, Eq. (3), over fifteen bins of equal width."""
    place = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(place, confidence, _BINS) - np.bincount(place, correct, _BINS)
    return float(np.abs(gaps).sum() / len(correct))
