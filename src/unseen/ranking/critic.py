"""The critic of I_alpha: a small network that is trained to raise the bound, and the bound itself.

Paper:      Poole et al., "On variational bounds of mutual information", ICML 2019 [P]
Shapes:     x (K, d) a batch of features; f (K, c) critic: one value per row and class; a (c,) baseline per class
Implements: the interpolated bound I_alpha of section 2.3 of [P]
Differs:    labels are classes, so that the expectation over labels that are independent of x is an exact sum over their
            shares instead of a sample
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from unseen.ranking.inputs import IntArray

BATCH = 128
LEARNING_RATE = 1e-3


def train_and_evaluate(
    rows: npt.NDArray[np.float32],
    index: IntArray,
    shares: npt.NDArray[np.float32],
    train: IntArray,
    test: IntArray,
    *,
    alpha: float,
    hidden: int,
    epochs: int,
    seed: int,
) -> float:
    """The bound on the test rows, by a critic trained on the training rows.

    Args:
        rows, index: all rows and their classes.
        shares: of the classes.
        train, test: row numbers.
        alpha: of the bound.
        hidden: width of the critic.
        epochs, seed: of training.
    """
    x, y, share = torch.from_numpy(rows), torch.from_numpy(index), torch.from_numpy(shares)
    critic, baseline = _train(x[train], y[train], share, alpha, hidden, epochs, seed)
    total = 0.0
    with torch.no_grad():
        for batch in torch.from_numpy(test).tensor_split(math.ceil(len(test) / BATCH)):
            bound = interpolated_bound(critic(x[batch]), y[batch], baseline, share, alpha)
            total += len(batch) * float(bound)
    return total / len(test)


def interpolated_bound(critic: Tensor, labels: Tensor, log_baseline: Tensor, shares: Tensor, alpha: float) -> Tensor:
    """I_alpha of one batch: 1 + E[log e^f(x, y) / q(y)] - E[e^f(x, y') / q(y')], q = alpha m + (1 - alpha) a.

    Args:
        critic: f, (K, c).
        labels: (K,) class of each row.
        log_baseline: log a, (c,).
        shares: P(y), (c,).
        alpha: weight of m(y), the mean over the batch of e^f(x, y).
    """
    log_mean = critic.logsumexp(dim=0) - math.log(len(critic))
    parts = [log_mean + math.log(alpha)] + ([log_baseline + math.log1p(-alpha)] if alpha < 1 else [])
    log_mixed = torch.stack(parts).logsumexp(dim=0)  # log q, (c,)
    own = critic.gather(1, labels[:, None])[:, 0] - log_mixed[labels]
    return 1 + own.mean() - (shares * (log_mean - log_mixed).exp()).sum()


def _train(
    x: Tensor, y: Tensor, shares: Tensor, alpha: float, hidden: int, epochs: int, seed: int
) -> tuple[nn.Module, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        critic = nn.Sequential(nn.Linear(x.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, len(shares)))
    baseline = torch.zeros(len(shares), requires_grad=True)
    optimiser = torch.optim.Adam([*critic.parameters(), baseline], lr=LEARNING_RATE)
    for _ in range(epochs):
        for batch in torch.randperm(len(x), generator=generator).tensor_split(math.ceil(len(x) / BATCH)):
            loss = -interpolated_bound(critic(x[batch]), y[batch], baseline, shares, alpha)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return critic, baseline
