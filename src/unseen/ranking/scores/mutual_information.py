"""I_alpha: a variational lower bound on the mutual information of features and labels.

Papers:     Poole et al., "On variational bounds of mutual information", ICML 2019 [P]; used to rank checkpoints by Li
            et al., "Ranking neural checkpoints" (NeuCRaB), section 3.3, CVPR 2021 [N]
Shapes:     X (n, d) features; y (n,) labels; f (K, c) critic on a batch of K rows: one value per row and class;
            a (c,) baseline per class
Implements: the interpolated bound I_alpha of section 2.3 of [P], and a small network (the critic) trained to raise it
Differs:    [N] does not say how it trains: here the critic is one hidden layer of 256 ReLUs on standardised features,
            Adam at 1e-3, batches of 128, 20 epochs of 4/5 of the images; the bound is then evaluated on the other
            fifth: on images that the critic has memorised, the estimate is not a bound. Labels are classes, so that
            the expectation over labels that are independent of x is an exact sum over their shares instead of a sample
Expected:   [N] Table 1, Group I, Kendall: -0.31 (alpha 0.01), -13.05 (0.50); after PCA 20.67 and -16.06
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unseen.core.errors import UsageError
from unseen.ranking.cards import Sizes, gram_flops
from unseen.ranking.inputs import check_features, one_thread_if_small, split_rows, standardise
from unseen.ranking.spectrum import principal_components

if TYPE_CHECKING:
    from torch import Tensor, nn

EPOCHS = 20
HIDDEN = 256
BATCH = 128
LEARNING_RATE = 1e-3
HELD_OUT = 0.2
#: Share of variance that PCA keeps, as in N-LEEP; [N] does not state its own.
ENERGY = 0.8


@one_thread_if_small
def mutual_information(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    alpha: float = 0.01,
    pca: bool = False,
    epochs: int = EPOCHS,
    seed: int = 0,
) -> float:
    """Return the bound I_alpha in nats; higher is better.

    Args:
        alpha: between 0 (low bias, high variance) and 1 (low variance, at most the log of the batch).
        pca: reduce the features to their principal components first.
        epochs: of training.
        seed: of split, weights and batches.
    """
    import torch  # scores are listed without it

    if not 0 < alpha <= 1:
        raise UsageError(f"alpha must lie in (0, 1]; got {alpha}.")
    rows, known = check_features(features, labels)
    if pca:
        rows = principal_components(rows, energy=ENERGY)
    train, test = split_rows(known.index, HELD_OUT, seed)
    x, y = torch.from_numpy(standardise(rows, rows[train]).astype(np.float32)), torch.from_numpy(known.index)
    shares = torch.from_numpy((known.counts / len(rows)).astype(np.float32))
    critic, baseline = _train(x[train], y[train], shares, alpha, epochs, seed)
    total = 0.0
    with torch.no_grad():
        for batch in torch.from_numpy(test).tensor_split(math.ceil(len(test) / BATCH)):
            bound = interpolated_bound(critic(x[batch]), y[batch], baseline, shares, alpha)
            total += len(batch) * float(bound)
    return total / len(test)


def interpolated_bound(critic: Tensor, labels: Tensor, log_baseline: Tensor, shares: Tensor, alpha: float) -> Tensor:
    """Return I_alpha of one batch: 1 + E[log e^f(x, y) / q(y)] - E[e^f(x, y') / q(y')], q = alpha m + (1 - alpha) a.

    Args:
        critic: f, (K, c).
        labels: (K,) class of each row.
        log_baseline: log a, (c,).
        shares: P(y), (c,).
        alpha: weight of m(y), the mean over the batch of e^f(x, y).
    """
    import torch

    log_mean = critic.logsumexp(dim=0) - math.log(len(critic))
    parts = [log_mean + math.log(alpha)] + ([log_baseline + math.log1p(-alpha)] if alpha < 1 else [])
    log_mixed = torch.stack(parts).logsumexp(dim=0)  # log q, (c,)
    own = critic.gather(1, labels[:, None])[:, 0] - log_mixed[labels]
    return 1 + own.mean() - (shares * (log_mean - log_mixed).exp()).sum()


def _train(x: Tensor, y: Tensor, shares: Tensor, alpha: float, epochs: int, seed: int) -> tuple[nn.Module, Tensor]:
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        critic = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, len(shares)))
    baseline = torch.zeros(len(shares), requires_grad=True)
    optimiser = torch.optim.Adam([*critic.parameters(), baseline], lr=LEARNING_RATE)
    for _ in range(epochs):
        for batch in torch.randperm(len(x), generator=generator).tensor_split(math.ceil(len(x) / BATCH)):
            loss = -interpolated_bound(critic(x[batch]), y[batch], baseline, shares, alpha)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return critic, baseline


def cost(s: Sizes, *, alpha: float, pca: bool) -> float:
    width = s.q if pca else s.d
    return pca * gram_flops(s) + 6 * (1 - HELD_OUT) * s.n * HIDDEN * (width + s.c) * EPOCHS
