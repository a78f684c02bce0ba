"""A fitted linear classifier, and the data that linear solvers are given."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unseen.probes.rows import STREAM_ROWS, FeatureSet, IntArray, raise_values


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Scores W x + b.

    Attributes:
        weights: (c, d) float32.
        bias: (c,) float32.
        temperature: what scores are divided by before they become probabilities.
        power: that the values of unit rows are raised to, to be scaled again, before W applies to them.
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


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Features with their class indices.

    Attributes:
        labels: (n,) int64, each below `classes`.
    """

    features: FeatureSet
    labels: Tensor
    classes: int

    def take_labels(self, rows: IntArray) -> Tensor:
        """Class indices of the rows asked for, where the features are."""
        return self.labels[torch.from_numpy(rows).to(self.labels.device)]


def accuracy(model: LinearModel, data: LabelledRows, rows: IntArray) -> float:
    """Top-1 accuracy on `rows`."""
    correct = 0
    for start in range(0, len(rows), STREAM_ROWS):
        part = rows[start : start + STREAM_ROWS]
        scores = torch.addmm(model.bias, data.features.take(part).cpu(), model.weights.T)
        correct += int((scores.argmax(dim=1) == data.take_labels(part).cpu()).sum())
    return correct / len(rows)


def training_accuracy(model: LinearModel, data: LabelledRows, rows: IntArray) -> str:
    """The accuracy on the model's own training rows, in words."""
    return f"it classifies {100 * accuracy(model, data, rows):.1f} % of its own training images correctly"
