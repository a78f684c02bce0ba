"""ETran: a Fisher classifier's likelihood plus the energy of the features, relative to the pool.

Paper:      Gholami et al., "ETran: energy-based transferability estimation", ICCV 2023 [P]
Shapes:     X (n, d) features of one checkpoint; the pool is one X per checkpoint, over the same images
Implements: S_cls, the mean p(y|x) of linear discriminant analysis; S_en, the mean of log sum exp over the feature
            dimensions (minus the energy) over the lower half of the images; their sum, each scaled over the pool
Differs:    discriminants are shrunk as SFDA's are, so that they exist where images are few. The released code averages
            the energy over 0.5 % of the images through a slip of units; half, as [P] says, is taken here.

Relative to the pool: adding or removing a candidate changes the scores of all others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from unseen.ranking.cards import POOL, ScoreCard, Sizes, fisher_flops
from unseen.ranking.inputs import add_scaled, check_features
from unseen.ranking.scores.sfda import compact, fit_fisher

SIGNS = (1.0, 1.0)
_SHARE = 0.5


def etran(pool: Sequence[npt.ArrayLike], labels: npt.ArrayLike) -> list[float]:
    """Return the scores of all checkpoints of a pool, in order; higher is better.

    Args:
        pool: one (n, d) array of features per checkpoint, of the same images; d may differ.
        labels: of the images.
    """
    return [float(s) for s in add_scaled([etran_terms(features, labels) for features in pool], SIGNS)]


def etran_terms(features: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[float, float]:
    """Return S_cls and S_en of one checkpoint, before they are scaled over the pool."""
    rows, known = check_features(features, labels)
    likelihood = float(np.exp(fit_fisher(compact(rows), known).of_own_class(known)).mean())
    energy = np.sort(logsumexp(rows, axis=1))
    return likelihood, float(energy[: max(1, round(_SHARE * len(energy)))].mean())


def _cost(s: Sizes) -> float:
    return fisher_flops(s.n, s.d, s.c) + 2 * s.n * s.d


CARD = ScoreCard(
    "etran",
    "ETran",
    POOL,
    etran_terms,
    _cost,
    signs=SIGNS,
    citation="Gholami et al., ICCV 2023",
    notes="relative to the pool",
)
