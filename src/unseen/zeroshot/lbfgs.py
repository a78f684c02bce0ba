"""L-BFGS over matrices: the optimiser of the methods whose loss is smooth.

Paper:      Nocedal, "Updating quasi-Newton matrices with limited storage", 1980; Nocedal & Wright, "Numerical
            Optimization", 2nd ed., Algorithms 7.4 and 3.1
Implements: the two-loop recursion; a step is halved, or cut where a parabola through the known values has its least,
            until it decreases the loss enough; stops as scipy's L-BFGS-B does by default
Differs:    from scipy's, which also knows bounds: numpy alone. Two libraries of linear algebra, one in the objective
            and one in the optimiser, each with threads that wait busily, slowed one another down threefold here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from unseen.zeroshot.method import FloatArray

#: From a matrix of parameters to the loss and its gradient.
Objective = Callable[[FloatArray], tuple[float, FloatArray]]

_MEMORY = 10
_DECREASE = 1e-4  # share of the decrease that the slope predicts
_HALVINGS = 20
_LOSS_TOLERANCE, _GRADIENT_TOLERANCE = 2.2e-9, 1e-5

_History = deque[tuple[FloatArray, FloatArray, float]]


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
