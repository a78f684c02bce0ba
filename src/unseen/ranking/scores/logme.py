"""LogME: the maximum evidence of a Bayesian linear model from features to labels.

Paper:      You et al., "LogME: practical assessment of pre-trained models for transfer learning", ICML 2021 [P];
            the fixed point in the basis of the SVD is from its longer version, JMLR 2022 [J]
Shapes:     F (n, d) features = U diag(s) V'; y (n,) targets, one column per class in {0, 1}; sigma = s^2
Implements: Eq. (2) of [P], the log evidence at the fixed point of alpha and beta, per image, averaged over classes
Differs:    the fixed point runs to a change of the evidence below 1e-10 per image (the release stops at 1e-3 of
            alpha/beta); the ratio alpha/beta is kept within 1e-12 and 1e12 of the greatest sigma
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import FloatArray, IntArray
from unseen.ranking.cards import Sizes, gram_flops
from unseen.ranking.inputs import check_features, one_thread_if_small
from unseen.ranking.ridge import check_targets
from unseen.ranking.spectrum import Spectrum, decompose

_TOLERANCE = 1e-10
_MOST_STEPS = 200
_USUAL_STEPS = 20
_RATIO = 1e12
_SMALLEST = 1e-300


@one_thread_if_small
def logme(features: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the log maximum evidence per image, averaged over one-against-the-rest targets; higher is better."""
    rows, known = check_features(features, labels)
    spectrum = decompose(rows, centre=False)
    return _evidence(spectrum, known.sums(spectrum.left).T, known.counts)


def logme_targets(features: npt.ArrayLike, targets: npt.ArrayLike) -> float:
    """Return LogME for values (n,), (n, t) or several labels (n, t) of 0 and 1: the mean over the columns."""
    rows, columns = check_targets(features, targets)
    spectrum = decompose(rows, centre=False)
    return _evidence(spectrum, spectrum.left.T @ columns, (columns**2).sum(axis=0))


def _evidence(spectrum: Spectrum, projected: FloatArray, lengths: FloatArray | IntArray) -> float:
    """Return the maximum evidence per image, averaged over the columns of targets.

    Args:
        spectrum: of the features.
        projected: U'y, (r, columns).
        lengths: |y|^2 of each column.
    """
    images, sigma, squares = len(spectrum.left), spectrum.values[:, None] ** 2, projected**2
    outside = np.maximum(lengths - squares.sum(axis=0), 0.0)  # |y - UU'y|^2
    low, high = sigma.max() / _RATIO, sigma.max() * _RATIO
    ratio = np.ones(squares.shape[1])  # t = alpha / beta
    before = np.full_like(ratio, -np.inf)
    for _ in range(_MOST_STEPS):
        ratio = ratio.clip(low, high)
        shrunk = ratio / (ratio + sigma)
        gamma = (sigma / (ratio + sigma)).sum(axis=0)  # effective number of parameters
        rest = images - len(sigma) + shrunk.sum(axis=0)  # images - gamma, without its rounding near zero
        weights = (sigma * squares / (ratio + sigma) ** 2).sum(axis=0)  # m'm
        residual = (shrunk**2 * squares).sum(axis=0) + outside  # |Fm - y|^2
        # Eq. (2) of [P] at the best beta for this ratio, with the determinant of A written by sigma.
        error = (shrunk * squares).sum(axis=0) + outside  # |Fm - y|^2 + ratio m'm
        beta = images / np.maximum(error, _SMALLEST)
        evidence = 0.5 * (images * (np.log(beta / (2 * np.pi)) - 1) + np.log(shrunk).sum(axis=0))
        ratio = gamma * residual / np.maximum(weights * rest, _SMALLEST)  # alpha / beta
        if (np.abs(evidence - before) <= _TOLERANCE * images).all():
            break
        before = evidence
    return float((evidence / images).mean())


def cost(s: Sizes) -> float:
    return gram_flops(s) + 8 * s.m * s.c * _USUAL_STEPS
