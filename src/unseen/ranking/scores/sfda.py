"""SFDA: the likelihood of a Fisher classifier after each image was made harder.

Paper:      Shao et al., "Not all models are equal: predicting model transferability in a self-challenging Fisher
            space", ECCV 2022 [P]
Shapes:     X (n, d) features, centred here; p (n,) confidence in the right class; o (c, d) mean of all images of other
            classes; mu (c, d) class means; S_W (d, d) within-class scatter over n
Implements: the Fisher classifier: linear discriminants with the shrunk within-class scatter
            S_W^lambda = (1 - lambda) S_W + lambda I with lambda = exp(-a s), s the greatest eigenvalue of S_W (section
            4.1 of [P]); log p(y|x) of Bayes' rule in the discriminant space (Eq. (3) and (4) of [P]).
            Fit; confidence mix x <- p x + (1 - p) o_y, section 4.2 of [P]; fit again with the same shrinkage; mean
            log p(y|x), Eq. (5) of [P]
Differs:    the released code averages p instead of log p ("in case of instability"): a log-softmax is stable, so the
            paper's equation is kept. As in the release, confidences pass one more softmax before they mix. No
            discriminant vectors are formed: all of them together give U U' = (S_W^lambda)^-1, and those beyond c - 1
            add the same to every class, which cancels in the softmax.

With far fewer images than dimensions, any features separate all classes and SFDA is close to 0 for every checkpoint: do
not rank by it then.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.special import log_softmax

from unseen.core.arrays import FloatArray
from unseen.metrics import softmax
from unseen.ranking.cards import Sizes, fisher_flops
from unseen.ranking.inputs import Labels, check_features
from unseen.ranking.spectrum import decompose

#: a and the least lambda, as the authors released them; [P] leaves them open.
SLOPE = 5.0
LEAST_SHRINKAGE = 1e-10


def sfda(features: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the mean log-probability of the right class in the self-challenged space; at most 0, higher is better."""
    rows, known = check_features(features, labels)
    rows = compact(rows)
    posterior, shrinkage = fit_fisher(rows, known)
    # Probabilities lie in [0, 1], so that this second softmax pulls all of them towards 1 / classes.
    confidence = _of_own_class(softmax(np.exp(posterior)), known)[:, None]
    sums = known.sums(rows)
    others = (sums.sum(axis=0) - sums) / (len(rows) - known.counts)[:, None]
    mixed = confidence * rows + (1 - confidence) * others[known.index]
    posterior, _ = fit_fisher(mixed - mixed.mean(axis=0), known, shrinkage)
    return float(_of_own_class(posterior, known).mean())


def _of_own_class(values: FloatArray, known: Labels) -> FloatArray:
    """Return the value of each row's class, (n,), from values (n, c)."""
    return np.asarray(values[np.arange(len(values)), known.index])


def compact(rows: FloatArray) -> FloatArray:
    """Return centred rows in as few dimensions as they span; the classifier does not depend on the others."""
    centred = rows - rows.mean(axis=0)
    return decompose(rows, centre=True).scores if rows.shape[0] <= rows.shape[1] else centred


def fit_fisher(rows: FloatArray, known: Labels, shrinkage: float | None = None) -> tuple[FloatArray, float]:
    """Return log p(class|row), (n, c), of a classifier that is fitted to the rows, and lambda.

    Lambda is computed from the rows by default.
    """
    means = known.means(rows)
    within = rows - means[known.index]
    variances, axes = eigh(within.T @ within / len(rows), driver="evd", check_finite=False)  # S_W
    chosen = max(float(np.exp(-SLOPE * variances[-1])), LEAST_SHRINKAGE) if shrinkage is None else shrinkage
    shrunk = (1 - chosen) * np.maximum(variances, 0.0) + chosen
    turned = means @ axes
    weights = turned / shrunk  # (S_W^lambda)^-1 mu, in the basis of S_W
    bias = np.log(known.counts / len(rows)) - 0.5 * (turned * weights).sum(axis=1)
    scores = rows @ (axes @ weights.T) + bias  # Eq. (4)
    return np.asarray(log_softmax(scores, axis=1)), chosen


def cost(s: Sizes) -> float:
    return 2 * fisher_flops(s)
