"""N-LEEP: LEEP with the posterior of a Gaussian mixture in place of a class head, on images that it has not seen.

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), CVPR 2021 [P]
Shapes:     s (n, q) principal components of the features; P(v|x) (n, k) posterior of the mixture; N (c, k) its sums
            over the images of each class
Implements: PCA that keeps 80 % of the energy; a mixture of 5 x classes diagonal Gaussians; Eq. (6), then Eq. (5) on
            four fifths of the images and Eq. (4) on the held-out fifth (5-fold cross-validation); the mean of several
            starts
Differs:    [P] holds one test set out; here every image is held out once, since no test label may be used. PCA sees
            all images (it sees no label). Eq. (5) is smoothed, for a held-out image may fall where none of its class
            was: P(y|v) = (N_yv + a P(y)) / (N_v + a), with the `a` of SMOOTHINGS under which the held-out images of
            the other folds are likeliest (docs/adr/0012). So it is finite for all images. With too few images, the
            components are capped at one per two images, and `tell` is called.
            `held_out=False` is Eq. (4) and (5) unsmoothed on the same images, as public copies have it: it does not
            notice shuffled labels where images are few.
Expected:   [P] Table 1, Group I: Recall@1 75, Pearson 84.30, Kendall 76.00
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import FloatArray
from unseen.ranking.cards import FEATURES, NEUCRAB, ScoreCard, Sizes, gram_flops
from unseen.ranking.inputs import Tell, check_features, is_narrow, mean_over_images, stratified_folds
from unseen.ranking.spectrum import principal_components

ENERGY = 0.8
COMPONENTS_PER_CLASS = 5
IMAGES_PER_COMPONENT = 2
FOLDS = 5
STARTS = 3
#: Images that the shares of all classes count as in every component.
SMOOTHINGS = tuple(10.0 ** (k / 2) for k in range(-4, 7))
#: In-sample, a component without any mass has no P(y|v).
_SMALLEST = 1e-12
#: What k-means and EM usually need, for the cost.
_LLOYD_STEPS, _EM_STEPS = 15, 20


def nleep_parts(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    energy: float = ENERGY,
    components_per_class: int = COMPONENTS_PER_CLASS,
    held_out: bool = True,
    starts: int = STARTS,
    smoothing: float | None = None,
    seed: int = 0,
    tell: Tell | None = None,
) -> FloatArray:
    """Return LEEP of a Gaussian mixture on the principal components of the features; below 0, higher is better.

    `nleep` is the mean over images; `nleep_parts` is the logarithm of Eq. (4) of every image, NaN for the only image of
    a class.

    Args:
        energy: share of the variance that the principal components keep.
        components_per_class: Gaussians per class of the task.
        held_out: score held-out images (cross-validation) instead of those that the mixture was fitted to.
        starts: of the mixture; the score is their mean.
        smoothing: `a` of the header; by default chosen on the images of the other folds.
        seed: of the starts and of the folds.
        tell: called when the number of Gaussians is capped.
    """
    from unseen.ranking.gmm import fit_mixture  # loads torch, which planning does not need

    rows, known = check_features(features, labels)
    # The mixture uses float32; PCA of float32 features does too, which is twice as fast.
    reduced = principal_components(rows.astype(np.float32) if is_narrow(features) else rows, energy=energy)
    folds = stratified_folds(known.index, FOLDS, seed) if held_out else np.zeros(len(rows), np.int64)
    weights = (0.0,) if not held_out else SMOOTHINGS if smoothing is None else (smoothing,)
    total = np.zeros((len(weights), len(rows)))
    for start in _seeds(seed, starts):
        for fold in range(folds.max() + 1):
            held = folds == fold
            train = ~held if held_out else held
            components = _components(int(train.sum()), known.classes, components_per_class, tell)
            tell = None  # one remark is enough
            mixture = fit_mixture(reduced[train], components, seed=start)
            posterior, other = mixture.posterior(reduced[train]), mixture.posterior(reduced[held])  # Eq. (6)
            sums = np.zeros((known.classes, components))
            np.add.at(sums, known.index[train], posterior)
            shares = np.bincount(known.index[train], minlength=known.classes)[:, None] / train.sum()
            for place, a in enumerate(weights):
                conditional = (sums + a * shares) / np.maximum(sums.sum(axis=0) + a, _SMALLEST)  # Eq. (5), smoothed
                expected = np.einsum("iv,iv->i", other, conditional[known.index[held]])  # Eq. (4)
                total[place, held] += np.log(np.maximum(expected, _SMALLEST))
    parts = np.full(len(rows), np.nan)
    for fold in range(folds.max() + 1):
        held = folds == fold
        others = (folds >= 0) & ~held if held_out else held
        parts[held] = total[int(total[:, others].mean(axis=1).argmax()), held] / starts
    return parts


nleep = mean_over_images("nleep", nleep_parts)


def _components(images: int, classes: int, per_class: int, tell: Tell | None) -> int:
    wanted = per_class * classes
    components = max(1, min(wanted, images // IMAGES_PER_COMPONENT))
    if components < wanted and tell is not None:
        tell(
            f"N-LEEP: {images} images are too few for {wanted} Gaussians ({per_class} per class); "
            f"{components} were fitted"
        )
    return components


def _seeds(seed: int, starts: int) -> list[int]:
    return [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(starts)]


def _cost(s: Sizes) -> float:
    k = min(COMPONENTS_PER_CLASS * s.c, s.n / IMAGES_PER_COMPONENT)
    steps = 2 * s.n * k * s.q * (1 + _LLOYD_STEPS) + 8 * s.n * k * s.q * _EM_STEPS
    return gram_flops(s) + STARTS * (FOLDS - 1) * steps + STARTS * FOLDS * 2 * s.n * k * (2 + len(SMOOTHINGS))


CARD = ScoreCard(
    "nleep",
    "N-LEEP",
    FEATURES,
    nleep,
    _cost,
    seeded=True,
    tells=True,
    parts=nleep_parts,
    version=2,
    paper="neucrab",
    citation=NEUCRAB,
    notes="nleep-pca50-2x: half of the PCA energy, two Gaussians per class, one start",
)
