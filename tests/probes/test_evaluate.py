"""One call for all seeds and shots; bad input; what a record holds."""

import json

import numpy as np
import pytest

from unseen.core.errors import DataError, UnknownNameError
from unseen.metrics import mcnemar, paired_bootstrap, per_class_accuracy
from unseen.probes import Protocol, Settings, evaluate_probe

QUICK = Settings(protocol=Protocol(trials=4, epochs=5))
SOLVERS = ["fast", "paper", "ridge", "knn", "ncm"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_record_per_shots_and_seed(sample, solver):
    found = evaluate_probe(*sample, solver=solver, shots=(1, 4, "all"), seeds=(22, 37), settings=QUICK)
    assert [(r.shots, r.seed) for r in found] == [(s, seed) for s in (1, 4, "all") for seed in (22, 37)]
    assert [r.train_size for r in found[::2]] == [8, 32, 400]
    for record in found:
        assert record.solver == solver
        assert record.top1 == record.correct.mean() == (record.predictions == sample.test_labels).mean()
        assert record.top1 <= record.top5 <= 1.0
        assert record.top1 in record.interval()
        np.testing.assert_array_equal(
            record.per_class, per_class_accuracy(sample.test_labels, record.predictions, np.arange(8))
        )
        assert (len(record.trials) > 0) == (solver != "ncm")
        if record.trials:
            assert dict(record.best) in [dict(trial.parameters) for trial in record.trials]
        assert record.seconds > 0
        json.dumps(record.to_dict(), allow_nan=False)
    assert np.mean([r.top1 for r in found[-2:]]) > np.mean([r.top1 for r in found[:2]])


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_seed_same_numbers(sample, solver):
    first, second = (
        evaluate_probe(*sample, solver=solver, shots=(2, "all"), seeds=(45,), settings=QUICK) for _ in range(2)
    )
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.predictions, other.predictions)
        assert one.trials == other.trials


@pytest.mark.parametrize("solver", SOLVERS)
def test_shuffled_labels_give_chance(sample, solver):
    shuffled = np.random.default_rng(0).permutation(sample.train_labels)
    found = evaluate_probe(
        sample.train, shuffled, sample.test, sample.test_labels, solver=solver, seeds=(22, 37), settings=QUICK
    )
    assert abs(np.mean([r.top1 for r in found]) - 1 / 8) < 0.07


@pytest.mark.parametrize("solver", SOLVERS)
def test_labels_may_be_anything_that_sorts(sample, solver):
    names = np.array([f"class {chr(ord('h') - i)}" for i in range(8)])
    plain = evaluate_probe(*sample, solver=solver, seeds=(22,), settings=QUICK)[0]
    shifted = evaluate_probe(
        sample.train, sample.train_labels + 100, sample.test, sample.test_labels + 100,
        solver=solver, seeds=(22,), settings=QUICK,
    )[0]  # fmt: skip
    np.testing.assert_array_equal(shifted.predictions, plain.predictions + 100)
    named = evaluate_probe(
        sample.train, names[sample.train_labels], sample.test, names[sample.test_labels],
        solver=solver, seeds=(22,), settings=QUICK,
    )[0]  # fmt: skip
    assert named.predictions.dtype.kind == "U"
    assert named.top1 == pytest.approx(plain.top1, abs=0.06)


def test_test_labels_that_training_never_shows_are_wrong(sample):
    odd = sample.test_labels.copy()
    odd[:100] = 99
    record = evaluate_probe(sample.train, sample.train_labels, sample.test, odd, seeds=(22,))[0]
    assert not record.correct[:100].any()
    assert record.classes[-1] == 99 and record.per_class[-1] == 0.0
    assert record.to_dict()["per_class"]["99"] == 0.0


def test_a_class_with_one_image_trains_and_is_never_validated(sample):
    keep = (sample.train_labels != 3) | (np.arange(400) == 3)
    record = evaluate_probe(sample.train[keep], sample.train_labels[keep], sample.test, sample.test_labels, seeds=(22,))
    assert 3 in record[0].classes and np.isfinite(record[0].top1)


def test_the_datasets_own_validation_split_selects(sample):
    parts = sample.train[:300], sample.train_labels[:300], sample.test, sample.test_labels
    held = {"validation_features": sample.train[300:], "validation_labels": sample.train_labels[300:]}
    joined = evaluate_probe(*parts, **held, solver="ridge", seeds=(22, 37))
    assert [r.train_size for r in joined] == [400, 400] and joined[0].validation_size == 100
    np.testing.assert_array_equal(joined[0].predictions, joined[1].predictions)
    apart = evaluate_probe(*parts, **held, solver="fast", seeds=(22,), refit=False)
    assert apart[0].train_size == 300


def test_records_compare_in_pairs(sample):
    good = evaluate_probe(*sample, seeds=(22,))[0]
    poor = evaluate_probe(*sample, seeds=(22,), shots=(1,))[0]
    assert mcnemar(good.correct, poor.correct).p_value < 0.01
    assert paired_bootstrap(good.correct, poor.correct).difference.low > 0


def test_a_memory_map_is_read_like_an_array(sample, tmp_path):
    sample.train.astype(np.float16).tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.float16, "r", shape=sample.train.shape)
    first = evaluate_probe(mapped, *sample[1:], seeds=(22,))[0]
    second = evaluate_probe(np.asarray(mapped), *sample[1:], seeds=(22,))[0]
    np.testing.assert_array_equal(first.predictions, second.predictions)


def test_bad_input_gets_a_clear_error(sample):
    train, labels, test, test_labels = sample
    broken = train.copy()
    broken[7, 3] = np.nan
    with pytest.raises(DataError, match=r"training features contain NaN.* row 7"):
        evaluate_probe(broken, labels, test, test_labels)
    with pytest.raises(DataError, match="one class"):
        evaluate_probe(train, np.zeros(400), test, test_labels)
    with pytest.raises(DataError, match="400 rows of features need 400 labels"):
        evaluate_probe(train, labels[:-1], test, test_labels)
    with pytest.raises(DataError, match="24 columns and test features 20"):
        evaluate_probe(train, labels, test[:, :20], test_labels)
    with pytest.raises(DataError, match="go together"):
        evaluate_probe(train, labels, test, test_labels, validation_features=test)
    with pytest.raises(DataError, match="NaN or infinity"):
        evaluate_probe(train, np.where(labels == 0, np.nan, labels), test, test_labels)
    with pytest.raises(UnknownNameError, match="paper"):
        evaluate_probe(train, labels, test, test_labels, solver="papper")
