"""GFZSL: a Gaussian per class, whose parameters are regressed from the class embedding; and its transductive form.

Paper:      Verma & Rai, "A simple exponential family framework for zero-shot learning", ECML 2017 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings; mu, log_var (c, d) of the training classes
Implements: GBU Eq. (18); kernel ridge regression with the kernel (1 + a'b)^2, once for the mean and once for the
            log-variance, each with a ridge of its own as in the released code of [P] (0.01 to 1 for means, 1e7 and more
            for variances). The log-variance is regressed as the difference from its mean over classes: a ridge that
            drew it towards 0 would give each class another scale, and the sum over all dimensions would drown the
            distance. At a great ridge all unseen classes share one variance per dimension.
            GFZSL-tran: expectation-maximisation of a mixture that starts from the regressed Gaussians, responsibilities
            r (n, c)
Differs:    a class that was trained on keeps its own estimates when it is among the candidates, as section 3.4 of GBU
            has it. Variances are shrunk towards their mean over classes: a class of few images has zeros.
            Accuracy is per class, where the released code of [P] gives it per image. The unlabelled images of
            GFZSL-tran are those that `scores` receives; Gaussians of classes that were trained on do not change. A
            class's new mean and variance count its start as `prior` images, so that a class without images does not
            collapse
Expected:   GBU Table 3, PS: SUN 60.6, CUB 49.3, AWA1 68.3, AWA2 63.8, aPY 38.4; GFZSL-tran: GBU Fig. 8, PS: AWA2 78.6
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.linalg import eigh

from unseen.metrics import softmax
from unseen.zeroshot.method import FloatArray, IntArray, ZeroShotMethod, one_hot, parameters


@parameters
class GFZSL(ZeroShotMethod, key="GFZSL"):
    """Class-conditional Gaussians with diagonal covariance.

    Args:
        lam: weight of the ridge in the regression of means.
        lam_var: weight of the ridge in the regression of log-variances.
        shrinkage: share of the pooled variance in each class's variance.
    """

    lam: float = 0.1
    lam_var: float = 1e8
    shrinkage: float = 0.1

    scoring_params: ClassVar[tuple[str, ...]] = ("lam", "lam_var")

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        self.mu_, self.log_var_ = gaussians(X, y, len(S), self.shrinkage)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        mu, log_var = self._parameters(S)
        return log_density(X, mu, log_var)

    def _parameters(self, S: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and log-variance per row of S: estimated for training classes, else regressed, Eq. (18)."""
        ridge, middle = KernelRidge(self.signatures_), self.log_var_.mean(0)
        seen = self._seen_rows(S)
        known = (seen >= 0)[:, None]
        mu = np.where(known, self.mu_[seen], ridge.predict(S, self.mu_, self.lam))
        spread = middle + ridge.predict(S, self.log_var_ - middle, self.lam_var)
        return mu, np.where(known, self.log_var_[seen], spread)


@parameters
class GFZSLTran(GFZSL, key="GFZSL-tran"):
    """Transductive GFZSL.

    Args:
        steps: of expectation-maximisation.
        prior: images that the regressed Gaussian counts for.
    """

    steps: int = 10
    prior: float = 10.0

    transductive = True
    scoring_params = ("lam", "lam_var", "steps", "prior")

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        mu, log_var = self._parameters(S)
        new = self._seen_rows(S) < 0
        start_mu, start_var = mu[new], np.exp(log_var[new])
        wide = X.astype(np.float64)
        squared = wide**2
        for _ in range(self.steps if new.any() else 0):
            r = softmax(log_density(X, mu, log_var).astype(np.float64))[:, new]  # expectation
            weight = (r.sum(0) + self.prior)[:, None]
            sums, squares = r.T @ wide, r.T @ squared
            mean = (sums + self.prior * start_mu) / weight  # maximisation
            second = (squares + self.prior * (start_var + start_mu**2)) / weight
            var = np.maximum(second - mean**2, 1e-3 * start_var)
            mu[new], log_var[new] = mean, np.log(var)
        return log_density(X, mu, log_var)


class KernelRidge:
    """Regression from class embeddings with the kernel (1 + a'b)^2: one eigendecomposition for every ridge."""

    def __init__(self, S: FloatArray) -> None:
        self.S = S.astype(np.float64)
        self.values, self.vectors = eigh(self.kernel(self.S))

    def kernel(self, S: FloatArray) -> FloatArray:
        return (1.0 + S.astype(np.float64) @ self.S.T) ** 2

    def predict(self, S: FloatArray, targets: FloatArray, lam: float) -> FloatArray:
        """Return k(S) (K + lam I)^-1 T for the matrix T of `targets`."""
        smoother = self.kernel(S) @ (self.vectors / (np.maximum(self.values, 0) + lam)) @ self.vectors.T
        return smoother @ targets


def gaussians(X: FloatArray, y: IntArray, classes: int, shrinkage: float) -> tuple[FloatArray, FloatArray]:
    """Return (c, d) maximum-likelihood means, and logs of the shrunk variances, per class."""
    hot = one_hot(y, classes, X.dtype).T
    counts = np.bincount(y, minlength=classes)[:, None]
    mu = (hot @ X).astype(np.float64) / counts
    centred = X - mu[y].astype(X.dtype)  # the variance of differences does not cancel, that of squares would
    var = (hot @ (centred * centred)).astype(np.float64) / counts
    pooled = (var * counts).sum(0) / counts.sum()
    # A feature that never varies would have a variance of 0 in all classes.
    floor = 1e-6 * max(float(pooled.mean()), np.finfo(np.float64).tiny)
    return mu, np.log((1 - shrinkage) * var + shrinkage * pooled + floor)


def log_density(X: FloatArray, mu: FloatArray, log_var: FloatArray) -> FloatArray:
    """Return (n, c): the log of the Gaussian density, without the constant; its arg-max is that of Eq. (18)."""
    centre = mu.mean(0)  # near the data, so that the expanded square loses little in float32
    x, m, precision = X - centre.astype(X.dtype), mu - centre, np.exp(-log_var)
    constant = -0.5 * (log_var + m * m * precision).sum(1)
    quadratic = (x * x) @ (-0.5 * precision).T.astype(X.dtype)
    return np.asarray(quadratic + x @ (m * precision).T.astype(X.dtype) + constant.astype(X.dtype))
