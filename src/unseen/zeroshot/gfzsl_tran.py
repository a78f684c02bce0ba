"""GFZSL-tran: GFZSL whose Gaussians of unseen classes are fitted to the images that are scored together.

Paper:      Verma & Rai, "A simple exponential family framework for zero-shot learning", ECML 2017 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings; r (n, c) responsibilities
Implements: expectation-maximisation of a mixture that starts from the regressed Gaussians of GFZSL
Differs:    the unlabelled images are those that `scores` is given. Gaussians of classes that were trained on stay as
            they are. A class's new mean and variance count its start as `prior` images, so that a class without
            images does not collapse
Expected:   GBU Fig. 8, PS: AWA2 78.6
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unseen.core.records import MethodCard
from unseen.metrics.softmax import softmax
from unseen.zeroshot.gfzsl import GFZSL, log_density
from unseen.zeroshot.method import FloatArray, Grid, parameters


@parameters
class GFZSLTran(GFZSL):
    """Transductive GFZSL.

    Args:
        steps: of expectation-maximisation.
        prior: images that the regressed Gaussian counts for.
    """

    steps: int = 10
    prior: float = 10.0

    card = MethodCard(
        id="GFZSL-tran",
        name="GFZSL with expectation-maximisation",
        group="zero-shot, transductive",
        paper="gbu",
        citation="Verma & Rai, ECML 2017",
    )
    version = 1
    grid: ClassVar[Grid] = {
        "lam": (1e-2, 0.1, 1.0),
        "lam_var": (1.0, 1e8),
        "shrinkage": (0.1, 0.5),
        "prior": (1.0, 10.0, 100.0, 1e3, 1e4),
        "steps": (3, 10),
    }
    quick_grid: ClassVar[Grid] = {"lam": (0.1, 1.0), "prior": (1.0, 10.0, 100.0)}

    transductive = True
    scoring_params = ("lam", "lam_var", "steps", "prior")

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        mu, log_var = self._parameters(S)
        new = self._seen_rows(S) < 0
        start_mu, start_var = mu[new], np.exp(log_var[new])
        wide = X.astype(np.float64)
        squared = wide**2
        for _ in range(self.steps if new.any() else 0):
            r = softmax(log_density(X, mu, log_var).astype(np.float64))[:, new]  # expectation
            weight = (r.sum(0) + self.prior)[:, None]
            sums, squares = r.T @ wide, r.T @ squared
            mean = (sums + self.prior * start_mu) / weight  # maximisation
            second = (squares + self.prior * (start_var + start_mu**2)) / weight
            var = np.maximum(second - mean**2, 1e-3 * start_var)
            mu[new], log_var[new] = mean, np.log(var)
        return log_density(X, mu, log_var)
