"""Features of known difficulty, and probabilities of a source head, for every score."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

Cloud = tuple[np.ndarray, np.ndarray]


def make_cloud(gap: float, *, images: int = 240, dimensions: int = 12, classes: int = 4, seed: int = 0) -> Cloud:
    """Gaussian classes of uneven size whose means are `gap` noise widths apart, and their labels."""
    generator = np.random.default_rng(seed)
    labels = generator.choice(classes, size=images, p=np.arange(2, classes + 2) / np.arange(2, classes + 2).sum())
    means = gap * generator.normal(size=(classes, dimensions))
    mixing = generator.normal(size=(dimensions, dimensions)) / np.sqrt(dimensions)
    return (means[labels] + generator.normal(size=(images, dimensions))) @ mixing + 0.3, labels


def soften(features: np.ndarray, source_classes: int = 7, seed: int = 3) -> np.ndarray:
    """What a source head might say: the softmax of a random linear map."""
    weights = np.random.default_rng(seed).normal(size=(features.shape[1], source_classes))
    scores = features @ weights
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


@pytest.fixture(scope="session")
def cloud() -> Callable[..., Cloud]:
    return make_cloud


@pytest.fixture(scope="session")
def head() -> Callable[..., np.ndarray]:
    return soften


@pytest.fixture(scope="session")
def small(cloud: Callable[..., Cloud]) -> Cloud:
    """60 rows of 5 dimensions, 3 classes that overlap: what a naive loop can chew."""
    return cloud(0.7, images=60, dimensions=5, classes=3, seed=1)
