"""Measures of numbers and of several labels against scikit-learn and scipy, and what their intervals cover."""

import numpy as np
import pytest
from scipy.stats import pearsonr, rankdata, spearmanr
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    label_ranking_average_precision_score,
    mean_absolute_error,
    r2_score,
)

from unseen.metrics import targets as ours

ONE = np.ones((1, 80))


@pytest.fixture
def numbers() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    y = 1000 + rng.normal(size=80)
    return y, y + rng.normal(size=80)


@pytest.fixture
def labels() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    truth = rng.random((80, 6)) < (0.5, 0.3, 0.1, 0.05, 0.9, 0.0)
    return truth, np.round(truth + rng.normal(size=(80, 6)), 1)  # rounded: equal scores occur


def test_numbers(numbers: tuple[np.ndarray, np.ndarray]) -> None:
    y, p = numbers
    assert ours.r_squared(y, p, ONE)[0] == pytest.approx(r2_score(y, p), abs=1e-9)
    assert ours.mean_absolute_error(y, p, ONE)[0] == pytest.approx(mean_absolute_error(y, p))
    assert ours.correlation(y, p, ONE)[0] == pytest.approx(pearsonr(y, p)[0])
    assert ours.correlation(rankdata(y), rankdata(p), ONE)[0] == pytest.approx(spearmanr(y, p)[0])


def test_several_labels(labels: tuple[np.ndarray, np.ndarray]) -> None:
    truth, scores = labels
    found = ours.average_precisions(truth, scores, ONE)[0]
    for label in range(5):
        assert found[label] == pytest.approx(average_precision_score(truth[:, label], scores[:, label]))
    assert np.isnan(found[5]), "no image has it"
    macro, micro = ours.f1_scores(truth, scores > 0.5, ONE)
    assert macro[0] == pytest.approx(f1_score(truth[:, :5], scores[:, :5] > 0.5, average="macro"))
    assert micro[0] == pytest.approx(f1_score(truth, scores > 0.5, average="micro"))
    some = truth.any(1) & ~truth.all(1)
    assert ours.label_ranking_precision(truth, scores)[some].mean() == pytest.approx(
        label_ranking_average_precision_score(truth[some], scores[some])
    )


def test_weights_are_repeated_images(labels: tuple[np.ndarray, np.ndarray]) -> None:
    truth, scores = labels
    rows = np.random.default_rng(0).integers(0, 80, 80)
    w = np.bincount(rows, minlength=80)[None].astype(float)
    one_by_one = ours.average_precisions(truth[rows], scores[rows], ONE)
    np.testing.assert_allclose(ours.average_precisions(truth, scores, w), one_by_one)


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(60):
        y = rng.normal(size=300)
        p = 0.7 * y + rng.normal(size=300) * 0.5
        found = ours.resampled(lambda w, y=y, p=p: ours.correlation(y, p, w), 300)
        inside += 0.7 / np.sqrt(0.49 + 0.25) in found
    assert inside >= 51  # of 60; 57 are expected, fewer than 51 once in 200


def test_means_leave_out_what_is_not_known() -> None:
    values = np.array([[1.0, np.nan, 3.0], [np.nan, 0.25, np.nan], [np.nan] * 3])
    np.testing.assert_allclose(ours.mean_known(values), [2.0, 0.25, np.nan])
