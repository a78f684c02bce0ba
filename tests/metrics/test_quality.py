"""Label-free metrics against other people's arithmetic, and where their values are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from scipy.stats import entropy

from unseen.core.errors import DataError
from unseen.metrics import alignment, alpha_req, effective_rank, rankme, uniformity

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(200, 24)) @ RNG.normal(size=(24, 24)) + 3.0


def test_ranks_against_torch_and_scipy() -> None:
    singular = torch.linalg.svdvals(torch.from_numpy(FEATURES))
    p = singular / singular.sum() + 1e-7
    assert rankme(FEATURES) == pytest.approx(float(torch.exp(-(p * torch.log(p)).sum())), rel=1e-9)
    centred = np.linalg.svd(FEATURES - FEATURES.mean(0), compute_uv=False)
    assert effective_rank(FEATURES) == pytest.approx(np.exp(entropy(centred)), rel=1e-9)
    assert effective_rank(FEATURES, centre=False) == pytest.approx(rankme(FEATURES), rel=1e-4)


@pytest.mark.parametrize("rank", [1, 3, 8])
def test_equal_directions_are_counted(rank: int) -> None:
    basis = np.linalg.qr(RNG.normal(size=(64, 64)))[0][:, :rank]
    assert effective_rank(basis, centre=False) == pytest.approx(rank)
    assert rankme(basis) == pytest.approx(rank, rel=1e-3)
    assert effective_rank(np.ones((5, 3))) == 1.0


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.3])
def test_a_power_law_is_found(alpha: float) -> None:
    left = np.linalg.qr(RNG.normal(size=(300, 80)) - RNG.normal(size=(300, 80)).mean(0))[0]
    left -= left.mean(0)
    left = np.linalg.qr(left)[0]
    right = np.linalg.qr(RNG.normal(size=(80, 80)))[0]
    spectrum = np.arange(1, 81) ** (-alpha / 2)
    assert alpha_req(left * spectrum @ right) == pytest.approx(alpha, rel=1e-6)


def test_the_fit_is_weighted_least_squares() -> None:
    values = np.linalg.eigvalsh(np.cov(FEATURES.T))[::-1]
    ranks = np.arange(4, 25)
    # polyfit squares its weights.
    slope = np.polyfit(np.log(ranks), np.log(values[3:24]), 1, w=np.sqrt(1 / ranks))[0]
    assert alpha_req(FEATURES) == pytest.approx(-slope, rel=1e-8)
    with pytest.raises(DataError, match="needs at least 6"):
        alpha_req(FEATURES[:, :3])


def test_uniformity_and_alignment_against_their_authors_lines() -> None:
    """As [W] prints them, in torch."""
    x = torch.nn.functional.normalize(torch.from_numpy(FEATURES), dim=1)
    assert uniformity(FEATURES) == pytest.approx(float(torch.pdist(x).pow(2).mul(-2).exp().mean().log()), rel=1e-9)
    other = FEATURES + RNG.normal(size=FEATURES.shape)
    y = torch.nn.functional.normalize(torch.from_numpy(other), dim=1)
    assert alignment(FEATURES, other) == pytest.approx(float((x - y).norm(dim=1).pow(2).mean()), rel=1e-9)
    assert alignment(FEATURES, FEATURES) == 0
    many = RNG.normal(size=(2500, 3))  # more than one block
    assert uniformity(many) == pytest.approx(
        np.log(np.mean(np.exp(-2 * pdist(many / np.linalg.norm(many, axis=1, keepdims=True)) ** 2))), rel=1e-9
    )


@pytest.mark.parametrize("metric", [rankme, effective_rank, alpha_req, uniformity])
def test_what_is_no_matrix_is_refused(metric: object) -> None:
    for bad in (np.zeros(3), np.zeros((0, 3)), np.full((9, 9), np.nan)):
        with pytest.raises(DataError):
            metric(bad)  # type: ignore[operator]
