"""The bootstrap and the jackknife against closed forms and naive loops."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.stats import bootstrap, mean_average_precision_interval
from unseen.stats.areas import average_precisions
from unseen.stats.means import mid_p_limits
from unseen.stats.resampling import jackknife_error


def test_the_variance_of_a_mean() -> None:
    values = np.random.default_rng(0).normal(size=40)
    draws = bootstrap(lambda w: w @ values / w.sum(1), 40, resamples=8000)
    assert draws.shape == (8000,)
    assert draws.mean() == pytest.approx(values.mean(), abs=0.01)
    assert draws.std() == pytest.approx(values.std() / np.sqrt(40), rel=0.03)
    assert (bootstrap(lambda w: w @ values, 40, seed=3) == bootstrap(lambda w: w @ values, 40, seed=3)).all()


def test_counts_are_images_of_one_kind() -> None:
    kinds, counts = np.array([0.0, 0.5, 1.0]), np.array([20, 30, 50])
    draws = bootstrap(lambda w: w @ kinds / 100, 100, counts=counts, resamples=8000)
    spread = np.repeat(kinds, counts).std() / 10
    assert draws.std() == pytest.approx(spread, rel=0.03)
    with pytest.raises(DataError, match="add up"):
        bootstrap(lambda w: w @ kinds, 99, counts=counts)


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = np.random.default_rng(2).normal(size=17)
    without = np.array([np.delete(values, i).mean() for i in range(17)])
    assert jackknife_error(without) == pytest.approx(values.std(ddof=1) / np.sqrt(17))


def naive_precision(truth: np.ndarray, scores: np.ndarray) -> float:
    """Precision and recall at every threshold, one after the other."""
    found, before = 0.0, 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        chosen = scores >= threshold
        recall = truth[chosen].sum() / truth.sum()
        found += truth[chosen].mean() * (recall - before)
        before = recall
    return found


def test_average_precision_is_that_of_a_naive_loop() -> None:
    rng = np.random.default_rng(3)
    truth, scores = rng.random((80, 3)) < 0.3, rng.normal(size=(80, 3)).round(1)
    expected = [naive_precision(truth[:, i], scores[:, i]) for i in range(3)]
    assert average_precisions(truth, scores, np.ones((1, 80)))[0] == pytest.approx(expected)
    found = mean_average_precision_interval(truth, scores)
    assert found.value == pytest.approx(np.mean(expected))
    assert 0 < found.low < found.value < found.high < 1
    again = mean_average_precision_interval(truth[::-1], scores[::-1])
    assert (again.low, again.high) == pytest.approx((found.low, found.high))
    without = [
        np.mean([naive_precision(np.delete(truth[:, i], j), np.delete(scores[:, i], j)) for i in range(3)])
        for j in range(80)
    ]
    error, bias = jackknife_error(np.array(without)), 79 * (np.mean(without) - found.value)
    size, spread = 9 / (1 / truth.sum(0)).sum(), found.value * (1 - found.value)
    ratio = (size * spread * (error**2 + bias**2) * size / spread + 2) / (size * spread + 2)
    limits = mid_p_limits(found.value * size / ratio, size / ratio, 0.95)
    assert (found.low, found.high) == pytest.approx(limits)


def test_labels_of_few_images_leave_no_interval() -> None:
    truth = np.zeros((60, 2), bool)
    truth[:30, 0] = truth[:3, 1] = True
    found = mean_average_precision_interval(truth, np.random.default_rng(0).random((60, 2)))
    assert not found.known and "test images or more" in found.reason and 0 < found.value < 1
    empty = mean_average_precision_interval(np.zeros((5, 1)), np.zeros((5, 1)))
    assert np.isnan(empty.value) and not empty.known
    with pytest.raises(DataError, match="images, labels"):
        mean_average_precision_interval([1, 0], [1, 0])
