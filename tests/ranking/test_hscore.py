"""H-score against the definition with an explicit pseudo-inverse; shrinkage against scikit-learn's Ledoit-Wolf."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import LedoitWolf

from unseen.ranking import hscore, regularised_hscore
from unseen.ranking.scores.hscore import ledoit_wolf
from unseen.ranking.spectrum import decompose


def covariances(features: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """cov(f) and cov(E[f|y]), one outer product at a time."""
    images, dimensions = features.shape
    mean = sum(features) / images
    total, between = np.zeros((dimensions, dimensions)), np.zeros((dimensions, dimensions))
    for row, label in zip(features, labels, strict=True):
        own = [other for other, name in zip(features, labels, strict=True) if name == label]
        centre = sum(own) / len(own)
        total += np.outer(row - mean, row - mean) / images
        between += np.outer(centre - mean, centre - mean) / images
    return total, between


def test_the_trace_of_the_definition(small: tuple) -> None:
    total, between = covariances(*small)
    assert hscore(*small) == pytest.approx(np.trace(np.linalg.pinv(total) @ between), abs=1e-6)


def test_a_rank_deficient_covariance_is_pseudo_inverted(small: tuple) -> None:
    features, labels = small
    repeated = np.concatenate([features, features[:, :2], np.full((len(features), 1), 3.0)], axis=1)
    total, between = covariances(repeated, labels)
    expected = np.trace(np.linalg.pinv(total, rcond=1e-10) @ between)
    assert hscore(repeated, labels) == pytest.approx(expected, abs=1e-6)
    assert hscore(repeated, labels) == pytest.approx(hscore(features, labels), abs=1e-6)


def test_regularised_against_scikit_learn(small: tuple) -> None:
    features, labels = small
    _, between = covariances(features, labels)
    fitted = LedoitWolf().fit(features)
    expected = (1 - fitted.shrinkage_) * np.trace(np.linalg.inv(fitted.covariance_) @ between)
    assert regularised_hscore(features, labels) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("images", [8, 30])
def test_shrinkage_with_fewer_images_than_dimensions(images: int) -> None:
    features = np.random.default_rng(0).normal(size=(images, 20)) * np.linspace(1, 3, 20)
    fitted = LedoitWolf().fit(features)
    alpha, average = ledoit_wolf(decompose(features, centre=True))
    assert alpha == pytest.approx(fitted.shrinkage_, abs=1e-9)
    assert average == pytest.approx(np.trace(fitted.covariance_) / 20, abs=1e-9)


def test_with_fewer_images_than_dimensions_only_the_regularised_score_distinguishes_features() -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 10)
    noise = generator.normal(size=(30, 50))
    signal = noise + 3 * generator.normal(size=(3, 50))[labels]
    assert hscore(noise, labels) == pytest.approx(2.0, abs=1e-6)
    assert hscore(signal, labels) == pytest.approx(2.0, abs=1e-6)
    assert regularised_hscore(signal, labels) > regularised_hscore(noise, labels) + 0.2
