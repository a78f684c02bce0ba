"""k nearest neighbours and nearest class mean, by cosine similarity.

Papers:     Wu et al., "Unsupervised feature learning via non-parametric instance discrimination", CVPR 2018, Sec. 3.4
            [K]; Mensink et al., "Distance-based image classification", TPAMI 2013 [M]
Shapes:     B (m, d) stored rows of unit length; M (c, d) class means of unit length; X (n, d) queries of unit length
Implements: score of class c = sum over the k nearest of exp(s_i / 0.07) [y_i = c], k chosen on the validation rows [K];
            score = M x, without hyper-parameters; a class without training images scores below all others [M]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from unseen.core.arrays import IntArray
from unseen.probes.outcome import Fit, best_trial, each_draw, try_candidates
from unseen.probes.rows import LabelledRows
from unseen.probes.sampling import Draw
from unseen.probes.solvers import Settings

_QUERIES = 1024  # at a time: the table of similarities stays small
_MEANS_TEMPERATURE = 0.07


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
        return torch.cat([self.votes(part, [self.k])[0] for part in torch.split(features, _QUERIES)])

    def probabilities(self, scores: Tensor) -> Tensor:
        return scores

    def votes(self, queries: Tensor, counts: Sequence[int]) -> list[Tensor]:
        """Return shares of the votes, (n, c), for each k in ascending order, from one search; rows sum to one."""
        home = queries.device
        queries = queries.to(self.data.features.device)
        similarity, labels = self._nearest(normalize(queries, dim=1), max(counts))
        # The nearest has weight one: only ratios of votes matter, and exp cannot overflow.
        weights = torch.exp((similarity - similarity[:, :1]) / self.temperature)
        found = []
        for count in counts:
            votes = queries.new_zeros(len(queries), self.data.classes)
            votes.scatter_add_(1, labels[:, :count], weights[:, :count])
            found.append((votes / votes.sum(dim=1, keepdim=True)).to(home))
        return found

    def _nearest(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return similarities (n, k), best first, and labels of the nearest stored rows, read in blocks."""
        best = queries.new_empty(len(queries), 0)
        labels = self.data.labels.new_empty(len(queries), 0)
        for block, own in self.data.blocks(self.rows):
            similarity = torch.cat([best, queries @ normalize(block.to(queries.dtype), dim=1).T], dim=1)
            # A stable order: of equally near rows, the earlier ones vote.
            order = torch.sort(similarity, dim=1, descending=True, stable=True)[1][:, :count]
            best = similarity.gather(1, order)
            labels = torch.cat([labels, own.expand(len(queries), -1)], dim=1).gather(1, order)
        return best, labels


@each_draw
def fit_knn(data: LabelledRows, draw: Draw, settings: Settings) -> Fit:
    """Choose k on the validation rows, then store the final rows."""
    counts, temperature = sorted({min(k, len(draw.tuning)) for k in settings.neighbors}), settings.temperature
    if not len(draw.validation):  # one image per class: the nearest decides
        return Fit(Neighbors(data, draw.final, 1, temperature), (), {"k": 1})
    bank = Neighbors(data, draw.tuning, max(counts), temperature)
    trials = try_candidates(data, draw, "k", counts, lambda block: bank.votes(block, counts), _QUERIES)
    chosen = trials[best_trial(trials)].parameters
    return Fit(Neighbors(data, draw.final, int(chosen["k"]), temperature), trials, chosen)


@dataclass(frozen=True, eq=False)
class ClassMeans:
    """Class means of unit length; a class without images has a row of NaN."""

    means: Tensor

    def scores(self, features: Tensor) -> Tensor:
        rows = normalize(features, dim=1)
        return (rows @ self.means.to(rows.dtype).T).nan_to_num(nan=-2.0)

    def probabilities(self, scores: Tensor) -> Tensor:
        return torch.softmax(scores / _MEANS_TEMPERATURE, dim=1)


@each_draw
def fit_nearest_mean(data: LabelledRows, draw: Draw, _settings: Settings) -> Fit:
    """Compute the class means of the final rows."""
    sums = data.features.zeros(data.classes, data.features.dimension)
    for block, labels in data.blocks(draw.final):
        sums.index_add_(0, labels, normalize(block, dim=1).double())
    counts = torch.bincount(data.take_labels(draw.final), minlength=data.classes)[:, None]
    return Fit(ClassMeans(normalize(sums / counts, dim=1).float().cpu()), (), {})
