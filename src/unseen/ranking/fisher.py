"""The Fisher classifier that SFDA, ETran and NCTI build on: linear discriminants with a shrunk within-class scatter.

Paper:      Shao et al., "Not all models are equal: predicting model transferability in a self-challenging Fisher
            space", ECCV 2022 [P]
Shapes:     X (n, d) features, centred here; mu (c, d) class means; S_W (d, d) within-class scatter over n
Implements: S_W^lambda = (1 - lambda) S_W + lambda I with lambda = exp(-a s), s the greatest eigenvalue of S_W (section
            4.1 of [P]); log p(y|x) of Bayes' rule in the discriminant space (Eq. (3) and (4) of [P])
Differs:    no discriminant vectors are formed. All of them together give U U' = (S_W^lambda)^-1, and those beyond
            c - 1 add the same to every class, which the softmax forgets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.special import log_softmax

from unseen.ranking.inputs import FloatArray, Labels
from unseen.ranking.spectrum import decompose

#: a and the least lambda, as the authors released them; [P] leaves them open.
SLOPE = 5.0
LEAST_SHRINKAGE = 1e-10


@dataclass(frozen=True, eq=False)
class Fisher:
    """A fitted classifier: what it says of the rows it was fitted on.

    Attributes:
        log_posterior: (n, c) log p(class|row).
        shrinkage: lambda.
    """

    log_posterior: FloatArray
    shrinkage: float

    def of_own_class(self, known: Labels) -> FloatArray:
        """log p(y|x) per row."""
        return np.asarray(self.log_posterior[np.arange(len(known.index)), known.index])


def compact(rows: FloatArray) -> FloatArray:
    """Centred rows in as few dimensions as they span: nothing below depends on the others."""
    centred = rows - rows.mean(axis=0)
    return decompose(rows, centre=True).scores if rows.shape[0] <= rows.shape[1] else centred


def fit_fisher(rows: FloatArray, known: Labels, shrinkage: float | None = None) -> Fisher:
    """Fit to rows and labels; lambda from the rows unless it is given."""
    means = known.means(rows)
    within = rows - means[known.index]
    variances, axes = eigh(within.T @ within / len(rows), driver="evd", check_finite=False)  # S_W
    chosen = max(float(np.exp(-SLOPE * variances[-1])), LEAST_SHRINKAGE) if shrinkage is None else shrinkage
    shrunk = (1 - chosen) * np.maximum(variances, 0.0) + chosen
    turned = means @ axes
    weights = turned / shrunk  # (S_W^lambda)^-1 mu, in the basis of S_W
    bias = np.log(known.counts / len(rows)) - 0.5 * (turned * weights).sum(axis=1)
    scores = rows @ (axes @ weights.T) + bias  # Eq. (4)
    return Fisher(np.asarray(log_softmax(scores, axis=1)), chosen)
