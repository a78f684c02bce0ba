"""The Fisher classifier and SFDA over it, against explicit loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh

from unseen.ranking import sfda


def naive_posterior(features: np.ndarray, labels: np.ndarray, shrinkage: float | None) -> tuple[np.ndarray, float]:
    """Bayes' rule in the space of the generalised eigenvectors of S_B and the shrunk S_W."""
    images, dimensions = features.shape
    names = sorted(set(labels.tolist()))
    mean = features.mean(axis=0)
    within, between = np.zeros((dimensions, dimensions)), np.zeros((dimensions, dimensions))
    means = {}
    for name in names:
        own = features[labels == name]
        means[name] = own.mean(axis=0)
        for row in own:
            within += np.outer(row - means[name], row - means[name]) / images
        between += len(own) / images * np.outer(means[name] - mean, means[name] - mean)
    amount = max(np.exp(-5 * np.linalg.eigvalsh(within)[-1]), 1e-10) if shrinkage is None else shrinkage
    _, vectors = eigh(between, (1 - amount) * within + amount * np.eye(dimensions))
    vectors = vectors[:, ::-1][:, : len(names) - 1]  # the discriminant directions
    posterior = np.zeros((images, len(names)))
    for i, row in enumerate(features):
        for c, name in enumerate(names):
            turned, centre = vectors.T @ row, vectors.T @ means[name]
            posterior[i, c] = turned @ centre - 0.5 * centre @ centre + np.log(np.mean(labels == name))
        posterior[i] = np.exp(posterior[i] - posterior[i].max())
        posterior[i] /= posterior[i].sum()
    return posterior, amount


def naive_sfda(features: np.ndarray, labels: np.ndarray) -> float:
    posterior, amount = naive_posterior(features, labels, None)
    mixed = features.copy()
    for i, label in enumerate(labels):
        softened = np.exp(posterior[i]) / np.exp(posterior[i]).sum()
        confidence = softened[sorted(set(labels.tolist())).index(label)]
        mixed[i] = confidence * features[i] + (1 - confidence) * features[labels != label].mean(axis=0)
    again, _ = naive_posterior(mixed, labels, amount)
    return float(np.mean([np.log(again[i, label]) for i, label in enumerate(labels)]))


def test_sfda_by_loops(small: tuple) -> None:
    assert sfda(*small) == pytest.approx(naive_sfda(*small), abs=1e-6)


def test_sfda_where_shrinkage_matters(small: tuple) -> None:
    features, labels = 0.2 * small[0], small[1]
    assert np.exp(-5 * np.linalg.eigvalsh(np.cov(features.T))[-1]) > 0.01
    assert sfda(features, labels) == pytest.approx(naive_sfda(features, labels), abs=1e-6)


def test_sfda_is_constant_with_far_fewer_images_than_dimensions() -> None:
    noise = 10 * np.random.default_rng(0).normal(size=(30, 200))
    assert sfda(noise, np.repeat([0, 1, 2], 10)) == pytest.approx(0.0, abs=1e-6)
