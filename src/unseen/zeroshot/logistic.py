"""Logistic regression as DAP, IAP and CONSE need it: many attributes, or many classes, in one L-BFGS optimisation.

Shapes:     X (n, d); targets (n, m) in [0, 1]; W (d + 1, m), the last row the bias
Implements: mean cross-entropy + l2 / 2 |W without bias|^2. The sigmoid problems of all attributes are separate, but
            share every product with X, so they are solved as one, by scipy's L-BFGS-B
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from unseen.metrics import log_softmax
from unseen.zeroshot.method import FloatArray

Link = Literal["softmax", "sigmoid"]
#: From a matrix of parameters to the loss and its gradient.
Objective = Callable[[FloatArray], tuple[float, FloatArray]]


def fit_logistic(
    X: FloatArray,
    targets: FloatArray,
    link: Link,
    l2: float,
    *,
    iterations: int = 100,
    counts: FloatArray | None = None,
) -> FloatArray:
    """Return (d + 1, m) weights; `counts` are the weights of the images, 1 by default."""
    d, n = X.shape[1], float(len(X) if counts is None else counts.sum())
    often = 1 if counts is None else counts.astype(X.dtype)[:, None]
    m = targets.shape[1]
    wanted = targets.astype(X.dtype)

    def objective(W: FloatArray) -> tuple[float, FloatArray]:
        logits = logits_of(X, W)
        if link == "softmax":
            log_posterior = log_softmax(logits)
            loss = -(often * wanted * log_posterior).sum(dtype=np.float64)
            error = often * (np.exp(log_posterior) - wanted)
        else:
            loss = (often * (np.logaddexp(0, logits) - wanted * logits)).sum(dtype=np.float64)
            error = often * (expit(logits) - wanted)
        gradient = np.empty_like(W)
        gradient[:-1] = (X.T @ error) / n + l2 * W[:-1]
        gradient[-1] = error.sum(0, dtype=np.float64) / n
        return float(loss) / n + 0.5 * l2 * float((W[:-1] ** 2).sum()), gradient

    return minimise(objective, np.zeros((d + 1, m)), iterations)


def predict_logistic(X: FloatArray, W: FloatArray) -> FloatArray:
    """Return (n, m) log-probabilities of the classes, for weights that were fitted with the softmax."""
    return log_softmax(logits_of(X, W))


def logits_of(X: FloatArray, W: FloatArray) -> FloatArray:
    """Return (n, m) log-odds."""
    return np.asarray(X @ W[:-1].astype(X.dtype) + W[-1].astype(X.dtype))


def minimise(objective: Objective, start: FloatArray, iterations: int) -> FloatArray:
    """Return the matrix, of the shape of `start`, that minimises the objective within the iterations."""

    def flat(values: FloatArray) -> tuple[float, FloatArray]:
        loss, gradient = objective(values.reshape(start.shape))
        return loss, np.asarray(gradient, np.float64).ravel()

    found = minimize(flat, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": iterations})
    return found.x.reshape(start.shape)
