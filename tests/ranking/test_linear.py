"""The linear classifier against scikit-learn (converged) and against SGD written out (epochs)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from unseen.core.errors import DataError, UsageError
from unseen.ranking import linear
from unseen.ranking.inputs import split_rows, stratified_rows
from unseen.ranking.scores.linear import converge, descend


def test_converged_is_scikit_learn_s_logistic_regression(small: tuple) -> None:
    features, labels = small
    train, test = split_rows(labels, 0.2, 0)
    scaler = StandardScaler().fit(features[train])
    rows = scaler.transform(features[train])
    reference = LogisticRegression(C=1 / (1e-3 * len(train)), tol=1e-10, max_iter=5000).fit(rows, labels[train])
    np.testing.assert_allclose(converge(rows, labels[train], 3).coef_, reference.coef_, atol=2e-3)
    assert linear(features, labels) == reference.score(scaler.transform(features[test]), labels[test])


def test_two_classes_have_the_minimum_of_two_vectors_of_weights(small: tuple) -> None:
    features, labels = small[0], small[1] % 2

    def loss(flat: np.ndarray) -> float:
        theta = flat.reshape(-1, 2)
        scores = log_softmax(features @ theta[:-1] + theta[-1], axis=1)
        return -scores[np.arange(len(labels)), labels].mean() + 0.5e-3 * (theta[:-1] ** 2).sum()

    best = minimize(loss, np.zeros(2 * (features.shape[1] + 1)), options={"gtol": 1e-6}).x.reshape(-1, 2)
    found = converge(features, labels, 2)
    np.testing.assert_allclose(found.coef_[0], best[:-1, 1] - best[:-1, 0], atol=1e-2)


def test_epochs_are_sgd_with_momentum_written_out(small: tuple) -> None:
    features, labels = small
    generator = np.random.default_rng(7)
    weights, bias = np.zeros((5, 3)), np.zeros(3)
    moved_weights, moved_bias = np.zeros((5, 3)), np.zeros(3)
    for _ in range(3):
        order = generator.permutation(len(features))
        for begin in range(0, len(features), 64):
            slope_weights, slope_bias = np.zeros((5, 3)), np.zeros(3)
            batch = order[begin : begin + 64]
            for i in batch:
                scores = features[i] @ weights + bias
                chances = np.exp(scores) / np.exp(scores).sum()
                chances[labels[i]] -= 1
                slope_weights += np.outer(features[i], chances) / len(batch)
                slope_bias += chances / len(batch)
            moved_weights, moved_bias = 0.9 * moved_weights + slope_weights, 0.9 * moved_bias + slope_bias
            weights, bias = weights - 0.01 * moved_weights, bias - 0.01 * moved_bias
    theta = descend(features, labels, 3, 3, 7)
    np.testing.assert_allclose(theta[:-1], weights, atol=1e-9)
    np.testing.assert_allclose(theta[-1], bias, atol=1e-9)


def test_invalid_input_is_refused(small: tuple) -> None:
    with pytest.raises(UsageError, match="at least one epoch"):
        linear(*small, epochs=0)
    with pytest.raises(DataError, match="more images than classes"):
        linear(np.eye(4), [0, 1, 2, 3])


def test_samples_keep_classes_in_proportion() -> None:
    labels = np.repeat([0, 1, 2], [100, 50, 10])
    train, test = split_rows(labels, 0.2, 3)
    assert np.bincount(labels[test]).tolist() == [20, 10, 2]
    assert sorted([*train, *test]) == list(range(160))
    assert np.bincount(labels[stratified_rows(labels, 80, 1)]).tolist() == [50, 25, 5]
    assert np.bincount(labels[stratified_rows(labels, 3, 1)]).tolist() == [1, 1, 1]
    assert len(stratified_rows(labels, 1000, 1)) == 160
