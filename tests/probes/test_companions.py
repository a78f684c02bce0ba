"""Ridge, nearest neighbours and class means against scikit-learn and naive loops."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

from unseen.probes import Settings, draw_rows
from unseen.probes.knn import fit_knn, fit_nearest_mean
from unseen.probes.ridge import fit_ridge


@pytest.fixture
def draw(sample):
    return draw_rows(sample.train_labels, seed=22)[0]


def test_ridge_equals_scikit_learn_for_every_penalty(sample, draw, workers):
    features, targets = normalize(sample.train), 2.0 * np.eye(8)[sample.train_labels] - 1.0
    penalties = [1e-5, 1e-3, 1e-1]
    found = fit_ridge(sample.rows, [draw], workers, Settings(penalties=penalties))[0]
    for penalty, trial in zip(penalties, found.trials, strict=True):
        theirs = Ridge(alpha=penalty * len(draw.tuning)).fit(features[draw.tuning], targets[draw.tuning])
        predicted = theirs.predict(features[draw.validation]).argmax(1)
        assert trial.accuracy == pytest.approx((predicted == sample.train_labels[draw.validation]).mean())
    final = Ridge(alpha=found.best["regularization"] * 400).fit(features, targets)
    np.testing.assert_allclose(found.model.weights, final.coef_, atol=1e-3, rtol=1e-3)
    np.testing.assert_allclose(found.model.bias, final.intercept_, atol=1e-3, rtol=1e-3)


def test_ridge_of_few_rows_equals_scikit_learn(make_sample, workers):
    wide = make_sample(30, 100, 3)
    draw = draw_rows(wide.train_labels, seed=22)[0]
    found = fit_ridge(wide.rows, [draw], workers, Settings())[0]
    theirs = Ridge(alpha=found.best["regularization"] * 30, solver="cholesky").fit(
        normalize(wide.train).astype(np.float64), 2.0 * np.eye(3)[wide.train_labels] - 1.0
    )
    np.testing.assert_allclose(found.model.weights, theirs.coef_, atol=1e-4, rtol=1e-3)
    np.testing.assert_allclose(found.model.bias, theirs.intercept_, atol=1e-4, rtol=1e-3)


def naive_votes(train, labels, query, k, temperature, classes):
    similarity = train @ query
    nearest = np.argsort(-similarity, kind="stable")[:k]
    votes = np.zeros(classes)
    for index in nearest:
        votes[labels[index]] += np.exp(similarity[index] / temperature)
    return votes / votes.sum()


def test_knn_equals_a_naive_loop(sample, draw, workers):
    found = fit_knn(sample.rows, [draw], workers, Settings(neighbors=(1, 7, 30), temperature=0.1))[0]
    features = normalize(sample.train).astype(np.float64)
    for trial in found.trials:
        votes = [
            naive_votes(
                features[draw.tuning],
                sample.train_labels[draw.tuning],
                features[row],
                int(trial.parameters["k"]),
                0.1,
                8,
            )
            for row in draw.validation
        ]
        predicted = np.argmax(votes, axis=1)
        assert trial.accuracy == pytest.approx((predicted == sample.train_labels[draw.validation]).mean(), abs=0.013)
    queries = torch.from_numpy(normalize(sample.test[:20]))
    expected = [
        naive_votes(features, sample.train_labels, q, int(found.best["k"]), 0.1, 8) for q in queries.double().numpy()
    ]
    np.testing.assert_allclose(found.model.probabilities(found.model.scores(queries.double())), expected, atol=1e-5)


def test_more_neighbours_than_images_are_cut(sample, workers):
    few = draw_rows(sample.train_labels, seed=22, shots=(1,))[0]
    found = fit_knn(sample.rows, [few], workers, Settings())[0]
    assert [trial.parameters["k"] for trial in found.trials] == [1, 5, 8]


def test_nearest_mean_equals_scikit_learn_on_the_sphere(sample, draw, workers):
    found = fit_nearest_mean(sample.rows, [draw], workers, Settings())[0]
    features = normalize(sample.train)
    means = np.stack([features[sample.train_labels == c].mean(0) for c in range(8)])
    theirs = KNeighborsClassifier(1).fit(normalize(means), np.arange(8)).predict(normalize(sample.test))
    mine = found.model.scores(torch.from_numpy(normalize(sample.test))).argmax(1)
    np.testing.assert_array_equal(mine, theirs)
    probabilities = found.model.probabilities(found.model.scores(torch.from_numpy(sample.test)))
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-5)
