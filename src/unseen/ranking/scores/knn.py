"""kNN: leave-one-out accuracy of the nearest neighbours.

Paper:      none of its own; the classifier is that of Cover & Hart, "Nearest neighbor pattern classification", 1967
Shapes:     X (n, d) features
Implements: accuracy over all images of the majority of the k nearest others by cosine similarity
Differs:    a tie of votes goes to the class of greater summed similarity
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.ranking.cards import Sizes
from unseen.ranking.inputs import check_features, is_narrow, one_thread_if_small

NEIGHBOURS = 5


@one_thread_if_small
def knn(features: npt.ArrayLike, labels: npt.ArrayLike, *, neighbours: int = NEIGHBOURS) -> float:
    """Return the leave-one-out accuracy of the k nearest neighbours; between 0 and 1, higher is better.

    Args:
        neighbours: k; at most the number of other images.
    """
    from sklearn.neighbors import NearestNeighbors  # slow to import; planning does not need it

    rows, known = check_features(features, labels)
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    if is_narrow(features):
        unit = unit.astype(np.float32)  # neighbours need no more digits than the features have
    count = min(neighbours, len(rows) - 1)
    # Squared distances of unit rows are 2 - 2 cos; an image is not a neighbour of itself.
    distance, nearest = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(unit).kneighbors()
    classes = known.index[nearest]
    # One vote each; the summed similarity, which is less than a vote, decides between equals.
    votes = 1.0 + (1.0 - distance**2 / 2) / (4.0 * count)
    votes = ((classes[:, :, None] == classes[:, None, :]) * votes[:, None, :]).sum(axis=2)
    found = classes[np.arange(len(rows)), votes.argmax(axis=1)]
    return float((found == known.index).mean())


def cost(s: Sizes) -> float:
    return 2 * s.n * s.n * s.d
