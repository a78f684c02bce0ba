"""Is an image of a seen class? Two answers from the space of class embeddings, as CMT* needs them.

Paper:      Socher, Ganjoo, Manning & Ng, NeurIPS 2013, section 4.1 [P];
            Kriegel, Kroeger, Schubert & Zimek, "LoOP: local outlier probabilities", CIKM 2009 [L]
Shapes:     points (n, a) embedded images; centres (c, a)
Implements: Gaussian: a sphere per seen class, centred on its embedding; an image outside of all of them is new. The
            radius leaves out the share `quantile` of the class's own training images [P].
            LoOP: how much farther an image is from its k nearest training images than those are from theirs, as a
            probability; an image is new above the (1 - quantile) quantile of the training images' own values [L]
Differs:    [L] has lambda = 3 inside both deviations: it cancels in all but the last division, where it stands here
"""

from __future__ import annotations

import numpy as np
from scipy.special import erf

from unseen.zeroshot.method import FloatArray, IntArray, squared_distances

_BLOCK = 2048
_LAMBDA = 3.0


class GaussianNovelty:
    """Spheres around the class embeddings."""

    def __init__(self, points: FloatArray, y: IntArray, centres: FloatArray, quantile: float) -> None:
        self.centres = centres
        own = ((points - centres[y]) ** 2).sum(1)
        # Isotropic Gaussians: a threshold on the density of a class is a radius around its centre.
        self.radii = np.asarray([np.quantile(own[y == c], 1 - quantile) for c in range(len(centres))])

    def is_new(self, points: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.asarray((squared_distances(points, self.centres) > self.radii).all(1))


class LocalOutliers:
    """LoOP against the training images."""

    def __init__(self, points: FloatArray, neighbours: int, quantile: float) -> None:
        self.points = points
        self.k = min(neighbours, len(points) - 1)
        distances, index = nearest(points, points, self.k, skip_self=True)
        self.spread = np.sqrt((distances).mean(1))  # standard distance of a point from its neighbours
        factor = self.spread / np.maximum(self.spread[index].mean(1), np.finfo(np.float32).tiny) - 1
        self.scale = max(_LAMBDA * float(np.sqrt((factor**2).mean())), float(np.finfo(np.float32).tiny))
        self.limit = float(np.quantile(self._probability(factor), 1 - quantile))

    def probability(self, points: FloatArray) -> FloatArray:
        """The local outlier probability of new points."""
        distances, index = nearest(points, self.points, self.k, skip_self=False)
        spread = np.sqrt(distances.mean(1))
        return self._probability(spread / np.maximum(self.spread[index].mean(1), np.finfo(np.float32).tiny) - 1)

    def is_new(self, points: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.asarray(self.probability(points) > self.limit)

    def _probability(self, factor: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(0, erf(factor / (self.scale * np.sqrt(2)))))


def nearest(points: FloatArray, table: FloatArray, k: int, *, skip_self: bool) -> tuple[FloatArray, IntArray]:
    """(n, k) squared distances and rows of the k nearest rows of `table`; a row is not its own neighbour."""
    distances = np.empty((len(points), k), points.dtype)
    index = np.empty((len(points), k), np.int64)
    for start in range(0, len(points), _BLOCK):
        block = squared_distances(points[start : start + _BLOCK], table)
        if skip_self:
            rows = np.arange(len(block))
            block[rows, start + rows] = np.inf
        found = np.argpartition(block, k - 1, axis=1)[:, :k]
        index[start : start + _BLOCK] = found
        distances[start : start + _BLOCK] = np.take_along_axis(block, found, 1)
    return distances, index
