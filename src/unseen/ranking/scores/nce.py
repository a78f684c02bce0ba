"""NCE: negative conditional entropy of the labels, given the source class that a checkpoint predicts.

Paper:      Tran, Nguyen & Hassner, "Transferability and hardness of supervised classification tasks", ICCV 2019 [P]
Shapes:     z (n,) source labels; y (n,) labels
Implements: -H(Y|Z) = sum over (y, z) of P(y, z) log P(y|z), with empirical P, Eq. (7) to (9) of [P]
Differs:    [P] has source labels of the same images; a checkpoint gives none, so z is its most probable source class
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.ranking.cards import HEAD, ScoreCard, Sizes
from unseen.ranking.inputs import check_labels, check_probabilities


def nce(source: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the negative conditional entropy of `labels` given the source labels, in nats.

    Args:
        source: (n, z) source probabilities, or (n,) source labels of any names.
        labels: of the task.

    Returns:
        A number that is at most 0; higher is better.
    """
    given = np.asarray(source)
    if given.ndim == 2:
        theta, known = check_probabilities(given, labels)
        given = theta.argmax(axis=1)
    elif given.ndim == 1:
        known = check_labels(labels, len(given))
    else:
        raise DataError(f"NCE takes source labels (n,) or source probabilities (n, z); found shape {given.shape}.")
    seen, index = np.unique(given, return_inverse=True)
    counts = np.zeros((known.classes, len(seen)))
    np.add.at(counts, (known.index, index.reshape(-1)), 1.0)
    joint = counts / len(given)
    conditional = joint / joint.sum(axis=0)
    present = joint > 0
    return float((joint[present] * np.log(conditional[present])).sum())


def _cost(s: Sizes) -> float:
    return s.n * s.z + s.c * s.z


CARD = ScoreCard("nce", "NCE", HEAD, nce, _cost, citation="Tran et al., ICCV 2019", notes="needs a class head")
