"""PARC: rank correlation of feature distances and label distances.

Paper:      Bolya, Mittapalli & Hoffman, "Scalable diverse model selection for accessible transfer learning",
            NeurIPS 2021 [P]
Shapes:     D_f, D_y (n, n) distances 1 - Pearson's r between rows, of features and of one-hot labels
Implements: section 4.1 of [P]: every feature is scaled to mean 0 and variance 1 over the images, then Spearman's
            correlation of the lower triangles of D_f and D_y. [P] also reduces features to 32 dimensions by PCA first:
            `dimensions=32`, whose axes the scaling then whitens
Differs:    the value is a correlation, not a percentage. In the authors' release rounding splits label distances that
            are equal, and with them ranks; here they are equal. Pairs grow with the square of the images: above
            `limit` a seeded, stratified sample is taken, and reported.

D_y has two values only, so that Spearman's correlation is that of the ranks of D_f with "of two classes or one": it
needs the sorted distances and the ranks of the pairs within a class, not two rankings of all pairs.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import FloatingArray, IntArray
from unseen.ranking.cards import Sizes
from unseen.ranking.inputs import Tell, check_features, one_thread_if_small, standardise, stratified_rows
from unseen.ranking.spectrum import principal_components

LIMIT = 8000


@one_thread_if_small
def parc(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    dimensions: int | None = None,
    limit: int = LIMIT,
    seed: int = 0,
    tell: Tell | None = None,
) -> float:
    """Return the rank correlation of feature and label distances over all pairs of images; higher is better.

    Args:
        dimensions: of a PCA that comes first.
        limit: most images, because the distances of all pairs are held in memory.
        seed: of the sample of more images.
        tell: called when a sample is taken.
    """
    rows, known = check_features(features, labels)
    index = known.index
    if len(rows) > limit:
        if tell is not None:
            tell(f"PARC compares all pairs of images: {limit} of {len(rows)} were taken, by class, with seed {seed}")
        chosen = stratified_rows(index, limit, seed)
        rows, index = rows[chosen], index[chosen]
    if dimensions is not None:
        rows = principal_components(rows, count=dimensions)
        # A correlation of rows depends on the signs of their axes, which a decomposition leaves open: the entry of
        # greatest size is positive.
        rows = rows * np.sign(rows[np.abs(rows).argmax(axis=0), np.arange(rows.shape[1])])
    # Ranks of 18 million pairs do not need more digits than the features have.
    scaled = standardise(rows, rows).astype(np.result_type(np.asarray(features).dtype, np.float32), copy=False)
    return _rank_correlation(_distances(scaled), index)


def _distances(rows: FloatingArray) -> FloatingArray:
    """Return 1 - Pearson's r between all rows; a row without variance correlates with nothing."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = np.divide(centred, lengths, out=np.zeros_like(centred), where=lengths > 0)
    return np.asarray(1 - unit @ unit.T)


def _rank_correlation(distances: FloatingArray, index: IntArray) -> float:
    """Return Spearman's correlation of the lower triangle with "of two classes", ties at their average rank."""
    images = len(index)
    pairs = images * (images - 1) // 2
    ordered = np.concatenate([distances[i, :i] for i in range(images)])
    ordered.sort()
    within = np.concatenate([_lower(distances, np.flatnonzero(index == c)) for c in np.unique(index)])
    # Average rank of equal values: half-way between the first and the last of them, counted from 1.
    ranks = (np.searchsorted(ordered, within, "left") + np.searchsorted(ordered, within, "right") + 1.0) / 2.0
    same, middle = len(within), (pairs + 1) / 2
    covariance = -float((ranks - middle).sum()) / pairs
    spread_labels = same * (pairs - same) / pairs**2
    ties = np.unique(ordered, return_counts=True)[1].astype(np.float64)
    spread_ranks = ((pairs**2 - 1) - float((ties**3 - ties).sum()) / pairs) / 12
    if spread_labels == 0 or spread_ranks <= 0:
        return 0.0  # every pair is alike: there is nothing to correlate
    return covariance / float(np.sqrt(spread_labels * spread_ranks))


def _lower(distances: FloatingArray, members: npt.NDArray[np.intp]) -> FloatingArray:
    first, second = np.tril_indices(len(members), -1)
    return np.asarray(distances[members[first], members[second]])


def cost(s: Sizes) -> float:
    return 2 * s.n * s.n * s.d + s.n * s.n / 2 * math.log2(max(s.n, 2.0)) * 2
