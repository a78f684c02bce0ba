"""Logistic regression as DAP, IAP and CONSE need it: many attributes, or many classes, in one optimisation.

Shapes:     X (n, d); targets (n, m) in [0, 1]; W (d + 1, m), the last row the bias
Implements: mean cross-entropy + l2 / 2 |W without bias|^2, minimised by L-BFGS. The sigmoid problems of all attributes
            are separate, but share every product with X, so they are solved as one
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import log_expit

from unseen.metrics import log_softmax
from unseen.zeroshot.lbfgs import minimise
from unseen.zeroshot.method import FloatArray

Link = Literal["softmax", "sigmoid"]


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
        logits = X @ W[:-1].astype(X.dtype) + W[-1].astype(X.dtype)
        if link == "softmax":
            log_posterior = log_softmax(logits)
            loss = -(often * wanted * log_posterior).sum(dtype=np.float64)
            error = often * (np.exp(log_posterior) - wanted)
        else:
            decay = np.exp(-np.abs(logits))  # in (0, 1]: neither the loss nor the posterior can overflow
            loss = (often * (np.maximum(logits, 0) - wanted * logits + np.log1p(decay))).sum(dtype=np.float64)
            error = often * (np.where(logits >= 0, 1, decay) / (1 + decay) - wanted)
        gradient = np.empty_like(W)
        gradient[:-1] = (X.T @ error) / n + l2 * W[:-1]
        gradient[-1] = error.sum(0, dtype=np.float64) / n
        return float(loss) / n + 0.5 * l2 * float((W[:-1] ** 2).sum()), gradient

    return minimise(objective, np.zeros((d + 1, m)), iterations)


def predict_logistic(X: FloatArray, W: FloatArray, link: Link) -> FloatArray:
    """Return (n, m) log-probabilities."""
    logits = X @ W[:-1].astype(X.dtype) + W[-1].astype(X.dtype)
    return np.asarray(log_softmax(logits) if link == "softmax" else log_expit(logits))


def logits_of(X: FloatArray, W: FloatArray) -> FloatArray:
    """Return (n, m) log-odds."""
    return np.asarray(X @ W[:-1].astype(X.dtype) + W[-1].astype(X.dtype))
