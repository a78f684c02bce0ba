"""What a score costs, counted: floating-point operations from the shapes, the forward pass apart.

A multiply-add is two operations. Only the leading terms are counted: products of matrices, decompositions and
iterations; iterative methods count the steps that they are given or usually need, which is said where it is assumed.

Shapes:     n images, d dimensions, c classes, z source classes
"""

from __future__ import annotations

import math
from collections.abc import Callable

from unseen.ranking.cards import ScoreCard, find_score

#: Tridiagonalisation, QR iterations and back-transformation of a symmetric m x m matrix, in units of m^3.
_EIGEN = 9.0
#: Principal components that hold 80 % of the energy: what packaged networks have on photographs, about d / 10.
_REDUCED = 0.1
_EM_STEPS, _LLOYD_STEPS, _LBFGS_STEPS, _FIXED_POINT_STEPS = 20, 15, 60, 20


def score_flops(
    score: str | ScoreCard, images: int, dimensions: int, classes: int, source_classes: int = 1000
) -> float:
    """Operations of one score on stored features. A score that trains the network itself counts none here."""
    card = find_score(score) if isinstance(score, str) else score
    if card.needs_training:
        return 0.0
    return _COSTS[card.target.partition(":")[0]](
        card, float(images), float(dimensions), float(classes), float(source_classes)
    )


def finetune_flops(forward: float, images: int, epochs: float) -> float:
    """Operations of fine-tuning: a backward pass costs twice the forward pass."""
    return 3.0 * forward * images * epochs


def _gram(n: float, d: float) -> float:
    """The smaller Gram matrix, its eigenvectors, and the rows in their basis."""
    m = min(n, d)
    return 2 * n * d * m + _EIGEN * m**3 + 2 * n * d * m


def _nleep(_card: ScoreCard, n: float, d: float, c: float, _z: float) -> float:
    k, q = min(5 * c, n / 2), max(1.0, _REDUCED * d)
    steps = 2 * n * k * q * (1 + _LLOYD_STEPS) + 8 * n * k * q * _EM_STEPS
    return _gram(n, d) + steps + 2 * n * k * 2


def _linear(card: ScoreCard, n: float, d: float, c: float, _z: float) -> float:
    passes = float(card.options.get("epochs") or _LBFGS_STEPS)
    return 4 * 0.8 * n * d * c * passes


def _mutual_information(card: ScoreCard, n: float, d: float, c: float, _z: float) -> float:
    from unseen.ranking.mutual_information import EPOCHS, HIDDEN

    q = max(1.0, _REDUCED * d) if card.options.get("pca") else d
    return (_gram(n, d) if card.options.get("pca") else 0.0) + 6 * 0.8 * n * HIDDEN * (q + c) * EPOCHS


def _transrate(_card: ScoreCard, n: float, d: float, c: float, _z: float) -> float:
    def rate(rows: float) -> float:
        m = min(rows, d)
        return 2 * rows * d * m + 2 / 3 * m**3

    return rate(n) + c * rate(n / c)


def _fisher(n: float, d: float, c: float) -> float:
    m = min(n, d)
    return 2 * n * m * m + _EIGEN * m**3 + 2 * n * m * c


_COSTS: dict[str, Callable[[ScoreCard, float, float, float, float], float]] = {
    "nleep": _nleep,
    "leep": lambda _, n, d, c, z: 2 * n * z * 2,
    "nce": lambda _, n, d, c, z: n * z + c * z,
    "linear": _linear,
    "mutual_information": _mutual_information,
    "hscore": lambda _, n, d, c, z: _gram(n, d),
    "logme": lambda _, n, d, c, z: _gram(n, d) + 8 * min(n, d) * c * _FIXED_POINT_STEPS,
    "gbc": lambda _, n, d, c, z: _gram(n, d) + 4 * c * c * min(d, 64.0),
    "transrate": _transrate,
    "parc": lambda _, n, d, c, z: 2 * n * n * d + n * n / 2 * math.log2(max(n, 2.0)) * 2,
    "sfda": lambda _, n, d, c, z: 2 * _fisher(n, d, c),
    "pactran": lambda _, n, d, c, z: 4 * n * d * c * _LBFGS_STEPS,
    "etran": lambda _, n, d, c, z: _fisher(n, d, c) + 2 * n * d,
    "ncti": lambda _, n, d, c, z: _gram(n, d) + _fisher(n, min(d, 64.0), c) + 4 * n * c * c,
    "knn": lambda _, n, d, c, z: 2 * n * n * d,
}
