"""The expected accuracy: against scikit-learn and new images, its interval by hand, and on simulated data sets."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import label_ranking_average_precision_score, r2_score
from sklearn.model_selection import cross_val_score

from unseen.benchmarks.rank import scoring
from unseen.benchmarks.rank.scoring import (
    SCATTER,
    estimates,
    expected_accuracy,
    expected_interval,
    left_out_hits,
    spread,
)
from unseen.core.errors import DataError
from unseen.ranking.ridge import FOLDS, PENALTIES, label_parts, left_out_predictions, value_parts
from unseen.stats import accuracy_interval, decide, paired_difference

BENCH = Path(__file__).parents[3] / "bench"


def cloud(images: int, gap: float, seed: int = 0, classes: int = 6, width: int = 20) -> tuple[np.ndarray, np.ndarray]:
    fixed, generator = np.random.default_rng(9), np.random.default_rng(seed)
    labels = generator.integers(classes, size=images)
    means = gap * fixed.normal(size=(classes, width))
    return (means[labels] + generator.normal(size=(images, width))).astype(np.float32), labels


def test_the_expected_accuracy_agrees_with_scikit_learn_and_new_images() -> None:
    features, labels = cloud(600, 0.35)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    theirs = cross_val_score(LogisticRegression(C=10, max_iter=2000), unit, labels, cv=5).mean()
    found = expected_accuracy(features, labels)
    assert found == pytest.approx(theirs, abs=0.03)
    others, wanted = cloud(5000, 0.35, seed=1)
    model = LogisticRegression(C=10, max_iter=2000).fit(unit, labels)
    fresh = model.score(others / np.linalg.norm(others, axis=1, keepdims=True), wanted)
    assert found == pytest.approx(fresh, abs=0.04)


def test_shuffled_labels_are_at_chance_and_every_image_is_evaluated_once() -> None:
    features, labels = cloud(400, 0.5)
    shuffled = np.random.default_rng(0).permutation(labels)
    assert expected_accuracy(features, shuffled) == pytest.approx(1 / 6, abs=0.07)
    hits = left_out_hits(features, np.append(labels[:-1], 99))  # the only image of its class is never left out
    assert np.isnan(hits[-1])
    assert set(hits[:-1].tolist()) == {0.0, 1.0}
    with pytest.raises(DataError, match="more images than classes"):
        left_out_hits(features, np.arange(400))


def test_ridge_gives_large_problems_the_same_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = cloud(600, 0.5)
    logistic = expected_accuracy(features, labels)
    monkeypatch.setattr(scoring, "LARGEST", 1)
    assert expected_accuracy(features, labels) == pytest.approx(logistic, abs=0.04)
    wide = np.concatenate([features, np.random.default_rng(0).normal(size=(600, 700))], axis=1)
    assert expected_accuracy(wide, labels) > 0.4
    assert expected_accuracy(features, np.random.default_rng(0).permutation(labels)) < 0.3


@pytest.mark.parametrize("width", [8, 300])
def test_ridge_is_that_of_scikit_learn(width: int) -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(120, width))
    values = features[:, :5].sum(axis=1) + generator.normal(size=120)
    folds = np.random.default_rng([0, 5]).permutation(120) % FOLDS
    losses, predictions = [], []
    for penalty in PENALTIES:
        found = np.empty(120)
        for fold in range(FOLDS):
            held = folds == fold
            rows = features[~held] - features[~held].mean(axis=0)
            scale = (rows**2).sum() / min(rows.shape)
            found[held] = Ridge(alpha=penalty * scale).fit(features[~held], values[~held]).predict(features[held])
        losses.append(((found - values) ** 2).mean())
        predictions.append(found)
    best = predictions[int(np.argmin(losses))]
    np.testing.assert_allclose(left_out_predictions(features, values[:, None])[:, 0], best, atol=1e-6)
    assert value_parts(features, values).mean() == pytest.approx(r2_score(values, best), abs=1e-6)


def test_several_labels_by_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(150, 10))
    targets = (features[:, :4] + 0.5 * generator.normal(size=(150, 4)) > 0.3).astype(float)
    scores = left_out_predictions(features, targets)
    expected_value = label_ranking_average_precision_score(targets, scores)
    assert label_parts(features, targets).mean() == pytest.approx(expected_value, abs=1e-9)
    with pytest.raises(DataError, match="0 and 1"):
        label_parts(features, targets + 0.5)
    with pytest.raises(DataError, match="constant"):
        value_parts(features, np.ones(150))
    with pytest.raises(DataError, match="too few"):
        value_parts(features[:5], np.arange(5))


def test_two_candidates_by_hand() -> None:
    generator = np.random.default_rng(0)
    hits = (generator.random((2, 500)) < [[0.8], [0.6]]).astype(float)
    decision = decide(estimates({"a": hits[0], "b": hits[1]}))
    assert decision.order == ("a", "b") and decision.best == "a"
    expected = paired_difference(hits[0], hits[1], error_scale=SCATTER)
    assert decision.pairs["a", "b"].p == pytest.approx(expected.p)
    assert (decision.behind["b"].low, decision.behind["b"].high) == pytest.approx((expected.low, expected.high))
    error = SCATTER * (hits[0] - hits[1]).std() / np.sqrt(500)
    assert decision.behind["b"].high - decision.behind["b"].value == pytest.approx(1.96 * error, rel=0.05)
    value = decision.intervals["a"]
    half = 1.96 * spread(500) * np.sqrt(value.value * (1 - value.value) / 500)
    assert (value.high - value.low) / 2 == pytest.approx(half, rel=0.03)


def test_samples_have_the_error_of_differences_and_not_that_of_the_widened_interval() -> None:
    """The share of first places, against the normal distribution by hand."""
    from scipy.stats import norm

    hits = (np.random.default_rng(2).random((2, 150)) < [[0.72], [0.66]]).astype(float)
    first, second = sorted(hits, key=lambda row: -row.mean())
    found = decide(estimates({"a": first, "b": second})).best_share["b"]
    z = (first.mean() - second.mean()) / (SCATTER * (first - second).std() / np.sqrt(150))
    assert found == pytest.approx(norm.sf(z), abs=0.03)


def test_outcomes_that_are_all_right_have_an_interval_and_gaps_are_dropped() -> None:
    all_right = expected_interval(np.ones(48))
    assert all_right.high == 1.0 and 0.8 < all_right.low < accuracy_interval(np.ones(48)).low
    same = decide(estimates({"a": np.ones(30), "b": np.ones(30)}))
    assert same.possibly_best == ("a", "b")
    assert same.best_share["a"] == pytest.approx(0.5, abs=0.05)
    gaps = estimates({"a": np.array([1.0, np.nan, 0.0, 1.0]), "b": np.array([1.0, 0.0, 1.0, 0.0])})
    assert decide(gaps).intervals["a"].value == pytest.approx(2 / 3)
    assert estimates({}) == {}
    below = expected_interval(np.random.default_rng(0).normal(-0.5, 1, 400))  # R^2 may be below 0
    assert below.low < -0.5 < below.high


@pytest.mark.slow
def test_calibration_at_reduced_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """bench/rank_calibration.py in full has 200 sets per line; here 40, with the error that 40 have."""
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        from rank_calibration import World, count

        equal = count(World(5, 0.45, (0.9, 0.9), 200), 40)
        apart = count(World(10, 0.8, (0.7, 0.915), 1000), 10, fresh=False)
    finally:
        torch.set_num_threads(threads)
    assert equal.clear <= 0.10 + 2 * np.sqrt(0.1 * 0.9 / 40)
    assert equal.covered >= 0.90 - 2 * np.sqrt(0.1 * 0.9 / 80)
    assert apart.right >= 0.80 - 2 * np.sqrt(0.2 * 0.8 / 10)
    assert apart.right > equal.clear
