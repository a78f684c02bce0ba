"""What a probe run leaves behind: every trial of its sweep, the fitted model, and the evaluated record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from unseen.probes.draws import Shots
from unseen.probes.folds import Estimate, prediction_interval
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


class Model(Protocol):
    """A fitted classifier over class indices."""

    def scores(self, features: Tensor) -> Tensor:
        """(n, c), higher = more likely, for prepared feature rows (n, d)."""

    def probabilities(self, scores: Tensor) -> Tensor:
        """(n, c) for scores (n, c): rows that sum to one and rank as the scores do."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model with the sweep that chose it.

    Attributes:
        best: the setting that was chosen.
        seconds: time of this run, its share of common work included.
        note: anything unusual about the final fit.
        estimate: what left-out training rows promise of other images, where the solver leaves some out in turn.
    """

    model: Model
    trials: tuple[Trial, ...]
    best: Mapping[str, float]
    seconds: float
    note: str = ""
    estimate: Estimate | None = None


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """One probe run, evaluated on the test images. Accuracies are fractions in [0, 1].

    Attributes:
        shots: images per class, or "all".
        per_class: accuracy per entry of `classes`; NaN where a class has no test image.
        classes: every label of the training, validation and test data, sorted.
        labels: true label per test image.
        predictions: predicted label per test image.
        correct: per test image, whether the prediction is right: what paired tests take.
        trials: the whole sweep, in the order it was tried.
        best: the setting that was chosen.
        seconds: tuning and final fit, with this run's share of work common to several runs.
        train_size: images of the final fit.
        validation_size: images that chose the setting; where they are left out in turn, all that were.
        log_loss: mean negative log-probability of the true class, over test images of classes that were trained on.
        calibration_error: mean distance between confidence and accuracy, over fifteen bins of confidence.
        expected: accuracy to expect on images like the training images, from those left out in turn; None where the
            solver leaves none out.
        expected_se: its standard error.
        expected_shots: images per class behind `expected`, where the final fit saw one more.
        note: anything unusual about the final fit, with its training accuracy.
        version: of the solver.
    """

    solver: str
    seed: int
    shots: Shots
    top1: float
    top5: float
    per_class: npt.NDArray[np.float64]
    classes: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    predictions: npt.NDArray[Any]
    correct: npt.NDArray[np.bool_]
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
    def confusion(self) -> npt.NDArray[np.int64]:
        """(c, c) test images by true class and predicted class, in the order of `classes`."""
        size = len(self.classes)
        true, found = (np.searchsorted(self.classes, names) for names in (self.labels, self.predictions))
        return np.bincount(true * size + found, minlength=size * size).reshape(size, size)

    def expected_interval(self, images: int | None = None) -> Interval | None:
        """Where the accuracy on `images` new images like the training images lies, 95 times in 100.

        Args:
            images: how many; as many as were tested where not given. Fewer images scatter more.
        """
        if self.expected is None or self.expected_se is None:
            return None
        count = len(self.correct) if images is None else images
        return prediction_interval(self.expected, self.expected_se, count)

    @property
    def expectation(self) -> str:
        """What the left-out images promise, and whether the test images keep it, in words; "" without an estimate."""
        interval = self.expected_interval()
        if interval is None:
            return ""
        half = 50 * (interval.high - interval.low)
        seen = f" at {self.expected_shots} shots" if self.expected_shots else ""
        found = f"expect {100 * interval.value:.0f} ± {max(half, 1):.0f} % on images like these{seen}"
        if self.top1 in interval:
            return found
        side = "fewer" if self.top1 < interval.low else "more"
        return f"{found}; the test images have {side} right, {100 * self.top1:.0f} %: they are not like these"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the per-image arrays, as JSON values."""
        interval = self.interval()
        return {
            "solver": self.solver,
            "seed": self.seed,
            "shots": self.shots,
            "top1": self.top1,
            "top5": self.top5,
            "top1_low": interval.low,
            "top1_high": interval.high,
            "per_class": {
                str(name): None if np.isnan(value) else float(value)
                for name, value in zip(self.classes, self.per_class, strict=True)
            },
            "confusions": self._confusions(),
            "log_loss": self.log_loss,
            "calibration_error": self.calibration_error,
            "expected": self.expected,
            "expected_se": self.expected_se,
            "expected_shots": self.expected_shots,
            "expectation": self.expectation,
            "note": self.note,
            "version": self.version,
            "trials": [trial.to_dict() for trial in self.trials],
            "best": dict(self.best),
            "seconds": self.seconds,
            "train_size": self.train_size,
            "validation_size": self.validation_size,
        }

    def _confusions(self) -> list[dict[str, Any]]:
        """The most frequent mistakes."""
        table = self.confusion
        np.fill_diagonal(table, 0)
        order = np.argsort(-table, axis=None, kind="stable")[:_MISTAKES]
        pairs = [np.unravel_index(int(place), table.shape) for place in order]
        return [
            {"true": str(self.classes[i]), "predicted": str(self.classes[j]), "images": int(table[i, j])}
            for i, j in pairs
            if table[i, j]
        ]


def best_trial(trials: Sequence[Trial]) -> int:
    """Position of the most accurate trial; among equals the one of least log loss, then the earliest."""
    return min(range(len(trials)), key=lambda k: (-trials[k].accuracy, trials[k].log_loss or 0.0, k))
