"""The Fisher classifier and SFDA, ETran and NCTI over it, against explicit loops and scikit-learn's discriminants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from unseen.core.errors import DataError
from unseen.ranking import etran, ncti, sfda
from unseen.ranking.scores.ncti import ncti_terms
from unseen.ranking.scores.sfda import etran_terms


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


def test_etran_terms_by_loops(small: tuple) -> None:
    features, labels = small
    posterior, _ = naive_posterior(features, labels, None)
    energies = sorted(float(np.log(sum(np.exp(v) for v in row))) for row in features)
    likelihood, energy = etran_terms(features, labels)
    assert likelihood == pytest.approx(np.mean([posterior[i, y] for i, y in enumerate(labels)]), abs=1e-6)
    assert energy == pytest.approx(np.mean(energies[:30]), abs=1e-9)


@pytest.mark.parametrize("solver", ["svd", "eigen"])
def test_ncti_terms_by_scikit_learn(small: tuple, solver: str) -> None:
    features, labels = 4 * small[0], small[1]  # large enough that nothing is shrunk
    reduced = PCA(svd_solver="full").fit_transform(features)
    model = LinearDiscriminantAnalysis(solver=solver).fit(reduced, labels)
    posterior = model.predict_proba(reduced)
    simplex, nearest, spread = ncti_terms(features, labels)
    coordinates = model.transform(reduced)
    assert simplex == pytest.approx(np.linalg.norm(coordinates - coordinates.mean(axis=0), ord="nuc"), rel=1e-6)
    assert nearest == pytest.approx(np.mean([posterior[i, y] for i, y in enumerate(labels)]), abs=1e-6)
    within = [np.linalg.svd(posterior[labels == c], compute_uv=False).sum() for c in range(3)]
    assert spread == pytest.approx(np.log(sum(within)), abs=1e-6)


@pytest.mark.parametrize("score", [etran, ncti])
def test_a_pool_is_scaled_to_its_own_range(cloud: Callable[..., tuple], score: Callable[..., list[float]]) -> None:
    pool = [cloud(gap, seed=4)[0] for gap in (2.0, 0.8, 0.4)]
    labels = cloud(2.0, seed=4)[1]
    alone = score(pool[:2], labels)
    assert min(alone) >= -1.0
    assert max(alone) <= 2.0
    assert score(pool, labels)[:2] != alone  # a third candidate moves the others: that is what the card declares
    with pytest.raises(DataError, match="at least two models"):
        score(pool[:1], labels)
