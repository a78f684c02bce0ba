"""Folds, the rule that chooses a penalty, temperature, and cross-validated accuracy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss

from unseen.probes.sampling import (
    TRAINS_ONLY,
    choose_penalty,
    draw_folds,
    estimate_accuracy,
    fit_temperature,
    prediction_interval,
)

SIZES = st.lists(st.integers(1, 30), min_size=2, max_size=8)


@given(SIZES, st.integers(0, 100))
def test_folds_are_stratified_and_equal(sizes, seed):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    folds, fits = draw_folds(labels, seed)
    assert fits == (0 if max(sizes) < 2 else min(5, max(sizes)))
    for name, size in enumerate(sizes):
        own = folds[labels == name]
        if size == 1:
            assert own[0] == TRAINS_ONLY
        else:
            counts = np.bincount(own, minlength=fits)
            assert counts.max() - counts.min() <= 1 and counts.sum() == size
    if fits:
        counts = np.bincount(folds[folds >= 0], minlength=fits)
        assert counts.max() - counts.min() <= 1


def test_below_five_shots_each_fold_holds_one_image_per_class():
    labels = np.repeat(np.arange(6), 3)
    folds, fits = draw_folds(labels, 22)
    assert fits == 3
    assert all(sorted(labels[folds == fold]) == list(range(6)) for fold in range(3))


def test_many_rows_are_held_out_once():
    labels = np.arange(6000) % 10
    folds, fits = draw_folds(labels, 22)
    assert fits == 1 and (folds == 0).sum() == 1200 and (folds == TRAINS_ONLY).sum() == 4800


def test_the_default_is_kept_unless_rows_speak_against_it():
    penalties, default = [1e-1, 1e-2, 1e-3], 1e-2
    equal = np.array([[True] * 50 + [False] * 50, [True] * 49 + [False] * 51, [True] * 10 + [False] * 90])
    assert choose_penalty(equal, penalties, default) == 1
    apart = equal.copy()
    apart[1] = [True] * 20 + [False] * 80
    assert choose_penalty(apart, penalties, default) == 0
    # As far apart in accuracy as above, but the rows disagree in both directions: that is no evidence.
    mixed = np.array([[True, False] * 50, [False, True] * 47 + [False, False] * 3, [False] * 100])
    assert choose_penalty(mixed, penalties, default) == 1


def test_temperature_minimises_the_log_loss():
    generator = np.random.default_rng(0)
    scores = torch.from_numpy(generator.standard_normal((400, 5)) * 6)
    chances = torch.softmax(scores / 2.5, dim=1).numpy()
    labels = np.array([generator.choice(5, p=row) for row in chances])
    found = fit_temperature(scores.float(), torch.from_numpy(labels))
    assert found == pytest.approx(2.5, rel=0.2)

    def loss(temperature):
        return log_loss(labels, torch.softmax(scores / temperature, dim=1).numpy(), labels=range(5))

    assert loss(found) <= min(loss(found * 1.05), loss(found / 1.05))


def test_answers_that_are_all_right_do_not_make_a_model_infinitely_sure():
    scores = 10 * torch.eye(4)
    assert 0.25 <= fit_temperature(scores, torch.arange(4)) < 0.3


def test_the_estimate_weights_classes_as_the_population_does():
    labels = np.repeat([0, 1], 50)
    correct = np.concatenate([np.ones(50, bool), np.arange(50) < 25])
    accuracy, error = estimate_accuracy(correct, labels, np.array([0.9, 0.1]), rows=len(labels), fits=5)
    assert accuracy == pytest.approx(0.9 * 1.0 + 0.1 * 0.5)
    balanced, wider = estimate_accuracy(correct, labels, np.array([0.5, 0.5]), rows=len(labels), fits=5)
    assert balanced == pytest.approx(0.75) and wider > error
    # One fit that holds out a fifth instead of five that hold out all rows: 1 + 1 / 4 in place of 1 + 5 / 4.
    same, less = estimate_accuracy(correct, labels, np.array([0.5, 0.5]), rows=5 * len(labels), fits=1)
    assert same == balanced and less == pytest.approx((1.25 / 2.25) ** 0.5 * wider)


def test_the_error_is_that_of_a_binomial_times_the_correction():
    generator = np.random.default_rng(0)
    correct, labels = generator.random(20_000) < 0.7, np.zeros(20_000, np.int64)
    accuracy, error = estimate_accuracy(correct, labels, np.ones(1), rows=20_000, fits=5)
    assert error == pytest.approx((2.25 * accuracy * (1 - accuracy) / 20_000) ** 0.5, rel=1e-3)


def test_half_the_correction_falls_away_with_the_share_of_images_that_was_drawn():
    correct, labels = np.arange(1000) % 5 > 0, np.zeros(1000, np.int64)
    some, half, everything = (
        estimate_accuracy(correct, labels, np.ones(1), rows=1000, fits=5, drawn=share)[1] ** 2
        for share in (0.0, 0.5, 1.0)
    )
    assert half / some == pytest.approx((1 + 0.75 * 1.25) / 2.25)
    assert everything / some == pytest.approx((1 + 0.5 * 1.25) / 2.25)


def test_fewer_new_images_scatter_more():
    few, many = prediction_interval(0.8, 0.02, 50), prediction_interval(0.8, 0.02, 5000)
    assert few.low < many.low < 0.8 < many.high < few.high
    assert prediction_interval(0.99, 0.05, 10).high == 1.0


def test_weights_that_round_above_one_are_no_domain_error():
    shares = np.array([0.1] * 3 + [0.7 / 11] * 11)
    labels = np.repeat(np.arange(14), 3)
    for scale in np.linspace(0.9, 1.1, 41):
        accuracy, error = estimate_accuracy(np.ones(42, bool), labels, shares * scale, rows=42, fits=3)
        assert accuracy <= 1.0 and 0.0 <= error < 0.1
