"""PARC against scipy's Spearman correlation over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.decomposition import PCA

from unseen.ranking import parc


def naive_parc(features: np.ndarray, labels: np.ndarray) -> float:
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    names = sorted(set(labels.tolist()))
    first, second = [], []
    for i in range(len(features)):
        for j in range(i):
            first.append(1 - pearsonr(features[i], features[j]).statistic)
            one, other = (np.eye(len(names))[names.index(labels[k])] for k in (i, j))
            second.append(1 - np.corrcoef(one, other)[0, 1])
    return float(spearmanr(first, np.round(second, 9)).statistic)


def test_all_pairs_give_the_same(small: tuple) -> None:
    assert parc(*small) == pytest.approx(naive_parc(*small), abs=1e-6)


def test_equal_distances_share_their_rank(small: tuple) -> None:
    features, labels = np.round(small[0]), small[1]
    usable = np.ptp(features, axis=1) > 0
    # Rounding makes ties; correlations are rounded so that both sides see the same ones.
    assert parc(features[usable], labels[usable]) == pytest.approx(
        naive_parc(features[usable], labels[usable]), abs=1e-3
    )


def test_thirty_two_dimensions_are_whitened(small: tuple) -> None:
    features, labels = small
    reduced = PCA(n_components=3, svd_solver="full", whiten=True).fit_transform(features)
    reduced *= np.sign(reduced[np.abs(reduced).argmax(axis=0), np.arange(3)])  # axes have no sign of their own
    assert parc(features, labels, dimensions=3) == pytest.approx(naive_parc(reduced, labels), abs=1e-6)


def test_the_scale_of_a_feature_does_not_matter(small: tuple) -> None:
    features, labels = small
    scaled = features * np.array([1.0, 100.0, 0.01, 5.0, 2.0])
    assert parc(scaled, labels) == pytest.approx(parc(features, labels), abs=1e-6)


def test_a_sample_is_taken_and_reported(small: tuple) -> None:
    said: list[str] = []
    sampled = parc(*small, limit=30, tell=said.append)
    assert sampled != parc(*small)
    assert sampled == parc(*small, limit=30)
    assert len(said) == 1
    assert "30 of 60" in said[0]


def test_a_row_without_variance_is_at_distance_one() -> None:
    features = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [1.0, 2.1, 3.0], [3.0, 2.0, 1.0], [3.0, 1.9, 1.0]])
    assert np.isfinite(parc(features, [0, 0, 0, 1, 1]))
