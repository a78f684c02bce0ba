"""DAP and IAP: attributes from a classifier each, or by way of the training classes, combined by Bayes' rule.

Paper:      Lampert, Nickisch & Harmeling, "Attribute-based classification for zero-shot visual object categorization",
            TPAMI 2014 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings, made binary; posteriors (n, a)
Implements: GBU Eq. (12): arg-max of prod_m p(a_m^c | x) / p(a_m^c); the prior is the attribute's mean over training
            classes, and 0.5 where that is 0 or 1. IAP has the posteriors of Eq. (13), with multi-class logistic
            regression
Differs:    logistic regression gives the posteriors, as in GBU; [P] has support vector machines with Platt scaling.
            Continuous attributes are made binary at their mean over the training classes. Probabilities of IAP are kept
            1e-6 away from 0 and 1, since one certain attribute would otherwise decide alone
Expected:   GBU Table 3, PS: DAP: SUN 39.9, CUB 40.0, AWA1 44.1, AWA2 46.1, aPY 33.8;
            IAP: SUN 19.4, CUB 24.0, AWA1 35.9, AWA2 35.9, aPY 36.6
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit

from unseen.zeroshot.logistic import fit_logistic, logits_of, predict_logistic
from unseen.zeroshot.method import FloatArray, IntArray, ZeroShotMethod, one_hot, parameters

_CERTAIN = 1e-6


@parameters
class DAP(ZeroShotMethod, key="DAP"):
    """Direct attribute prediction.

    Args:
        l2: weight decay of the attribute classifiers.
    """

    l2: float = 1e-4

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        self.threshold_, self.prior_ = thresholds(S)
        self.W_ = fit_logistic(X, binarise(S, self.threshold_)[y], "sigmoid", self.l2)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        logits = logits_of(X, self.W_)
        return combine(log_expit(logits), log_expit(-logits), binarise(S, self.threshold_), self.prior_)


@parameters
class IAP(DAP, key="IAP"):
    """Indirect attribute prediction.

    Args:
        l2: weight decay of the classifier of training classes.
    """

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        self.threshold_, self.prior_ = thresholds(S)
        self.W_ = fit_logistic(X, one_hot(y, len(S)), "softmax", self.l2)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        posterior = np.exp(predict_logistic(X, self.W_)).astype(np.float64)
        present = posterior @ binarise(self.signatures_, self.threshold_)  # Eq. (13)
        present = np.clip(present, _CERTAIN, 1 - _CERTAIN)
        return combine(np.log(present), np.log1p(-present), binarise(S, self.threshold_), self.prior_)


def thresholds(S: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return per attribute its threshold, and the share of training classes above it (0.5 for 0 and 1)."""
    threshold = S.mean(0)
    prior = binarise(S, threshold).mean(0)
    return threshold, np.where((prior <= 0) | (prior >= 1), 0.5, prior)


def binarise(S: FloatArray, threshold: FloatArray) -> FloatArray:
    """Return 1 for attributes above their thresholds, else 0."""
    return (threshold < S).astype(np.float64)


def combine(log_present: FloatArray, log_absent: FloatArray, attributes: FloatArray, prior: FloatArray) -> FloatArray:
    """Return (n, c): the log of Eq. (12), from (n, a) log-probabilities that an attribute is present and absent."""
    present = log_present - np.log(prior)
    absent = log_absent - np.log(1 - prior)
    return np.asarray((present - absent) @ attributes.T + absent.sum(1, keepdims=True))  # Eq. (12)
