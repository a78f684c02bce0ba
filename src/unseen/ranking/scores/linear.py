"""A linear classifier on frozen features: after one epoch, after five, or converged.

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), section 3.2, CVPR 2021 [P]
Shapes:     X (n, d) features, standardised by the training rows
Implements: accuracy of a softmax classifier on images that it was not trained on
Differs:    [P] scores on the task's test set. A score must not touch test labels, so a stratified fifth of the labelled
            images is held out instead. [P] does not say how it trains: SGD with momentum 0.9, batches of 64 and
            learning rate 0.01 here; "converged" is the minimum of the loss with an l2 penalty of 1e-3, found by L-BFGS.
Expected:   [P] Table 1, Group I, Kendall: 18.44 after one epoch, 32.33 after five, 53.43 converged
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import FloatArray, FloatingArray, IntArray
from unseen.core.errors import UsageError
from unseen.metrics import softmax
from unseen.ranking.cards import LBFGS_STEPS, Sizes
from unseen.ranking.inputs import check_features, one_thread_if_small, split_rows, standardise

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

HELD_OUT = 0.2
LEARNING_RATE = 0.01
MOMENTUM = 0.9
BATCH = 64
PENALTY = 1e-3


@one_thread_if_small
def linear(features: npt.ArrayLike, labels: npt.ArrayLike, *, epochs: int | None = None, seed: int = 0) -> float:
    """Return the accuracy of a linear classifier on held-out images; between 0 and 1, higher is better.

    Args:
        epochs: of SGD; None trains to convergence.
        seed: of the split and of the order of SGD.
    """
    if epochs is not None and epochs < 1:
        raise UsageError(f"a linear classifier trains for at least one epoch, or to convergence (None); got {epochs}.")
    rows, known = check_features(features, labels)
    train, test = split_rows(known.index, HELD_OUT, seed)
    rows, y = standardise(rows, rows[train]), known.index[train]
    if epochs is None:
        return float(converge(rows[train], y, known.classes).score(rows[test], known.index[test]))
    theta = descend(rows[train], y, known.classes, epochs, seed)
    return float(((rows[test] @ theta[:-1] + theta[-1]).argmax(axis=1) == known.index[test]).mean())


def converge(rows: FloatingArray, index: IntArray, classes: int) -> LogisticRegression:
    """Return the classifier at the minimum of the mean cross-entropy plus PENALTY |W|^2 / 2."""
    from sklearn.exceptions import ConvergenceWarning  # slow to import; planning does not need it
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Two classes have one vector of weights in scikit-learn: half of it for each has half of its squared norm.
        share = 2 if classes == 2 else 1
        return LogisticRegression(C=share / (PENALTY * len(rows)), tol=1e-5, max_iter=1000).fit(rows, index)


def descend(rows: FloatArray, index: IntArray, classes: int, epochs: int, seed: int) -> FloatArray:
    """Return weights above biases after some epochs of SGD with momentum, from zero."""
    generator = np.random.default_rng(seed)
    rows = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    theta = np.zeros((rows.shape[1], classes))
    velocity = np.zeros_like(theta)
    for _ in range(epochs):
        order = generator.permutation(len(rows))
        for begin in range(0, len(rows), BATCH):
            batch = order[begin : begin + BATCH]
            slope = softmax(rows[batch] @ theta)
            slope[np.arange(len(batch)), index[batch]] -= 1.0
            velocity = MOMENTUM * velocity + rows[batch].T @ slope / len(batch)
            theta = theta - LEARNING_RATE * velocity
    return theta


def cost(s: Sizes, *, epochs: int | None = None) -> float:
    return 4 * (1 - HELD_OUT) * s.n * s.d * s.c * (epochs or LBFGS_STEPS)
