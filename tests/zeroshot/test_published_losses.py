"""SYNC, SSE and DSRL: what they minimise, against other ways to the same minimum."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from unseen.zeroshot import DSRL, SSE
from unseen.zeroshot.problem import Problem
from unseen.zeroshot.sse import mixtures
from unseen.zeroshot.sync import SYNC, greatest_violation, one_versus_other


def arrays(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return problem.train.X.astype(np.float64), problem.train.y, problem.S


def greatest(W: np.ndarray, X: np.ndarray, y: np.ndarray, margins: np.ndarray, lam: float) -> float:
    """The losses of the paper, image by image."""
    total = 0.0
    for x, label in zip(X, y, strict=True):
        total += max(margins[label, c] + W[c] @ x - W[label] @ x for c in range(len(W)))
    return total / len(X) + lam / 2 * float((W**2).sum())


@pytest.mark.parametrize("lam", [2.0**-9, 2.0**-14])
def test_sync_with_crammer_singer_is_liblinear(small_problem: Problem, lam: float) -> None:
    X, y, _ = arrays(small_problem)
    margins = 1 - np.eye(20)
    theirs = LinearSVC(
        multi_class="crammer_singer", C=1 / (lam * len(X)), fit_intercept=False, max_iter=20_000, tol=1e-6
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (ConvergenceWarning, FutureWarning))
        wanted = greatest(theirs.fit(X, y).coef_, X, y, margins, lam)
    assert greatest(greatest_violation(X, y, margins, lam, 200), X, y, margins, lam) <= 1.01 * wanted + 0.002


def test_sync_with_the_structured_loss_is_a_quadratic_programme() -> None:
    """Ten images of four classes: slack variables and all, by a solver for constraints."""
    rng = np.random.default_rng(0)
    X, y, S = rng.normal(size=(10, 3)), np.arange(10) % 4, rng.normal(size=(4, 5))
    S /= np.linalg.norm(S, axis=1, keepdims=True)
    margins = np.linalg.norm(S[:, None] - S[None], axis=2)
    lam = 0.05

    def unpack(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return v[:12].reshape(4, 3), v[12:]

    def slack(v: np.ndarray) -> np.ndarray:
        W, xi = unpack(v)
        scores = X @ W.T
        return (xi[:, None] - (margins[y] + scores - scores[np.arange(10), y][:, None])).ravel()

    solved = minimize(
        lambda v: unpack(v)[1].mean() + lam / 2 * (v[:12] ** 2).sum(),
        np.ones(22),
        constraints=[{"type": "ineq", "fun": slack}],
        method="SLSQP",
        options={"maxiter": 500},
    )
    assert solved.success
    found = SYNC(lam=lam, loss="structured", iterations=300).fit(X, y, S).W_
    assert greatest(found, X, y, margins, lam) == pytest.approx(solved.fun, abs=0.006)


def test_sync_one_versus_other_is_one_problem_per_class(small_problem: Problem) -> None:
    """The loss is the mean over classes, so that each class alone has the same minimum at the same lambda."""
    X, y, _ = arrays(small_problem)
    lam = 2.0**-8
    W = one_versus_other(X, y, 20, lam, 300)
    for c in (0, 7):
        sign = np.where(y == c, 1.0, -1.0)
        alone = minimize(
            lambda w, sign=sign: np.mean(np.maximum(1 - sign * (X @ w), 0) ** 2) / 20 + lam / 2 * w @ w,
            np.zeros(64),
            method="L-BFGS-B",
            options={"maxiter": 500, "ftol": 1e-14, "gtol": 1e-9, "maxfun": 10**6},
        )
        np.testing.assert_allclose(W[c], alone.x, atol=0.02 * np.abs(alone.x).max())


def sse_loss(method: SSE, X: np.ndarray, y: np.ndarray, z: np.ndarray) -> float:
    scores = method._pi(X) @ z.T
    margins = scores - scores[np.arange(len(y)), y][:, None] + 1
    margins[np.arange(len(y)), y] = 0
    return float(margins.max(1).mean())


def test_sse_by_turns_of_small_steps_is_as_good_as_of_whole_ones(small_problem: Problem) -> None:
    """Full gradient steps on half of the images, first for w with v as it is, then the other way round."""
    X, y, S = small_problem.train.X[::2].astype(np.float64), small_problem.train.y[::2], small_problem.S
    y = np.searchsorted(np.unique(y), y)
    S = S[np.unique(small_problem.train.y[::2])]
    z = mixtures(S, S, 0.1)
    small = SSE(gamma=0.1, epochs=60, learning_rate=0.1, seed=1).fit(X, y, S)
    whole = SSE(gamma=0.1)
    assert not list(whole._path(X, y, S, 0)), "no turn: only the start"
    scaled = X / whole.scale_
    start = least = sse_loss(whole, X, y, z)
    for _ in range(4):
        for turn, rate in (("w", 0.5), ("v", 20.0)):
            for _ in range(25):
                part = f"{turn}_"
                before = getattr(whole, part).copy()
                setattr(whole, part, before - rate * whole._slope(scaled, y, z, turn))
                if (now := sse_loss(whole, X, y, z)) < least:
                    least = now
                else:
                    setattr(whole, part, before)
                    rate /= 2
    assert least < 0.5 * start
    assert sse_loss(small, X, y, z) < 1.05 * least + 0.01


def test_dsrl_makes_its_objective_small(small_problem: Problem) -> None:
    X, y, S = np.maximum(small_problem.train.X.astype(np.float64), 0), small_problem.train.y, np.abs(small_problem.S)
    method = DSRL(lam=3.0, delta=2.0, margin=0.5, sparsity=0.1)
    rng = np.random.default_rng(0)
    Z, D = rng.random((400, 12)), rng.random((12, 64))

    def objective(Z: np.ndarray) -> float:
        scores = Z @ S[:20].T
        hinge = np.maximum(method.margin + scores - scores[np.arange(400), y][:, None], 0)
        hinge[np.arange(400), y] = 0
        fit, aligned = ((X - Z @ D) ** 2).sum(), method.lam * ((Z - S[y]) ** 2).sum()
        return float(fit + aligned + method.delta * (hinge**2).sum() + 2 * method.sparsity * Z.sum())

    falling, rising = method._slopes(X, Z, D, S[:20], y)
    assert (falling >= 0).all()
    assert (rising >= 0).all()
    for row, column in ((0, 0), (17, 5), (399, 11)):  # twice the difference is the gradient
        step = np.zeros_like(Z)
        step[row, column] = 1e-6
        slope = (objective(Z + step) - objective(Z - step)) / 2e-6
        assert 2 * (rising - falling)[row, column] == pytest.approx(slope, rel=1e-3, abs=1e-3)
    before = objective(Z)
    for _ in range(30):
        falling, rising = method._slopes(X, Z, D, S[:20], y)
        Z = Z * np.sqrt(falling / rising)
    assert objective(Z) < 0.5 * before
    right = DSRL().fit(X, y, np.abs(small_problem.S))
    assert np.isfinite(right.dictionary_).all()


def test_sse_leaves_features_that_never_vary_as_they_are(small_problem: Problem) -> None:
    """Their deviation of 0 is not a unit; they distinguish no class from another."""
    method = SSE().fit(np.ones((400, 8)), small_problem.train.y, small_problem.S)
    assert method.scale_ == 1
    np.testing.assert_array_equal(method.v_, 1)
    np.testing.assert_allclose(method.scores(np.ones((2, 8)), small_problem.S), 0, atol=1e-12)
