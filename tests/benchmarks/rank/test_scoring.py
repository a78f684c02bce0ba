"""The expected accuracy: against scikit-learn and new images, its interval by hand, and on simulated data sets."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from unseen.benchmarks.rank import expected
from unseen.benchmarks.rank.details import RankDetails
from unseen.benchmarks.rank.expected import (
    SCATTER,
    Outcomes,
    class_shares,
    cross_validated,
    estimates,
    expect,
    expected_accuracy,
    expected_interval,
    near_duplicates,
    packed,
    shrunk_gain,
    spread,
    unpacked,
)
from unseen.core.errors import DataError
from unseen.stats import accuracy_interval, decide, paired_difference

BENCH = Path(__file__).parents[3] / "bench"


def cloud(images: int, gap: float, seed: int = 0, classes: int = 6, width: int = 20) -> tuple[np.ndarray, np.ndarray]:
    fixed, generator = np.random.default_rng(9), np.random.default_rng(seed)
    labels = generator.integers(classes, size=images)
    means = gap * fixed.normal(size=(classes, width))
    return (means[labels] + generator.normal(size=(images, width))).astype(np.float32), labels


def stored(hits: np.ndarray, **more: object) -> RankDetails:
    found = RankDetails(outcomes=in_text(hits))
    return replace(found, **more)  # type: ignore[arg-type]


def in_text(outcomes: np.ndarray) -> str:
    return packed(outcomes, np.arange(len(outcomes)), len(outcomes))


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
    hits = cross_validated(features, np.append(labels[:-1], 99), "class").outcomes
    assert np.isnan(hits[-1]), "the only image of its class is never held out"
    assert set(hits[:-1].tolist()) == {0.0, 1.0}
    with pytest.raises(DataError, match="more images than classes"):
        cross_validated(features, np.arange(400), "class")
    with pytest.raises(DataError, match="no class has two images"):
        cross_validated(features[:4], np.arange(4) // 2, "class", groups=np.arange(4) // 2)


def test_every_image_of_a_large_set_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = cloud(6000, 0.3)
    assert np.isfinite(cross_validated(features, labels, "class").outcomes).all()
    monkeypatch.setattr(expected, "LARGEST", 1)
    assert np.isfinite(cross_validated(features, labels, "class").outcomes).all()


def test_ridge_gives_large_problems_the_same_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = cloud(600, 0.5)
    logistic = expected_accuracy(features, labels)
    monkeypatch.setattr(expected, "LARGEST", 1)
    assert expected_accuracy(features, labels) == pytest.approx(logistic, abs=0.04)
    wide = np.concatenate([features, np.random.default_rng(0).normal(size=(600, 700))], axis=1)
    assert expected_accuracy(wide, labels) > 0.4
    assert expected_accuracy(features, np.random.default_rng(0).permutation(labels)) < 0.3


def test_copies_share_a_fold_and_are_counted() -> None:
    features, labels = cloud(300, 0.3, classes=10)
    generator = np.random.default_rng(0)
    chosen = generator.permutation(300)[:100]
    copied = features[chosen] + 0.02 * generator.normal(size=(100, features.shape[1])).astype(np.float32)
    both, wanted = np.concatenate([features, copied]), np.concatenate([labels, labels[chosen]])
    found = cross_validated(both, wanted, "class")
    assert found.copies == 100
    assert (found.groups[300:] == found.groups[chosen]).all() and len(np.unique(found.groups)) == 300
    alone = expected_accuracy(features, labels)
    assert expect(found)[0] == pytest.approx(alone, abs=0.05)
    assert expect(found)[1] == pytest.approx(expect(cross_validated(features, labels, "class"))[1], rel=0.2), "no more"
    leaked = cross_val_score(LogisticRegression(C=100, max_iter=2000), both, wanted, cv=5).mean()
    assert leaked > alone + 0.08, "with copies in other folds the estimate would be too high"
    assert near_duplicates(features)[1] == 0


def test_groups_share_a_fold() -> None:
    """Frames of one scene: without groups their labels are recognised by the scene."""
    generator = np.random.default_rng(2)
    scenes = generator.normal(size=(60, 30))
    labels, groups = np.repeat(np.arange(60) % 3, 5), np.repeat(np.arange(60), 5)
    frames = (scenes[groups] + 0.7 * generator.normal(size=(300, 30))).astype(np.float32)
    assert expect(cross_validated(frames, labels, "class"))[0] > 0.6
    found = cross_validated(frames, labels, "class", groups=groups)
    value, size = expect(found)
    assert value == pytest.approx(1 / 3, abs=0.17) and size <= 75, "hardly more than groups"
    assert all(len(np.unique(found.seen[groups == g])) == 1 for g in range(60))


def test_balanced_accuracy_weights_classes_equally() -> None:
    index = np.repeat([0, 1], [90, 10])
    found = Outcomes(
        np.tile([1.0, 1.0, 0.0], 34)[:100], index, np.arange(100), np.repeat([72, 8], [90, 10]), 0.8, 0.0, 1e-9
    )
    assert expect(found)[0] == pytest.approx(2 / 3, abs=0.02)
    assert expect(found, balanced=True)[0] == pytest.approx((2 / 3 + 0.7) / 2, abs=0.01)
    assert expect(found, balanced=True)[1] < expect(found)[1], "ten images decide on half of the value"


def test_classes_of_equal_counts_by_chance_have_equal_shares() -> None:
    counts = np.random.default_rng(0).multinomial(300, np.full(100, 0.01))
    index = np.repeat(np.arange(100), counts)
    shares, _ = class_shares(np.maximum(counts, 1), index)
    assert shares.sum() == pytest.approx(1) and np.ptp(shares) < 0.2 * np.ptp(counts / 300), "by chance"
    two, weight = class_shares(np.array([9, 7]), np.repeat([0, 1], [9, 7]))
    assert two.tolist() == [9 / 16, 7 / 16] and weight == 1, "two counts do not show how much shares vary"
    tail = np.array([500, 100, 20, 4])
    np.testing.assert_allclose(class_shares(tail, np.repeat(np.arange(4), tail))[0], tail / tail.sum(), atol=0.01)


def test_the_gain_of_more_images_is_shrunk_towards_the_usual_one() -> None:
    usual = shrunk_gain(0.6, math.nan, math.inf)[0]
    assert usual == pytest.approx(1.8 * 0.24)
    measured, error = shrunk_gain(0.6, 0.2, 0.001)
    assert measured == pytest.approx(0.2, abs=0.001) and error <= 0.001
    assert 0.2 < shrunk_gain(0.6, 0.2, 0.1)[0] < usual
    # One of three images of every class is held out: the accuracy with three is extrapolated from two and one.
    third = np.repeat(np.arange(30), 3)
    found = Outcomes(np.tile([1.0, 0.0], 45), third, np.arange(90), np.full(90, 2), 2 / 3, 0.4, 0.001)
    assert expect(found)[0] == pytest.approx(0.5 + 0.4 * (2**-0.5 - 3**-0.5), abs=0.002)


def test_what_is_stored_can_be_read() -> None:
    outcomes = np.array([1.0, math.nan, 0.25])
    found = unpacked(packed(outcomes, np.array([0, 1, 3]), 5))
    np.testing.assert_array_equal(found, [1, math.nan, math.nan, 0.25, math.nan])
    numbers = np.array([0, 70_000, 3])
    np.testing.assert_array_equal(unpacked(packed(numbers, np.arange(3), 3)), numbers)
    assert len(packed(np.arange(50_000) % 3 > 0, np.arange(50_000), 50_000)) < 50_000


def test_two_candidates_by_hand() -> None:
    generator = np.random.default_rng(0)
    hits = (generator.random((2, 500)) < [[0.8], [0.6]]).astype(float)
    size = 500 / spread(500, math.inf, 0.7) ** 2
    decision = decide(estimates({"a": stored(hits[0], size=size), "b": stored(hits[1], size=size)}))
    assert decision.order == ("a", "b") and decision.best == "a"
    wanted = paired_difference(hits[0], hits[1], error_scale=SCATTER)
    assert decision.pairs["a", "b"].p == pytest.approx(wanted.p)
    assert (decision.behind["b"].low, decision.behind["b"].high) == pytest.approx((wanted.low, wanted.high))
    error = SCATTER * (hits[0] - hits[1]).std() / np.sqrt(500)
    assert decision.behind["b"].high - decision.behind["b"].value == pytest.approx(1.96 * error, rel=0.05)
    value = decision.intervals["a"]
    half = 1.96 * np.sqrt(value.value * (1 - value.value) / size)
    assert (value.high - value.low) / 2 == pytest.approx(half, rel=0.03)


@pytest.mark.parametrize("value", [0.0, 0.3, 0.75, 0.9, 1.0])
def test_outcomes_are_moved_to_the_expected_value(value: float) -> None:
    hits = np.repeat([1.0, 0.0], [75, 25])
    found = estimates({"a": stored(hits, expected=value, size=60.0)})["a"]
    assert np.mean(found.outcomes) == pytest.approx(value) and found.interval.value == pytest.approx(value)
    assert np.min(found.outcomes) >= 0 and np.max(found.outcomes) <= 1
    labels = in_text(np.repeat([0, 1], [80, 20]))
    balanced = estimates({"a": stored(hits, expected=value, size=60.0, balanced=True, labels=labels)})["a"]
    assert decide({"a": balanced}).intervals["a"].value == pytest.approx(value)


def test_samples_have_the_error_of_differences_and_not_that_of_the_widened_interval() -> None:
    """The share of first places, against the normal distribution by hand."""
    from scipy.stats import norm

    hits = (np.random.default_rng(2).random((2, 150)) < [[0.72], [0.66]]).astype(float)
    first, second = sorted(hits, key=lambda row: -row.mean())
    found = decide(estimates({"a": stored(first), "b": stored(second)})).best_share["b"]
    z = (first.mean() - second.mean()) / (SCATTER * (first - second).std() / np.sqrt(150))
    assert found == pytest.approx(norm.sf(z), abs=0.03)


def test_outcomes_that_are_all_right_have_an_interval_and_gaps_are_dropped() -> None:
    all_right = expected_interval(1.0, 30.0, np.ones(48))
    assert all_right.high == 1.0 and 0.8 < all_right.low < accuracy_interval(np.ones(48)).low
    same = decide(estimates({"a": stored(np.ones(30)), "b": stored(np.ones(30))}))
    assert same.possibly_best == ("a", "b")
    assert same.best_share["a"] == pytest.approx(0.5, abs=0.05)
    gaps = estimates({"a": stored(np.array([1.0, np.nan, 0.0, 1.0])), "b": stored(np.array([1.0, 0.0, 1.0, 0.0]))})
    assert decide(gaps).intervals["a"].value == pytest.approx(2 / 3)
    assert estimates({}) == {}
    below = expected_interval(-0.5, 300.0, np.random.default_rng(0).normal(-0.5, 1, 400))  # R^2 may be below 0
    assert below.low < -0.5 < below.high


@pytest.mark.slow
def test_calibration_at_reduced_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """bench/rank_calibration.py has 200 data sets of real features per condition; here 24 of simulated ones."""
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    import rank_calibration

    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 60)
    features = generator.normal(size=(40, 64))[labels] + 1.8 * generator.normal(size=(2400, 64))
    stored = {"features": features, "labels": labels, "split": np.zeros(2400, np.int64)}
    monkeypatch.setattr(rank_calibration, "load", lambda *_: stored)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for kind in ("exact", "random"):
            own = rank_calibration.Condition("simulated", 40, 3, kind)
            rows = [rank_calibration.one(own, tmp_path, seed) for seed in range(24)]
            truth = np.array([row["truth"] for row in rows])
            values, intervals = [], []
            for row in rows:
                known = row["found"].outcomes[np.isfinite(row["found"].outcomes)]
                values.append(expected.expect(row["found"])[0])
                intervals.append(expected.expected_interval(*expected.expect(row["found"]), known))
            before = np.array([np.nanmean(row["found"].outcomes) for row in rows])
            found = {
                "bias": 100 * (np.array(values) - truth).mean(),
                "before": 100 * (before - truth).mean(),
                "covered": 100 * np.mean([i.low <= t <= i.high for i, t in zip(intervals, truth, strict=True)]),
            }
            # Isotropic clouds gain more from further images than real features do: a part of the bias remains.
            assert abs(found["bias"]) < max(3, 0.6 * abs(found["before"])) and found["covered"] >= 70, found
    finally:
        torch.set_num_threads(threads)
