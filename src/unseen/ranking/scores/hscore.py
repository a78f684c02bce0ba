"""H-score: how much of the features' variance, whitened, lies between class means; plain and regularised.

Papers:     Bao et al., "An information-theoretic approach to transferability in task transfer learning", ICIP 2019 [P]
            Ibrahim, Ponomareva & Mazumder, "Newer is not always better: rethinking transferability metrics, their
            peculiarities, stability and performance", ECML-PKDD 2022 [R]; Ledoit & Wolf, JMVA 2004 [L]
Shapes:     f (n, d) features; U (n, r), s (r,) from the thin SVD of the centred features
Implements: Definition 2 of [P]: tr(cov(f)^+ cov(E[f|y])); [R]: (1 - a) tr(cov_a(f)^-1 cov(E[f|y])) with
            cov_a = (1 - a) cov + a (tr cov / d) I and a from [L]
Differs:    nothing. In the basis of the SVD, cov(E[f|y]) meets cov(f)^+ only through the class sums of U, so that no
            d x d inverse is formed and a rank-deficient covariance is not a special case.
"""

from __future__ import annotations

import numpy.typing as npt

from unseen.core.arrays import FloatArray
from unseen.ranking.cards import gram_flops as gram_flops  # their cost, by name in scores.toml
from unseen.ranking.inputs import check_features, one_thread_if_small
from unseen.ranking.spectrum import Spectrum, decompose


@one_thread_if_small
def hscore(features: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the H-score, between 0 and min(classes - 1, rank); higher is better.

    With fewer images than dimensions it is classes - 1 for any features: use `regularised_hscore` then.
    """
    rows, known = check_features(features, labels)
    spectrum = decompose(rows, centre=True)
    # tr(cov^+ cov_g) = sum over classes and axes of (class sum of U)^2 / n_c.
    return float((known.sums(spectrum.left) ** 2 / known.counts[:, None]).sum())


@one_thread_if_small
def regularised_hscore(features: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the H-score with the covariance shrunk towards a multiple of the identity, by the intensity of [L]."""
    rows, known = check_features(features, labels)
    spectrum = decompose(rows, centre=True)
    variances = spectrum.values**2 / len(rows)
    between = variances * (known.sums(spectrum.left) ** 2 / known.counts[:, None]).sum(axis=0)  # v' cov_g v per axis
    alpha, average = ledoit_wolf(spectrum)
    shrunk = (1 - alpha) * variances + alpha * average
    return float((1 - alpha) * (between / shrunk).sum())


def ledoit_wolf(spectrum: Spectrum) -> tuple[float, float]:
    """Return the shrinkage intensity of [L] and the average variance that the covariance is shrunk towards."""
    images, dimensions = len(spectrum.left), spectrum.dimensions
    variances: FloatArray = spectrum.values**2 / images
    average = float(variances.sum() / dimensions)
    squared = float((variances**2).sum())
    delta = squared / dimensions - average**2
    norms = (spectrum.scores**2).sum(axis=1)
    beta = (float((norms**2).sum()) / images - squared) / (images * dimensions)
    if delta <= 0:  # the covariance is a multiple of the identity already
        return 0.0, average
    return min(max(beta, 0.0), delta) / delta, average
