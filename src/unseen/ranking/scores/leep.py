"""LEEP: the log expected empirical prediction of a checkpoint's own class head.

Paper:      Nguyen et al., "LEEP: a new measure to evaluate transferability of learned representations", ICML 2020;
            as written in Li et al., "Ranking neural checkpoints" (NeuCRaB), CVPR 2021 [P]
Shapes:     theta (n, z) source probabilities; y (n,) labels
Implements: Eq. (4) and (5) of [P]
Differs:    both equations use one labelled set, as in LEEP's own paper, so that no test label is touched; give
            `held_out` to average Eq. (4) over other images. A source class without any mass is left out of the sum.
Expected:   [P] Table 2, Group II: Recall@1 75, Pearson 50.36, Kendall 55.49
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.ranking.cards import HEAD, ScoreCard, Sizes
from unseen.ranking.inputs import FloatArray, check_probabilities

#: A held-out image may belong to a class that its source classes never saw: its probability is at least this.
_SMALLEST = 1e-12


def leep(
    probabilities: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    held_out: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
) -> float:
    """Return the mean log-probability of the right label under the "dummy" classifier that a source head implies.

    Args:
        probabilities: (n, z) the head's class probabilities.
        labels: of the task, one per row.
        held_out: probabilities and labels of other images to average over; by default the same images.

    Returns:
        A number below 0; higher is better.
    """
    theta, known = check_probabilities(probabilities, labels)
    joint = known.sums(theta) / len(theta)  # Eq. (5), (classes, z)
    marginal = joint.sum(axis=0)
    conditional = np.divide(joint, marginal, out=np.zeros_like(joint), where=marginal > 0)
    if held_out is None:
        return _mean_log(theta, known.index, conditional)
    other, names = np.asarray(held_out[0], dtype=np.float64), np.unique(np.asarray(labels))
    wanted = np.asarray(held_out[1])
    if other.ndim != 2 or other.shape != (len(wanted), theta.shape[1]):
        raise DataError(
            f"held-out probabilities must have the shape ({len(wanted)}, {theta.shape[1]}), found {other.shape}."
        )
    index = np.searchsorted(names, wanted).clip(max=len(names) - 1)
    if (names[index] != wanted).any():
        raise DataError("a held-out label does not occur in the training labels. Evaluate on the same classes.")
    return _mean_log(other, index, conditional)


def _mean_log(theta: FloatArray, index: npt.NDArray[np.int64], conditional: FloatArray) -> float:
    expected = np.einsum("iz,iz->i", theta, conditional[index])  # Eq. (4): sum over z of P(y|z) theta(x)_z
    return float(np.log(np.clip(expected, _SMALLEST, 1.0)).mean())


def _cost(s: Sizes) -> float:
    return 2 * s.n * s.z * 2


CARD = ScoreCard(
    "leep", "LEEP", HEAD, leep, _cost, paper="neucrab", citation="Li et al., CVPR 2021", notes="needs a class head"
)
