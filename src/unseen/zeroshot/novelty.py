"""Novelty detectors of CMT*: whether an image is of a seen class, from the space of class embeddings.

Paper:      Socher, Ganjoo, Manning & Ng, NeurIPS 2013, section 4.1 [P];
            Kriegel, Kroeger, Schubert & Zimek, "LoOP: local outlier probabilities", CIKM 2009 [L]
Shapes:     points (n, a) embedded images; centres (c, a)
Implements: Gaussian: a sphere per seen class, centred on its embedding; an image outside of all of them is new. The
            radius leaves out the share `quantile` of the class's own training images [P].
            LoOP: how much farther an image is from its k nearest training images than those are from theirs, as a
            probability; an image is new above the (1 - quantile) quantile of the training images' own values [L]
Differs:    LoOP compares with at most 5,000 training images, sampled once. [L] has lambda = 3 inside both deviations:
            it cancels in all but the last division, where it stands here
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import erf

from unseen.zeroshot.method import FloatArray, IntArray, squared_distances

_BLOCK = 2048
_LAMBDA = 3.0
_MOST_POINTS = 5000

BoolArray = npt.NDArray[np.bool_]


class Novelty(Protocol):
    """A detector of images that are not of a seen class."""

    def measure(self, points: FloatArray) -> FloatArray:
        """Return the measurements that any threshold is compared with."""
        ...

    def is_new(self, measured: FloatArray, quantile: float) -> BoolArray:
        """Return whether each point is new, at the threshold that calls the share `quantile` of training images new."""
        ...


class GaussianNovelty:
    """Spheres around the class embeddings."""

    def __init__(self, points: FloatArray, y: IntArray, centres: FloatArray) -> None:
        self.centres = centres
        # Isotropic Gaussians: a threshold on the density of a class is a radius around its centre.
        own = ((points - centres[y]) ** 2).sum(1)
        self.own = [np.sort(own[y == c]) for c in range(len(centres))]

    def measure(self, points: FloatArray) -> FloatArray:
        """Return (n, c) squared distances to the centres."""
        return squared_distances(points, self.centres)

    def is_new(self, measured: FloatArray, quantile: float) -> BoolArray:
        radii = np.asarray([np.quantile(own, 1 - quantile) for own in self.own])
        return np.asarray((measured > radii).all(1))


class LocalOutliers:
    """LoOP against the training images."""

    def __init__(self, points: FloatArray, neighbours: int) -> None:
        drawn = np.random.default_rng(0).permutation(len(points))[:_MOST_POINTS]
        self.points = points[np.sort(drawn)]
        self.k = min(neighbours, len(self.points) - 1)
        distances, index = nearest(self.points, self.points, self.k, skip_self=True)
        self.spread = np.sqrt(distances.mean(1))  # standard distance of a point from its neighbours
        factor = self._factor(self.spread, index)
        self.scale = max(_LAMBDA * float(np.sqrt((factor**2).mean())), float(np.finfo(np.float32).tiny))
        self.own = np.sort(factor)

    def probability(self, points: FloatArray) -> FloatArray:
        """Return the local outlier probability of new points."""
        return np.asarray(np.maximum(0, erf(self.measure(points) / (self.scale * np.sqrt(2)))))

    def is_new(self, measured: FloatArray, quantile: float) -> BoolArray:
        return np.asarray(measured > np.quantile(self.own, 1 - quantile))

    def measure(self, points: FloatArray) -> FloatArray:
        """Return (n,) factors; the probability is a monotone function of them that is 0 for half of the images."""
        distances, index = nearest(points, self.points, self.k, skip_self=False)
        return self._factor(np.sqrt(distances.mean(1)), index)

    def _factor(self, spread: FloatArray, index: IntArray) -> FloatArray:
        """Return how much farther each point is from its neighbours than those are from theirs."""
        return np.asarray(spread / np.maximum(self.spread[index].mean(1), np.finfo(np.float32).tiny) - 1)


def nearest(points: FloatArray, table: FloatArray, k: int, *, skip_self: bool) -> tuple[FloatArray, IntArray]:
    """Return (n, k) squared distances and rows of the k nearest rows of `table`, without the row itself on request."""
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
