"""Small feature sets with overlapping classes, and the threads that solvers take."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
import torch

from unseen.probes.rows import FeatureSet, LabelledRows, Workers


class Sample(NamedTuple):
    """Features and labels of train and test."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray

    @property
    def rows(self) -> LabelledRows:
        labels = torch.from_numpy(self.train_labels)
        return LabelledRows(FeatureSet(self.train, "training features"), labels, int(labels.max()) + 1)


def overlapping(count: int, dimensions: int, classes: int, *, seed: int = 0, separation: float = 0.6) -> Sample:
    """Gaussian classes in a decaying spectrum, as many test as training images."""
    generator = np.random.default_rng(seed)
    scale = (1.0 + np.arange(dimensions)) ** -0.5
    means = separation * generator.standard_normal((classes, dimensions)) * scale
    labels = np.arange(2 * count) % classes
    features = means[labels] + scale * generator.standard_normal((2 * count, dimensions)) + 0.2
    features = features.astype(np.float32)
    return Sample(features[:count], labels[:count], features[count:], labels[count:])


@pytest.fixture(scope="session")
def make_sample():
    return overlapping


@pytest.fixture(scope="session")
def sample() -> Sample:
    """400 images, 24 dimensions, 8 classes: one batch holds them all."""
    return overlapping(400, 24, 8)


@pytest.fixture(scope="session")
def larger() -> Sample:
    """2,400 images, 48 dimensions, 12 classes: several batches per epoch."""
    return overlapping(2400, 48, 12, separation=0.5)


@pytest.fixture
def workers() -> Iterator[Workers]:
    with Workers(2) as threads:
        yield threads
