"""ESZSL: bilinear zero-shot learning in closed form.

Paper:      Romera-Paredes & Torr, "An embarrassingly simple approach to zero-shot learning", ICML 2015 [P]
Shapes:     X (n, d) features; Y (n, c) labels; S (c, a) class embeddings; W (d, a)
Implements: GBU Eq. (3) with the regulariser of Eq. (8), beta = gamma lambda: W = (X'X + g I)^-1 X'Y S (S'S + l I)^-1
Differs:    Y is in {0, 1} by default, as in the code that the authors released; `targets="sign"` has the {-1, 1} of
            the text of [P], where with hundreds of classes the many -1 drown the rest. On a grid X'X is made once
            and factored once per gamma, which seven times costs less than one eigendecomposition; S'S is decomposed
            once
Expected:   GBU Table 3, PS: SUN 54.5, CUB 53.9, AWA1 58.2, AWA2 58.6, aPY 38.3
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from unseen.core.records import MethodCard
from unseen.zeroshot.method import FloatArray, Grid, IntArray, Params, Scored, ZeroShotMethod, one_hot, parameters


@parameters
class ESZSL(ZeroShotMethod):
    """Square loss on all pairs of image and class, regularised in both spaces.

    Args:
        gamma: exponent of ten of the weight in feature space.
        lam: exponent of ten of the weight in attribute space.
        targets: "binary" for Y in {0, 1}, "sign" for {-1, 1}.
    """

    gamma: float = 0.0
    lam: float = 0.0
    targets: Literal["binary", "sign"] = "binary"

    card = MethodCard(
        id="ESZSL",
        name="Closed-form bilinear",
        group="zero-shot, linear compatibility",
        paper="gbu",
        citation="Romera-Paredes & Torr, ICML 2015",
    )
    version = 1
    # Both exponents over 10^-3 .. 10^3, as in its paper.
    grid = Grid(
        targets=("binary", "sign"),
        gamma=(-3, -2, -1, 0, 1, 2, 3),
        lam=(-3, -2, -1, 0, 1, 2, 3),
    )
    quick_grid = grid

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        gram, sums = _statistics(X, y, len(S))
        S = S.astype(np.float64)
        left = cho_solve(cho_factor(_ridge(gram, 10.0**self.gamma)), _targeted(sums, self.targets) @ S)
        right = cho_factor(_ridge(S.T @ S, 10.0**self.lam))
        self.W_ = cho_solve(right, left.T).T  # W = (X'X + gI)^-1 X'Y S (S'S + lI)^-1

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        return np.asarray(X @ (self.W_ @ S.T).astype(X.dtype))  # Eq. (3)

    def _grid_scores(
        self, X: FloatArray, y: IntArray, X_val: FloatArray, S_val: FloatArray, grid: Sequence[Params]
    ) -> Scored:
        """Yield the scores for all settings, with one factorisation per gamma."""
        settings = self._full(grid)
        signatures = self.signatures_.astype(np.float64)
        gram, sums = _statistics(X, y, len(signatures))
        b, U_s = eigh(signatures.T @ signatures)
        for gamma in dict.fromkeys(float(full["gamma"]) for _, full in settings):
            solved = cho_solve(cho_factor(_ridge(gram, 10.0**gamma), overwrite_a=True), sums)
            by_class = {
                targets: X_val @ _targeted(solved, targets).astype(X_val.dtype)
                for targets in dict.fromkeys(full["targets"] for _, full in settings)
            }
            for params, full in settings:
                if full["gamma"] == gamma:
                    middle = (U_s / (b + 10.0 ** full["lam"])) @ U_s.T  # (S'S + lI)^-1
                    right = signatures @ middle @ S_val.T
                    yield params, by_class[full["targets"]] @ right.astype(X_val.dtype)


def _statistics(X: FloatArray, y: IntArray, classes: int) -> tuple[FloatArray, FloatArray]:
    """Return X'X and the sum of features per class (d, c) in float64, computed in the precision of X."""
    sums = (one_hot(y, classes, X.dtype).T @ X).T.astype(np.float64)
    return (X.T @ X).astype(np.float64), sums


def _targeted(sums: FloatArray, targets: str) -> FloatArray:
    """Return X'Y, or a linear map of it, from the sums per class: for {-1, 1} twice those minus the sum of all."""
    return sums if targets == "binary" else np.asarray(2 * sums - sums.sum(1, keepdims=True))


def _ridge(gram: FloatArray, weight: float) -> FloatArray:
    return np.asarray(gram + weight * np.eye(len(gram)))
