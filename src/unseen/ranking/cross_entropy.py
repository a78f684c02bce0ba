"""The loss of a linear softmax classifier with an l2 penalty on its weights, and its gradient."""

from __future__ import annotations

import numpy as np

from unseen.ranking.inputs import FloatArray, IntArray


def penalised_cross_entropy(
    theta: FloatArray, rows: FloatArray, index: IntArray, classes: int, penalty: float
) -> tuple[float, FloatArray]:
    """Mean cross-entropy plus penalty / 2 |W|^2, and its gradient.

    Args:
        theta: (d + 1) x classes numbers: W above the biases, flattened.
        penalty: on the weights, not on the biases.
    """
    both = theta.reshape(rows.shape[1] + 1, classes)
    narrow = both.astype(rows.dtype, copy=False)  # products in the precision of the rows, sums in double
    scores = rows @ narrow[:-1] + narrow[-1]
    scores -= scores.max(axis=1, keepdims=True)
    exponentials = np.exp(scores)
    totals = exponentials.sum(axis=1)
    own = np.arange(len(rows)), index
    loss = float((np.log(totals) - scores[own]).mean(dtype=np.float64) + 0.5 * penalty * (both[:-1] ** 2).sum())
    slope = exponentials / totals[:, None]
    slope[own] -= 1.0
    slope /= len(rows)
    gradient = np.concatenate([rows.T @ slope + penalty * both[:-1], slope.sum(axis=0, keepdims=True)])
    return loss, gradient.ravel()
