"""A Gaussian mixture with diagonal covariances, fitted by EM in batches of float32 tensors.

Papers:     Arthur & Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007 (the start);
            Dempster, Laird & Rubin, "Maximum likelihood from incomplete data via the EM algorithm", 1977
Shapes:     x (n, d) rows; mu, var (k, d) means and variances; pi (k,) weights; r (n, k) responsibilities
Implements: seeded k-means++, Lloyd's iterations, then EM until the mean log-likelihood gains less than `tolerance`
Differs:    from scikit-learn's GaussianMixture(covariance_type="diag"): float32, rows in blocks so that memory does not
            grow with n x k, and a variance floor in units of the data's own variance
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from unseen.errors import DataError

#: Bytes of responsibilities that are held at once.
_BLOCK_BYTES = 64 * 2**20
_VARIANCE_FLOOR = 1e-6
_LLOYD_STEPS = 25
_LLOYD_MOVED = 1e-3


@dataclass(frozen=True, eq=False)
class Mixture:
    """A fitted mixture.

    Attributes:
        log_weights: (k,).
        means, variances: (k, d), in the units of `scale`.
        scale: what rows are divided by before anything else.
        log_likelihood: mean per row at the last step, of the scaled rows.
        steps: EM steps that were made.
        converged: whether the last step gained less than the tolerance.
    """

    log_weights: Tensor
    means: Tensor
    variances: Tensor
    scale: float
    log_likelihood: float
    steps: int
    converged: bool

    def posterior(self, rows: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """P(component | row), (n, k), in double precision: it is computed once, and scores are made of it."""
        x = torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float64)) / self.scale
        exact = replace(
            self, log_weights=self.log_weights.double(), means=self.means.double(), variances=self.variances.double()
        )
        parts = [_responsibilities(block, exact)[0] for block in _blocks(x, 2 * len(self.log_weights))]
        return np.asarray(torch.cat(parts).numpy())


def fit_mixture(
    rows: npt.ArrayLike, components: int, *, seed: int = 0, steps: int = 100, tolerance: float = 1e-3
) -> Mixture:
    """Fit a mixture.

    Args:
        rows: (n, d).
        components: k, at most n.
        seed: of the k-means++ start.
        steps: most EM steps.
        tolerance: gain in mean log-likelihood per row below which EM stops.
    """
    x = _tensor(rows)
    if not 1 <= components <= len(x):
        raise DataError(f"a mixture of {components} Gaussians cannot be fitted to {len(x)} rows: 1 to {len(x)} can.")
    # One scale for all dimensions: float32 and the variance floor then mean the same for any features.
    scale = float(x.var(dim=0, unbiased=False).mean().sqrt()) or 1.0
    x = x / scale
    nearest = _k_means(x, components, torch.Generator().manual_seed(seed))
    mixture = _maximise(*_hard_sums(x, nearest, components), len(x), scale)
    before = -np.inf
    for step in range(1, steps + 1):
        total, sums, squares, likelihood = _expect(x, mixture)
        mixture = _maximise(total, sums, squares, len(x), scale, likelihood, step, abs(likelihood - before) < tolerance)
        if mixture.converged:
            break
        before = likelihood
    return mixture


def _tensor(rows: npt.ArrayLike) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32))


def _blocks(x: Tensor, components: int) -> Iterator[Tensor]:
    size = max(1, _BLOCK_BYTES // (4 * components))
    yield from (x[begin : begin + size] for begin in range(0, len(x), size))


def _responsibilities(x: Tensor, mixture: Mixture) -> tuple[Tensor, Tensor]:
    """Posterior of every component (n, k), and the log-likelihood of every row: E step."""
    precision = 1 / mixture.variances
    weighted = mixture.means * precision
    constant = mixture.log_weights - 0.5 * (
        (mixture.means * weighted).sum(dim=1)
        + mixture.variances.log().sum(dim=1)
        + x.shape[1] * float(np.log(2 * np.pi))
    )
    scores = torch.addmm(constant, x, weighted.T)
    scores.addmm_(x.square(), precision.T, alpha=-0.5)
    likelihood = scores.logsumexp(dim=1)
    return scores.sub_(likelihood[:, None]).exp_(), likelihood


def _expect(x: Tensor, mixture: Mixture) -> tuple[Tensor, Tensor, Tensor, float]:
    """Sums of r, r'x and r'x^2 over all rows, and the mean log-likelihood."""
    components, dimensions = mixture.means.shape
    total, likelihood = torch.zeros(components), 0.0
    sums, squares = torch.zeros(components, dimensions), torch.zeros(components, dimensions)
    for block in _blocks(x, components):
        share, rows = _responsibilities(block, mixture)
        total += share.sum(dim=0)
        sums.addmm_(share.T, block)
        squares.addmm_(share.T, block.square())
        likelihood += float(rows.double().sum())
    return total, sums, squares, likelihood / len(x)


def _maximise(
    total: Tensor,
    sums: Tensor,
    squares: Tensor,
    rows: int,
    scale: float,
    likelihood: float = -np.inf,
    step: int = 0,
    converged: bool = False,
) -> Mixture:
    """Weights, means and variances from the sums: M step."""
    weight = total + 10 * torch.finfo(torch.float32).eps  # a component that lost all its rows keeps finite values
    means = sums / weight[:, None]
    variances = (squares / weight[:, None] - means.square()).clamp_(min=0).add_(_VARIANCE_FLOOR)
    return Mixture((weight / rows).log(), means, variances, scale, likelihood, step, converged)


def _hard_sums(x: Tensor, nearest: Tensor, components: int) -> tuple[Tensor, Tensor, Tensor]:
    """The sums of `_expect` where every row belongs to one component."""
    total = torch.bincount(nearest, minlength=components).float()
    sums = torch.zeros(components, x.shape[1]).index_add_(0, nearest, x)
    squares = torch.zeros(components, x.shape[1]).index_add_(0, nearest, x.square())
    return total, sums, squares


def _k_means(x: Tensor, components: int, generator: torch.Generator) -> Tensor:
    """The nearest of `components` centres for every row, after k-means++ and Lloyd's iterations."""
    centres = _k_means_plus_plus(x, components, generator)
    nearest = _nearest(x, centres)
    for _ in range(_LLOYD_STEPS):
        total, sums, _squares = _hard_sums(x, nearest, components)
        filled = total > 0
        centres[filled] = sums[filled] / total[filled, None]
        moved = _nearest(x, centres)
        changed = float((moved != nearest).float().mean())
        nearest = moved
        if changed <= _LLOYD_MOVED:
            break
    return nearest


def _nearest(x: Tensor, centres: Tensor) -> Tensor:
    lengths = centres.square().sum(dim=1)
    return torch.cat([torch.addmm(lengths, b, centres.T, alpha=-2).argmin(dim=1) for b in _blocks(x, len(centres))])


def _k_means_plus_plus(x: Tensor, components: int, generator: torch.Generator) -> Tensor:
    """Centres drawn with probability proportional to the squared distance to those drawn before."""
    lengths = x.square().sum(dim=1)
    chosen = int(torch.randint(len(x), (1,), generator=generator))
    centres = x.new_empty(components, x.shape[1])
    distance = torch.full_like(lengths, torch.inf)
    for number in range(components):
        centres[number] = x[chosen]
        to_new = lengths + lengths[chosen] - 2 * (x @ x[chosen])
        torch.minimum(distance, to_new.clamp_(min=0), out=distance)
        # Distances sum to 0 where rows repeat: any row will do then.
        odds = distance.double() if float(distance.sum()) > 0 else torch.ones(len(x), dtype=torch.double)
        draw = torch.rand((), generator=generator, dtype=torch.double) * odds.sum()
        chosen = min(int(torch.searchsorted(odds.cumsum(0), draw)), len(x) - 1)
    return centres
