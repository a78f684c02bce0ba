"""The mixture's ends and limits: when EM stops, what it says of itself, and that short cuts lead to the same place."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from unseen.core.errors import DataError
from unseen.ranking import fit_mixture, gmm
from unseen.ranking.gmm import Mixture, _full_step, k_means


def heaps(count: int = 40, each: int = 12, dimensions: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows in heaps that are far apart, so that a row has one component of any weight; and the heap of each row."""
    generator = np.random.default_rng(seed)
    heap = np.repeat(np.arange(count), each)
    centres = 20 * generator.normal(size=(count, dimensions))
    return centres[heap] + generator.normal(size=(count * each, dimensions)), heap


def mean_log_likelihood(mixture: Mixture, rows: np.ndarray) -> float:
    """Of the scaled rows, one row and one component at a time."""
    weights, means, variances = (
        t.double().numpy() for t in (mixture.log_weights.exp(), mixture.means, mixture.variances)
    )
    found = 0.0
    for row in rows / mixture.scale:
        exponents = -0.5 * ((row - means) ** 2 / variances + np.log(2 * np.pi * variances)).sum(axis=1)
        found += np.logaddexp.reduce(np.log(weights) + exponents) / len(rows)
    return found


def test_a_mixture_that_was_not_fitted_has_no_likelihood() -> None:
    made = Mixture(torch.tensor([0.25, 0.75]).log(), torch.zeros(2, 2), torch.ones(2, 2), 1.0)
    np.testing.assert_allclose(made.posterior(np.eye(2)), [[0.25, 0.75]] * 2)
    assert (made.log_likelihood, made.steps, made.converged) == (-math.inf, 0, False)


@pytest.mark.parametrize("spread", [True, False])
def test_no_more_steps_than_are_allowed_and_none_of_them_makes_it_worse(small: tuple, spread: bool) -> None:
    """Over all pairs of rows and components, and over the few that carry weight."""
    rows, components = (small[0], 6) if spread else (heaps()[0], 50)
    fitted = [fit_mixture(rows, components, steps=steps, tolerance=1e-6) for steps in (1, 2, 4, 8, 300)]
    assert [one.steps for one in fitted[:3]] == [1, 2, 4] and fitted[-1].steps < 300
    assert [one.converged for one in fitted] == [False] * 3 + [fitted[3].steps < 8, True]
    likelihoods = [mean_log_likelihood(one, rows) for one in fitted]
    assert (np.diff(likelihoods) > -1e-4).all() and likelihoods[-1] > likelihoods[0]
    assert fitted[-1].log_likelihood == pytest.approx(likelihoods[-1], abs=1e-3)


def test_a_greater_tolerance_stops_sooner(small: tuple) -> None:
    steps = [fit_mixture(small[0], 6, tolerance=tolerance).steps for tolerance in (1e-1, 1e-3, 1e-6)]
    assert steps == sorted(steps) and steps[0] < steps[2]
    # The first step has nothing to be compared with; the second gains less than any such tolerance.
    assert fit_mixture(small[0], 6, tolerance=1e6).steps <= 2
    # So it is with two sparse steps, between two full ones.
    assert fit_mixture(heaps()[0], 50, tolerance=1e6).steps <= 4


def test_sparse_and_full_steps_come_to_the_same_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = heaps()
    sparse = fit_mixture(rows, 40, tolerance=1e-5)
    monkeypatch.setattr(gmm, "_SPARSE_SHARE", 0.0)
    full = fit_mixture(rows, 40, tolerance=1e-5)
    np.testing.assert_allclose(sparse.posterior(rows), full.posterior(rows), atol=1e-3)
    np.testing.assert_allclose(sparse.means, full.means, atol=1e-3)
    assert sparse.log_likelihood == pytest.approx(full.log_likelihood, abs=1e-3)


def test_the_likelihood_of_a_sparse_step_is_that_of_a_full_one() -> None:
    rows, _ = heaps()
    start = fit_mixture(rows, 50, steps=1)
    x = torch.from_numpy(rows).float() / start.scale
    sums, pairs = _full_step(x, start)
    assert pairs is not None and 0 < pairs.count < len(x), "some rows have two components, most have one"
    again = pairs.step(start)
    assert sums.log_likelihood / len(x) == pytest.approx(mean_log_likelihood(start, rows), abs=1e-3)
    assert again.log_likelihood / len(x) == pytest.approx(sums.log_likelihood / len(x), abs=1e-3)


def test_pairs_are_kept_while_their_values_and_squares_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two numbers of four bytes for each dimension of each pair; all that is held at once stays below a gigabyte."""
    assert 2 * gmm._BLOCK_BYTES + gmm._PAIR_BYTES <= 2**30
    rows, _ = heaps(dimensions=3)
    start = fit_mixture(rows, 40, steps=1)
    x = torch.from_numpy(rows).float() / start.scale
    posterior = start.posterior(rows)
    near = int((posterior > posterior.max(axis=1, keepdims=True) * np.exp(-14.0)).sum())
    monkeypatch.setattr(gmm, "_PAIR_BYTES", 2 * 4 * 3 * near)
    assert _full_step(x, start)[1] is not None
    monkeypatch.setattr(gmm, "_PAIR_BYTES", 2 * 4 * 3 * near - 1)
    assert _full_step(x, start)[1] is None


def test_the_scale_of_rows_changes_only_the_scale_of_the_mixture(small: tuple) -> None:
    plain, large = (fit_mixture(factor * small[0], 5) for factor in (1.0, 1024.0))
    assert large.scale == pytest.approx(1024 * plain.scale, rel=1e-6)
    assert plain.scale == pytest.approx(np.sqrt(small[0].var(axis=0).mean()), rel=1e-5)
    np.testing.assert_allclose(large.posterior(1024 * small[0]), plain.posterior(small[0]), atol=1e-6)


def test_one_component_is_the_gaussian_of_all_rows(small: tuple) -> None:
    found = fit_mixture(small[0], 1)
    np.testing.assert_allclose(found.means[0] * found.scale, small[0].mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(found.variances[0] * found.scale**2, small[0].var(axis=0), rtol=1e-4)
    assert float(found.log_weights[0]) == pytest.approx(0.0, abs=1e-6)
    for components in (0, len(small[0]) + 1):
        with pytest.raises(DataError, match=f"{components} Gaussians"):
            fit_mixture(small[0], components)
    assert fit_mixture(small[0], len(small[0])).posterior(small[0]).shape == (60, 60)


def test_k_means_finds_heaps_that_are_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, heap = heaps(8)
    x = torch.from_numpy(rows).float()
    found = k_means(x, 8, 0)
    assert len(set(zip(found.tolist(), heap.tolist(), strict=True))) == len(set(found.tolist())) == 8
    monkeypatch.setattr(gmm, "_BLOCK_BYTES", 4 * 8 * 5)
    assert torch.equal(found, k_means(x, 8, 0)), "blocks of five rows change nothing"


def test_k_means_ends_where_hardly_a_row_moves(small: tuple) -> None:
    """The rows that another step of Lloyd's would move are fewer than one in twenty-five."""
    x = torch.from_numpy(np.tile(small[0], (10, 1)) + np.random.default_rng(0).normal(size=(600, 5))).float()
    nearest = k_means(x, 4, 1)
    centres = torch.stack([x[nearest == k].mean(dim=0) for k in range(4)])
    assert float((torch.cdist(x, centres).argmin(dim=1) != nearest).float().mean()) <= 0.04
    assert not torch.equal(nearest, k_means(x, 4, 2))


def test_rows_that_repeat_leave_centres_without_any() -> None:
    x = torch.tensor([[0.0, 1.0], [4.0, 4.0]]).repeat_interleave(3, dim=0)
    found = k_means(x, 5, 0)
    assert len(set(found[:3].tolist())) == len(set(found[3:].tolist())) == 1 and found[0] != found[3]
