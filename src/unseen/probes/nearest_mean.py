"""Nearest class mean by cosine similarity: no hyper-parameter, one pass.

Paper:      Mensink et al., "Distance-based image classification", TPAMI 2013 (nearest class mean)
Shapes:     M (c, d) class means of unit length; X (n, d) rows of unit length
Implements: score = M x; a class without training images scores below all others
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unseen.probes.draws import Draw
from unseen.probes.linear import LabelledRows
from unseen.probes.outcome import Fit
from unseen.probes.rows import STREAM_ROWS
from unseen.probes.workers import Workers

VERSION = 1
TEMPERATURE = 0.07


@dataclass(frozen=True, eq=False)
class ClassMeans:
    """Class means of unit length; a row of NaN stands for a class without images."""

    means: Tensor
    temperature: float = TEMPERATURE

    def scores(self, features: Tensor) -> Tensor:
        rows = torch.nn.functional.normalize(features, dim=1)
        return (rows @ self.means.to(rows.dtype).T).nan_to_num(nan=-2.0)

    def probabilities(self, scores: Tensor) -> Tensor:
        return torch.softmax(scores / self.temperature, dim=1)


def fit_nearest_mean(data: LabelledRows, draws: Sequence[Draw], workers: Workers) -> list[Fit]:
    """Class means of each draw's final rows."""
    futures = [workers.submit(_fit, data, draw) for draw in draws]
    return [future.result() for future in futures]


def _fit(data: LabelledRows, draw: Draw) -> Fit:
    began = time.perf_counter()
    device = data.features.device
    sums = torch.zeros(data.classes, data.features.dimension, dtype=torch.float64, device=device)
    counts = torch.zeros(data.classes, 1, dtype=torch.float64, device=device)
    for start in range(0, len(draw.final), STREAM_ROWS):
        part = draw.final[start : start + STREAM_ROWS]
        labels = data.take_labels(part)
        block = torch.nn.functional.normalize(data.features.take(part), dim=1).double()
        sums.index_add_(0, labels, block)
        counts.index_add_(0, labels, torch.ones(len(part), 1, dtype=torch.float64, device=device))
    means = torch.nn.functional.normalize(sums / counts, dim=1).float().cpu()
    return Fit(ClassMeans(means), (), {}, time.perf_counter() - began)
