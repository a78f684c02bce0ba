"""PACTran-Gauss: a PAC-Bayesian bound on the error of a linear softmax classifier on the features.

Paper:      Ding et al., "PACTran: PAC-Bayesian metrics for estimating the transferability of pretrained models to
            classification tasks", ECCV 2022 [P]
Shapes:     F (n, d) centred features; W (d, c), b (c,) the classifier; h the Hessian's diagonal
Implements: section 3.4 of [P]: min over W, b of [mean cross-entropy + |W|^2 / (2 l n)] + (s d c) / (2 l n) log(tr h l
            n / (d c)), with s = 10/d; the score is minus the bound
Differs:    l = 1 and s as in the authors' release (which tries l = 0.1, 1, 10 and two values of s for each); the
            minimum is found from W = 0 (the problem is convex) to a gradient below 1e-6; of features in single
            precision in single precision
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.metrics import softmax
from unseen.ranking.cards import LBFGS_STEPS, Sizes
from unseen.ranking.inputs import check_features, is_narrow
from unseen.ranking.scores.linear import converge
from unseen.ranking.scores.sfda import compact


def pactran(
    features: npt.ArrayLike, labels: npt.ArrayLike, *, factor: float = 1.0, variance: float = 10.0, steps: int = 500
) -> float:
    """Return minus the PAC-Bayesian bound with a Gaussian prior; higher is better.

    Args:
        factor: l, the weight of the data against the prior.
        variance: s times d: the prior's variance over all dimensions.
        steps: most L-BFGS steps.
    """
    rows, known = check_features(features, labels)
    images, dimensions, classes = len(rows), rows.shape[1], known.classes
    # The penalty keeps W within the span of the rows: worth finding where that is small.
    rows = compact(rows) if 2 * images <= dimensions else rows - rows.mean(axis=0)
    rows = rows.astype(np.float32) if is_narrow(features) else rows
    penalty = 1 / (factor * images)
    theta, loss = converge(rows, known.index, classes, penalty=penalty, steps=steps, tol=1e-6)
    probabilities = softmax(rows @ theta[:-1] + theta[-1])
    curvature = probabilities * (1 - probabilities)
    # The trace of the Hessian over W and b: sum of x^2 p (1 - p), the prior's share, and the bias.
    trace = ((rows**2).sum(axis=1) @ curvature).sum() + dimensions * classes / (factor * images) + curvature.sum()
    parameters = dimensions * classes
    spread = float(np.log(trace * factor * images / parameters + 1e-10))
    bound = loss + 0.5 * parameters / (factor * images) * (variance / dimensions) * spread
    return float(-bound)


def cost(s: Sizes) -> float:
    return 4 * s.n * s.d * s.c * LBFGS_STEPS
