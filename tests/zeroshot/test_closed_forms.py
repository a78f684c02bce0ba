"""ESZSL, SAE and GFZSL against the equations written out naively."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import solve_sylvester
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge as SklearnKernelRidge

from unseen.zeroshot import ESZSL, GFZSL, SAE, SAEReverse
from unseen.zeroshot.problem import Problem
from unseen.zeroshot.sync import SYNC


def arrays(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return problem.train.X.astype(np.float64), problem.train.y, problem.S


def relative(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("targets", ["sign", "binary"])
def test_eszsl_is_the_normal_equations(small_problem: Problem, targets: str) -> None:
    X, y, S = arrays(small_problem)
    g, lam = 10.0**-1, 10.0**1
    Y = np.full((len(y), 20), -1.0 if targets == "sign" else 0.0)
    for i, label in enumerate(y):
        Y[i, label] = 1.0
    s = S[:20]
    wanted = np.linalg.inv(X.T @ X + g * np.eye(64)) @ X.T @ Y @ s @ np.linalg.inv(s.T @ s + lam * np.eye(12))
    found = ESZSL(gamma=-1, lam=1, targets=targets).fit(X, y, S).W_
    assert relative(found, wanted) < 1e-8


def test_eszsl_grid_equals_single_fits(small_problem: Problem) -> None:
    X, y, S = arrays(small_problem)
    grid = [{"gamma": g, "lam": lam} for g in (-3, 0, 3) for lam in (-2, 2)]
    X_val, S_val = small_problem.test_unseen.X.astype(np.float64), S[20:]
    for params, scores in ESZSL().grid_scores(X, y, S, X_val, S_val, grid):
        assert relative(scores, ESZSL(**params).fit(X, y, S).scores(X_val, S_val)) < 1e-8


@pytest.mark.parametrize("lam", [1e-2, 1.0, 100.0])
def test_sae_solves_its_sylvester_equation(small_problem: Problem, lam: float) -> None:
    X, y, S = arrays(small_problem)
    coded = S[y]
    A, B, C = coded.T @ coded, lam * X.T @ X, (1 + lam) * coded.T @ X
    W = SAE(lam=lam).fit(X, y, S).W_
    assert np.abs(A @ W + W @ B - C).max() / np.abs(C).max() < 1e-8
    assert relative(W, solve_sylvester(A, B, C)) < 1e-8


def test_sae_is_where_its_loss_is_least(small_problem: Problem) -> None:
    X, y, S = arrays(small_problem)
    coded, lam = S[y], 0.7

    def loss(W: np.ndarray) -> float:
        return float(((X - coded @ W) ** 2).sum() + lam * ((X @ W.T - coded) ** 2).sum())

    W = SAE(lam=lam).fit(X, y, S).W_
    rng = np.random.default_rng(0)
    assert all(loss(W) < loss(W + 1e-3 * rng.normal(size=W.shape)) for _ in range(20))


def test_sae_directions_and_grid(small_problem: Problem) -> None:
    X, y, S = arrays(small_problem)
    forward, back = SAE(lam=2.0).fit(X, y, S), SAEReverse(lam=2.0).fit(X, y, S)
    np.testing.assert_allclose(forward.W_, back.W_)
    x, s = X[:5], S[20:]
    cosine = lambda a, b: a @ b / np.linalg.norm(a) / np.linalg.norm(b)  # noqa: E731
    for scaled in (True, False):
        W = forward.W_ / np.linalg.norm(forward.W_, axis=1, keepdims=True) if scaled else forward.W_
        wanted = [[cosine(W @ a, b) for b in s] for a in x]
        np.testing.assert_allclose(forward.set_params(scaled_rows=scaled).scores(x, s), wanted, atol=1e-10)
        wanted = [[cosine(a, W.T @ b) for b in s] for a in x]
        np.testing.assert_allclose(back.set_params(scaled_rows=scaled).scores(x, s), wanted, atol=1e-10)
    grid = [{"lam": v, "scaled_rows": scaled} for v in (0.1, 1.0, 10.0) for scaled in (True, False)]
    for params, scores in back.grid_scores(X, y, S, x, s, grid):
        np.testing.assert_allclose(scores, SAEReverse(**params).fit(X, y, S).scores(x, s), atol=1e-10)


def test_gfzsl_is_kernel_ridge_and_gaussians(small_problem: Problem) -> None:
    X, y, S = arrays(small_problem)
    method = GFZSL(lam=0.3, lam_var=7.0, shrinkage=0.1).fit(X, y, S)
    mu = np.stack([X[y == c].mean(0) for c in range(20)])
    var = np.stack([X[y == c].var(0) for c in range(20)])
    pooled = np.average(var, axis=0, weights=np.bincount(y))
    log_var = np.log(0.9 * var + 0.1 * pooled + 1e-6 * pooled.mean())
    assert relative(method.mu_, mu) < 1e-8
    assert relative(method.log_var_, log_var) < 1e-8
    ridges = [SklearnKernelRidge(alpha=v, kernel="poly", degree=2, gamma=1.0, coef0=1.0) for v in (0.3, 7.0)]
    middle = log_var.mean(0)
    wanted = [
        ridges[0].fit(S[:20], mu).predict(S[20:]),
        middle + ridges[1].fit(S[:20], log_var - middle).predict(S[20:]),
    ]
    for found, value in zip(method._parameters(S[20:]), wanted, strict=True):
        assert relative(found, value) < 1e-8
    x = small_problem.test_unseen.X[:7].astype(np.float64)
    naive = [[-0.5 * (lv + (a - m) ** 2 / np.exp(lv)).sum() for m, lv in zip(*wanted, strict=True)] for a in x]
    assert relative(method.scores(x, S[20:]), np.asarray(naive)) < 1e-8


def test_gfzsl_does_not_mind_the_scale_of_features(small_problem: Problem) -> None:
    """A ridge that drew log-variances towards 0 would: they are the smaller the smaller the features are."""
    X, y, S = arrays(small_problem)
    x = small_problem.test_unseen.X.astype(np.float64)
    for lam_var in (1.0, 1e8):
        found = [GFZSL(lam_var=lam_var).fit(k * X, y, S).predict(k * x, S[20:]) for k in (0.01, 1.0, 100.0)]
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[2], found[1])


def test_gfzsl_keeps_the_estimates_of_seen_classes(small_problem: Problem) -> None:
    X, y, S = arrays(small_problem)
    method = GFZSL().fit(X, y, S)
    mu, _ = method._parameters(S[[3, 22]])
    np.testing.assert_array_equal(mu[0], method.mu_[3])
    assert not np.allclose(mu[1], method.mu_[2])


def test_sync_interpolates_between_its_training_classifiers(small_problem: Problem) -> None:
    X, y, S = arrays(small_problem)
    method = SYNC(sigma=0.05).fit(X, y, S)  # so narrow that each class is its own phantom
    np.testing.assert_allclose(method.scores(X[:9], S[:20]), X[:9] @ method.W_.T, rtol=1e-4, atol=1e-4)
    for loss in ("one-vs-other", "crammer-singer", "structured"):
        fitted = clone(method).set_params(loss=loss, sigma=1.0).fit(X, y, S)
        assert (fitted.predict(X, S[:20]) == y).mean() > 0.9


def test_sae_of_few_images_and_idle_attributes(small_problem: Problem) -> None:
    """Where neither images nor attributes say anything, nothing is divided by 0 and W has no part."""
    rng = np.random.default_rng(0)
    X, y, lam = rng.normal(size=(12, 30)), np.arange(12) % 4, 0.5
    s = rng.normal(size=(4, 3))
    S = np.column_stack([s, s, np.zeros(4)])
    W = SAE(lam=lam).fit(X, y, S).W_
    coded = S[y]
    C = (1 + lam) * coded.T @ X
    assert np.abs(coded.T @ coded @ W + W @ (lam * X.T @ X) - C).max() / np.abs(C).max() < 1e-8
    np.testing.assert_allclose(W[:3], W[3:6], atol=1e-10)
    np.testing.assert_allclose(W[6], 0, atol=1e-10)
    outside = np.eye(30) - np.linalg.pinv(X) @ X  # no image has a part there
    np.testing.assert_allclose(W @ outside, 0, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_sae_does_not_mind_the_unit_of_attributes_and_features(small_problem: Problem, scale: float) -> None:
    """Both in another unit: the same equation, and the same W."""
    X, y, S = arrays(small_problem)
    assert relative(SAE(lam=0.7).fit(scale * X, y, scale * S).W_, SAE(lam=0.7).fit(X, y, S).W_) < 1e-8
