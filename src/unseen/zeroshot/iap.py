"""IAP: attributes by way of the training classes, then Bayes' rule.

Paper:      Lampert, Nickisch & Harmeling, "Attribute-based classification for zero-shot visual object categorization",
            TPAMI 2014 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings, made binary
Implements: GBU Eq. (13) with multi-class logistic regression, then Eq. (12)
Differs:    continuous attributes are made binary at their mean over the training classes; probabilities are kept 1e-6
            away from 0 and 1, since one certain attribute would otherwise decide alone
Expected:   GBU Table 3, PS: SUN 19.4, CUB 24.0, AWA1 35.9, AWA2 35.9, aPY 36.6
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unseen.core.records import MethodCard
from unseen.zeroshot.dap import binarise, combine, thresholds
from unseen.zeroshot.logistic import fit_logistic, predict_logistic
from unseen.zeroshot.method import FloatArray, Grid, IntArray, ZeroShotMethod, one_hot, parameters

_CERTAIN = 1e-6


@parameters
class IAP(ZeroShotMethod):
    """Indirect attribute prediction.

    Args:
        l2: weight decay of the classifier of training classes.
    """

    l2: float = 1e-4

    card = MethodCard(
        id="IAP",
        name="Indirect attribute prediction",
        group="zero-shot, attribute classifiers",
        paper="gbu",
        citation="Lampert, Nickisch & Harmeling, TPAMI 2014",
    )
    version = 1
    grid: ClassVar[Grid] = {"l2": (1e-6, 1e-5, 1e-4, 1e-3)}
    quick_grid: ClassVar[Grid] = {"l2": (1e-5, 1e-4)}

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        self.threshold_, self.prior_ = thresholds(S)
        self.W_ = fit_logistic(X, one_hot(y, len(S)), "softmax", self.l2)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        posterior = np.exp(predict_logistic(X, self.W_, "softmax")).astype(np.float64)
        present = posterior @ binarise(self.signatures_, self.threshold_)  # Eq. (13)
        present = np.clip(present, _CERTAIN, 1 - _CERTAIN)
        return combine(np.log(present), np.log1p(-present), binarise(S, self.threshold_), self.prior_)
