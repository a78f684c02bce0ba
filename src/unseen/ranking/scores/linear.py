"""A linear classifier on frozen features: after one epoch, after five, or converged.

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), section 3.2, CVPR 2021 [P]
Shapes:     X (n, d) features, standardised by the training rows
Implements: accuracy of a softmax classifier on images that it was not trained on
Differs:    [P] scores on the task's test set. A score must not touch test labels, so a stratified fifth of the labelled
            images is held out instead, unless other images are given. [P] does not say how it trains: SGD with
            momentum 0.9, batches of 64 and learning rate 0.01 here; "converged" is the minimum of the loss with an l2
            penalty of 1e-3, found by L-BFGS.
Expected:   [P] Table 1, Group I, Kendall: 18.44 after one epoch, 32.33 after five, 53.43 converged
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from unseen.core.arrays import FloatArray, IntArray
from unseen.core.errors import DataError, UsageError
from unseen.ranking.cards import FEATURES, LBFGS_STEPS, NEUCRAB, ScoreCard, Sizes
from unseen.ranking.inputs import check_features, split_rows, standardise

HELD_OUT = 0.2
LEARNING_RATE = 0.01
MOMENTUM = 0.9
BATCH = 64
PENALTY = 1e-3


def linear(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    epochs: int | None = None,
    held_out: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    seed: int = 0,
) -> float:
    """Return the accuracy of a linear classifier on held-out images; between 0 and 1, higher is better.

    Args:
        epochs: of SGD; None trains to convergence.
        held_out: features and labels to score on; by default a stratified fifth of the images.
        seed: of the split and of the order of SGD.
    """
    if epochs is not None and epochs < 1:
        raise UsageError(f"a linear classifier trains for at least one epoch, or to convergence (None); got {epochs}.")
    rows, known = check_features(features, labels)
    if held_out is None:
        train, test = split_rows(known.index, HELD_OUT, seed)
        if not len(test):
            raise DataError("no class has two images, so none can be held out. Give held_out, or more images.")
        x, y, other, wanted = rows[train], known.index[train], rows[test], known.index[test]
    else:  # a class that was never trained is never right
        x, y, other, wanted = rows, known.index, np.asarray(held_out[0], np.float64), known.find(held_out[1])
    x, other = standardise(x, x), standardise(other, x)
    theta = converge(x, y, known.classes)[0] if epochs is None else descend(x, y, known.classes, epochs, seed)
    return float(((other @ theta[:-1] + theta[-1]).argmax(axis=1) == wanted).mean())


def converge(
    rows: FloatArray,
    index: IntArray,
    classes: int,
    *,
    penalty: float = PENALTY,
    steps: int = 1000,
    gtol: float = 1e-5,
    ftol: float = 1e7 * float(np.finfo(np.float64).eps),
) -> tuple[FloatArray, float]:
    """Return weights above biases, (d + 1, classes), at the minimum of the penalised loss, and the minimum.

    Args:
        steps: most L-BFGS steps.
        gtol, ftol: gradient, and relative change of the loss, at which L-BFGS stops.
    """
    found = minimize(
        penalised_cross_entropy,
        np.zeros((rows.shape[1] + 1) * classes),
        args=(rows, index, classes, penalty),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "gtol": gtol, "ftol": ftol},
    )
    return np.asarray(found.x.reshape(rows.shape[1] + 1, classes)), float(found.fun)


def descend(rows: FloatArray, index: IntArray, classes: int, epochs: int, seed: int) -> FloatArray:
    """Return weights above biases after some epochs of SGD with momentum, from zero."""
    generator = np.random.default_rng(seed)
    theta = np.zeros((rows.shape[1] + 1) * classes)
    velocity = np.zeros_like(theta)
    for _ in range(epochs):
        order = generator.permutation(len(rows))
        for begin in range(0, len(rows), BATCH):
            batch = order[begin : begin + BATCH]
            _, gradient = penalised_cross_entropy(theta, rows[batch], index[batch], classes, 0.0)
            velocity = MOMENTUM * velocity + gradient
            theta = theta - LEARNING_RATE * velocity
    return theta.reshape(rows.shape[1] + 1, classes)


def penalised_cross_entropy(
    theta: FloatArray, rows: FloatArray, index: IntArray, classes: int, penalty: float
) -> tuple[float, FloatArray]:
    """Return the mean cross-entropy plus penalty / 2 |W|^2, and its gradient.

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


def _cost(s: Sizes, *, passes: float) -> float:
    return 4 * (1 - HELD_OUT) * s.n * s.d * s.c * passes


def _card(key: str, name: str, epochs: int | None) -> ScoreCard:
    cost = partial(_cost, passes=epochs or LBFGS_STEPS)
    options = {"epochs": epochs}
    return ScoreCard(key, name, FEATURES, linear, cost, options, seeded=True, paper="neucrab", citation=NEUCRAB)


ONE_EPOCH = _card("linear-1", "Linear (1 epoch)", 1)
FIVE_EPOCHS = _card("linear-5", "Linear (5 epochs)", 5)
CONVERGED = _card("linear", "Linear (converged)", None)
