"""N-LEEP: LEEP with the posterior of a Gaussian mixture in place of a class head, on images that it has not seen.

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), CVPR 2021 [P]
Shapes:     s (n, q) principal components of the features; P(v|x) (n, k) posterior of the mixture; N (c, k) its sums
            over the images of each class
Implements: PCA that keeps 80 % of the energy; a mixture of 5 x classes diagonal Gaussians; Eq. (6), then Eq. (5) on
            four fifths of the images and Eq. (4) on the held-out fifth (5-fold cross-validation)
Differs:    [P] holds one test set out; here every image is held out once, since no test label may be used. PCA and the
            mixture see all images (they see no label). Eq. (5) is smoothed, for a held-out image may fall where none
            of its class was: P(y|v) = (N_yv + a P(y)) / (N_v + a), with the `a` of SMOOTHINGS under which the held-out
            images of the other folds are likeliest (docs/adr/0012). So it is finite for all images. With too few
            images, the components are capped at one per two images, and `tell` is called.
            `held_out=False` is Eq. (4) and (5) unsmoothed on the same images, as public copies have it: it does not
            notice shuffled labels where images are few.
Expected:   [P] Table 1, Group I: Recall@1 75, Pearson 84.30, Kendall 76.00
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import FloatArray
from unseen.ranking.cards import Sizes, gram_flops
from unseen.ranking.inputs import Tell, check_features, is_narrow, one_thread_if_small, stratified_folds
from unseen.ranking.scores.leep import leep
from unseen.ranking.spectrum import principal_components

ENERGY = 0.8
COMPONENTS_PER_CLASS = 5
IMAGES_PER_COMPONENT = 2
FOLDS = 5
#: Images that the shares of all classes count as in every component.
SMOOTHINGS = tuple(10.0 ** (k / 2) for k in range(-4, 7))
#: What k-means and EM usually need, for the cost.
_LLOYD_STEPS, _EM_STEPS = 15, 20


@one_thread_if_small
def nleep(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    energy: float = ENERGY,
    components_per_class: int = COMPONENTS_PER_CLASS,
    held_out: bool = True,
    seed: int = 0,
    tell: Tell | None = None,
) -> float:
    """Return LEEP of a Gaussian mixture on the principal components of the features; below 0, higher is better.

    Args:
        energy: share of the variance that the principal components keep.
        components_per_class: Gaussians per class of the task.
        held_out: score held-out images (cross-validation) instead of those whose labels are counted.
        seed: of the mixture and of the folds.
        tell: called when the number of Gaussians is capped.
    """
    rows, known = check_features(features, labels)
    # Products of float32 features need no more digits, and take half of the time.
    reduced = principal_components(rows.astype(np.float32) if is_narrow(features) else rows, energy=energy)
    components = _components(len(rows), known.classes, components_per_class, tell)
    start = np.random.SeedSequence(seed).spawn(1)[0].generate_state(1)
    posterior = mixture_posterior(reduced, components, int(start[0]))  # Eq. (6)
    if not held_out:
        return leep(posterior, known.index)
    folds = stratified_folds(known.index, FOLDS, seed)
    logs = np.zeros((len(SMOOTHINGS), len(rows)))
    for fold in range(folds.max() + 1):
        held = folds == fold
        sums = np.zeros((known.classes, components))
        np.add.at(sums, known.index[~held], posterior[~held])
        shares = np.bincount(known.index[~held], minlength=known.classes)[:, None] / (~held).sum()
        for place, a in enumerate(SMOOTHINGS):
            conditional = (sums + a * shares) / (sums.sum(axis=0) + a)  # Eq. (5), smoothed
            expected = np.einsum("iv,iv->i", posterior[held], conditional[known.index[held]])  # Eq. (4)
            logs[place, held] = np.log(expected)
    found = 0.0
    for fold in range(folds.max() + 1):
        best = int(logs[:, (folds >= 0) & (folds != fold)].mean(axis=1).argmax())
        found += float(logs[best, folds == fold].sum())
    return found / int((folds >= 0).sum())


def mixture_posterior(rows: FloatArray, components: int, seed: int) -> FloatArray:
    """Return P(component | row), (n, k), of a mixture with diagonal covariances that is fitted to the rows."""
    from sklearn.exceptions import ConvergenceWarning  # slow to import; planning does not need it
    from sklearn.mixture import GaussianMixture

    # One scale for all dimensions: the variance floor then means the same for any features.
    scaled = rows / (float(np.sqrt(rows.var(axis=0).mean())) or 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal rows leave components without any
        fitted = GaussianMixture(components, covariance_type="diag", random_state=seed).fit(scaled)
    return np.asarray(fitted.predict_proba(scaled), np.float64)


def _components(images: int, classes: int, per_class: int, tell: Tell | None) -> int:
    wanted = per_class * classes
    components = max(1, min(wanted, images // IMAGES_PER_COMPONENT))
    if components < wanted and tell is not None:
        tell(
            f"N-LEEP: {images} images are too few for {wanted} Gaussians ({per_class} per class); "
            f"{components} were fitted"
        )
    return components


def cost(s: Sizes) -> float:
    k = min(COMPONENTS_PER_CLASS * s.c, s.n / IMAGES_PER_COMPONENT)
    steps = 2 * s.n * k * s.q * (1 + _LLOYD_STEPS) + 8 * s.n * k * s.q * _EM_STEPS
    return gram_flops(s) + steps + 2 * s.n * k * FOLDS * (2 + len(SMOOTHINGS))
