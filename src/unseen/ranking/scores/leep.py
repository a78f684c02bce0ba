"""LEEP and NCE: two scores of a checkpoint's own class head.

Papers:     Nguyen et al., "LEEP: a new measure to evaluate transferability of learned representations", ICML 2020;
            as written in Li et al., "Ranking neural checkpoints" (NeuCRaB), CVPR 2021 [P]
            Tran, Nguyen & Hassner, "Transferability and hardness of supervised classification tasks", ICCV 2019 [T]
Shapes:     theta (n, z) source probabilities; z (n,) source labels; y (n,) labels
Implements: LEEP (log expected empirical prediction), Eq. (4) and (5) of [P]; NCE (negative conditional entropy),
            -H(Y|Z) = sum over (y, z) of P(y, z) log P(y|z), with empirical P, Eq. (7) to (9) of [T]
Differs:    both equations of LEEP use one labelled set, as in its own paper, so that no test label is touched. A
            source class without any mass is left out of the sum.
            [T] has source labels of the same images; a checkpoint gives none, so z is its most probable source class
Expected:   LEEP, [P] Table 2, Group II: Recall@1 75, Pearson 50.36, Kendall 55.49
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import FloatArray
from unseen.core.errors import DataError
from unseen.ranking.cards import Sizes
from unseen.ranking.inputs import check_labels, check_probabilities


def leep(probabilities: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the mean log-probability of the right label under the "dummy" classifier that a source head implies.

    Args:
        probabilities: (n, z) the head's class probabilities.
        labels: of the task, one per row.

    Returns:
        A number below 0; higher is better.
    """
    theta, known = check_probabilities(probabilities, labels)
    conditional = _given_source(known.sums(theta))  # Eq. (5), (classes, z)
    expected = np.einsum("iz,iz->i", theta, conditional[known.index])  # Eq. (4): sum over z of P(y|z) theta(x)_z
    return float(np.log(np.minimum(expected, 1.0)).mean())


def nce(source: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the negative conditional entropy of `labels` given the source labels, in nats; at most 0.

    Args:
        source: (n, z) source probabilities, or (n,) source labels of any names.
        labels: of the task.
    """
    names = np.asarray(source)
    if names.ndim == 2:
        names = check_probabilities(names, labels)[0].argmax(axis=1)
    if names.ndim != 1:
        raise DataError(f"NCE takes source labels (n,) or source probabilities (n, z); found shape {names.shape}.")
    known = check_labels(labels, len(names))
    seen, index = np.unique(names, return_inverse=True)
    counts = known.sums(np.eye(len(seen))[index.reshape(-1)])
    conditional = _given_source(counts)
    return float((counts * np.log(np.where(counts > 0, conditional, 1.0))).sum() / len(names))


def _given_source(counts: FloatArray) -> FloatArray:
    """Return P(y|z) from (classes, z) sums; 0 for a source class without any mass."""
    marginal = counts.sum(axis=0)
    return counts / np.where(marginal > 0, marginal, 1.0)


def cost(s: Sizes) -> float:
    return 4 * s.n * s.z


def nce_cost(s: Sizes) -> float:
    return s.n * s.z + s.c * s.z
