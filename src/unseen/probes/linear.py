"""A fitted linear classifier, and the data that linear solvers are given."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unseen.probes.rows import FeatureSet


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Scores W x + b.

    Attributes:
        weights: (c, d) float32.
        bias: (c,) float32.
    """

    weights: Tensor
    bias: Tensor

    def scores(self, features: Tensor) -> Tensor:
        return (self.weights.to(features.dtype) @ features.T).T + self.bias.to(features.dtype)

    def probabilities(self, features: Tensor) -> Tensor:
        return torch.softmax(self.scores(features), dim=1)


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Features with their class indices.

    Attributes:
        labels: (n,) int64, each below `classes`.
    """

    features: FeatureSet
    labels: Tensor
    classes: int
