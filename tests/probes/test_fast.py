"""The fast solver: the published answer, the same bits, and flat memory."""

import numpy as np
import pytest
import torch

from unseen.probes import Protocol, Settings, draw_rows, evaluate_probe
from unseen.probes.fast import fit_fast
from unseen.probes.linear import LabelledRows
from unseen.probes.rows import MEMORY_LIMIT, FeatureSet
from unseen.probes.sgd import Setting, TrainingRows, train
from unseen.probes.workers import Workers


def mean_top1(records):
    return float(np.mean([record.top1 for record in records]))


@pytest.mark.parametrize("name", ["sample", "larger"])
def test_agrees_with_the_published_search(request, name):
    data = request.getfixturevalue(name)
    settings = Settings(protocol=Protocol(trials=16))
    fast = evaluate_probe(*data, solver="fast", seeds=(22, 37), settings=settings)
    paper = evaluate_probe(*data, solver="paper", seeds=(22, 37), settings=settings)
    spread = fast[0].interval().high - fast[0].interval().low
    assert abs(mean_top1(fast) - mean_top1(paper)) < spread / 3


@pytest.mark.parametrize("name", ["sample", "larger"])
def test_same_bits_twice_and_with_any_number_of_threads(request, name):
    data = request.getfixturevalue(name)
    draws = [draw_rows(data.train_labels, seed=seed)[0] for seed in (22, 37)]
    found = []
    for threads in (1, 2, 2):
        with Workers(threads) as workers:
            found.append(fit_fast(data.rows, draws, workers, Protocol(), memory_limit=MEMORY_LIMIT))
    for fits in found[1:]:
        for first, other in zip(found[0], fits, strict=True):
            assert torch.equal(first.model.weights, other.model.weights)
            assert first.trials == other.trials


def test_a_seed_does_not_depend_on_its_company(larger, workers):
    draws = [draw_rows(larger.train_labels, seed=seed)[0] for seed in (22, 37)]
    both = fit_fast(larger.rows, draws, workers, Protocol(), memory_limit=MEMORY_LIMIT)
    alone = fit_fast(larger.rows, draws[1:], workers, Protocol(), memory_limit=MEMORY_LIMIT)
    assert torch.equal(both[1].model.weights, alone[0].model.weights)


def test_a_tighter_tolerance_changes_nothing_that_counts(larger):
    loose, tight = (
        evaluate_probe(*larger, seeds=(22,), settings=Settings(tolerance=tolerance))[0] for tolerance in (1e-4, 1e-7)
    )
    assert loose.top1 == pytest.approx(tight.top1, abs=0.01)
    assert (loose.predictions == tight.predictions).mean() > 0.98


def test_streamed_rows_are_searched_alike_and_walk_to_where_the_training_leads(larger, workers):
    draw = draw_rows(larger.train_labels, seed=22)[0]
    labels = torch.from_numpy(larger.train_labels)
    streamed = LabelledRows(FeatureSet(larger.train, "rows", memory_limit=0), labels, 12)
    inside = fit_fast(larger.rows, [draw], workers, Protocol(), memory_limit=MEMORY_LIMIT)[0]
    outside = fit_fast(streamed, [draw], workers, Protocol(), memory_limit=0)[0]
    assert [t.parameters for t in inside.trials] == [t.parameters for t in outside.trials]
    features = FeatureSet(larger.test, "rows").tensor
    first, second = (fit.model.scores(features).argmax(1).numpy() for fit in (inside, outside))
    assert (first == second).mean() > 0.95
    assert (first == larger.test_labels).mean() == pytest.approx((second == larger.test_labels).mean(), abs=0.01)


def test_the_final_fit_is_the_published_training(larger, workers):
    draw = draw_rows(larger.train_labels, seed=22)[0]
    fit = fit_fast(larger.rows, [draw], workers, Protocol(), memory_limit=MEMORY_LIMIT)[0]
    stream = torch.Generator().manual_seed(22)
    expected = train(TrainingRows(larger.rows, draw.final), Setting(fit.best["lr"], 0.0), Protocol(), stream)
    torch.testing.assert_close(fit.model.weights, expected.model.weights)


def test_turning_and_shuffling_the_features_changes_nothing(sample):
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((24, 24)))[0].astype(np.float32)
    plain = evaluate_probe(*sample, seeds=(22,))[0]
    turned = evaluate_probe(
        sample.train @ turn, sample.train_labels, sample.test @ turn, sample.test_labels, seeds=(22,)
    )
    assert (plain.predictions == turned[0].predictions).mean() > 0.99


def test_a_final_fit_beyond_one_batch_after_tuning_within_it(make_sample):
    data = make_sample(1200, 16, 6)
    record = evaluate_probe(*data, seeds=(22,))[0]
    assert record.train_size == 1200 and len(record.trials) >= 5
    assert record.top1 > 0.4


def test_without_refit_the_final_fit_sees_the_tuning_rows_alone(larger, workers):
    draw = draw_rows(larger.train_labels, seed=22, refit=False)[0]
    fit = fit_fast(larger.rows, [draw], workers, Protocol(), memory_limit=MEMORY_LIMIT)[0]
    held = larger.rows.features.take(draw.validation)
    predicted = fit.model.scores(held).argmax(1).numpy()
    accuracy = (predicted == larger.train_labels[draw.validation]).mean()
    assert accuracy == pytest.approx(max(trial.accuracy for trial in fit.trials), abs=0.015)
