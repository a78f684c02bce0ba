"""CONSE: an image is the convex combination of the embeddings of its likeliest training classes.

Paper:      Norouzi et al., "Zero-shot learning by convex combination of semantic embeddings", ICLR 2014 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings
Implements: GBU Eqs. (15), (16) with multi-class logistic regression; classes are compared by cosine, as in [P]
Differs:    nothing
Expected:   GBU Table 3, PS: SUN 38.8, CUB 34.3, AWA1 45.6, AWA2 44.5, aPY 26.9
"""

from __future__ import annotations

import numpy as np

from unseen.zeroshot.logistic import fit_logistic, predict_logistic
from unseen.zeroshot.method import FloatArray, IntArray, ZeroShotMethod, one_hot, parameters, unit_rows


@parameters
class CONSE(ZeroShotMethod, key="CONSE"):
    """Convex combination of semantic embeddings.

    Args:
        top: how many training classes are combined; no more than there are.
        l2: weight decay of the classifier of training classes.
    """

    top: int = 10
    l2: float = 1e-4

    scoring_params = ("top",)

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        self.W_ = fit_logistic(X, one_hot(y, len(S)), "softmax", self.l2)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        posterior = np.exp(predict_logistic(X, self.W_)).astype(np.float64)
        top = min(self.top, posterior.shape[1])
        kept = np.argpartition(-posterior, top - 1, axis=1)[:, :top]  # Eq. (15)
        weights = np.zeros_like(posterior)
        np.put_along_axis(weights, kept, np.take_along_axis(posterior, kept, 1), 1)
        combined = weights @ self.signatures_ / weights.sum(1, keepdims=True)  # Eq. (16)
        return unit_rows(combined) @ unit_rows(S.astype(np.float64)).T
