"""ESZSL: bilinear zero-shot learning in closed form.

Paper:      Romera-Paredes & Torr, "An embarrassingly simple approach to zero-shot learning", ICML 2015 [P]
Shapes:     X (n, d) features; Y (n, c) labels; S (c, a) class embeddings; W (d, a)
Implements: GBU Eq. (3) with the regulariser of Eq. (8), beta = gamma lambda: W = (X'X + g I)^-1 X'Y S (S'S + l I)^-1
Differs:    Y is in {0, 1} by default, as in the code that the authors released; `targets="sign"` has the {-1, 1} of
            the text of [P], where with hundreds of classes the many -1 drown the rest. X'X is made once for a grid,
            and factored once per gamma
Expected:   GBU Table 3, PS: SUN 54.5, CUB 53.9, AWA1 58.2, AWA2 58.6, aPY 38.3
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from unseen.zeroshot.method import FloatArray, IntArray, ZeroShotMethod, one_hot, parameters


@parameters
class ESZSL(ZeroShotMethod, key="ESZSL"):
    """Square loss on all pairs of image and class, regularised in both spaces.

    Args:
        gamma: exponent of ten of the weight in feature space.
        lam: exponent of ten of the weight in attribute space.
        targets: "binary" for Y in {0, 1}, "sign" for {-1, 1}.
    """

    gamma: float = 0.0
    lam: float = 0.0
    targets: Literal["binary", "sign"] = "binary"

    scoring_params = ("gamma", "lam", "targets")

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        self.gram_ = (X.T @ X).astype(np.float64)
        self.sums_ = (one_hot(y, len(S), X.dtype).T @ X).T.astype(np.float64)  # of the features of each class
        self.solved_: dict[float, FloatArray] = {}

    @property
    def W_(self) -> FloatArray:
        """The map (d, a) for the current parameters: (X'X + g I)^-1 X'Y S (S'S + l I)^-1."""
        S = self.signatures_.astype(np.float64)
        if self.gamma not in self.solved_:  # factored once for all settings with this gamma
            self.solved_ = {self.gamma: cho_solve(cho_factor(_ridge(self.gram_, self.gamma)), self.sums_)}
        left = self.solved_[self.gamma]
        if self.targets == "sign":
            left = 2 * left - left.sum(1, keepdims=True)
        return cho_solve(cho_factor(_ridge(S.T @ S, self.lam)), (left @ S).T).T

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        return np.asarray(X @ (self.W_ @ S.T).astype(X.dtype))  # Eq. (3)


def _ridge(gram: FloatArray, exponent: float) -> FloatArray:
    return np.asarray(gram + 10.0**exponent * np.eye(len(gram)))
