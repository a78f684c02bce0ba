"""The outcome of a probe run: every trial of its sweep, the fitted model, and the evaluated record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from unseen.core.arrays import AnyArray, BoolArray, FloatArray, IntArray
from unseen.probes.rows import STREAM_ROWS, LabelledRows, Workers, raise_values
from unseen.probes.sampling import Draw, Estimate, Shots, prediction_interval
from unseen.probes.solvers import Settings
from unseen.stats import Interval, accuracy_interval

_MISTAKES = 20  # of a record's dictionary


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting that was tried.

    Attributes:
        parameters: the setting, such as {"lr": 3.1, "wd": 1e-7}, {"regularization": 1e-5} or {"k": 20}.
        accuracy: top-1 on the validation rows, in [0, 1].
        log_loss: mean negative log-likelihood on the validation rows, where the solver knows it.
        note: anything unusual, such as a fit that did not converge.
        error: why the candidate failed, such as a training that diverged; "" if it did not.
    """

    parameters: Mapping[str, float]
    accuracy: float
    log_loss: float | None = None
    note: str = ""
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = {**self.parameters, "accuracy": self.accuracy, "log_loss": self.log_loss}
        values |= {"note": self.note, "error": self.error}
        return {name: value for name, value in values.items() if value not in (None, "")}


@dataclass(frozen=True, eq=False)
class TargetFit:
    """Base of the outcomes of probes of numbers and of several labels.

    Attributes:
        trials: every penalty that was tried; `accuracy` is what held-out rows reach with it.
        best: the chosen one.
    """

    trials: tuple[Trial, ...]
    best: Mapping[str, float]
    seconds: float
    train_size: int


class Model(Protocol):
    """A fitted classifier over class indices."""

    def scores(self, features: Tensor) -> Tensor:
        """Return (n, c), higher = more likely, for prepared feature rows (n, d)."""

    def probabilities(self, scores: Tensor) -> Tensor:
        """Return (n, c) for scores (n, c): rows that sum to one and rank as the scores do."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Scores W x + b.

    Attributes:
        weights: (c, d) float32.
        bias: (c,) float32.
        temperature: divisor of the scores before the softmax.
        power: exponent of the values of unit rows, which are normalised again before W applies to them.
    """

    weights: Tensor
    bias: Tensor
    temperature: float = 1.0
    power: float = 1.0

    def scores(self, features: Tensor) -> Tensor:
        if self.power != 1.0:
            features = torch.nn.functional.normalize(raise_values(features, self.power))
        return (self.weights.to(features.dtype) @ features.T).T + self.bias.to(features.dtype)

    def probabilities(self, scores: Tensor) -> Tensor:
        return torch.softmax(scores / self.temperature, dim=1)


def accuracy(model: LinearModel, data: LabelledRows, rows: IntArray) -> float:
    """Return the top-1 accuracy on `rows`, computed in blocks on the device of the features."""
    weights, bias = (part.to(data.features.device) for part in (model.weights, model.bias))
    correct = torch.zeros((), dtype=torch.int64, device=data.features.device)
    for block, labels in data.blocks(rows):
        correct += (torch.addmm(bias, block, weights.T).argmax(dim=1) == labels).sum()
    return int(correct) / len(rows)


def training_accuracy(model: LinearModel, data: LabelledRows, rows: IntArray) -> str:
    """Return the accuracy on the model's own training rows, in words."""
    return f"it classifies {100 * accuracy(model, data, rows):.1f} % of its own training images correctly"


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model with the sweep that chose it.

    Attributes:
        best: the setting that was chosen.
        seconds: time of this run, its share of common work included.
        note: anything unusual about the final fit.
        estimate: cross-validated accuracy, if the solver computes it.
    """

    model: Model
    trials: tuple[Trial, ...]
    best: Mapping[str, float]
    seconds: float = 0.0
    note: str = ""
    estimate: Estimate | None = None


def each_draw(
    fit: Callable[[LabelledRows, Draw, Settings], Fit],
) -> Callable[[LabelledRows, Sequence[Draw], Workers, Settings], list[Fit]]:
    """Make a solver from a function that fits one draw: the draws run on different workers."""

    def solver(data: LabelledRows, draws: Sequence[Draw], workers: Workers, settings: Settings) -> list[Fit]:
        def timed(draw: Draw) -> Fit:
            began = time.perf_counter()
            fitted = fit(data, draw, settings)
            return replace(fitted, seconds=time.perf_counter() - began)

        futures = [workers.submit(timed, draw) for draw in draws]
        return [future.result() for future in futures]

    return solver


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """One probe run, evaluated on the test images. Accuracies are fractions in [0, 1].

    Attributes:
        shots: images per class, or "all".
        per_class: accuracy per entry of `classes`; NaN where a class has no test image.
        classes: every label of the training, validation and test data, sorted.
        labels: true label per test image.
        predictions: predicted label per test image.
        correct: per test image, whether the prediction is right, for paired tests.
        trials: the whole sweep, in order.
        best: the setting that was chosen.
        seconds: tuning and final fit, with this run's share of work common to several runs.
        train_size: images of the final fit.
        validation_size: images that chose the setting; with cross-validation, all held-out images.
        log_loss: mean negative log-probability of the true class, over test images of classes that were trained on.
        calibration_error: mean distance between confidence and accuracy, over fifteen bins of confidence.
        expected: cross-validated accuracy; None if the solver does not compute it.
        expected_se: its standard error.
        expected_shots: images per class behind `expected`, if the final fit saw one more.
        note: anything unusual about the final fit, with its training accuracy.
        version: of the solver.
    """

    solver: str
    seed: int
    shots: Shots
    top1: float
    top5: float
    per_class: FloatArray
    classes: AnyArray
    labels: AnyArray
    predictions: AnyArray
    correct: BoolArray
    trials: tuple[Trial, ...]
    best: Mapping[str, float]
    seconds: float
    train_size: int
    validation_size: int
    log_loss: float
    calibration_error: float
    expected: float | None = None
    expected_se: float | None = None
    expected_shots: int | None = None
    note: str = ""
    version: int = 1

    def interval(self, level: float = 0.95) -> Interval:
        """Return the confidence interval of `top1` over test images."""
        return accuracy_interval(self.correct, level=level)

    @property
    def confusion(self) -> IntArray:
        """Return (c, c) test images by true class and predicted class, in the order of `classes`."""
        size = len(self.classes)
        true, found = (np.searchsorted(self.classes, names) for names in (self.labels, self.predictions))
        return np.bincount(true * size + found, minlength=size * size).reshape(size, size)

    def expected_interval(self, images: int | None = None) -> Interval | None:
        """Return the 95 % prediction interval of the accuracy on new images like the training images.

        Args:
            images: how many; by default as many as were tested.
        """
        if self.expected is None or self.expected_se is None:
            return None
        return prediction_interval(self.expected, self.expected_se, images or len(self.correct))

    @property
    def expectation(self) -> str:
        """Compare the cross-validated accuracy with the test accuracy, in words; "" without an estimate."""
        interval = self.expected_interval()
        if interval is None:
            return ""
        low, high = 100 * interval.low, 100 * interval.high
        value = f"{100 * interval.value:.0f} ± {max((high - low) / 2, 1):.0f}"
        value = value if 0 < low < high < 100 else f"{low:.0f} to {high:.0f}"  # "±" would hide that a limit is cut
        seen = f" at {self.expected_shots} shots" if self.expected_shots else ""
        found = f"expect {value} % on images like these{seen}"
        if self.top1 in interval:
            return found
        side = "fewer" if self.top1 < interval.low else "more"
        return f"{found}; the test images have {side} right, {100 * self.top1:.0f} %: they are not like these"

    def details(self) -> dict[str, Any]:
        """Return accuracies per class, the most frequent mistakes and the chosen setting, as JSON values."""
        return {
            "per_class": {
                str(name): None if np.isnan(value) else float(value)
                for name, value in zip(self.classes, self.per_class, strict=True)
            },
            "confusions": self._confusions(),
            "best": dict(self.best),
        }

    def _confusions(self) -> list[dict[str, object]]:
        """Return the most frequent mistakes."""
        table = self.confusion
        np.fill_diagonal(table, 0)
        order = np.argsort(-table, axis=None, kind="stable")[:_MISTAKES]
        pairs = [np.unravel_index(int(place), table.shape) for place in order]
        return [
            {"true": str(self.classes[i]), "predicted": str(self.classes[j]), "images": int(table[i, j])}
            for i, j in pairs
            if table[i, j]
        ]


def try_candidates(
    data: LabelledRows,
    draw: Draw,
    parameter: str,
    values: Sequence[float],
    scores: Callable[[Tensor], Sequence[Tensor]],
    size: int = STREAM_ROWS,
) -> tuple[Trial, ...]:
    """Return the accuracy of several candidates on the validation rows.

    Args:
        parameter: the hyper-parameter in which they differ.
        values: of it.
        scores: maps some rows to the scores of every candidate.
        size: number of rows at a time.
    """
    correct = [0] * len(values)
    for block, labels in data.blocks(draw.validation, size):
        for position, found in enumerate(scores(block)):
            correct[position] += int((found.argmax(dim=1) == labels.to(found.device)).sum())
    return tuple(
        Trial({parameter: value}, right / len(draw.validation)) for value, right in zip(values, correct, strict=True)
    )


def best_trial(trials: Sequence[Trial]) -> int:
    """Return the position of the most accurate trial; among equals the one of least log loss, then the earliest."""
    return min(range(len(trials)), key=lambda k: (-trials[k].accuracy, trials[k].log_loss or 0.0, k))
