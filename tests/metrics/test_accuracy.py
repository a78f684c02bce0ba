"""Accuracies against scikit-learn and naive loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, top_k_accuracy_score

from unseen.core.errors import DataError
from unseen.metrics import accuracy, mean_per_class_accuracy, per_class_accuracy, top_k_accuracy, top_k_correct

LABELS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=60)


@given(LABELS)
def test_accuracy_equals_scikit_learn(pairs):
    labels, predictions = map(np.array, zip(*pairs, strict=True))
    assert accuracy(labels, predictions) == pytest.approx(accuracy_score(labels, predictions))


@given(LABELS)
def test_per_class_accuracy_equals_a_loop(pairs):
    labels, predictions = map(np.array, zip(*pairs, strict=True))
    classes = np.array([3, 0, 1, 2, 4, 5, 9])
    found = per_class_accuracy(labels, predictions, classes)
    for value, name in zip(found, classes, strict=True):
        mine = labels == name
        expected = (predictions[mine] == name).mean() if mine.any() else np.nan
        assert value == pytest.approx(expected, nan_ok=True)


def test_mean_per_class_accuracy_equals_balanced_accuracy():
    generator = np.random.default_rng(0)
    labels, predictions = generator.integers(0, 4, (2, 200))
    assert mean_per_class_accuracy(labels, predictions) == pytest.approx(balanced_accuracy_score(labels, predictions))


def test_labels_may_be_strings():
    labels = np.array(["cat", "dog", "dog", "owl"])
    predictions = np.array(["cat", "dog", "owl", "cat"])
    assert accuracy(labels, predictions) == 0.5
    np.testing.assert_array_equal(per_class_accuracy(labels, predictions), [1.0, 0.5, 0.0])


def test_a_label_beyond_the_listed_classes_is_left_out():
    np.testing.assert_array_equal(per_class_accuracy([0, 7, 0], [0, 7, 1], [0]), [0.5])


@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_k_equals_scikit_learn(k):
    generator = np.random.default_rng(1)
    labels, scores = generator.integers(0, 8, 300), generator.standard_normal((300, 8))
    expected = top_k_accuracy_score(labels, scores, k=k, labels=np.arange(8))
    assert top_k_accuracy(labels, scores, np.arange(8), k) == pytest.approx(expected)


def test_ties_are_ranked_as_argmax_does():
    generator = np.random.default_rng(2)
    scores = generator.integers(0, 3, (400, 6)).astype(float)
    labels = generator.integers(0, 6, 400)
    np.testing.assert_array_equal(top_k_correct(labels, scores, np.arange(6), 1), scores.argmax(1) == labels)


def test_an_unknown_label_is_never_right():
    assert top_k_correct([5, 1], np.zeros((2, 3)), [0, 1, 2], 3).tolist() == [False, True]


@pytest.mark.parametrize("pair", [([1, 2], [1]), ([], []), ([[1]], [[1]])])
def test_lists_that_do_not_pair_are_refused(pair):
    with pytest.raises(DataError, match="equal length"):
        accuracy(*pair)


def test_scores_of_the_wrong_shape_are_refused():
    with pytest.raises(DataError, match="shape"):
        top_k_accuracy([0, 1], np.zeros((2, 2)), [0, 1, 2])
