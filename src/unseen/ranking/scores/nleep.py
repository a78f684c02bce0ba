"""N-LEEP: LEEP with the posterior of a Gaussian mixture in place of a class head.

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), CVPR 2021 [P]
Shapes:     s (n, q) principal components of the features; P(v|x) (n, k) posterior of the mixture
Implements: PCA that keeps 80 % of the energy; a mixture of 5 x classes diagonal Gaussians; Eq. (6), then Eq. (4), (5)
Differs:    where images are too few, the components are capped at one per two images, and `tell` is told. As in LEEP,
            one labelled set serves for both equations.
Expected:   [P] Table 1, Group I: Recall@1 75, Pearson 84.30, Kendall 76.00
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.ranking.cards import FEATURES, ScoreCard
from unseen.ranking.cost import REDUCED, Sizes, gram_flops
from unseen.ranking.inputs import Tell, check_features
from unseen.ranking.scores.leep import leep
from unseen.ranking.spectrum import principal_components

ENERGY = 0.8
COMPONENTS_PER_CLASS = 5
IMAGES_PER_COMPONENT = 2
#: What k-means and EM usually need, for the cost.
_LLOYD_STEPS, _EM_STEPS = 15, 20


def nleep(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    energy: float = ENERGY,
    components_per_class: int = COMPONENTS_PER_CLASS,
    seed: int = 0,
    tell: Tell | None = None,
) -> float:
    """LEEP of a Gaussian mixture on the principal components of the features; below 0, higher is better.

    Args:
        energy: share of the variance that the principal components keep.
        components_per_class: Gaussians per class of the task.
        seed: of the mixture's start.
        tell: told when the number of Gaussians is capped.
    """
    from unseen.ranking.gmm import fit_mixture

    rows, known = check_features(features, labels)
    # The mixture works in float32: so may the PCA, which is then twice as fast, where the features have no more.
    narrow = np.asarray(features).dtype.itemsize <= 4
    reduced = principal_components(rows.astype(np.float32) if narrow else rows, energy=energy)
    wanted = components_per_class * known.classes
    components = max(1, min(wanted, len(rows) // IMAGES_PER_COMPONENT))
    if components < wanted and tell is not None:
        tell(
            f"N-LEEP: {len(rows)} images cannot carry {wanted} Gaussians ({components_per_class} per class); "
            f"{components} were fitted"
        )
    mixture = fit_mixture(reduced, components, seed=seed)
    return leep(mixture.posterior(reduced), known.index)  # Eq. (6), then (5) and (4)


def _cost(s: Sizes) -> float:
    k, q = min(COMPONENTS_PER_CLASS * s.c, s.n / IMAGES_PER_COMPONENT), max(1.0, REDUCED * s.d)
    steps = 2 * s.n * k * q * (1 + _LLOYD_STEPS) + 8 * s.n * k * q * _EM_STEPS
    return gram_flops(s.n, s.d) + steps + 2 * s.n * k * 2


CARD = ScoreCard(
    "nleep", "N-LEEP", FEATURES, nleep, _cost, seeded=True, tells=True, paper="neucrab", citation="Li et al., CVPR 2021"
)
