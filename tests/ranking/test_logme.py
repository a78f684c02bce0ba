"""LogME against the evidence of the paper, maximised by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from unseen.ranking import logme


def evidence(features: np.ndarray, target: np.ndarray, alpha: float, beta: float) -> float:
    """Eq. (2) of the paper, with explicit inverse and determinant."""
    images, dimensions = features.shape
    matrix = alpha * np.eye(dimensions) + beta * features.T @ features
    mean = beta * np.linalg.inv(matrix) @ features.T @ target
    return float(
        images / 2 * np.log(beta)
        + dimensions / 2 * np.log(alpha)
        - images / 2 * np.log(2 * np.pi)
        - beta / 2 * np.sum((features @ mean - target) ** 2)
        - alpha / 2 * mean @ mean
        - 0.5 * np.linalg.slogdet(matrix)[1]
    )


def naive_logme(features: np.ndarray, labels: np.ndarray) -> float:
    found = []
    for name in sorted(set(labels.tolist())):
        target = (labels == name).astype(float)
        best = minimize(
            lambda p, t=target: -evidence(features, t, np.exp(p[0]), np.exp(p[1])),
            [0.0, 0.0],
            method="Nelder-Mead",
            options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 5000},
        )
        found.append(-best.fun / len(features))
    return float(np.mean(found))


def test_no_other_alpha_and_beta_have_more_evidence(small: tuple) -> None:
    assert logme(*small) == pytest.approx(naive_logme(*small), abs=1e-6)


def test_constant_and_repeated_columns_are_no_trap(small: tuple) -> None:
    features, labels = small
    wider = np.concatenate([features, features[:, :1], np.zeros((len(features), 2))], axis=1)
    assert logme(wider, labels) == pytest.approx(naive_logme(wider, labels), abs=1e-6)


def test_more_dimensions_than_images(small: tuple) -> None:
    labels = small[1][:20]
    features = np.random.default_rng(5).normal(size=(20, 30))
    features[:, :3] += 2 * np.eye(3)[labels]
    assert np.isfinite(logme(features, labels))
    assert logme(features, labels) == pytest.approx(naive_logme(features, labels), abs=1e-5)


def test_the_scale_of_features_does_not_matter(small: tuple) -> None:
    features, labels = small
    assert logme(1000 * features, labels) == pytest.approx(logme(features, labels), abs=1e-8)


def test_rounding_does_not_matter_where_features_fit_the_labels_exactly() -> None:
    noise = np.random.default_rng(0)
    labels = np.arange(60) % 6
    features = np.abs(noise.normal(size=(60, 300)) + 3 * noise.normal(size=(6, 300))[labels])
    first = logme(features, labels)
    for _ in range(4):
        changed = features * (1 + 1e-7 * noise.normal(size=features.shape))
        assert logme(changed, labels) == pytest.approx(first, abs=1e-5)
