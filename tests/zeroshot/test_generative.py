"""f-CLSWGAN: the same bits twice, the gradient penalty as published, candidates prepared."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from unseen.zeroshot import FCLSWGAN, Problem
from unseen.zeroshot.f_clswgan import linear

KINDS = [FCLSWGAN]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits_twice(kind: type, small_problem: Problem) -> None:
    X, y, S = small_problem.train.X, small_problem.train.y, small_problem.S
    x = small_problem.test_unseen.X
    threads = torch.get_num_threads()
    state = torch.random.get_rng_state()
    first = kind(epochs=1, hidden=32, device="cpu").fit(X, y, S)
    torch.manual_seed(99)  # other random numbers change nothing
    np.random.default_rng().random(7)
    again = kind(epochs=1, hidden=32, device="cpu").fit(X, y, S)
    torch.random.set_rng_state(state)
    np.testing.assert_array_equal(first.scores(x, S), again.scores(x, S))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).scores(x, S), first.scores(x, S))
    other = kind(epochs=1, hidden=32, device="cpu", seed=1).fit(X, y, S)
    assert not np.array_equal(other.scores(x, S), first.scores(x, S))
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("kind", KINDS)
def test_points_of_unseen_classes_are_drawn_when_they_are_asked_for(kind: type, small_problem: Problem) -> None:
    X, y, S = small_problem.train.X, small_problem.train.y, small_problem.S
    method = kind(epochs=1, hidden=32, device="cpu", samples=30, real=7).fit(X, y, S)
    assert np.bincount(method.labels_).tolist() == [7] * 20
    weights = method._classifier(S)
    assert weights.shape[1] == 25
    assert method._classifier(S) is weights
    assert method._classifier(S[20:]).shape[1] == 5
    drawn = method._generated(np.repeat(S[20:], 50, axis=0).astype(np.float32), np.random.default_rng(0))
    assert len(drawn) == 250
    assert drawn.std(0).max() > 0
    log_posterior = method.scores(X[:9], S)
    np.testing.assert_allclose(np.exp(log_posterior).sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_grid_gives_what_single_fits_give(kind: type, small_problem: Problem) -> None:
    X, y, S = small_problem.train.X, small_problem.train.y, small_problem.S
    x = small_problem.test_unseen.X[:10]
    grid = [{"epochs": e, "samples": n} for e in (1, 2) for n in (10, 40)]
    for params, scores in kind(device="cpu", hidden=32).grid_scores(X, y, S, x, S[20:], grid):
        np.testing.assert_array_equal(scores, kind(device="cpu", hidden=32, **params).fit(X, y, S).scores(x, S[20:]))


def test_the_gradient_of_the_critic_is_that_of_autograd() -> None:
    """f-CLSWGAN writes the gradient of D with respect to an image out; the penalty and its own gradient follow."""
    d, a, h = 5, 3, 7
    random = torch.Generator().manual_seed(1)
    d1, d2 = linear(d + a, h, random), linear(h, 1, random)
    x, s = torch.randn(4, d, requires_grad=True), torch.randn(4, a)
    inner = d1(torch.cat([x, s], 1))
    said = d2(torch.nn.functional.leaky_relu(inner, 0.2))[:, 0]
    (wanted,) = torch.autograd.grad(said.sum(), x, create_graph=True)
    slopes = torch.where(inner > 0, 1.0, 0.2) * d2.weight[0]
    found = slopes @ d1.weight[:, :d]
    torch.testing.assert_close(found, wanted)
    penalties = [((g.norm(dim=1) - 1) ** 2).mean() for g in (found, wanted)]
    ours, theirs = (torch.autograd.grad(p, d1.weight, retain_graph=True)[0] for p in penalties)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.slow
def test_unseen_classes_are_told_apart_by_what_is_generated(real_problem) -> None:
    """Few training images (1,200): f-CLSWGAN was at chance as long as an epoch was a handful of steps of G."""
    problem = real_problem("AWA2", "PS")
    method = FCLSWGAN(device="cpu", epochs=8).fit(problem.train.X, problem.train.y, problem.S)
    new = problem.test_unseen
    right = problem.unseen[method.predict(new.X, problem.S[problem.unseen])] == new.y
    assert right.mean() > 0.4  # chance is 0.1
