"""SYNC: classifiers synthesised from those of phantom classes, by similarity of class embeddings.

Paper:      Changpinyo, Chao, Gong & Sha, "Synthesized classifiers for zero-shot learning", CVPR 2016 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings; W (c, d) classifiers; V (r, d) of phantoms; s (c, r) graph
Implements: GBU Eq. (17). Phantoms sit on the training classes, as the default of [P]: s_cr is a softmax of
            -|a_c - b_r|^2 / (2 sigma^2), embeddings being l2-normalised and divided by their median distance. Losses:
            squared hinge one versus others, Crammer-Singer, and structured, whose margin is the distance of embeddings
Differs:    with as many phantoms as classes W is free, so W is learned by L-BFGS once per loss and lambda, and V is
            then the least-squares solution of Eq. (17): sigma costs no further training. The losses over pairs of
            classes sum the squares of all violations; [P] takes the greatest one, which is not smooth
Expected:   GBU Table 3, PS: SUN 56.3, CUB 55.6, AWA1 54.0, AWA2 46.6, aPY 23.9
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from scipy.special import softmax

from unseen.core.records import MethodCard
from unseen.zeroshot.lbfgs import minimise
from unseen.zeroshot.method import FloatArray, Grid, IntArray, ZeroShotMethod, squared_distances, unit_rows

Loss = Literal["one-vs-other", "crammer-singer", "structured"]


class SYNC(ZeroShotMethod):
    """Synthesised classifiers.

    Args:
        lam: weight decay of the classifiers.
        sigma: width of the graph's kernel, in units of the median distance of embeddings.
        loss: "one-vs-other", "crammer-singer" or "structured".
        iterations: of L-BFGS.
    """

    card: ClassVar[MethodCard] = MethodCard(
        id="SYNC",
        name="Synthesised classifiers",
        group="zero-shot, hybrid",
        paper="gbu",
        citation="Changpinyo et al., CVPR 2016",
    )
    version: ClassVar[int] = 1
    grid: ClassVar[Grid] = {
        "loss": ("one-vs-other", "crammer-singer", "structured"),
        "lam": (9.31e-10, 5.96e-8, 3.81e-6, 2.44e-4, 3.91e-3),
        "sigma": (0.03125, 0.125, 0.25, 0.5, 1.0, 2.0, 8.0, 32.0),
    }
    quick_grid: ClassVar[Grid] = {
        "loss": ("one-vs-other",),
        "lam": (3.81e-6, 2.44e-4),
        "sigma": (0.125, 0.25, 0.5, 1.0, 2.0),
    }

    scoring_params: ClassVar[tuple[str, ...]] = ("sigma",)
    W_: FloatArray
    unit_: float

    def __init__(
        self, lam: float = 2.0**-12, sigma: float = 1.0, loss: Loss = "one-vs-other", iterations: int = 60
    ) -> None:
        self.lam = lam
        self.sigma = sigma
        self.loss = loss
        self.iterations = iterations

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        signatures = unit_rows(S.astype(np.float64))
        distances = np.sqrt(squared_distances(signatures, signatures))
        self.unit_ = float(np.median(distances[np.triu_indices(len(S), 1)])) or 1.0
        margins = distances / self.unit_ if self.loss == "structured" else 1.0 - np.eye(len(S))
        self.W_ = _classifiers(X, y, margins, self.lam, self.loss, self.iterations)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        V = np.linalg.lstsq(self._graph(self.signatures_), self.W_, rcond=1e-8)[0]  # Eq. (17)
        return np.asarray(X @ (self._graph(S) @ V).T.astype(X.dtype))

    def _graph(self, S: FloatArray) -> FloatArray:
        """(c, r) weights of the phantoms."""
        a, b = (unit_rows(rows.astype(np.float64)) / self.unit_ for rows in (S, self.signatures_))
        return np.asarray(softmax(-squared_distances(a, b) / (2 * self.sigma**2), axis=1))


def _classifiers(X: FloatArray, y: IntArray, margins: FloatArray, lam: float, loss: str, iterations: int) -> FloatArray:
    """(c, d) linear classifiers that minimise the mean loss + lam / 2 |W|^2."""
    n, d = X.shape
    c = len(margins)
    rows = np.arange(n)
    sign = np.full((n, c), -1.0, X.dtype)
    sign[rows, y] = 1.0

    def objective(W: FloatArray) -> tuple[float, FloatArray]:
        scores = X @ W.T.astype(X.dtype)
        if loss == "one-vs-other":
            slack = np.maximum(1 - sign * scores, 0)
            value, error = float((slack * slack).sum(dtype=np.float64)), -2 * slack * sign
        else:
            slack = np.maximum(scores - scores[rows, y][:, None] + margins[y].astype(X.dtype), 0)
            slack[rows, y] = 0
            value, error = float((slack * slack).sum(dtype=np.float64)), 2 * slack
            error[rows, y] = -error.sum(1)
        gradient = (error.T @ X) / n + lam * W
        return value / n + 0.5 * lam * float((W * W).sum()), gradient

    return minimise(objective, np.zeros((c, d)), iterations)
