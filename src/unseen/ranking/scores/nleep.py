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

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.ranking.cards import FEATURES, REDUCED, ScoreCard, Sizes, gram_flops
from unseen.ranking.inputs import FloatArray, Labels, Tell, check_features
from unseen.ranking.sampling import stratified_folds
from unseen.ranking.scores.leep import leep
from unseen.ranking.spectrum import principal_components

ENERGY = 0.8
COMPONENTS_PER_CLASS = 5
IMAGES_PER_COMPONENT = 2
FOLDS = 5
STARTS = 3
#: Images that the shares of all classes count as in every component.
SMOOTHINGS = tuple(10.0 ** (k / 2) for k in range(-4, 7))
#: What k-means and EM usually need, for the cost.
_LLOYD_STEPS, _EM_STEPS = 15, 20


def nleep(
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
) -> float:
    """Return LEEP of a Gaussian mixture on the principal components of the features; below 0, higher is better.

    Args:
        energy: share of the variance that the principal components keep.
        components_per_class: Gaussians per class of the task.
        held_out: average over held-out images (cross-validation) instead of those that the mixture was fitted to.
        starts: of the mixture; the score is their mean.
        smoothing: `a` of the header; by default chosen on the images of the other folds.
        seed: of the starts and of the folds.
        tell: called when the number of Gaussians is capped.
    """
    if held_out:
        parts = nleep_parts(
            features,
            labels,
            energy=energy,
            components_per_class=components_per_class,
            starts=starts,
            smoothing=smoothing,
            seed=seed,
            tell=tell,
        )
        return float(np.nanmean(parts))
    from unseen.ranking.gmm import fit_mixture

    reduced, known = _reduced(features, labels, energy)
    components = _components(len(reduced), known.classes, components_per_class, tell)
    mixtures = [fit_mixture(reduced, components, seed=one) for one in _seeds(seed, starts)]
    # Eq. (6), then (5) and (4)
    return float(np.mean([leep(mixture.posterior(reduced), known.index) for mixture in mixtures]))


def nleep_parts(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    energy: float = ENERGY,
    components_per_class: int = COMPONENTS_PER_CLASS,
    starts: int = STARTS,
    smoothing: float | None = None,
    seed: int = 0,
    tell: Tell | None = None,
) -> FloatArray:
    """Return the logarithm of Eq. (4) of every image when held out; NaN for the only image of a class."""
    from unseen.ranking.gmm import fit_mixture

    reduced, known = _reduced(features, labels, energy)
    folds = stratified_folds(known.index, FOLDS, seed)
    weights = SMOOTHINGS if smoothing is None else (smoothing,)
    total = np.zeros((len(weights), len(reduced)))
    for start in _seeds(seed, starts):
        for fold in range(folds.max() + 1):
            held = folds == fold
            index = known.index[~held]
            components = _components(len(index), known.classes, components_per_class, tell)
            tell = None  # once is enough
            mixture = fit_mixture(reduced[~held], components, seed=start)
            posterior, other = mixture.posterior(reduced[~held]), mixture.posterior(reduced[held])  # Eq. (6)
            total[:, held] += _log_expected(posterior, index, other, known.index[held], known.classes, weights)
    parts = np.full(len(reduced), np.nan)
    for fold in range(folds.max() + 1):
        others = total[:, (folds >= 0) & (folds != fold)]
        parts[folds == fold] = total[int(others.mean(axis=1).argmax()), folds == fold] / starts
    return parts


def _log_expected(
    theta: FloatArray, index: Any, other: FloatArray, wanted: Any, classes: int, smoothings: Sequence[float]
) -> FloatArray:
    """Return the logarithm of Eq. (4) for held-out posteriors, with Eq. (5) from the others: (smoothings, m)."""
    sums = np.zeros((classes, theta.shape[1]))
    np.add.at(sums, index, theta)
    shares = np.bincount(index, minlength=classes) / len(index)
    found = np.empty((len(smoothings), len(other)))
    for place, a in enumerate(smoothings):
        conditional = (sums + a * shares[:, None]) / (sums.sum(axis=0) + a)  # Eq. (5), smoothed
        found[place] = np.log(np.einsum("iv,iv->i", other, conditional[wanted]))  # Eq. (4)
    return found


def _reduced(features: npt.ArrayLike, labels: npt.ArrayLike, energy: float) -> tuple[npt.NDArray[Any], Labels]:
    rows, known = check_features(features, labels)
    # The mixture uses float32; PCA of float32 features does too, which is twice as fast.
    narrow = np.asarray(features).dtype.itemsize <= 4
    return principal_components(rows.astype(np.float32) if narrow else rows, energy=energy), known


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
    k, q = min(COMPONENTS_PER_CLASS * s.c, s.n / IMAGES_PER_COMPONENT), max(1.0, REDUCED * s.d)
    steps = 2 * s.n * k * q * (1 + _LLOYD_STEPS) + 8 * s.n * k * q * _EM_STEPS
    return gram_flops(s.n, s.d) + STARTS * (FOLDS - 1) * steps + STARTS * FOLDS * 2 * s.n * k * (2 + len(SMOOTHINGS))


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
    citation="Li et al., CVPR 2021",
    notes="nleep-pca50-2x: half of the PCA energy, two Gaussians per class, one start",
)

_VARIANT = re.compile(r"nleep-pca([1-9]\d?)-([1-9]\d?)x")


def variant(name: str) -> ScoreCard | None:
    """Return the card of a cell of Fig. 2, such as nleep-pca50-2x; None for any other name."""
    if (found := variant_of(name)) is None:
        return None
    energy, count = found
    options = {"energy": energy / 100, "components_per_class": count, "starts": 1}
    title = f"N-LEEP, PCA {energy} %, {count} per class"
    return replace(CARD, id=name, name=title, options=options, cost=None, notes="")


def variant_of(name: str) -> tuple[int, int] | None:
    """Return the percentage of PCA energy and the Gaussians per class of a variant's name."""
    found = _VARIANT.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]))
