"""Probe one set of features: all seeds and all numbers of shots in one call, over shared work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from unseen.core.errors import DataError
from unseen.metrics import per_class_accuracy
from unseen.probes.draws import Draw, Shots, draw_rows
from unseen.probes.linear import LabelledRows
from unseen.probes.outcome import Fit, Model, ProbeResult
from unseen.probes.protocol import SEEDS
from unseen.probes.rows import FeatureSet, IntArray, Joined
from unseen.probes.solvers import Settings, SolverName, solve
from unseen.probes.workers import Workers

_TOP = 5


def evaluate_probe(
    train_features: Any,
    train_labels: npt.ArrayLike,
    test_features: Any,
    test_labels: npt.ArrayLike,
    *,
    solver: SolverName = "fast",
    shots: Sequence[Shots] = ("all",),
    seeds: Sequence[int] = SEEDS,
    validation_features: Any = None,
    validation_labels: npt.ArrayLike | None = None,
    validation_fraction: float = 0.2,
    refit: bool = True,
    normalize: bool = True,
    settings: Settings | None = None,
) -> list[ProbeResult]:
    """Tune, fit and test a probe for every seed and number of shots.

    Test images are read once everything has been chosen and fitted; nothing is ever tuned on them.

    Args:
        train_features: (n, d) array, memory map or store of rows.
        train_labels: (n,) labels of any sortable type.
        test_features: (m, d), of the same model.
        test_labels: (m,); a label that training never shows counts as wrong.
        solver: "fast", "paper", "ridge", "knn" or "ncm".
        shots: images per class ("all" for all of them), one record each.
        seeds: of the draws and of the search, one record each.
        validation_features: the dataset's own validation split; without one, a share of train is held out.
        validation_labels: its labels.
        validation_fraction: the share of each class that is held out.
        refit: fit the chosen setting on train and validation images together; otherwise on the training part alone.
        normalize: scale features to unit length, as published.
        settings: everything else.

    Returns:
        One record per (shots, seed), in that order.
    """
    chosen = settings or Settings()
    data, classes, start = _training_data(
        train_features, train_labels, validation_features, validation_labels, normalize, chosen.memory_limit
    )
    draws = [
        draw
        for seed in seeds
        for draw in draw_rows(
            data.labels.numpy(),
            seed=seed,
            shots=shots,
            validation_fraction=validation_fraction,
            validation_start=start,
            refit=refit,
        )
    ]
    draws.sort(key=lambda draw: list(shots).index(draw.shots))
    test = FeatureSet(test_features, "test features", normalize=normalize, memory_limit=chosen.memory_limit)
    wanted = _labels(test_labels, test.count, "test")
    if test.dimension != data.features.dimension:
        raise DataError(
            f"training features have {data.features.dimension} columns and test features {test.dimension}. "
            "Extract both with the same model."
        )
    with Workers() as workers:
        fits = solve(solver, data, draws, workers, chosen)
        everything = np.unique(np.concatenate([classes, wanted]))
        return [
            _record(solver, draw, fit, test, wanted, classes, everything, workers)
            for draw, fit in zip(draws, fits, strict=True)
        ]


def _training_data(
    features: Any, labels: npt.ArrayLike, held: Any, held_labels: npt.ArrayLike | None, normalize: bool, limit: int
) -> tuple[LabelledRows, npt.NDArray[Any], int | None]:
    """Training rows, followed by the validation split where there is one: rows, classes, where validation starts."""
    if (held is None) != (held_labels is None):
        raise DataError("validation features and validation labels go together: give both, or neither.")
    rows = FeatureSet(features, "training features", normalize=normalize, memory_limit=limit)
    wanted = _labels(labels, rows.count, "training")
    start = None
    if held is not None:
        start = rows.count
        extra = FeatureSet(held, "validation features", normalize=normalize, memory_limit=limit)
        wanted = np.concatenate([wanted, _labels(held_labels, extra.count, "validation")])
        name = "training and validation features"
        rows = FeatureSet(Joined(rows.source, extra.source), name, normalize=normalize, memory_limit=limit)
    return labelled(rows, wanted, start), np.unique(wanted), start


def labelled(rows: FeatureSet, labels: npt.NDArray[Any], stop: int | None = None) -> LabelledRows:
    """Rows with class indices.

    Args:
        rows: the features.
        labels: one per row.
        stop: labels before this row must show two classes: they are what is trained on.
    """
    classes, index = np.unique(labels, return_inverse=True)
    if len(np.unique(labels[:stop])) < 2:
        raise DataError(
            f"the training labels show one class only ({labels[0]!r}): a classifier needs at least two. "
            "Check that the right column was read as labels."
        )
    return LabelledRows(rows, torch.from_numpy(index.astype(np.int64)), len(classes))


def _labels(labels: npt.ArrayLike | None, count: int, name: str) -> npt.NDArray[Any]:
    """One label per row, or an error that says what is wrong."""
    array = np.asarray(labels)
    if array.shape != (count,):
        raise DataError(f"{name}: {count} rows of features need {count} labels in one dimension, found {array.shape}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DataError(f"{name} labels contain NaN or infinity. Every image needs a class.")
    return array


def _record(
    solver: str,
    draw: Draw,
    fit: Fit,
    test: FeatureSet,
    wanted: npt.NDArray[Any],
    classes: npt.NDArray[Any],
    everything: npt.NDArray[Any],
    workers: Workers,
) -> ProbeResult:
    """Test one fitted probe."""
    place = np.searchsorted(classes, wanted).clip(max=len(classes) - 1)
    index = np.where(classes[place] == wanted, place, -1)
    predicted, rank = rank_of_truth(fit.model, test, index, workers)
    predictions = classes[predicted]
    return ProbeResult(
        solver=solver,
        seed=draw.seed,
        shots=draw.shots,
        top1=float((rank < 1).mean()),
        top5=float((rank < _TOP).mean()),
        per_class=per_class_accuracy(wanted, predictions, everything),
        classes=everything,
        predictions=predictions,
        correct=rank < 1,
        trials=fit.trials,
        best=fit.best,
        seconds=fit.seconds,
        train_size=len(draw.final),
        validation_size=len(draw.validation),
    )


def rank_of_truth(model: Model, rows: FeatureSet, labels: IntArray, workers: Workers) -> tuple[IntArray, IntArray]:
    """Predicted class of every row, and how many classes are ranked above its own.

    Equal scores rank by column, as argmax does. A label of -1 ranks below all classes.
    """

    def block(bounds: tuple[int, int]) -> tuple[IntArray, IntArray]:
        scores = model.scores(rows.read(*bounds))
        truth = torch.from_numpy(labels[slice(*bounds)])[:, None]
        own = scores.gather(1, truth.clamp_min(0))
        earlier = torch.arange(scores.shape[1])[None] < truth
        rank = ((scores > own) | ((scores == own) & earlier)).sum(dim=1)
        rank[truth[:, 0] < 0] = scores.shape[1]
        return scores.argmax(dim=1).numpy(), rank.numpy()

    found = list(workers.ordered(block, rows.blocks(2048)))
    return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])
