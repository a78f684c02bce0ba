"""kNN: leave-one-out accuracy of the nearest neighbours.

Paper:      none of its own; the classifier is that of Cover & Hart, "Nearest neighbor pattern classification", 1967
Shapes:     X (n, d) features
Implements: accuracy over all images of the majority of the k nearest others by cosine similarity
Differs:    a tie of votes goes to the class of greater summed similarity
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import FloatArray, FloatingArray, IntArray
from unseen.ranking.cards import FEATURES, ScoreCard, Sizes
from unseen.ranking.inputs import check_features, is_narrow

NEIGHBOURS = 5
_CHUNK = 1024


def knn(features: npt.ArrayLike, labels: npt.ArrayLike, *, neighbours: int = NEIGHBOURS) -> float:
    """Return the leave-one-out accuracy of the k nearest neighbours; between 0 and 1, higher is better.

    Args:
        neighbours: k; at most the number of other images.
    """
    rows, known = check_features(features, labels)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    if is_narrow(features):
        unit = unit.astype(np.float32)  # neighbours need no more digits than the features have
    count = min(neighbours, len(rows) - 1)
    right = 0
    for begin in range(0, len(rows), _CHUNK):
        right += _right(unit, known.index, known.classes, range(begin, min(begin + _CHUNK, len(rows))), count)
    return right / len(rows)


def nearest_others(rows: FloatingArray, chunk: range, count: int) -> tuple[FloatingArray, IntArray]:
    """Return the greatest products of a chunk's rows with other rows, (m, count) unsorted, and their row numbers."""
    import torch  # its top-k takes a tenth of numpy's time; planning does not need it

    products = rows[chunk.start : chunk.stop] @ rows.T
    products[np.arange(len(chunk)), np.arange(chunk.start, chunk.stop)] = -np.inf  # leave itself out
    found = torch.from_numpy(products).topk(count, dim=1, sorted=False)
    return found.values.numpy(), found.indices.numpy()


def _right(unit: FloatArray, index: IntArray, classes: int, chunk: range, count: int) -> int:
    """Return how many rows of a chunk are classified correctly."""
    close, nearest = nearest_others(unit, chunk, count)
    votes = np.zeros((len(chunk), classes))
    lines = np.repeat(np.arange(len(chunk)), count)
    # One vote each; the summed similarity, which is less than a vote, decides between equals.
    np.add.at(votes, (lines, index[nearest].ravel()), 1.0 + close.ravel() / (4.0 * count))
    return int((votes.argmax(axis=1) == index[chunk.start : chunk.stop]).sum())


def _cost(s: Sizes) -> float:
    return 2 * s.n * s.n * s.d


CARD = ScoreCard("knn", "kNN, leave one out", FEATURES, knn, _cost, notes=f"{NEIGHBOURS} neighbours by cosine")
