"""SAE: a linear auto-encoder whose code is the class embedding.

Paper:      Kodirov, Xiang & Gong, "Semantic autoencoder for zero-shot learning", CVPR 2017 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings; W (a, d)
Implements: GBU Eq. (9): min |X' - W'S_y'|^2 + lambda |W X' - S_y'|^2, whose stationary point is the Sylvester equation
            A W + W B = C with A = S_y'S_y, B = lambda X'X, C = (1 + lambda) S_y'X
            Prediction by cosine; the demonstration script of [P] scales the rows of W to length 1 first, which
            counts every attribute alike (`scaled_rows`)
Differs:    A and X'X are symmetric, so that their eigendecompositions solve the equation for every lambda at once;
            Bartels-Stewart would start anew for each
Expected:   GBU Table 3, PS: SUN 40.3, CUB 33.3, AWA1 53.0, AWA2 54.1, aPY 8.3
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from scipy.linalg import eigh

from unseen.zeroshot.method import (
    FloatArray,
    IntArray,
    ZeroShotMethod,
    one_hot,
    parameters,
    unit_rows,
)

Direction = Literal["feature_to_semantic", "semantic_to_feature"]


@parameters
class SAE(ZeroShotMethod, key="SAE"):
    """Semantic auto-encoder; classes are compared by cosine, in attribute space or in feature space.

    Args:
        lam: weight of the encoder against the decoder.
        direction: "feature_to_semantic" projects images, "semantic_to_feature" projects class embeddings.
        scaled_rows: whether the rows of W are scaled to length 1 before anything is projected.
    """

    lam: float = 1.0
    direction: Direction = "feature_to_semantic"
    scaled_rows: bool = True

    scoring_params: ClassVar[tuple[str, ...]] = ("lam", "scaled_rows")

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        self.system_ = _Sylvester(X, y, S)

    @property
    def W_(self) -> FloatArray:
        """The map, solved anew for the current lambda."""
        return self.system_.solve(self.lam)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        W = (unit_rows(self.W_) if self.scaled_rows else self.W_).astype(X.dtype)
        if self.direction == "feature_to_semantic":
            return unit_rows(X @ W.T) @ unit_rows(S.astype(X.dtype)).T
        return unit_rows(X) @ unit_rows(S.astype(X.dtype) @ W).T


@parameters
class SAEReverse(SAE, key="SAE-reverse"):
    """SAE with class embeddings projected into feature space: the second number that its paper reports."""

    direction: Direction = "semantic_to_feature"


class _Sylvester:
    """A W + W (lambda B) = (1 + lambda) C for any lambda, by the eigenvectors of A and B."""

    def __init__(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        S = S.astype(np.float64)
        counts = np.bincount(y, minlength=len(S)).astype(np.float64)
        sums = (one_hot(y, len(S), X.dtype).T @ X).astype(np.float64)
        self.a, self.U = eigh((S.T * counts) @ S)  # A = S_y'S_y without the n rows of S_y
        self.b, self.V = eigh((X.T @ X).astype(np.float64), overwrite_a=True)
        self.C = self.U.T @ (S.T @ sums) @ self.V

    def solve(self, lam: float) -> FloatArray:
        # A Gram matrix has no negative eigenvalue; rounding makes some of those that are 0. Where both are 0, so is C.
        spread = np.maximum(self.a, 0)[:, None] + lam * np.maximum(self.b, 0)[None, :]
        floor = np.finfo(np.float64).eps * spread.max()
        ratio = np.divide((1 + lam) * self.C, spread, out=np.zeros_like(self.C), where=spread > floor)
        return self.U @ ratio @ self.V.T
