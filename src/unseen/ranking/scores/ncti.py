"""NCTI: how far features are from neural collapse, the state that fine-tuning ends in, relative to the pool.

Paper:      Wang et al., "How far pre-trained models are from neural collapse on the target dataset informs their
            transferability", ICCV 2023 [P]
Shapes:     X (n, d) features of one checkpoint, reduced to 64 principal axes; L (n, c - 1) discriminant coordinates
Implements: the three terms of section 4 of [P]: S_seli, the nuclear norm of L (how near a simplex); S_ncc, the mean
            posterior of the right class; S_vc, the log of the summed nuclear norms of each class's posteriors (within-
            class variability); S_seli + S_ncc - S_vc, each scaled over the pool
Differs:    discriminants are shrunk by max(exp(-v), 1e-10), v the variance on the first 32 axes, towards the average
            variance, as in the authors' release. The within-class scatter is over n, as in both solvers of
            scikit-learn today; the one by singular values, which the release calls, divided by n - c before

Relative to the pool: adding or removing a candidate changes the scores of all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import FloatArray
from unseen.metrics import softmax
from unseen.ranking.cards import Sizes, combine_terms, find_score, fisher_flops, gram_flops
from unseen.ranking.inputs import Labels, check_features
from unseen.ranking.spectrum import principal_components

DIMENSIONS = 64
_FIRST_AXES = 32
_LEAST_SHRINKAGE = 1e-10


def ncti(pool: Sequence[npt.ArrayLike], labels: npt.ArrayLike) -> list[float]:
    """Return the scores of all checkpoints of a pool, in order; higher is better.

    Args:
        pool: one (n, d) array of features per checkpoint, of the same images; d may differ.
        labels: of the images.
    """
    return combine_terms(find_score("ncti"), [ncti_terms(features, labels) for features in pool])


def ncti_terms(features: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[float, float, float]:
    """Return S_seli, S_ncc and S_vc of one checkpoint, before they are scaled over the pool."""
    rows, known = check_features(features, labels)
    rows = principal_components(rows, count=DIMENSIONS)
    coordinates, posterior = _discriminants(rows, known)
    simplex = float(np.linalg.norm(coordinates - coordinates.mean(axis=0), ord="nuc"))
    nearest = float(posterior[np.arange(len(rows)), known.index].mean())
    spread = sum(float(np.linalg.norm(posterior[known.index == c], ord="nuc")) for c in range(known.classes))
    return simplex, nearest, float(np.log(spread))


def _discriminants(rows: FloatArray, known: Labels) -> tuple[FloatArray, FloatArray]:
    """Return discriminant coordinates with unit within-class scatter, and the posterior of each class."""
    means = known.means(rows)
    within = rows - means[known.index]
    scatter = within.T @ within / len(rows)
    average = max(float(np.trace(scatter)), 1e-300) / len(scatter)
    first = rows[:, :_FIRST_AXES].var(axis=0, ddof=1).sum()
    amount = max(float(np.exp(-first)), _LEAST_SHRINKAGE)
    scatter = (1 - amount) * scatter
    scatter[np.diag_indices_from(scatter)] += amount * average
    # Whiten the within-class scatter, then the principal axes of the class means, weighted by class size.
    variances, axes = np.linalg.eigh(scatter)
    whiten = axes / np.sqrt(np.maximum(variances, variances[-1] * 1e-15))
    centres = means @ whiten  # rows have mean zero, so these are relative to the overall mean
    _, _, turn = np.linalg.svd(np.sqrt(known.counts)[:, None] * centres, full_matrices=False)
    kept = turn[: min(known.classes - 1, rows.shape[1])].T
    coordinates, centres = rows @ whiten @ kept, centres @ kept
    scores = coordinates @ centres.T - 0.5 * (centres**2).sum(axis=1) + np.log(known.counts / len(rows))
    return coordinates, softmax(scores)


def cost(s: Sizes) -> float:
    return gram_flops(s) + fisher_flops(replace(s, d=min(s.d, DIMENSIONS))) + 4 * s.n * s.c * s.c
