"""Contract suite of ranking scores."""

from __future__ import annotations

import pickle

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import FloatArray, IntArray
from unseen.metrics import softmax
from unseen.ranking.cards import ScoreCard, score_flops, score_value
from unseen.testing.claims import claim, refuses


def check_score(card: ScoreCard) -> None:
    """Check a score: its card, that better features score higher, and which inputs it refuses."""
    claim(isinstance(card, ScoreCard), f"{type(card).__name__} was given, not a ScoreCard")
    claim(bool(card.id and card.name), "a card needs an id and a name")
    claim(card.version >= 1, f"{card.id}: versions count from 1")
    claim(pickle.loads(pickle.dumps(card)).id == card.id, f"{card.id}: its card cannot be pickled")  # noqa: S301 - our own
    if card.needs_training:
        claim(card.epochs > 0, f"{card.id} trains the network: its card needs the number of epochs")
        return
    claim(card.compute is not None, f"{card.id} has no function")
    claim(0 < score_flops(card, 1000, 512, 10) < score_flops(card, 4000, 512, 10), f"{card.id}: its cost must grow")
    _check_numbers(card)
    _check_order(card)
    _check_refusals(card)


def _score(card: ScoreCard, features: FloatArray, labels: npt.NDArray[np.generic]) -> float:
    # A head whose classes are fixed directions in feature space.
    head = softmax(features @ np.cos(np.outer(np.arange(features.shape[1]), np.arange(1, 8))))
    return score_value(card, labels, features=features, probabilities=head)


def _cloud(gap: float, images: int = 240, dimensions: int = 12, classes: int = 4) -> tuple[FloatArray, IntArray]:
    """Return Gaussian classes whose means are `gap` noise widths apart, and their labels."""
    generator = np.random.default_rng(2)
    labels = generator.integers(classes, size=images)
    noise = generator.normal(size=(images, dimensions))
    return gap * generator.normal(size=(classes, dimensions))[labels] + noise + 0.3, labels


def _check_numbers(card: ScoreCard) -> None:
    features, labels = _cloud(0.8, images=80)
    features.flags.writeable = labels.flags.writeable = False
    first = _score(card, features, labels)
    claim(bool(np.isfinite(first)), f"{card.id}: its value {first} is not finite")
    claim(_score(card, features, labels) == first, f"{card.id}: the same features and seed give two scores")
    named = np.array(["ape", "bee", "cat", "dog"])[labels]
    near = np.allclose(_score(card, features, named), first, rtol=1e-6, atol=1e-9)
    claim(near, f"{card.id}: it depends on the names of classes")


def _check_order(card: ScoreCard) -> None:
    """Check that separable features beat overlapping ones, which beat features that belong to other images."""
    separable, labels = _cloud(2.5, images=600)
    overlapping, _ = _cloud(0.8, images=600)
    shuffled = overlapping[np.random.default_rng(0).permutation(600)]
    best, middle, worst = (_score(card, rows, labels) for rows in (separable, overlapping, shuffled))
    claim(best > worst and middle > worst, f"{card.id}: features of other images score as high as their own")
    claim(best >= middle, f"{card.id}: separable classes score {best}, overlapping ones {middle}; higher is better")


def _check_refusals(card: ScoreCard) -> None:
    features, labels = _cloud(0.8, images=80)
    refuses(f"{card.id}: one class", lambda: _score(card, features, np.zeros(80)))
    refuses(f"{card.id}: fewer labels than rows", lambda: _score(card, features, labels[:-1]))
    if not card.needs_head:
        refuses(f"{card.id}: constant features", lambda: _score(card, np.ones_like(features), labels))
        refuses(f"{card.id}: NaN", lambda: _score(card, np.where(features > 2, np.nan, features), labels))
