"""k-means with a seeded, greedy k-means++ start: where the mixture of N-LEEP begins.

Papers:     Arthur & Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007; Lloyd, 1982
Shapes:     x (n, d) rows; centres (k, d)
Implements: centres drawn in proportion to squared distances, each the best of 2 + log k draws; then Lloyd's iterations
Differs:    stops when fewer than one row in fifty changes its centre: EM, which comes next, moves them on
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_STEPS = 30
_MOVED = 0.02
_BLOCK_BYTES = 64 * 2**20


def k_means(x: Tensor, components: int, seed: int) -> Tensor:
    """The number of the nearest of `components` centres, for every row."""
    centres = _seed_centres(x, components, torch.Generator().manual_seed(seed))
    nearest = _nearest(x, centres)
    for _ in range(_STEPS):
        total = torch.bincount(nearest, minlength=components).float()
        sums = torch.zeros_like(centres).index_add_(0, nearest, x)
        # A centre that lost all its rows stays where it was.
        centres = torch.where((total > 0)[:, None], sums / total.clamp(min=1)[:, None], centres)
        moved = _nearest(x, centres)
        changed = float((moved != nearest).float().mean())
        nearest = moved
        if changed <= _MOVED:
            break
    return nearest


def _nearest(x: Tensor, centres: Tensor) -> Tensor:
    lengths = centres.square().sum(dim=1)
    size = max(1, _BLOCK_BYTES // (4 * len(centres)))
    blocks = (x[begin : begin + size] for begin in range(0, len(x), size))
    return torch.cat([torch.addmm(lengths, block, centres.T, alpha=-2).argmin(dim=1) for block in blocks])


def _seed_centres(x: Tensor, components: int, generator: torch.Generator) -> Tensor:
    """Greedy k-means++: of several rows drawn by squared distance, the one that leaves the least of it."""
    trials = 2 + int(math.log(components))
    lengths = x.square().sum(dim=1)
    chosen = torch.randint(len(x), (1,), generator=generator)
    centres = x.new_empty(components, x.shape[1])
    distance = torch.full_like(lengths, torch.inf)
    for number in range(components):
        # Distances of all rows to every candidate, and what each candidate would leave.
        to_each = torch.addmm(lengths[chosen, None], x[chosen], x.T, alpha=-2).add_(lengths).clamp_(min=0)
        left = torch.minimum(distance, to_each)
        best = int(left.sum(dim=1).argmin())
        centres[number], distance = x[chosen[best]], left[best]
        odds = distance.double()
        if float(odds.sum()) <= 0:  # rows repeat, and all of them are centres: any row will do
            odds = torch.ones_like(odds)
        draws = torch.rand(trials, generator=generator, dtype=torch.double) * odds.sum()
        chosen = torch.searchsorted(odds.cumsum(0), draws).clamp_(max=len(x) - 1)
    return centres
