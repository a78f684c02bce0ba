"""Where scores meet their limits: ties, rows without length, classes without variance, sums that are nearly one."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.ranking import gbc, hscore, knn, leep, linear, logme, parc, regularised_hscore
from unseen.ranking.scores.logme import logme_targets


def test_evidence_of_classes_is_that_of_their_indicators(small: tuple) -> None:
    features, labels = small
    assert logme_targets(features, np.eye(3)[labels]) == pytest.approx(logme(features, labels), abs=1e-9)
    each = [logme_targets(features, (labels == c).astype(float)) for c in range(3)]
    assert np.mean(each) == pytest.approx(logme(features, labels), abs=1e-9)


def test_evidence_of_values_grows_with_what_features_say_of_them(small: tuple) -> None:
    features = small[0]
    noise = np.random.default_rng(0).normal(size=60)
    near, far = (logme_targets(features, features[:, 0] + width * noise) for width in (0.1, 1.0))
    assert near > far


def test_a_vote_that_is_tied_goes_to_the_nearer_class() -> None:
    angles = np.radians([0, 10, 21, 90])  # the first row's neighbours: its own class at 10 degrees, another at 21
    rows = np.column_stack([np.cos(angles), np.sin(angles)])
    # Rows 0 and 1 are right by the nearer neighbour; 2 has both votes against it, 3 the nearer one for it.
    assert knn(rows, [0, 0, 1, 1], neighbours=2) == 0.75
    assert knn(5 * rows, [1, 1, 0, 0], neighbours=2) == 0.75


def test_rows_of_zeros_are_accepted_and_single_precision_does_not_change_the_score(small: tuple) -> None:
    features, labels = small
    assert knn(features.astype(np.float32), labels) == knn(features, labels)
    assert 0 <= knn(np.concatenate([features, np.zeros((1, 5))]), [*labels, 0]) <= 1


def test_equal_distances_have_no_correlation() -> None:
    """Two heaps of equal rows are distinguished; rows that are all equally far from one another are not."""
    assert parc(np.repeat([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0]], 3, axis=0), [0] * 3 + [1] * 3) == pytest.approx(1.0)
    assert parc(np.eye(4), [0, 0, 1, 1]) == pytest.approx(0.0, abs=1e-6)


def test_a_class_without_variance_has_a_ten_thousandth_of_the_average() -> None:
    still, moving = np.zeros((4, 1)), np.array([[1.0], [3.0], [1.0], [3.0]])
    rows = np.concatenate([still, moving])
    floor, shared = 1e-4 * rows.var(), (1 + 1e-4 * rows.var()) / 2
    distance = 2.0**2 / shared / 8 + 0.5 * np.log(shared / np.sqrt(floor))
    assert gbc(rows, [0] * 4 + [1] * 4, dimensions=None) == pytest.approx(-2 * np.exp(-distance), rel=1e-9)


def test_a_covariance_that_is_a_multiple_of_the_identity_is_not_shrunk() -> None:
    rows = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    for labels in ([0, 1, 0, 1], [0, 1, 1, 0]):
        assert regularised_hscore(rows, labels) == pytest.approx(hscore(rows, labels), abs=1e-9)


def test_probabilities_may_miss_one_by_a_hundredth() -> None:
    labels, exact = [0, 1, 0, 1], np.array([[0.7, 0.3], [0.2, 0.8]] * 2)
    for factor in (0.992, 1.008):
        assert leep(factor * exact, labels) == pytest.approx(leep(exact, labels), abs=1e-12)
    for factor, total in ((0.98, "0.98"), (1.02, "1.02")):
        given = exact * np.array([1.0, 1.0, factor, 1.0])[:, None]
        with pytest.raises(DataError, match=f"row 2 sums to {total}"):
            leep(given, labels)


def test_a_column_without_spread_leaves_a_linear_classifier_as_it_is(small: tuple) -> None:
    features, labels = small
    wider = np.concatenate([features, np.full((60, 1), 3.0)], axis=1)
    for epochs in (None, 1):
        assert linear(wider, labels, epochs=epochs) == linear(features, labels, epochs=epochs)
