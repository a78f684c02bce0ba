"""What a score costs, counted: floating-point operations from the shapes, the forward pass apart.

A multiply-add is two operations. Only the leading terms are counted: products of matrices, decompositions and
iterations; iterative methods count the steps that they are given or usually need, which is said where it is assumed.
What a score costs stands in its own file; here are the parts that several share.
"""

from __future__ import annotations

from dataclasses import dataclass

from unseen.ranking.cards import ScoreCard, find_score

#: Tridiagonalisation, QR iterations and back-transformation of a symmetric m x m matrix, in units of m^3.
EIGEN = 9.0
#: Principal components that hold 80 % of the energy: what packaged networks have on photographs, about d / 10.
REDUCED = 0.1
#: What L-BFGS usually needs on a softmax classifier.
LBFGS_STEPS = 60


@dataclass(frozen=True)
class Sizes:
    """What a score is computed from: n images, d dimensions, c classes, z classes of the checkpoint's own head."""

    n: float
    d: float
    c: float
    z: float


def score_flops(
    score: str | ScoreCard, images: int, dimensions: int, classes: int, source_classes: int = 1000
) -> float:
    """Operations of one score on stored features. A score that trains the network itself counts none here."""
    card = find_score(score) if isinstance(score, str) else score
    if card.needs_training or card.cost is None:
        return 0.0
    return card.cost(Sizes(float(images), float(dimensions), float(classes), float(source_classes)))


def finetune_flops(forward: float, images: int, epochs: float) -> float:
    """Operations of fine-tuning: a backward pass costs twice the forward pass."""
    return 3.0 * forward * images * epochs


#: Epochs after which the paper's linear classifier has converged, by its own tables: (5.33 - 4.95) x 10^4 GFLOPs more
#: than after one, at 50 each.
_CONVERGED = 77
_EPOCHS = {"linear-1": 1, "linear-5": 5, "linear": _CONVERGED, "finetune-1": 1, "finetune-5": 5}


def paper_flops(score: str, sizes: Sizes, forward: float, test: float) -> float | None:
    """Operations as NeuCRaB's tables seem to count them, without the forward pass over training images; None where
    the paper has no such score.

    Read off its tables: what is judged on test images takes a forward pass over those, training a network three passes
    an epoch of which the shared one is taken off, a head 6 n d c an epoch; LEEP is its head alone, and N-LEEP the
    densities of its Gaussians, without PCA and without fitting them. What MI trains the paper does not say: it is ours.

    Args:
        forward: operations of the network per image.
        test: images that a score is judged on.
    """
    n, d, c, z = sizes.n, sizes.d, sizes.c, sizes.z
    if score in ("nleep", "leep"):
        return 2 * n * 5 * c * REDUCED * d if score == "nleep" else 2 * n * d * z
    if score.startswith("mi-"):
        return forward * test + score_flops(score, int(n), int(d), int(c), int(z))
    if score not in _EPOCHS:
        return None
    if score.startswith("linear"):
        return forward * test + 6 * n * d * c * _EPOCHS[score]
    return forward * test + finetune_flops(forward, int(n), _EPOCHS[score]) - forward * n


def gram_flops(n: float, d: float) -> float:
    """The smaller Gram matrix, its eigenvectors, and the rows in their basis."""
    m = min(n, d)
    return 2 * n * d * m + EIGEN * m**3 + 2 * n * d * m


def fisher_flops(n: float, d: float, c: float) -> float:
    """A Fisher classifier: within-class scatter, its eigenvectors, the posteriors."""
    m = min(n, d)
    return 2 * n * m * m + EIGEN * m**3 + 2 * n * m * c
