"""Logistic regression as DAP, IAP and CONSE need it: many attributes, or many classes, in one L-BFGS optimisation.

Paper:      Nocedal, "Updating quasi-Newton matrices with limited storage", 1980; Nocedal & Wright, "Numerical
            Optimization", 2nd ed., Algorithms 7.4 and 3.1
Shapes:     X (n, d); targets (n, m) in [0, 1]; W (d + 1, m), the last row the bias
Implements: mean cross-entropy + l2 / 2 |W without bias|^2. The sigmoid problems of all attributes are separate, but
            share every product with X, so they are solved as one. L-BFGS: the two-loop recursion; a step is halved, or
            cut at the minimum of a parabola through the known values, until it decreases the loss enough; stops as
            scipy's L-BFGS-B does by default
Differs:    from scipy's L-BFGS-B, which also knows bounds: numpy alone. Two libraries of linear algebra, one in the
            objective and one in the optimiser, each with threads that wait busily, slowed one another down threefold.
            The golden values of DAP, IAP, CONSE, SYNC and f-CLSWGAN hold for this optimiser: where `iterations` ends
            it, scipy's stops at another point
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal

import numpy as np

from unseen.metrics import log_softmax
from unseen.zeroshot.method import FloatArray

Link = Literal["softmax", "sigmoid"]
#: From a matrix of parameters to the loss and its gradient.
Objective = Callable[[FloatArray], tuple[float, FloatArray]]

_MEMORY = 10
_DECREASE = 1e-4  # share of the decrease that the slope predicts
_HALVINGS = 20
_LOSS_TOLERANCE, _GRADIENT_TOLERANCE = 2.2e-9, 1e-5

_History = deque[tuple[FloatArray, FloatArray, float]]


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
            decay = np.exp(-np.abs(logits))  # in (0, 1]: neither the loss nor the posterior can overflow
            loss = (often * (np.maximum(logits, 0) - wanted * logits + np.log1p(decay))).sum(dtype=np.float64)
            error = often * (np.where(logits >= 0, 1, decay) / (1 + decay) - wanted)
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
    x: FloatArray = start.astype(np.float64)
    loss, gradient = objective(x)
    history: _History = deque(maxlen=_MEMORY)
    for _ in range(iterations):
        if float(np.abs(gradient).max()) <= _GRADIENT_TOLERANCE:
            break
        direction = -_times_inverse_hessian(gradient, history)
        slope = float(np.vdot(gradient, direction))
        if slope >= 0:  # rounding errors have made the history useless
            history.clear()
            direction, slope = -gradient, -float(np.vdot(gradient, gradient))
        first = 1.0 if history else min(1.0, 1.0 / float(np.abs(gradient).sum()))
        found = _search(objective, x, loss, direction, slope, first)
        if found is None:
            break
        moved, less, steeper = found
        step, change = moved - x, steeper - gradient
        curvature = float(np.vdot(step, change))
        if curvature > 1e-12 * float(np.vdot(change, change)):
            history.append((step, change, curvature))
        gained = (loss - less) / max(abs(loss), abs(less), 1.0)
        x, loss, gradient = moved, less, steeper
        if gained <= _LOSS_TOLERANCE:
            break
    return x


def _times_inverse_hessian(gradient: FloatArray, history: _History) -> FloatArray:
    """Return the gradient times the inverse Hessian: the two-loop recursion, scaled by the newest pair."""
    result = gradient.copy()
    shares = []
    for step, change, curvature in reversed(history):
        share = float(np.vdot(step, result)) / curvature
        result -= share * change
        shares.append(share)
    if history:
        _, change, curvature = history[-1]
        result *= curvature / float(np.vdot(change, change))
    for (step, change, curvature), share in zip(history, reversed(shares), strict=True):
        result += (share - float(np.vdot(change, result)) / curvature) * step
    return result


def _search(
    objective: Objective, x: FloatArray, loss: float, direction: FloatArray, slope: float, length: float
) -> tuple[FloatArray, float, FloatArray] | None:
    """Return the first point along the direction with a sufficient decrease, its loss and gradient, or None."""
    for _ in range(_HALVINGS):
        moved = x + length * direction
        found, gradient = objective(moved)
        if found <= loss + _DECREASE * length * slope:
            return moved, found, gradient
        bend = found - loss - length * slope
        least = -slope * length**2 / (2 * bend) if np.isfinite(bend) and bend > 0 else 0.5 * length
        length = min(max(least, 0.1 * length), 0.5 * length)
    return None
