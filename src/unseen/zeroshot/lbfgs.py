"""L-BFGS over matrices: the one optimiser of the methods whose loss is smooth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

from unseen.zeroshot.method import FloatArray

#: From a matrix of parameters to the loss and its gradient.
Objective = Callable[[FloatArray], tuple[float, FloatArray]]


def minimise(objective: Objective, start: FloatArray, iterations: int) -> FloatArray:
    """The matrix, of the shape of `start`, where the objective is least or the iterations end."""
    shape = start.shape

    def flat(values: Any) -> tuple[float, Any]:
        loss, gradient = objective(values.reshape(shape))
        return loss, gradient.ravel()

    options: Any = {"maxiter": iterations, "maxcor": 10}
    found = minimize(flat, start.astype(np.float64).ravel(), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x).reshape(shape)
