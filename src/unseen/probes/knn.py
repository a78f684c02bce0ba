"""k nearest neighbours by cosine similarity, with votes weighted by exp(similarity / temperature).

Paper:      Wu et al., "Unsupervised feature learning via non-parametric instance discrimination", CVPR 2018, Sec. 3.4
Shapes:     B (m, d) stored rows of unit length; X (n, d) queries of unit length
Implements: score of class c = sum over the k nearest of exp(s_i / 0.07) [y_i = c]; k chosen on the validation rows
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unseen.probes.draws import Draw
from unseen.probes.linear import LabelledRows
from unseen.probes.outcome import Fit, Trial, best_trial
from unseen.probes.rows import STREAM_ROWS, IntArray
from unseen.probes.workers import Workers

VERSION = 1
NEIGHBORS = (1, 5, 10, 20, 50, 100, 200)
TEMPERATURE = 0.07
_QUERIES = 1024  # at a time: the table of similarities stays small


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Stored rows that vote.

    Attributes:
        rows: which rows of `data` are stored.
        k: how many of them vote.
    """

    data: LabelledRows
    rows: IntArray
    k: int
    temperature: float

    def scores(self, features: Tensor) -> Tensor:
        return torch.cat([self._votes(part, [self.k])[0] for part in torch.split(features, _QUERIES)])

    def probabilities(self, scores: Tensor) -> Tensor:
        return scores

    def all_scores(self, features: Tensor, counts: Sequence[int]) -> list[Tensor]:
        """Scores for several k from one search."""
        return self._votes(features, counts)

    def _votes(self, queries: Tensor, counts: Sequence[int]) -> list[Tensor]:
        """Shares of the votes, (n, c), for each k in ascending order; rows sum to one."""
        home = queries.device
        queries = queries.to(self.data.features.device)
        similarity, labels = self._nearest(torch.nn.functional.normalize(queries, dim=1), max(counts))
        # The nearest has weight one: only ratios of votes matter, and exp cannot overflow.
        weights = torch.exp((similarity - similarity[:, :1]) / self.temperature)
        found = []
        for count in counts:
            votes = queries.new_zeros(len(queries), self.data.classes)
            votes.scatter_add_(1, labels[:, :count], weights[:, :count])
            found.append((votes / votes.sum(dim=1, keepdim=True)).to(home))
        return found

    def _nearest(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Similarities (n, k), best first, and labels of the nearest stored rows, a block of them at a time."""
        best = queries.new_empty(len(queries), 0)
        labels = self.data.labels.new_empty(len(queries), 0)
        for start in range(0, len(self.rows), STREAM_ROWS):
            part = self.rows[start : start + STREAM_ROWS]
            block = torch.nn.functional.normalize(self.data.features.take(part).to(queries.dtype), dim=1)
            similarity = torch.cat([best, queries @ block.T], dim=1)
            own = self.data.take_labels(part).expand(len(queries), -1)
            # A stable order: of equally near rows, the earlier ones vote.
            order = torch.sort(similarity, dim=1, descending=True, stable=True)[1][:, :count]
            best = similarity.gather(1, order)
            labels = torch.cat([labels, own], dim=1).gather(1, order)
        return best, labels


def fit_knn(
    data: LabelledRows,
    draws: Sequence[Draw],
    workers: Workers,
    *,
    neighbors: Sequence[int] = NEIGHBORS,
    temperature: float = TEMPERATURE,
) -> list[Fit]:
    """Choose k on the validation rows, then store the final rows, for every draw."""
    futures = [workers.submit(_fit, data, draw, neighbors, temperature) for draw in draws]
    return [future.result() for future in futures]


def _fit(data: LabelledRows, draw: Draw, neighbors: Sequence[int], temperature: float) -> Fit:
    began = time.perf_counter()
    counts = sorted({min(k, len(draw.tuning)) for k in neighbors})
    bank = Neighbors(data, draw.tuning, max(counts), temperature)
    correct = [0] * len(counts)
    for start in range(0, len(draw.validation), _QUERIES):
        part = draw.validation[start : start + _QUERIES]
        labels = data.take_labels(part)
        for position, votes in enumerate(bank.all_scores(data.features.take(part), counts)):
            correct[position] += int((votes.argmax(dim=1) == labels).sum())
    if not len(draw.validation):  # one image per class: the nearest is all there is
        return Fit(Neighbors(data, draw.final, 1, temperature), (), {"k": 1}, time.perf_counter() - began)
    trials = [Trial({"k": k}, right / len(draw.validation)) for k, right in zip(counts, correct, strict=True)]
    chosen = trials[best_trial(trials)].parameters
    model = Neighbors(data, draw.final, int(chosen["k"]), temperature)
    return Fit(model, tuple(trials), chosen, time.perf_counter() - began)
