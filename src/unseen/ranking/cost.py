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


def gram_flops(n: float, d: float) -> float:
    """The smaller Gram matrix, its eigenvectors, and the rows in their basis."""
    m = min(n, d)
    return 2 * n * d * m + EIGEN * m**3 + 2 * n * d * m


def fisher_flops(n: float, d: float, c: float) -> float:
    """A Fisher classifier: within-class scatter, its eigenvectors, the posteriors."""
    m = min(n, d)
    return 2 * n * m * m + EIGEN * m**3 + 2 * n * m * c
