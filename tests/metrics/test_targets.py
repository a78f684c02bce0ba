"""Label ranking precision and average precision of several labels per image against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, label_ranking_average_precision_score

from unseen.metrics.accuracy import label_ranking_precision
from unseen.stats.areas import average_precisions

ONE = np.ones((1, 80))


@pytest.fixture
def labels() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    truth = rng.random((80, 6)) < (0.5, 0.3, 0.1, 0.05, 0.9, 0.0)
    return truth, np.round(truth + rng.normal(size=(80, 6)), 1)  # rounded: equal scores occur


def test_several_labels(labels: tuple[np.ndarray, np.ndarray]) -> None:
    truth, scores = labels
    found = average_precisions(truth, scores, ONE)[0]
    for label in range(5):
        assert found[label] == pytest.approx(average_precision_score(truth[:, label], scores[:, label]))
    assert np.isnan(found[5]), "no image has it"
    some = truth.any(1) & ~truth.all(1)
    assert label_ranking_precision(truth, scores)[some].mean() == pytest.approx(
        label_ranking_average_precision_score(truth[some], scores[some])
    )


def test_weights_are_repeated_images(labels: tuple[np.ndarray, np.ndarray]) -> None:
    truth, scores = labels
    rows = np.random.default_rng(0).integers(0, 80, 80)
    w = np.bincount(rows, minlength=80)[None].astype(float)
    one_by_one = average_precisions(truth[rows], scores[rows], ONE)
    np.testing.assert_allclose(average_precisions(truth, scores, w), one_by_one)
