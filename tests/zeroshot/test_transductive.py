"""GFZSL-tran and DSRL: what other images may change of a score, and what not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from unseen.zeroshot import DSRL, GFZSL, GFZSLTran
from unseen.zeroshot.problem import Problem


def arrays(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return problem.train.X.astype(np.float64), problem.train.y, problem.S, problem.test_unseen.X.astype(np.float64)


def densities(x: np.ndarray, mu: np.ndarray, var: np.ndarray) -> np.ndarray:
    return np.stack([norm.logpdf(x, m, np.sqrt(v)).sum(1) for m, v in zip(mu, var, strict=True)], axis=1)


def test_gfzsl_tran_is_expectation_maximisation(small_problem: Problem) -> None:
    """A mixture of Gaussians, one image at a time; the regressed start counts as so many images of an unseen class."""
    X, y, S, x = arrays(small_problem)
    method = GFZSLTran(steps=3, prior=4.0).fit(X, y, S)
    mu, log_var = GFZSL().fit(X, y, S)._parameters(S)
    var, first_mu, first_var = np.exp(log_var), mu.copy(), np.exp(log_var)
    for _ in range(3):
        log_p = densities(x, mu, var)
        share = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
        for c in range(20, 25):
            weight = share[:, c].sum() + 4.0
            mu[c] = sum((share[i, c] * x[i] for i in range(len(x))), 4.0 * first_mu[c]) / weight
            square = sum((share[i, c] * x[i] ** 2 for i in range(len(x))), 4.0 * (first_var[c] + first_mu[c] ** 2))
            var[c] = np.maximum(square / weight - mu[c] ** 2, 1e-3 * first_var[c])
    found, wanted = method.scores(x, S), densities(x, mu, var)
    np.testing.assert_allclose(found - found[:, :1], wanted - wanted[:, :1], rtol=1e-6, atol=1e-6)


def test_gfzsl_tran_leaves_classes_that_it_knows_as_they_are(small_problem: Problem) -> None:
    X, y, S, x = arrays(small_problem)
    moved, still = GFZSLTran().fit(X, y, S).scores(x, S), GFZSL().fit(X, y, S).scores(x, S)
    # Differences distinguish densities: of one known class and another.
    np.testing.assert_allclose(moved[:, :20] - moved[:, :1], still[:, :20] - still[:, :1], rtol=1e-6, atol=1e-6)
    assert not np.allclose(moved[:, 20:], still[:, 20:])
    known = GFZSLTran().fit(X, y, S).scores(x, S[:20])
    np.testing.assert_allclose(known, GFZSL().fit(X, y, S).scores(x, S[:20]))


@pytest.mark.parametrize("below", [False, True])
def test_dsrl_doubles_dimensions_only_where_something_is_below_0(small_problem: Problem, below: bool) -> None:
    X, y, S, x = arrays(small_problem)
    shift, twice = (X.mean(), 2) if below else (0.0, 1)
    method = DSRL(steps=5).fit(X - shift, y, np.abs(S) if not below else S)
    assert method.dictionary_.shape == (twice * 12, twice * 64)
    assert (method.dictionary_ >= 0).all()
    assert np.isfinite(method.scores(x - shift, S[20:])).all()


def test_a_grid_gives_what_single_fits_give(small_problem: Problem) -> None:
    X, y, S, x = arrays(small_problem)
    X, x, S = np.abs(X), np.abs(x), np.abs(S)
    grid = [{"inference_steps": steps, "alpha": alpha} for steps in (1, 4) for alpha in (0.5, 0.9)]
    found = list(DSRL(steps=5).grid_scores(X, y, S, x, S[20:], grid))
    for params, scores in found:
        np.testing.assert_allclose(scores, DSRL(steps=5, **params).fit(X, y, S).scores(x, S[20:]))
    assert len({scores.tobytes() for _, scores in found}) == len(grid)
