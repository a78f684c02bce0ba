"""A Gaussian mixture with diagonal covariances, fitted by EM over blocks of float32 rows.

Papers:     Dempster, Laird & Rubin, "Maximum likelihood from incomplete data via the EM algorithm", 1977;
            Neal & Hinton, "A view of the EM algorithm that justifies incremental, sparse, and other variants", 1998 [S]
            Arthur & Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007; Lloyd, 1982
Shapes:     x (n, d) rows; mu, var (k, d) means and variances; pi (k,) weights; r (n, k) responsibilities;
            centres (k, d)
Implements: k-means as the start: centres sampled in proportion to squared distances, each the best of 2 + log k
            samples, then Lloyd's iterations. Then EM until the mean log-likelihood gains less than `tolerance` a step
Differs:    from scikit-learn's GaussianMixture(covariance_type="diag"): float32; rows in blocks, so that memory does
            not grow with n x k; a variance floor in units of the data's own variance; sparse steps of [S]: in many
            dimensions a row has one or two components of any weight, so that between two full E steps only those pairs
            are looked at again. Every step raises the likelihood as EM does, and the end is judged by full steps.
            k-means stops when fewer than one row in fifty changes its centre: EM, which comes next, moves them on
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from unseen.core.arrays import FloatArray
from unseen.core.errors import DataError

#: Bytes of densities that are held at once.
_BLOCK_BYTES = 64 * 2**20
_VARIANCE_FLOOR = 1e-6
#: A component whose density is this many nats below the row's best has less than a millionth of its weight.
_MARGIN = 14.0
#: Above this share of all pairs a sparse step costs more than a full one.
_SPARSE_SHARE = 1 / 32
#: Bytes that the rows of pairs may take; beyond, every step is a full one.
_PAIR_BYTES = 512 * 2**20
_SPARSE_STEPS = 20
#: Most iterations of k-means, and the share of rows that change their centre at which it stops.
_LLOYD_STEPS, _MOVED = 30, 0.02


@dataclass(frozen=True, eq=False)
class Mixture:
    """A fitted mixture.

    Attributes:
        log_weights: (k,).
        means, variances: (k, d), of rows divided by `scale`.
        scale: divisor of the rows.
        log_likelihood: mean per row before the last full step, of the scaled rows.
        steps: EM steps that were made, full and sparse.
        converged: whether full steps gained less than the tolerance in the end.
    """

    log_weights: Tensor
    means: Tensor
    variances: Tensor
    scale: float
    log_likelihood: float = -math.inf
    steps: int = 0
    converged: bool = False

    def posterior(self, rows: npt.ArrayLike) -> FloatArray:
        """Return P(component | row), (n, k), in double precision: it is computed once, and scores use it."""
        x = torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float64)) / self.scale
        exact = replace(
            self, log_weights=self.log_weights.double(), means=self.means.double(), variances=self.variances.double()
        )
        parts = [_log_densities(block, exact).softmax(dim=1) for block in _blocks(x, 2 * len(self.log_weights))]
        return np.asarray(torch.cat(parts).numpy())


@dataclass(eq=False)
class _Sums:
    """Input of an M step: sums of r, r x and r x^2 over rows, and of the rows' log-likelihoods."""

    total: Tensor
    first: Tensor
    second: Tensor
    log_likelihood: float = 0.0

    @classmethod
    def zero(cls, components: int, dimensions: int) -> _Sums:
        return cls(torch.zeros(components), torch.zeros(components, dimensions), torch.zeros(components, dimensions))

    def add_dense(self, x: Tensor, share: Tensor) -> None:
        self.total += share.sum(dim=0)
        self.first.addmm_(share.T, x)
        self.second.addmm_(share.T, x.square())

    def add_pairs(self, x: Tensor, pairs: Tensor, share: Tensor) -> None:
        """Add rows `pairs[0]` with components `pairs[1]`."""
        values = x[pairs[0]]
        weighted = values * share[:, None]
        self.total.index_add_(0, pairs[1], share)
        self.first.index_add_(0, pairs[1], weighted)
        self.second.index_add_(0, pairs[1], weighted.mul_(values))

    def maximise(self, rows: int, scale: float) -> Mixture:
        """Return the mixture of an M step."""
        weight = self.total + 10 * torch.finfo(torch.float32).eps  # a component that lost all rows stays finite
        means = self.first / weight[:, None]
        variances = (self.second / weight[:, None] - means.square()).clamp_(min=0).add_(_VARIANCE_FLOOR)
        return Mixture((weight / rows).log(), means, variances, scale)


def fit_mixture(
    rows: npt.ArrayLike, components: int, *, seed: int = 0, steps: int = 100, tolerance: float = 1e-3
) -> Mixture:
    """Fit a mixture.

    Args:
        rows: (n, d).
        components: k, at most n.
        seed: of the k-means++ start.
        steps: most EM steps.
        tolerance: gain in mean log-likelihood per step below which EM stops.
    """
    x = torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32))
    if not 1 <= components <= len(x):
        raise DataError(f"a mixture of {components} Gaussians cannot be fitted to {len(x)} rows: 1 to {len(x)} can.")
    # One scale for all dimensions: float32 and the variance floor then mean the same for any features.
    scale = float(x.var(dim=0, unbiased=False).mean().sqrt()) or 1.0
    x = x / scale
    start = _Sums.zero(components, x.shape[1])
    nearest = k_means(x, components, seed)
    start.add_pairs(x, torch.stack([torch.arange(len(x)), nearest]), torch.ones(len(x)))
    return _improve(x, start.maximise(len(x), scale), steps, tolerance)


def _improve(x: Tensor, mixture: Mixture, steps: int, tolerance: float) -> Mixture:
    """Run EM: a full step, some sparse steps, and again, until full steps gain too little."""
    done, since, before, converged = 0, 0, -math.inf, False
    while done < steps and not converged:
        sums, pairs = _full_step(x, mixture)
        likelihood = sums.log_likelihood / len(x)
        done, since = done + 1, since + 1
        converged = likelihood - before < tolerance * since
        mixture = sums.maximise(len(x), mixture.scale)
        before, since, last = likelihood, 0, -math.inf
        while pairs is not None and not converged and since < _SPARSE_STEPS and done < steps:
            sums = pairs.step(mixture)
            mixture = sums.maximise(len(x), mixture.scale)
            done, since = done + 1, since + 1
            if sums.log_likelihood / len(x) - last < tolerance:
                break
            last = sums.log_likelihood / len(x)
    return replace(mixture, log_likelihood=before, steps=done, converged=converged)


def _full_step(x: Tensor, mixture: Mixture) -> tuple[_Sums, _Pairs | None]:
    """Return sums over all pairs of rows and components, and the pairs that carry weight if they are few."""
    components, dimensions = mixture.means.shape
    sums, found, begin = _Sums.zero(components, dimensions), [], 0
    sparse = True
    for block in _blocks(x, components):
        densities = _log_densities(block, mixture)
        best = densities.amax(dim=1, keepdim=True)
        near = (densities > best - _MARGIN).nonzero().T
        if near.shape[1] > _SPARSE_SHARE * densities.numel():
            sparse = False
            likelihood = densities.logsumexp(dim=1, keepdim=True)
            sums.add_dense(block, densities.sub_(likelihood).exp_())
        else:
            share, likelihood = _shares(densities[near[0], near[1]], near[0], len(block))
            sums.add_pairs(block, near, share)
            near[0] += begin
            found.append(near)
        sums.log_likelihood += float(likelihood.double().sum())
        begin += len(block)
    sparse = sparse and 8 * dimensions * sum(near.shape[1] for near in found) <= _PAIR_BYTES
    return sums, _Pairs(x, torch.cat(found, dim=1), components) if sparse else None


class _Pairs:
    """Pairs of rows and components that carry weight, with the values of the rows for several steps.

    Most rows have one component only. Its share of them is always 1, so that their sums are computed once; these sums
    also give their likelihood.

    Args:
        x: all rows.
        pairs: (2, m) row and component numbers.
        components: how many there are.
    """

    def __init__(self, x: Tensor, pairs: Tensor, components: int) -> None:
        alone = torch.bincount(pairs[0], minlength=len(x))[pairs[0]] == 1
        self.settled = _Sums.zero(components, x.shape[1])
        self.settled.add_pairs(x, pairs[:, alone], torch.ones(int(alone.sum())))
        rows, self.rows = torch.unique(pairs[0, ~alone], return_inverse=True)
        self.components, self.count = pairs[1, ~alone], len(rows)
        self.values = x[rows][self.rows]
        self.squares = self.values.square()

    def step(self, mixture: Mixture) -> _Sums:
        """Return sums over these pairs alone: every row keeps its components."""
        settled = self.settled
        sums = _Sums(settled.total.clone(), settled.first.clone(), settled.second.clone())
        constants, precision = _constants(mixture), 1 / mixture.variances
        away = (self.values - mixture.means[self.components]).square_()
        away *= precision[self.components]
        share, likelihood = _shares(constants[self.components] - 0.5 * away.sum(dim=1), self.rows, self.count)
        sums.total.index_add_(0, self.components, share)
        sums.first.index_add_(0, self.components, self.values * share[:, None])
        sums.second.index_add_(0, self.components, torch.mul(self.squares, share[:, None], out=away))
        # Of the settled rows: the sum of (x - mu)^2 / var, expanded.
        means = mixture.means.double()
        squares = settled.second - 2 * means * settled.first + means.square() * settled.total[:, None]
        inside = (settled.total * constants).double().sum() - 0.5 * (squares * precision).sum()
        sums.log_likelihood = float(likelihood.double().sum() + inside)
        return sums


def _shares(densities: Tensor, rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the responsibility of every pair among the pairs of its row, and the log-likelihood of every row."""
    best = torch.full((count,), -torch.inf).scatter_reduce_(0, rows, densities, "amax")
    weights = (densities - best[rows]).exp_()
    total = torch.zeros(count).index_add_(0, rows, weights)
    return weights / total[rows], best + total.log()


def _log_densities(x: Tensor, mixture: Mixture) -> Tensor:
    """Return log pi_v N(x | mu_v, var_v), (n, k)."""
    precision = 1 / mixture.variances
    weighted = mixture.means * precision
    constant = _constants(mixture) - 0.5 * (mixture.means * weighted).sum(dim=1)
    return torch.addmm(constant, x, weighted.T).addmm_(x.square(), precision.T, alpha=-0.5)


def _constants(mixture: Mixture) -> Tensor:
    """Return the terms of the log-density that do not depend on the row."""
    dimensions = mixture.means.shape[1]
    return mixture.log_weights - 0.5 * (mixture.variances.log().sum(dim=1) + dimensions * math.log(2 * math.pi))


def _blocks(x: Tensor, components: int) -> Iterator[Tensor]:
    size = max(1, _BLOCK_BYTES // (4 * components))
    yield from (x[begin : begin + size] for begin in range(0, len(x), size))


def k_means(x: Tensor, components: int, seed: int) -> Tensor:
    """Return the index of the nearest of `components` centres for every row."""
    centres = _seed_centres(x, components, torch.Generator().manual_seed(seed))
    nearest = _nearest(x, centres)
    for _ in range(_LLOYD_STEPS):
        total = torch.bincount(nearest, minlength=components).float()
        sums = torch.zeros_like(centres).index_add_(0, nearest, x)
        # A centre that lost all its rows does not move.
        centres = torch.where((total > 0)[:, None], sums / total.clamp(min=1)[:, None], centres)
        moved = _nearest(x, centres)
        changed = float((moved != nearest).float().mean())
        nearest = moved
        if changed <= _MOVED:
            break
    return nearest


def _nearest(x: Tensor, centres: Tensor) -> Tensor:
    lengths = centres.square().sum(dim=1)
    parts = [torch.addmm(lengths, block, centres.T, alpha=-2).argmin(dim=1) for block in _blocks(x, len(centres))]
    return torch.cat(parts)


def _seed_centres(x: Tensor, components: int, generator: torch.Generator) -> Tensor:
    """Return the centres of greedy k-means++: the best of several rows sampled by squared distance, each time."""
    trials = 2 + int(math.log(components))
    lengths = x.square().sum(dim=1)
    chosen = torch.randint(len(x), (1,), generator=generator)
    centres = x.new_empty(components, x.shape[1])
    distance = torch.full_like(lengths, torch.inf)
    for number in range(components):
        # Distances of all rows to every candidate, and the distances that remain with each candidate.
        to_each = torch.addmm(lengths[chosen, None], x[chosen], x.T, alpha=-2).add_(lengths).clamp_(min=0)
        left = torch.minimum(distance, to_each)
        best = int(left.sum(dim=1).argmin())
        centres[number], distance = x[chosen[best]], left[best]
        odds = distance.double()
        if float(odds.sum()) <= 0:  # all distinct rows are centres already: choose any row
            odds = torch.ones_like(odds)
        draws = torch.rand(trials, generator=generator, dtype=torch.double) * odds.sum()
        chosen = torch.searchsorted(odds.cumsum(0), draws).clamp_(max=len(x) - 1)
    return centres
