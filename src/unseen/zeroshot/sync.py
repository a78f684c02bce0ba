"""SYNC: classifiers synthesised from those of phantom classes, by similarity of class embeddings.

Paper:      Changpinyo, Chao, Gong & Sha, "Synthesized classifiers for zero-shot learning", CVPR 2016 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings; W (c, d) classifiers; V (r, d) of phantoms; s (c, r) graph
Implements: GBU Eq. (17). Phantoms sit on the training classes, as the default of [P]: s_cr is a softmax of
            -|a_c - b_r|^2 / (2 sigma^2), embeddings being l2-normalised and divided by their median distance.
            Losses of [P]: one versus other, the squared hinge, its mean over images and classes; Crammer-Singer, the
            greatest margin violation of an image; structured, the same where a class must be outdone by the distance
            of the embeddings
Differs:    with as many phantoms as classes W is free, so W is learned by L-BFGS once per loss and lambda, and V is
            then the least-squares solution of Eq. (17): sigma costs no further training. The greatest violation is not
            smooth: it is smoothed by less than 0.005 (Nesterov), in steps that each start from the one before
Expected:   GBU Table 3, PS: SUN 56.3, CUB 55.6, AWA1 54.0, AWA2 46.6, aPY 23.9
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from unseen.metrics import softmax
from unseen.zeroshot.logistic import minimise
from unseen.zeroshot.method import FloatArray, IntArray, ZeroShotMethod, parameters, squared_distances, unit_rows
from unseen.zeroshot.sse import project_to_simplex

_SMOOTHING = (1.0, 0.1, 0.01)
Loss = Literal["one-vs-other", "crammer-singer", "structured"]


@parameters
class SYNC(ZeroShotMethod, key="SYNC"):
    """Synthesised classifiers.

    Args:
        lam: weight decay of the classifiers.
        sigma: width of the graph's kernel, in units of the median distance of embeddings.
        loss: "one-vs-other", "crammer-singer" or "structured".
        iterations: of L-BFGS.
    """

    lam: float = 2.0**-12
    sigma: float = 1.0
    loss: Loss = "one-vs-other"
    iterations: int = 60

    scoring_params = ("sigma",)

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        signatures = unit_rows(S.astype(np.float64))
        distances = np.sqrt(squared_distances(signatures, signatures))
        self.unit_ = float(np.median(distances[np.triu_indices(len(S), 1)])) or 1.0
        if self.loss == "one-vs-other":
            self.W_ = one_versus_other(X, y, len(S), self.lam, self.iterations)
        else:
            margins = distances if self.loss == "structured" else 1.0 - np.eye(len(S))
            self.W_ = greatest_violation(X, y, margins, self.lam, self.iterations)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        V = np.linalg.lstsq(self._graph(self.signatures_), self.W_, rcond=1e-8)[0]  # Eq. (17)
        return X @ (self._graph(S) @ V).T.astype(X.dtype)

    def _graph(self, S: FloatArray) -> FloatArray:
        """Return (c, r) weights of the phantoms."""
        a, b = (unit_rows(rows.astype(np.float64)) / self.unit_ for rows in (S, self.signatures_))
        return softmax(-squared_distances(a, b) / (2 * self.sigma**2))


def one_versus_other(X: FloatArray, y: IntArray, classes: int, lam: float, iterations: int) -> FloatArray:
    """Return W (c, d) that minimises the mean over images and classes of [1 - (+-1) w_c'x]_+^2 + lam / 2 |W|^2."""
    n, d = X.shape
    sign = np.full((n, classes), -1.0, X.dtype)
    sign[np.arange(n), y] = 1.0

    def objective(W: FloatArray) -> tuple[float, FloatArray]:  # times the number of classes, which moves no minimum
        slack = np.maximum(1 - sign * (X @ W.T.astype(X.dtype)), 0)
        gradient = ((-2 * slack * sign).T @ X) / n + classes * lam * W
        value = float(np.vdot(slack, slack)) / n
        return value + 0.5 * classes * lam * float((W * W).sum()), gradient

    return minimise(objective, np.zeros((classes, d)), iterations)


def greatest_violation(X: FloatArray, y: IntArray, margins: FloatArray, lam: float, iterations: int) -> FloatArray:
    """Return W (c, d) that minimises the mean over images of max_c (margin(y, c) + w_c'x - w_y'x) + lam / 2 |W|^2."""
    n, d = X.shape
    rows, wanted = np.arange(n), margins.astype(X.dtype)[y]  # 0 at the right class: the maximum is never below 0
    W: FloatArray = np.zeros((len(margins), d))
    for width in _SMOOTHING:

        def objective(W: FloatArray, width: float = width) -> tuple[float, FloatArray]:
            scores = X @ W.T.astype(X.dtype)
            violations = scores - scores[rows, y][:, None] + wanted
            # max_c v_c is the maximum of u'v over the simplex; less width / 2 |u|^2 it is smooth, and u its gradient.
            share = project_to_simplex(violations / width).astype(X.dtype)
            value = float(np.vdot(share, violations)) - 0.5 * width * float(np.vdot(share, share))
            share[rows, y] -= 1  # over classes the shares of an image sum to 1: so much is taken from the right one
            return value / n + 0.5 * lam * float((W * W).sum()), (share.T @ X) / n + lam * W

        W = minimise(objective, W, iterations)
    return W
